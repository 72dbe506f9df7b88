/* SPDX-License-Identifier: Apache-2.0 */
/* split_gpu UNIT=item on devices that would not choose it: all options and ways to load between a few
 * programs, on several shapes each. The sweep draws more (CLATTN_TEST_FAMILY="split_gpu UNIT=item"), other
 * suites take the family with CLATTN_TEST_FAMILIES=all: a program takes PoCL over a second. */
#include "families/family.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/profiles.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <clattn/plan.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(split_gpu_item, .timeout = 300);

enum {
    OPTIMISED_IN = 8
}; /* runs, of which one has a program of a test optimised, which takes PoCL 4 s */

static const struct {
    const char *tunables, *options, *shapes[5];
} cases[] = {
    {"BLOCK_M=4 THREADS=64 THREADS_D=8 THREAD_N=4 LOAD_WIDTH=8 EARLY_V=1 SPLIT_K=3 EXP=2",
     "f16 d64/40 causal=br klen qlen sinks mask=qk lse odtype=f32",
     {"b2 h8/2 q1 k300", "b3 h6/2 q3 k129", "h4/1 q2 k1", "h1 q5 k64", "b2 h4/2 q7 k0"}},
    {"BLOCK_M=2 THREADS=32 THREADS_D=8 THREAD_N=8 LOAD_WIDTH=4 EARLY_V=0 SPLIT_K=6 EXP=0",
     "bf16 d59/72 window=70,3 alibi softcap=4 bias=f32:hqk dropout=0.3 lse",
     {"b2 h4/2 q1 k200", "h3/1 q9 k77", "h1 q70 k70", "b2 h2 q3 k5", "h8/2 q2 k260"}},
    {"BLOCK_M=8 THREADS=64 THREADS_D=8 THREAD_N=4 LOAD_WIDTH=4 EARLY_V=1 SPLIT_K=2 EXP=2",
     "f32 d32/64 kcache=q8_0 vcache=q4_0 klen diagonal=br",
     {"b2 h8/1 q1 k150", "h8/2 q3 k33", "b3 h2/1 q1 k4", "h16/1 q1 k97", "h2 q20 k40"}},
    {"BLOCK_M=4 THREADS=64 THREADS_D=8 THREAD_N=4 LOAD_WIDTH=8 EARLY_V=0 SPLIT_K=2 EXP=2",
     "bf16 d40/64 kcache=f16 vcache=f32 odtype=f32 causal=br lse",
     {"b2 h8/2 q1 k150", "h8/2 q3 k33", "b3 h2/1 q1 k4", "h4/1 q1 k97", "h2 q20 k40"}},
};

enum { NUM_CASES = sizeof cases / sizeof *cases, NUM_SHAPES = 5 };

static struct trial make(const size_t number, const char *shape)
{
    char text[256];
    struct trial t = {.family = "split_gpu UNIT=item", .seed = 7 + number};

    snprintf(text, sizeof text, "fwd %s %s", cases[number].options, shape);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "%s", cases[number].tunables);
    return t;
}

/* Inf and NaN in V that some rows see and others do not. */
static void pass_with_infinities(struct fixture *f, const size_t number)
{
    struct trial t = make(number, "h4/2 q6 k70");

    trial_fill(&t);
    for (size_t h = 0; h < t.problem.kv_heads && t.problem.v_cache == CLATTN_CACHE_PLAIN; h++) {
        trial_set(&t, TENSOR_V, 0, h, 11, 3, INFINITY);
        trial_set(&t, TENSOR_V, 0, h, 66, 5, NAN);
    }
    trial_run(f, &t);
    trial_check(&t);
    trial_free(&t);
}

ParameterizedTestParameters(split_gpu_item, options) {
    static size_t numbers[NUM_CASES];

    return cr_make_param_array(size_t, numbers, numbers_taken(NUM_CASES, 0, 4, numbers));
}

ParameterizedTest(size_t *number, split_gpu_item, options) {
    struct fixture f;

    mostly_unoptimised(*number, OPTIMISED_IN);
    fixture_open(&f);
    for (size_t n = 0; n < NUM_SHAPES; n++) {
        struct trial t = make(*number, cases[*number].shapes[n]);
        trial_pass(&f, &t);
    }
    pass_with_infinities(&f, *number);
    fixture_close(&f);
}

/* Weights that vanish beside a sink leave a row of zeros, but one that has seen keys. With this
 * seed ALiBi takes the scores of one row so far down. */
Test(split_gpu_item, a_sink_far_above_all_scores) {
    static const char *const families[] = {"split_gpu UNIT=item", "split_cpu UNIT=vector"};
    struct fixture f;

    mostly_unoptimised(NUM_CASES, OPTIMISED_IN);
    fixture_open(&f);
    for (size_t n = 0; n < sizeof families / sizeof *families; n++) {
        struct trial t = {.problem =
                              fixture_problem("fwd f32 b2 h3/1 q1 k200 d128 v=51200.256.256.2 "
                                              "o=401.128.401.1 scale=0.866413057 diagonal=br "
                                              "mask=1.2.6.7 alibi sinks lse"),
                          .family = families[n],
                          .seed = 13660135864840639842u};
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* A GPU without matrix instructions takes it for few queries and many keys, within its limits, and
 * computes the right values. */
Test(split_gpu_item, a_gpu_chooses_it) {
    const struct profile profile = profile_named("gfx1030");
    struct trial t = {.problem = fixture_problem("fwd f16 h8/2 q1 k700 d64 causal=br"), .seed = 1};
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan;
    struct fixture f;

    mostly_unoptimised(NUM_CASES + 1, OPTIMISED_IN);
    fixture_open_narrowed(&f, &profile.info);
    fixture_need_groups(&f);
    cr_assert(clattn_plan_create(f.context, &t.problem, NULL, &plan) == CLATTN_SUCCESS);
    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS);
    cr_expect_str_eq(family_of_plan(&info), "split_gpu UNIT=item");
    clattn_plan_release(plan);
    trial_pass(&f, &t);
    fixture_close(&f);
}

/* Problems for which GPUs prefer it. CPUs choose it only if it is forced. */
Test(split_gpu_item, preference) {
    static const struct {
        const char *profile, *problem;
        int preferred;
    } rows[] = {
        {"sm_90", "fwd f16 h32/8 q1 k32768 d128", 1},
        {"sm_90", "fwd f16 h32 q1 k300 d64", 1},
        {"gfx1100", "fwd f32 h32/8 q4 k4096 d128", 1},
        {"minimum", "fwd f16 h4 q1 k1000 d64", 1},
        {"sm_90", "fwd f16 h32/8 q16 k4096 d128", 1},
        {"sm_90", "fwd f16 b8 h32/8 q16 k4096 d128", 0},
        {"sm_90", "fwd f16 h32/8 q1024 k4096 d128", 0},
        {"sm_90", "fwd f16 h32/8 q1 k100 d128", 0},
    };
    const struct ca_family *family = ca_family_find("split_gpu UNIT=item");
    const struct ca_family *tiles = ca_family_find("fused_gpu UNIT=item");
    const struct ca_family *mma = ca_family_find("fused_gpu UNIT=mma");
    clattn_device_info cpu = {.struct_size = sizeof cpu, .type = CL_DEVICE_TYPE_CPU};

    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        const struct profile profile = profile_named(rows[n].profile);
        const struct ca_problem p = fixture_checked(rows[n].problem);
        const int own = family->preference(&p, &profile.info);
        cr_expect((own > tiles->preference(&p, &profile.info) &&
                   own > mma->preference(&p, &profile.info)) == rows[n].preferred,
                  "%s on %s: %d", rows[n].problem, rows[n].profile, own);
        cr_expect(family->preference(&p, &cpu) == CA_ONLY_IF_FORCED);
    }
}

/* CPUs take split_cpu UNIT=vector for many keys, and where queries, which fused_cpu UNIT=vector has in a vector's lanes, would
 * leave most of them idle. */
Test(split_cpu_vector, preference) {
    static const struct {
        const char *problem;
        cl_uint width;
        int preferred;
    } rows[] = {
        {"fwd f32 h8/2 q1 k512 d64", 16, 1}, {"fwd f32 h8/2 q16 k512 d64", 16, 1},
        {"fwd f32 h8/2 q1 k256 d64", 16, 1}, {"fwd f32 h8/2 q4 k256 d64", 16, 1},
        {"fwd f32 h8/2 q5 k256 d64", 16, 0}, {"fwd f32 h8/2 q1 k16 d64", 16, 0},
        {"fwd f32 h8/2 q2 k64 d64", 8, 1},   {"fwd f32 h8/2 q4 k256 d64", 8, 0},
        {"fwd f32 h8 q24 k512 d64", 8, 0},   {"fwd f32 h8 q24 k512 d64", 16, 1},
        {"fwd f32 h8 q16 k512 d64", 8, 1},   {"fwd f32 h8/2 q8 k512 d64", 8, 1},
        {"fwd f32 h7 q24 k512 d64", 8, 1},   {"fwd f32 h8 q24 k512 d64 blocks=24x64:9", 8, 1},
    };
    const struct ca_family *family = ca_family_find("split_cpu UNIT=vector");
    const struct ca_family *fused = ca_family_find("fused_cpu UNIT=vector");

    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        const struct ca_problem p = fixture_checked(rows[n].problem);
        const clattn_device_info cpu = {.struct_size = sizeof cpu,
                                        .type = CL_DEVICE_TYPE_CPU,
                                        .compute_units = 2,
                                        .vector_width_float = rows[n].width};
        cr_expect((family->preference(&p, &cpu) > fused->preference(&p, &cpu)) == rows[n].preferred,
                  "%s in vectors of %u", rows[n].problem, rows[n].width);
    }
}

/* Kv heads take turns where a key's rows of all heads follow each other and reading bounds
 * decoding. There are as many turns as leave each unit two parts of the keys. */
Test(split_cpu_vector, heads_take_turns) {
    static const struct family_suggestion rows[] = {
        {"fwd f16 h32/8 q1 k32768 d128 k=bshd v=bshd", 2, 8},
        {"fwd f16 h32/8 q1 k32768 d128 k=bshd v=bshd page=16 pages=2048", 2, 8},
        {"fwd f16 h32/8 q1 k32768 d128 k=bshd v=bshd bias=f16:qk", 2, 8},
        {"fwd f16 h32/8 q1 k32768 d128 k=bshd v=bshd", 64, 4},
        {"fwd f16 h32/8 q1 k1024 d128 k=bshd v=bshd", 64, 1},
        {"fwd f32 h14 q1 k32768 d64 k=bshd v=bshd", 2, 1}, /* two heads of 256 bytes */
        {"fwd f16 h40 q1 k32768 d128 k=bshd v=bshd", 2, 10},
        {"fwd f32 h64/8 q1 k32768 d128 k=bshd v=bshd", 2, 8},
        {"fwd f16 h64/8 q1 k32768 d128 k=bshd v=bshd", 2, 1}, /* arithmetic */
        {"fwd f16 h32/8 q1 k32768 d128 kcache=q8_0 vcache=q8_0 k=bshd v=bshd", 2, 1},
        {"fwd f16 h32/8 q1 k32768 d128 k=bshd", 2, 1},
        {"fwd f16 h32/8 q1 k32768 d128", 2, 1},
        {"fwd f16 h32/8 q1 k32768 d128 k=bshd v=bshd blocks=1x64:9", 2, 1},
    };

    families_expect_suggestions("split_cpu UNIT=vector", "KV_HEADS", rows,
                                sizeof rows / sizeof *rows);
}

/* Keys and values in f32 are copied where short rows lie whole pages apart and several blocks use a copy. */
Test(fused_cpu_vector, copies_rows_that_share_cache_sets) {
    static const struct family_suggestion rows[] = {
        {"fwd f32 h16 q1024 k1024 d128 layout=bshd", 2, 1},
        {"fwd f32 h32 q1024 k1024 d64 k=bshd", 2, 1},
        {"fwd f32 h32/8 q1024 k1024 d128 v=bshd", 2, 1},
        {"fwd f32 h16 q1024 k1024 d128 window=255,0 layout=bshd", 2, 1},
        {"fwd f32 h16 q1024 k1024 d128", 2, 0},
        {"fwd f32 h12 q1024 k1024 d128 layout=bshd", 2, 0}, /* one page and a half apart */
        {"fwd f32 h8 q1024 k1024 d64 layout=bshd", 2, 0},
        {"fwd f32 h2 q1024 k1024 d512 layout=bshd", 2, 0}, /* half a page long */
        {"fwd f32 h16 q4 k256 d128 layout=bshd", 2, 0},    /* one block */
        {"fwd f16 h32 q1024 k1024 d128 layout=bshd", 2, 0},
        {"fwd f32 h16 q1024 k1024 d128 layout=bshd page=64 pages=16", 2, 0},
    };

    families_expect_suggestions("fused_cpu UNIT=vector", "STAGE_KV", rows,
                                sizeof rows / sizeof *rows);
}

/* Problems that it cannot compute are refused with a sentence. */
Test(split_gpu_item, refusals) {
    static const struct family_refusal refused[] = {
        {"fwd f32 q3 k5 d8 scores=raw", NULL, "never lie in memory"},
        {"fwd f32 q3 k4294967297 d8 k=0.0.0.1 v=0.0.0.1 mask=k", NULL, "than 32 bits count"},
        {"fwd f32 q3 k5 d8", "LOAD_WIDTH=8", "loads of 32 bytes"},
        {"fwd f16 q3 k5 d8", "BLOCK_M=16 THREADS_D=8", "more rows than threads of a thread group"},
        {"fwd f16 q3 k1000 d8", "SPLIT_K=16", "fewer than 64 keys"},
        {"fwd f16 q3 k5 d512", "BLOCK_M=16 THREADS_D=16", "exceed 256 registers"},
        {"fwd f16 q3 k5 d8", "THREADS_D=64 THREADS=32", "a thread group exceeds the work-group"},
    };

    families_expect_refusals("split_gpu UNIT=item", refused, sizeof refused / sizeof *refused);
}
