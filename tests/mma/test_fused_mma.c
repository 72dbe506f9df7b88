/* SPDX-License-Identifier: Apache-2.0 */
/* fused_gpu UNIT=mma with every instruction's layout, emulated where the device has none: a program for
 * each, of many options, on several shapes. The sweep draws more (CLATTN_TEST_FAMILY=fused_gpu UNIT=mma). */
#include "families/family.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

TestSuite(fused_gpu_mma, .init = unoptimised, .timeout = 300);

enum { MOST_SHAPES = 6 };

/* All layouts between them have every option, both dtypes, and every way to load and to keep. */
static const struct {
    const char *tunables, *options, *shapes[MOST_SHAPES];
} cases[] = {
    {"INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=16 Q_RESIDENT=1 EXP=2",
     "f16 d24/40 causal=br klen qlen lse odtype=f32",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3", "h2/1 q32 k32"}},
    {"INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=0 STAGES=2 "
     "EXP=2",
     "bf16 d80/96 window=40,* lse strict",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140"}},
    {"INSTRUCTION=2 SUB_GROUPS=1 M_FRAGMENTS=2 BLOCK_N=32 Q_RESIDENT=0 EXP=0",
     "bf16 d20/33 window=9,3 alibi softcap=4 sinks lse odtype=f32",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3", "h2/1 q32 k32"}},
    {"INSTRUCTION=3 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 EXP=2",
     "f16 d40/64 mask=bqk bias=f16:hqk sinks lse",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3", "h2/1 q32 k32"}},
    {"INSTRUCTION=4 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=16 Q_RESIDENT=1 EXP=2",
     "bf16 d72/16 causal=tl dropout=0.3 klen",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3", "h2/1 q32 k32"}},
    {"INSTRUCTION=5 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=16 Q_RESIDENT=0 EXP=2",
     "f16 d9/8 window=30,* dropout=0.2 mask=qk lse",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3", "h2/1 q32 k32"}},
    {"INSTRUCTION=6 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=48 Q_RESIDENT=1 EXP=2",
     "bf16 d64/128 bias=f32:qk alibi lse q=bshd k=bshd v=bshd o=bshd",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3", "h2/1 q32 k32"}},
    {"INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 EXP=2",
     "f16 d24/40 page=16 pages=40 klen causal=br sinks lse",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3", "h2/1 q32 k32"}},
    {"INSTRUCTION=4 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 EXP=2",
     "bf16 d20/33 page=5 pages=60 window=9,* mask=qk maskkeys=3 blocks=16x8:20 lse",
     {"b2 h4/2 q70 k90", "h1 q1 k3", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3", "h2/1 q32 k32"}},
    {"INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 EXP=2",
     "f16 d64/96 kcache=q8_0 vcache=q8_0 causal=br klen lse odtype=f32",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140"}},
    {"INSTRUCTION=2 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 EXP=2",
     "bf16 d96/64 kcache=q8_0 vcache=q4_0 page=16 pages=60 klen lse odtype=f32",
     {"b2 h4/2 q70 k90", "h1 q1 k3", "h2 q17 k140"}},
    {"INSTRUCTION=3 SUB_GROUPS=1 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 EXP=2",
     "f16 d40/64 vcache=q4_0 mask=bqk sinks lse strict odtype=f32",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "h2 q17 k140"}},
    {"INSTRUCTION=4 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=0 EXP=2",
     "bf16 d32/64 kcache=q4_0 vcache=q8_0 window=9,3 lse strict odtype=f32",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "h2 q17 k140"}},
    {"INSTRUCTION=5 SUB_GROUPS=4 M_FRAGMENTS=2 BLOCK_N=16 Q_RESIDENT=0 EXP=2",
     "f16 d32 kcache=q4_0 vcache=q4_0 dropout=0.2 mask=qk lse",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "h2 q17 k140"}},
    {"INSTRUCTION=1 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=32 Q_RESIDENT=1 BYTES=1 EXP=2",
     "f16 d64/96 kcache=q8_0 vcache=q4_0 page=16 pages=60 klen lse odtype=f32",
     {"b2 h4/2 q70 k90", "h1 q1 k3", "h2 q17 k140"}},
    {"INSTRUCTION=1 SUB_GROUPS=1 M_FRAGMENTS=2 BLOCK_N=16 Q_RESIDENT=0 BYTES=1 EXP=2",
     "bf16 d96/32 kcache=q4_0 vcache=q8_0 causal=br k=bshd v=bshd lse odtype=f32",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "h2 q17 k140"}},
    {"INSTRUCTION=6 SUB_GROUPS=2 M_FRAGMENTS=1 BLOCK_N=48 Q_RESIDENT=1 EXP=2",
     "f16 d64/16 kcache=q8_0 bias=f32:qk lse",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "h2 q17 k140"}},
};

static struct trial make(const size_t layout, const char *shape, const char *more)
{
    char text[256];
    struct trial t = {.family = "fused_gpu UNIT=mma", .seed = 5 + layout};

    snprintf(text, sizeof text, "fwd %s %s%s", cases[layout].options, shape, more);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "%s", cases[layout].tunables);
    return t;
}

/* False where the device has another instruction. */
/* Inf and NaN in V that some row sees and others do not, which the second time around is for. */
static void pass_with_infinities(struct fixture *f, const size_t layout)
{
    struct trial t = make(layout, "h2 q40 k70", "");

    trial_pass_with_infinities(f, &t);
}

ParameterizedTestParameters(fused_gpu_mma, layout) {
    static size_t layouts[sizeof cases / sizeof *cases];
    const size_t count = /* the others in the next run */
        numbers_taken(sizeof cases / sizeof *cases, 2, layouts);

    return cr_make_param_array(size_t, layouts, count);
}

ParameterizedTest(size_t *layout, fused_gpu_mma, layout) {
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < MOST_SHAPES && cases[*layout].shapes[n]; n++) {
        struct trial t = make(*layout, cases[*layout].shapes[n], "");
        if (!trial_is_supported(&f, &t))
            cr_skip_test("the device has another matrix instruction");
        trial_pass(&f, &t);
    }
    pass_with_infinities(&f, *layout);
    fixture_close(&f);
}

/* Outputs that are all of small weights, strict and, of quantized values, rounded once; scales of values with which
 * weights would exceed f16. */
Test(fused_gpu_mma, weights_far_apart) {
    static const char *const problems[] = {
        "fwd f16 h2/1 q3 k40 d16/32 scale=0.01 bias=f32:qk odtype=f32 strict",
        "fwd f16 h2/1 q3 k40 d16/32 scale=0.01 bias=f32:qk odtype=f32 vcache=q4_0 strict",
        "fwd f16 h2/1 q3 k40 d16/32 scale=0.01 bias=f32:qk odtype=f32 vcache=q8_0"};
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {
            .family = "fused_gpu UNIT=mma", .problem = fixture_problem(problems[n]), .seed = 3 + n};
        trial_pass_with_small_weights(&f, &t);
    }
    struct trial t = {
        .family = "fused_gpu UNIT=mma", .problem = fixture_problem(problems[2]), .seed = 7};
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

/* An NVIDIA GPU's facts, as far as the family looks at them. */
static clattn_device_info gpu(const char *architecture, const unsigned sub_group_size)
{
    clattn_device_info dev = {.struct_size = sizeof dev,
                              .type = CL_DEVICE_TYPE_GPU,
                              .compute_units = 100,
                              .sub_group_size = sub_group_size,
                              .max_work_group_size = 256,
                              .max_work_item_sizes = {256, 256, 256},
                              .max_allocation_bytes = 1 << 30,
                              .local_memory_bytes = 48 << 10};

    snprintf(dev.architecture, sizeof dev.architecture, "%s", architecture);
    return dev;
}

static size_t index_of(const struct ca_family *family, const char *name)
{
    size_t n = 0;

    while (n < family->num_tunables && strcmp(family->tunables[n].name, name) != 0)
        n++;
    cr_assert(n < family->num_tunables, "no tunable %s", name);
    return n;
}

static size_t value_of(const struct ca_family *family, const size_t *values, const char *name)
{
    return values[index_of(family, name)];
}

/* Families of matrix instructions, and a problem of each. */
static const struct {
    const char *family, *problem;
} choices[] = {{"fused_gpu UNIT=mma", "fwd f16 b2 h8 q4096 k4096 d128 causal=br"},
               {"projection_gpu UNIT=mma", "proj bf16 b2 h8/1 q2048 d1024/128 bias=f32"},
               {"backward_gpu UNIT=mma", "bwd f16 b2 h8 q4096 k4096 d64 causal=br"}};

enum { NUM_CHOICES = sizeof choices / sizeof *choices };

/* Suggests for the device, and expects instruction, or, if 0, that it would be emulated. */
static void expect_instruction(size_t choice, const clattn_device_info *dev, size_t instruction)
{
    const struct ca_family *family = ca_family_find(choices[choice].family);
    const clattn_problem p = fixture_problem(choices[choice].problem);
    char reason[CA_REASON_BYTES];
    size_t values[CA_MAX_TUNABLES];

    ca_family_suggest(family, &p, dev, values);
    const char *why = ca_family_refusal(family, &p, dev, values, reason, sizeof reason);
    cr_expect(why == NULL, "%s on %s: %s", family->full_name, dev->architecture, why);
    cr_expect((family->preference(&p, dev) >= 0) == (instruction != 0));
    cr_expect(value_of(family, values, "EMULATE") == (instruction == 0));
    if (instruction)
        cr_expect(value_of(family, values, "INSTRUCTION") == instruction, "%s on %s",
                  family->full_name, dev->architecture);
}

Test(fused_gpu_mma, each_gpu_has_its_instruction) {
    static const struct {
        const char *architecture;
        unsigned sub_group_size;
        size_t instruction; /* 0: none is known */
    } gpus[] = {{"sm_75", 32, 0},   {"sm_80", 32, 1},   {"sm_90", 32, 1},   {"sm_120", 32, 1},
                {"gfx1030", 32, 0}, {"gfx1100", 32, 2}, {"gfx1100", 64, 0}, {"gfx90a", 64, 3},
                {"gfx942", 64, 3},  {"gfx906", 64, 0},  {"", 0, 0}};

    for (size_t n = 0; n < NUM_CHOICES * (sizeof gpus / sizeof *gpus); n++) {
        const clattn_device_info dev =
            gpu(gpus[n / NUM_CHOICES].architecture, gpus[n / NUM_CHOICES].sub_group_size);
        expect_instruction(n % NUM_CHOICES, &dev, gpus[n / NUM_CHOICES].instruction);
    }
}

Test(fused_gpu_mma, intel_says_it_by_an_extension) {
    for (size_t n = 0; n < 2 * NUM_CHOICES; n++) {
        const unsigned lanes = n < NUM_CHOICES ? 8 : 16;
        clattn_device_info dev = gpu("intel_12.55", lanes);
        expect_instruction(n % NUM_CHOICES, &dev, 0);
        snprintf(dev.extensions, sizeof dev.extensions,
                 "cl_intel_subgroups cl_intel_subgroup_matrix_multiply_accumulate");
        expect_instruction(n % NUM_CHOICES, &dev, lanes == 8 ? 5 : 6);
    }
}

/* What compilers spilled is refused, and not chosen: tests/offline.sh shows it. */
Test(fused_gpu_mma, spills_are_known) {
    static const struct {
        const char *architecture, *problem;
        size_t block_n, q_resident, m_fragments;
        int taken;
    } limits[] = {{"gfx1100", "fwd f16 q64 k64 d128", 64, 0, 1, 1},
                  {"gfx1100", "fwd f16 q64 k64 d128", 64, 1, 1, 0},
                  {"gfx1100", "fwd f16 q64 k64 d64", 64, 0, 2, 0},
                  {"gfx1100", "fwd f16 q64 k64 d64 dropout=0.1", 64, 0, 1, 0},
                  {"sm_90", "fwd f16 q64 k64 d128", 64, 1, 1, 1},
                  {"sm_90", "fwd f16 q64 k64 d128 mask=qk", 64, 1, 1, 0}};
    const struct ca_family *family = ca_family_find("fused_gpu UNIT=mma");

    for (size_t n = 0; n < sizeof limits / sizeof *limits; n++) {
        const clattn_problem p = fixture_problem(limits[n].problem);
        const clattn_device_info dev = gpu(limits[n].architecture, 32);
        size_t values[CA_MAX_TUNABLES];
        ca_family_suggest(family, &p, &dev, values);
        cr_expect(family->reject(&p, &dev, values) == NULL);
        values[index_of(family, "BLOCK_N")] = limits[n].block_n;
        values[index_of(family, "Q_RESIDENT")] = limits[n].q_resident;
        values[index_of(family, "M_FRAGMENTS")] = limits[n].m_fragments;
        values[index_of(family, "SUB_GROUPS")] = 2; /* so that local memory has room */
        const char *why = family->reject(&p, &dev, values);
        cr_expect((why == NULL) == limits[n].taken, "%s, %s: %s", limits[n].architecture,
                  limits[n].problem, why ? why : "taken");
        cr_expect(limits[n].taken || (why && strstr(why, "spilled")), "%s", why);
    }
}

/* What it cannot do it says; where it would be emulated nothing chooses it. */
Test(fused_gpu_mma, refusals) {
    static const struct family_refusal refused[] = {
        {"fwd f32 q3 k5 d8", NULL, "not f32"},
        {"fwd f16 q3 k5 d32 kcache=q8_0 vcache=bf16", NULL, "of one dtype"},
        {"fwd f16 q3 k5 d8 scores=raw", NULL, "scores never lie in memory"},
        {"fwd bf16 q3 k5 d264", NULL, "dims over 256"}};

    families_expect_refusals("fused_gpu UNIT=mma", refused, sizeof refused / sizeof *refused);
}
