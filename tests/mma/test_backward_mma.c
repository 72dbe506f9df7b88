/* SPDX-License-Identifier: Apache-2.0 */
/* backward_gpu UNIT=mma with every instruction's layout, emulated where the device has none: a program for each, of
 * many options, on several shapes. The sweep and test_layouts.c draw more (CLATTN_TEST_FAMILY=backward_gpu UNIT=mma);
 * which device has which instruction, test_fused_mma.c says. */
#include "families/family.h"
#include "families/fragments.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/profiles.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include "tests/trials/trial_data.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(backward_gpu_mma, .init = unoptimised, .timeout = 300);

/* All layouts between them have every option, both dtypes, all tensors' layouts and every way to divide. */
static const struct {
    const char *tunables, *options, *shapes[5];
} cases[] = {
    {"INSTRUCTION=1 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=32 STAGES=2",
     "f16 d24/40 causal=br klen qlen sinks dsinks",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
    {"INSTRUCTION=2 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=16",
     "bf16 d20/33 window=9,3 alibi softcap=4 dslopes",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
    {"INSTRUCTION=3 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=32",
     "f16 d40/64 mask=bqk bias=f16:hqk dbias",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
    {"INSTRUCTION=4 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=64",
     "bf16 d72/16 causal=tl dropout=0.3 bias=f32:hk dbias",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
    {"INSTRUCTION=5 SUB_GROUPS=4 DIM_GROUPS=2 BLOCK_STREAMED=16",
     "f16 d9/8 window=30,* dropout=0.2 mask=qk bias=bf16:q dbias",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
    {"INSTRUCTION=6 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=32",
     "bf16 d64/128 q=bshd k=bshd v=bhds o=bshd do=bshd dq=bhds dk=bshd dv=bshd",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
    {"INSTRUCTION=1 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=16",
     "bf16 d40/8 blocks=16x16:20 mask=qk",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
    {"INSTRUCTION=1 SUB_GROUPS=2 DIM_GROUPS=1 BLOCK_STREAMED=16 STAGES=2",
     "f16 d16 causal=br totalq=60 totalkv=80 sinks dsinks alibi dslopes",
     {"b2 h4/2 q70 k90", "h1 q1 k1", "b3 h2/1 q33 k16", "h2 q17 k140", "q40 k3"}},
};

enum {
    NUM_CASES = sizeof cases / sizeof *cases,
    NUM_SHAPES = sizeof cases[0].shapes / sizeof(char *)
};

static struct trial make(const size_t layout, const char *shape)
{
    char text[256];
    struct trial t = {.family = "backward_gpu UNIT=mma", .seed = 5 + layout};

    snprintf(text, sizeof text, "bwd %s %s", cases[layout].options, shape);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "%s", cases[layout].tunables);
    return t;
}

/* False where the device has another instruction. */
static int is_supported(const struct fixture *f, const struct trial *t)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = t->family, .tunables = t->tunables};

    if (clattn_plan_supports(f->context, &t->problem, &options) == CLATTN_SUCCESS)
        return 1;
    const char *reason = clattn_context_last_error(f->context);
    cr_assert(strstr(reason, "instruction"), "%s", reason);
    return 0;
}

ParameterizedTestParameters(backward_gpu_mma, layout) {
    static size_t layouts[NUM_CASES];
    const size_t count = numbers_taken(NUM_CASES, 3, layouts); /* the others in the next two runs */

    return cr_make_param_array(size_t, layouts, count);
}

ParameterizedTest(size_t *layout, backward_gpu_mma, layout) {
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    for (size_t n = 0; n < NUM_SHAPES; n++) {
        struct trial t = make(*layout, cases[*layout].shapes[n]);
        if (!is_supported(&f, &t))
            cr_skip_test("the device has another matrix instruction");
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* ---- Infs and NaNs --------------------------------------------------------------------------- */

/* In rows of q, k, v and do that some see, or are seen by, and others not: where nothing is seen of them
 * results are as without, which the second time around is for. */
static void pass_with_infinities(struct fixture *f, const char *tunables, const char *problem)
{
    struct trial t = {
        .family = "backward_gpu UNIT=mma", .problem = fixture_problem(problem), .seed = 3};

    snprintf(t.tunables, sizeof t.tunables, "%s", tunables);
    if (!is_supported(f, &t))
        cr_skip_test("the device has another matrix instruction");
    trial_fill(&t);
    trial_set(&t, TENSOR_DO, 0, 0, 21, 3, INFINITY);
    trial_set(&t, TENSOR_DO, 0, 1, 11, 5, NAN);
    trial_set(&t, TENSOR_Q, 0, 1, 30, 2, NAN);
    trial_set(&t, TENSOR_K, 0, 0, 37, 7, NAN);
    trial_set(&t, TENSOR_V, 0, 1, 50, 1, -INFINITY);
    trial_data_fill_results(&t);
    trial_run(f, &t);
    trial_check(&t);
    trial_free(&t);
}

Test(backward_gpu_mma, infinities) {
    static const char *const tunables[] = {
        "INSTRUCTION=1 SUB_GROUPS=1 DIM_GROUPS=1 BLOCK_STREAMED=16",
        "INSTRUCTION=4 SUB_GROUPS=1 DIM_GROUPS=2 BLOCK_STREAMED=16"};
    static const char *const problems[] = {"bwd f16 h2 q40 k70 d16 window=8,4",
                                           "bwd bf16 h2 q40 k70 d16 causal=br dropout=0.2"};
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    for (size_t n = 0; n < 4; n++)
        pass_with_infinities(&f, tunables[n / 2], problems[n % 2]);
    fixture_close(&f);
}

/* Where a key is infinite the scores of all that see it are, some of them -Inf with a weight of 0, and 0
 * times Inf is NaN; who does not see it has finite gradients. */
Test(backward_gpu_mma, infinite_key) {
    struct trial t = {.family = "backward_gpu UNIT=mma",
                      .problem = fixture_problem("bwd f16 h1 q40 k70 d16 window=8,4"),
                      .tunables = "INSTRUCTION=1 SUB_GROUPS=1 DIM_GROUPS=1 BLOCK_STREAMED=16",
                      .seed = 3};
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    if (!is_supported(&f, &t))
        cr_skip_test("the device has another matrix instruction");
    trial_fill(&t);
    trial_set_ordinary(&t, TENSOR_K, 5);
    trial_set(&t, TENSOR_K, 0, 0, 20, 4, INFINITY);
    trial_data_fill_results(&t);
    trial_run(&f, &t);
    for (size_t i = 0; i < 40; i++)
        cr_assert(isnan(trial_value(&t, TENSOR_DQ, 0, 0, i, 4)) == (i >= 16 && i <= 28), "row %zu",
                  i);
    trial_free(&t);
    fixture_close(&f);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static size_t value_of(const struct ca_family *family, const size_t *values, const char *name)
{
    size_t n = 0;

    while (n < family->num_tunables && strcmp(family->tunables[n].name, name) != 0)
        n++;
    cr_assert(n < family->num_tunables, "no tunable %s", name);
    return values[n];
}

/* What compilers spilled is not chosen (tests/offline.sh shows it), and dims are divided for that alone. */
Test(backward_gpu_mma, dims_are_divided_where_registers_are_few) {
    static const struct {
        const char *profile, *problem;
        size_t dim_groups;
    } chosen[] = {{"sm_90", "bwd f16 h16 q2048 k2048 d128", 1},
                  {"sm_90", "bwd f16 h16 q2048 k2048 d128 mask=qk bias=f16:qk", 2},
                  {"sm_90", "bwd f16 h16 q2048 k2048 d256", 2},
                  {"gfx1100", "bwd f16 h16 q2048 k2048 d64", 1},
                  {"gfx1100", "bwd f16 h16 q2048 k2048 d128", 2},
                  {"gfx90a", "bwd f16 h16 q2048 k2048 d128", 1}};
    const struct ca_family *family = ca_family_find("backward_gpu UNIT=mma");

    for (size_t n = 0; n < sizeof chosen / sizeof *chosen; n++) {
        const struct profile profile = profile_named(chosen[n].profile);
        const clattn_problem p = fixture_problem(chosen[n].problem);
        size_t values[CA_MAX_TUNABLES];
        ca_family_suggest(family, &p, &profile.info, values);
        const char *why = family->reject(&p, &profile.info, values);
        cr_expect(why == NULL, "%s on %s: %s", chosen[n].problem, chosen[n].profile, why);
        cr_expect(value_of(family, values, "DIM_GROUPS") == chosen[n].dim_groups, "%s on %s: %zu",
                  chosen[n].problem, chosen[n].profile, value_of(family, values, "DIM_GROUPS"));
    }
}

Test(backward_gpu_mma, refusals) {
    static const struct family_refusal refused[] = {
        {"bwd f32 q3 k5 d8", "", "not f32"},
        {"bwd f16 q3 k5 d8 strict", "", "strict"},
        {"bwd bf16 q3 k5 d1024", "", "exceed its registers"},
        {"bwd f16 q3 k5 d8", "INSTRUCTION=3 BLOCK_STREAMED=16", "no whole fragments"}};

    struct fixture f;

    /* The last is of an instruction that a device with another refuses for that. */
    fixture_open(&f);
    const size_t others = ca_instruction_of(clattn_context_device(f.context)) != 0;
    fixture_close(&f);
    families_expect_refusals("backward_gpu UNIT=mma", refused,
                             sizeof refused / sizeof *refused - others);
}
