/* SPDX-License-Identifier: Apache-2.0 */
/* split_gpu UNIT=mma with every instruction's layout, emulated where the device has none: a program for each, of
 * many options, on several shapes: rows that fill no fragment, or many; ranges in which some or all rows
 * see no key. The sweep draws more (CLATTN_TEST_FAMILY=split_gpu UNIT=mma). */
#include "families/family.h"
#include "families/fragments.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/profiles.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(split_gpu_mma, .init = unoptimised, .timeout = 300);

enum { MOST_SHAPES = 6 };

/* All layouts between them have every option, both dtypes, and every way to load and to keep. Of a kv head
 * there are 1 to 128 rows. */
static const struct {
    const char *tunables, *options, *shapes[MOST_SHAPES];
} cases[] = {
    {"INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=3 EXP=2",
     "f16 d24/40 causal=br klen qlen lse odtype=f32",
     {"b2 h16/2 q1 k170", "h1 q1 k1", "b3 h6/1 q3 k33", "h8/2 q7 k140", "h20/1 q2 k3",
      "h2/1 q4 k0"}},
    {"INSTRUCTION=2 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=1 SPLIT_K=2 EXP=0",
     "bf16 d20/33 window=9,3 alibi softcap=4 sinks lse odtype=f32",
     {"b2 h4/2 q20 k90", "h1 q1 k1", "b3 h8/1 q4 k130", "h2 q17 k140", "h16/1 q8 k70"}},
    {"INSTRUCTION=3 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=4 SPLIT_K=2 EXP=2",
     "f16 d40/64 mask=bqk bias=f16:hqk sinks lse strict",
     {"b2 h8/2 q3 k90", "h1 q1 k1", "b3 h2/1 q9 k16", "h4/1 q10 k140"}},
    {"INSTRUCTION=4 SUB_GROUPS=2 M_FRAGMENTS=4 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=2 SPLIT_K=2 EXP=2",
     "bf16 d72/16 page=16 pages=40 klen causal=br",
     {"b2 h16/1 q1 k170", "h1 q1 k1", "b3 h16/1 q4 k33", "h128/1 q1 k140"}},
    {"INSTRUCTION=5 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=4 EXP=2",
     "bf16 d9/8 window=30,* mask=qk maskkeys=4 lse strict",
     {"b2 h8/2 q4 k90", "h1 q4 k5", "b3 h2/1 q5 k40", "h4/1 q7 k140"}},
    {"INSTRUCTION=6 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=0 SPLIT_K=6 EXP=2",
     "bf16 d64/128 bias=f32:qk lse q=bshd k=bshd v=bshd o=bshd",
     {"b2 h8/1 q1 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h10/2 q2 k140"}},
    {"INSTRUCTION=1 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=3 EXP=2",
     "bf16 d16 causal=br totalq=70 totalkv=300 lse",
     {"b3 h8/1 q9 k170", "b70 h8/1 q1 k7"}},
    {"INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=2 EXP=2",
     "f16 d24/40 blocks=2x20:30:h mask=qk sinks lse",
     {"b2 h8/2 q3 k170", "b2 h2/1 q19 k330", "h1 q1 k3"}},
    {"INSTRUCTION=2 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=1 EXP=2",
     "bf16 d16 blocks=16x48:3 page=16 pages=60 klen lse",
     {"b2 h8/2 q3 k270", "b2 h2/1 q19 k330"}},
    {"INSTRUCTION=1 SUB_GROUPS=4 M_FRAGMENTS=1 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=3 EXP=2",
     "f16 d64/128 kcache=q8_0 vcache=q8_0 causal=br klen lse odtype=f32",
     {"b2 h16/2 q1 k170", "h1 q1 k1", "b3 h6/1 q3 k33", "h8/2 q7 k140"}},
    {"INSTRUCTION=2 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=2 SPLIT_K=2 EXP=2",
     "bf16 d96 kcache=q4_0 vcache=q8_0 page=16 pages=60 klen lse odtype=f32",
     {"b2 h8/2 q3 k270", "b2 h2/1 q19 k330"}},
    {"INSTRUCTION=3 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=1 SPLIT_K=2 EXP=2",
     "f16 d64/32 kcache=q8_0 vcache=q4_0 mask=qk sinks lse strict odtype=f32",
     {"b2 h8/2 q3 k90", "h1 q1 k1", "h4/1 q10 k140"}},
    {"INSTRUCTION=4 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=2 EXP=2",
     "bf16 d128/96 kcache=q8_0 lse odtype=f32",
     {"b2 h16/1 q1 k170", "h1 q1 k1", "h128/1 q1 k140"}},
    {"INSTRUCTION=5 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=4 SPLIT_K=4 EXP=2",
     "bf16 d72/96 vcache=q4_0 window=30,* lse strict odtype=f32",
     {"b2 h8/2 q4 k90", "h1 q4 k5", "b3 h2/1 q5 k40"}},
    {"INSTRUCTION=6 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=0 SPLIT_K=6 EXP=2",
     "f16 d64/96 kcache=q4_0 vcache=q8_0 bias=f32:qk lse",
     {"b2 h8/1 q1 k90", "h1 q1 k1", "h10/2 q2 k140"}},
    {"INSTRUCTION=1 SUB_GROUPS=4 M_FRAGMENTS=1 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=3 "
     "BYTES=1 EXP=2",
     "f16 d64/128 kcache=q8_0 vcache=q4_0 causal=br klen lse odtype=f32",
     {"b2 h16/2 q1 k170", "h1 q1 k1", "b3 h6/1 q3 k33", "h8/2 q7 k140"}},
    {"INSTRUCTION=1 SUB_GROUPS=4 M_FRAGMENTS=1 BLOCK_N=128 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=2 "
     "BYTES=1 EXP=2",
     "f16 d96 kcache=q8_0 vcache=q8_0 causal=br alibi sinks lse",
     {"b2 h8/2 q2 k270", "h1 q1 k1", "h8/1 q1 k33", "h3/1 q2 k300", "h2/1 q9 k70"}},
    {"INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 KV_PARTS=1 SPLIT_K=2 "
     "BYTES=1 EXP=2",
     "bf16 d128/96 kcache=q4_0 vcache=q8_0 page=16 pages=60 klen lse odtype=f32",
     {"b2 h8/2 q3 k270", "b2 h2/1 q19 k330"}},
    {"INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_N=64 Q_RESIDENT=0 KV_PARTS=1 SPLIT_K=2 "
     "BYTES=1 EXP=2",
     "bf16 d32/256 kcache=q8_0 vcache=q4_0 mask=qk k=bshd v=bshd lse strict odtype=f32",
     {"b2 h8/2 q3 k90", "h1 q1 k1", "h4/1 q10 k140"}},
};

enum { NUM_CASES = sizeof cases / sizeof *cases };

static struct trial make(const size_t number, const char *shape)
{
    char text[256];
    struct trial t = {.family = "split_gpu UNIT=mma", .seed = 5 + number};

    snprintf(text, sizeof text, "fwd %s %s", cases[number].options, shape);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "%s", cases[number].tunables);
    return t;
}

/* False where the device has another instruction. */
/* Inf and NaN in V that some row sees and others do not, which the second time around is for. */
static void pass_with_infinities(struct fixture *f, const size_t number)
{
    struct trial t = make(number, "h6/2 q5 k70");

    if (t.problem.total_q)
        return;
    trial_fill(&t);
    for (size_t h = 0; h < t.problem.kv_heads && !t.problem.page_size; h++) {
        trial_set(&t, TENSOR_V, 0, h, 11, 3, INFINITY);
        trial_set(&t, TENSOR_V, 0, h, 66, 5, NAN);
    }
    trial_run(f, &t);
    trial_check(&t);
    trial_free(&t);
}

ParameterizedTestParameters(split_gpu_mma, layout) {
    static size_t numbers[NUM_CASES];
    const size_t count = numbers_taken(NUM_CASES, 3, numbers); /* the others in the next two runs */

    return cr_make_param_array(size_t, numbers, count);
}

ParameterizedTest(size_t *number, split_gpu_mma, layout) {
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < MOST_SHAPES && cases[*number].shapes[n]; n++) {
        struct trial t = make(*number, cases[*number].shapes[n]);
        if (!trial_is_supported(&f, &t))
            cr_skip_test("the device has another matrix instruction");
        trial_pass(&f, &t);
    }
    pass_with_infinities(&f, *number);
    fixture_close(&f);
}

/* A range of which rows see nothing, by window and by length, and rows that see nothing at all. */
Test(split_gpu_mma, ranges_without_a_visible_key) {
    static const char *const problems[] = {"fwd f16 b2 h8/1 q1 k300 d16 klen lse",
                                           "fwd f16 h8/1 q9 k300 d16 causal=br lse",
                                           "fwd f16 h8/1 q9 k300 d16 window=20,* lse",
                                           "fwd f16 b3 h8/1 q3 k300 d16 klen qlen causal=br lse",
                                           "fwd f16 h8/1 q2 k300 d16 mask=k sinks lse"};
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {
            .family = "split_gpu UNIT=mma",
            .problem = fixture_problem(problems[n]),
            .tunables = "SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 KV_PARTS=0 SPLIT_K=4",
            .seed = 11 + n};
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* Outputs that are all of small weights, strict and, of quantized values, rounded once; scales of values with which
 * weights would exceed f16. */
Test(split_gpu_mma, weights_far_apart) {
    static const char *const problems[] = {
        "fwd f16 h2/1 q3 k40 d16/32 scale=0.01 bias=f32:qk odtype=f32 strict",
        "fwd f16 h2/1 q3 k40 d16/32 scale=0.01 bias=f32:qk odtype=f32 vcache=q4_0 strict",
        "fwd f16 h2/1 q3 k40 d16/32 scale=0.01 bias=f32:qk odtype=f32 vcache=q8_0"};
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {
            .family = "split_gpu UNIT=mma", .problem = fixture_problem(problems[n]), .seed = 3 + n};
        trial_pass_with_small_weights(&f, &t);
    }
    struct trial t = {
        .family = "split_gpu UNIT=mma", .problem = fixture_problem(problems[2]), .seed = 7};
    trial_fill(&t);
    for (int id = TENSOR_Q; id <= TENSOR_V; id++)
        trial_set_ordinary(&t, id, t.seed);
    for (size_t j = 0; j < t.problem.seq_kv; j += 2)
        trial_set(&t, TENSOR_V, 0, 0, j, 0, 2000.0 + 1500.0 * (double)j);
    trial_run(&f, &t);
    trial_check(&t);
    trial_free(&t);
    fixture_close(&f);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* A GPU that has the instruction takes it from 8 rows of a kv head on, one that copies in the background from one on, and with any number of them has
 * tunables that fit: all rows in one group, where registers and local memory allow. */
Test(split_gpu_mma, choices) {
    static const struct {
        const char *profile, *problem;
        int preferred;
    } rows[] = {
        {"sm_90", "fwd f16 h32/8 q1 k4096 d128", 1},
        {"gfx90a", "fwd f16 h32/8 q1 k4096 d128", 0},
        {"sm_90", "fwd f16 h32/4 q1 k4096 d128", 1},
        {"sm_90", "fwd f16 h32/8 q4 k4096 d128", 1},
        {"sm_86", "fwd bf16 h64/8 q16 k4096 d64", 1},
        {"sm_90", "fwd f16 b8 h32/8 q1024 k4096 d128", 0},
        {"sm_90", "fwd f16 h32/4 q1 k100 d128", 0},
        {"sm_90", "fwd f16 h32/8 q512 k4096 d128 page=16 pages=256", 0},
        {"sm_90", "fwd bf16 h128/1 q1 k4096 d576/512", 1},
        {"gfx90a", "fwd bf16 h128/1 q1 k4096 d576/512", 1},
        {"gfx942", "fwd f16 h32/4 q1 k4096 d128", 1},
        {"gfx1100", "fwd f16 h32/4 q8 k4096 d128", 1},
        {"intel_arc_a750", "fwd f16 h32/4 q1 k4096 d128", 1},
    };
    const struct ca_family *family = ca_family_find("split_gpu UNIT=mma");

    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        const struct profile profile = profile_named(rows[n].profile);
        const clattn_problem p = fixture_problem(rows[n].problem);
        const struct ca_family *best = family_untuned(&p, &profile.info);
        char reason[CA_REASON_BYTES];
        size_t values[CA_MAX_TUNABLES];
        cr_expect((best == family) == rows[n].preferred, "%s on %s: %s", rows[n].problem,
                  rows[n].profile, best->full_name);
        ca_family_suggest(family, &p, &profile.info, values);
        const char *why =
            ca_family_refusal(family, &p, &profile.info, values, reason, sizeof reason);
        cr_expect(why == NULL, "%s on %s: %s", rows[n].problem, rows[n].profile, why);
    }
}

/* What it cannot do it says; where it would be emulated nothing chooses it. */
Test(split_gpu_mma, refusals) {
    static const struct family_refusal refused[] = {
        {"fwd f32 q3 k5 d8", NULL, "not f32"},
        {"fwd f16 q3 k5 d8 kcache=f32", NULL, "of one dtype"},
        {"fwd f32 q3 k5 d32 kcache=q8_0", NULL, "not f32"},
        {"fwd f16 q3 k5 d8 scores=raw", NULL, "scores never lie in memory"},
        {"fwd f16 q3 k5 d8 dropout=0.1", NULL, "draws no dropout"},
        {"fwd f16 q3 k1000 d8", "SPLIT_K=16", "fewer than 64 keys"},
        {"fwd f16 q3 k5 d8", "SUB_GROUPS=4 BLOCK_N=32", "no whole fragments"},
        {"fwd f16 q3 k5 d8", "SUB_GROUPS=1 KV_PARTS=4 BLOCK_N=32", "a part are no whole fragments"},
        {"fwd f16 q3 k5 d8", "KV_PARTS=2 Q_RESIDENT=1", "K comes in parts"}};

    families_expect_refusals("split_gpu UNIT=mma", refused, sizeof refused / sizeof *refused);
}

/* Emulated fragments lie on a thread's stack, which bounds the work-group. */
Test(split_gpu_mma, refuses_an_emulation_that_exceeds_the_stack) {
    static const struct family_refusal refused = {"fwd f16 q3 k5 d8", "SUB_GROUPS=16 BLOCK_N=256",
                                                  "stack"};
    struct fixture f;

    fixture_open(&f);
    const size_t instruction = ca_instruction_of(clattn_context_device(f.context));
    fixture_close(&f);
    if (instruction)
        cr_skip_test("the device has a matrix instruction of its own");
    families_expect_refusals("split_gpu UNIT=mma", &refused, 1);
}
