/* SPDX-License-Identifier: Apache-2.0 */
/* fused_gpu UNIT=warpgroup, emulated where the device has no wgmma. The sweep draws more (CLATTN_TEST_FAMILY=fused_gpu UNIT=warpgroup). */
#include "families/fragments.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

TestSuite(fused_gpu_warpgroup, .init = unoptimised, .timeout = 300);

enum { MOST_SHAPES = 4 };

/* Each size of an instruction, of keys and of dims, both dtypes, both precisions, one and two warpgroups, what is between
 * loading and storing, and softmax that overlaps with products. */
static const struct wgmma_case {
    const char *tunables, *options, *shapes[MOST_SHAPES];
} cases[] = {
    {"SUB_GROUPS=4 BLOCK_N=32 EXP=2",
     "f16 d64/192 causal=br klen qlen sinks lse odtype=f32",
     {"b2 h4/2 q70 k90", "q1 k1", "h2/1 q64 k33"}},
    {"SUB_GROUPS=8 BLOCK_N=64 Q_RESIDENT=0 EXP=0",
     "bf16 d128 window=9,30 softcap=4 lse q=bshd k=bshd v=bshd o=bshd",
     {"b2 h4/2 q130 k90", "q40 k3", "q3 k140"}},
    {"SUB_GROUPS=4 BLOCK_N=128 EXP=2",
     "f16 d64 mask=bqk bias=f16:hqk dropout=0.2 strict",
     {"b2 h2 q70 k150", "q17 k128"}},
    {"SUB_GROUPS=12 BLOCK_N=32 STAGES=2 EXP=2",
     "f16 d128 causal=br lse",
     {"b2 h4/2 q200 k130", "q17 k20", "q64 k1"}},
    {"SUB_GROUPS=8 BLOCK_N=32 Q_RESIDENT=0 STAGES=2 OVERLAP=1 EXP=2",
     "bf16 d64 causal=br",
     {"q150 k190"}},
    {"SUB_GROUPS=8 BLOCK_N=64 STAGES=2 OVERLAP=1 EXP=2",
     "f16 d64/128 causal=br window=40,0 sinks lse strict",
     {"b2 h4/2 q150 k190", "q17 k20", "q64 k65", "q70 k64"}},
    {"SUB_GROUPS=8 BLOCK_N=64 STAGES=2 OVERLAP=1 PRODUCER=1 RESIDENT_GROUPS=1 EXP=2",
     "f16 d128 causal=br window=70,0 lse",
     {"b2 h4/2 q150 k190", "q17 k20", "q64 k65", "q1 k300"}},
    {"SUB_GROUPS=12 BLOCK_N=32 Q_RESIDENT=0 STAGES=3 OVERLAP=1 PRODUCER=2 RESIDENT_GROUPS=1 EXP=2",
     "bf16 d64/128 klen q=bshd k=bshd v=bshd",
     {"b2 h4/2 q200 k190", "q70 k300"}},
    {"SUB_GROUPS=4 BLOCK_N=64 EXP=2",
     "bf16 d192/128 page=5 pages=60 klen alibi strict lse",
     {"b2 h4/2 q70 k90", "h2 q17 k130"}},
};

static struct trial make(const struct wgmma_case *c, const char *shape)
{
    char text[256];
    struct trial t = {.family = "fused_gpu UNIT=warpgroup", .seed = 5};

    snprintf(text, sizeof text, "fwd %s %s", c->options, shape);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "%s EMULATE=1", c->tunables);
    return t;
}

/* Inf and NaN in V that some row sees and others do not, which the second time around is for. */
static void pass_with_infinities(struct fixture *f, const struct wgmma_case *c)
{
    struct trial t = make(c, "h2 q40 k70");

    trial_pass_with_infinities(f, &t);
}

ParameterizedTestParameters(fused_gpu_warpgroup, emulated) {
    static size_t numbers[sizeof cases / sizeof *cases];
    const size_t count = /* the others in the next two runs */
        numbers_taken(sizeof cases / sizeof *cases, 3, numbers);

    return cr_make_param_array(size_t, numbers, count);
}

ParameterizedTest(size_t *number, fused_gpu_warpgroup, emulated) {
    const struct wgmma_case *c = &cases[*number];
    struct fixture f;

    fixture_open(&f);
    if (ca_instruction_of(clattn_context_device(f.context)) != 0)
        cr_skip_test("the device has a matrix instruction of its own");
    for (size_t n = 0; n < MOST_SHAPES && c->shapes[n]; n++) {
        struct trial t = make(c, c->shapes[n]);
        trial_pass(&f, &t);
    }
    pass_with_infinities(&f, c);
    fixture_close(&f);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* It is Hopper's alone, for whole warpgroups of queries. */
Test(fused_gpu_warpgroup, hopper_has_it) {
    static const struct {
        const char *architecture, *problem;
        int preference; /* that of fused_gpu UNIT=mma is 95 */
    } choices[] = {{"sm_90", "fwd f16 b2 h8 q4096 k4096 d128 causal=br", 96},
                   {"sm_90", "fwd bf16 b2 h8 q64 k4096 d64 mask=qk", 96},
                   {"sm_90", "fwd f16 b2 h8 q32 k4096 d128", 80},
                   {"sm_80", "fwd f16 b2 h8 q4096 k4096 d128", -1},
                   {"sm_100", "fwd f16 b2 h8 q4096 k4096 d128", -1},
                   {"", "fwd f16 b2 h8 q4096 k4096 d128", -1}};
    const struct ca_family *family = ca_family_find("fused_gpu UNIT=warpgroup");

    for (size_t n = 0; n < sizeof choices / sizeof *choices; n++) {
        const clattn_problem p = fixture_problem(choices[n].problem);
        clattn_device_info dev = {.struct_size = sizeof dev,
                                  .type = CL_DEVICE_TYPE_GPU,
                                  .sub_group_size = 32,
                                  .compute_units = 132,
                                  .max_work_group_size = 1024,
                                  .max_work_item_sizes = {1024, 1024, 64},
                                  .max_allocation_bytes = 1 << 30,
                                  .local_memory_bytes = 48 << 10};
        size_t values[CA_MAX_TUNABLES];
        char reason[CA_REASON_BYTES];
        snprintf(dev.architecture, sizeof dev.architecture, "%s", choices[n].architecture);
        cr_expect(family->preference(&p, &dev) == choices[n].preference, "%s: %s",
                  choices[n].architecture, choices[n].problem);
        ca_family_suggest(family, &p, &dev, values);
        const char *why = ca_family_refusal(family, &p, &dev, values, reason, sizeof reason);
        cr_expect((why == NULL) == (strcmp(choices[n].architecture, "sm_80") != 0 &&
                                    strcmp(choices[n].architecture, "sm_100") != 0),
                  "%s: %s", choices[n].architecture, why ? why : "taken");
        const char *target = family->ptx_target(values);
        if (choices[n].preference >= 0)
            cr_expect_str_eq(target, "sm_90a");
    }
}

/* What it cannot do it says. */
Test(fused_gpu_warpgroup, refusals) {
    static const struct family_refusal refused[] = {
        {"fwd f32 q3 k5 d64", NULL, "not f32"},
        {"fwd f16 q3 k5 d80", NULL, "multiples of 64"},
        {"fwd f16 q3 k5 d64/32", NULL, "multiples of 64"},
        {"fwd f16 q3 k5 d64 kcache=q8_0", NULL, "have factors"},
        {"fwd f16 q3 k5 d64 scores=raw", NULL, "scores never lie in memory"},
        {"fwd f16 q3 k5 d64 strict odtype=f32", NULL, "strict weights"},
        {"fwd bf16 q3 k5 d320", NULL, "exceed its registers"}};

    families_expect_refusals("fused_gpu UNIT=warpgroup", refused, sizeof refused / sizeof *refused);
}
