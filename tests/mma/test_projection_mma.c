/* SPDX-License-Identifier: Apache-2.0 */
/* projection_gpu UNIT=mma with every instruction's layout, emulated where the device has none: a program for each,
 * both dtypes, every way that x and w lie, with splits and without. The sweep of test_projection.c draws
 * more (CLATTN_TEST_FAMILY=projection_gpu UNIT=mma); which device has which instruction, test_fused_mma.c says.
 * Products of one row hold no NaN: in x, it would hide all that they compute. */
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/projection_trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

TestSuite(projection_gpu_mma, .init = unoptimised, .timeout = 300);

static const struct {
    const char *tunables, *options, *shapes[5];
} cases[] = {
    {"INSTRUCTION=1 BLOCK_M=32 BLOCK_N=64 SUB_GROUPS_M=1 SUB_GROUPS_N=2 BLOCK_K=32 STAGES=2 "
     "SPLIT_K=1",
     "f16 bias=f32",
     {"b2 h3/2 q33 d40/24", "q1 d7/3", "q70 d64/140", "b3 h1/5 q40 d17/64", "h2 q16 d200/32"}},
    {"INSTRUCTION=1 BLOCK_M=32 BLOCK_N=64 SUB_GROUPS_M=2 SUB_GROUPS_N=2 BLOCK_K=16 STAGES=3 "
     "COPIES=1 SPLIT_K=2",
     "bf16 w=oi bias=bf16",
     {"b2 h3/2 q33 d64/24", "q1 d136/3", "q70 d128/140", "b3 h1/5 q40 d32/64", "h2 q16 d208/32"}},
    {"INSTRUCTION=1 BLOCK_M=64 BLOCK_N=32 SUB_GROUPS_M=1 SUB_GROUPS_N=2 BLOCK_K=32 STAGES=2 "
     "COPIES=1 SPLIT_K=1",
     "f16 accumulate",
     {"b2 h3/2 q33 d32/24", "q1 d8/16", "q70 d72/136", "b3 h1/5 q40 d64", "h2 q16 d224/32"}},
    {"INSTRUCTION=2 BLOCK_M=64 BLOCK_N=16 SUB_GROUPS_M=4 SUB_GROUPS_N=1 BLOCK_K=16 STAGES=1 "
     "SPLIT_K=1",
     "bf16 w=oi accumulate",
     {"b2 h3/2 q33 d40/24", "q1 d7/3", "q70 d64/140", "b3 h1/5 q40 d17/64", "h2 q16 d200/32"}},
    {"INSTRUCTION=3 BLOCK_M=32 BLOCK_N=64 SUB_GROUPS_M=1 SUB_GROUPS_N=2 BLOCK_K=16 STAGES=2 "
     "SPLIT_K=2",
     "f16 x=bhds bias=f16",
     {"b2 h3/4 q33 d40/24", "q1 d128/3", "q70 d164/140", "b3 h1/5 q40 d64", "h2 q16 d200/32"}},
    {"INSTRUCTION=4 BLOCK_M=16 BLOCK_N=64 SUB_GROUPS_M=1 SUB_GROUPS_N=4 BLOCK_K=64 STAGES=1 "
     "SPLIT_K=1",
     "bf16 x=bhds w=oi y=bshd",
     {"b2 h3/2 q33 d40/24", "q1 d7/3", "q70 d64/140", "b3 h1/5 q40 d17/64", "h2 q16 d200/32"}},
    {"INSTRUCTION=4 BLOCK_M=64 BLOCK_N=64 SUB_GROUPS_M=2 SUB_GROUPS_N=2 BLOCK_K=32 STAGES=2 "
     "SPLIT_K=1",
     "f16 w=oi bias=f32",
     {"b2 h3/2 q33 d40/24", "q1 d7/3", "q70 d64/140", "b3 h1/5 q40 d17/64", "h2 q16 d200/32"}},
    {"INSTRUCTION=5 BLOCK_M=32 BLOCK_N=32 SUB_GROUPS_M=4 SUB_GROUPS_N=4 BLOCK_K=16 STAGES=2 "
     "SPLIT_K=1",
     "f16 x=bshd y=bhds",
     {"b2 h3/2 q33 d40/24", "q1 d7/3", "q70 d64/140", "b3 h1/5 q40 d17/64", "h2 q16 d200/32"}},
    {"INSTRUCTION=6 BLOCK_M=64 BLOCK_N=32 SUB_GROUPS_M=4 SUB_GROUPS_N=2 BLOCK_K=32 STAGES=1 "
     "SPLIT_K=4",
     "bf16 bias=bf16 accumulate",
     {"b2 h3/7 q33 d40/24", "q1 d300/3", "q70 d264/140", "b3 h1/5 q40 d52/64", "h2 q16 d256/32"}},
};

enum {
    NUM_CASES = sizeof cases / sizeof *cases,
    NUM_SHAPES = sizeof cases[0].shapes / sizeof(char *)
};

ParameterizedTestParameters(projection_gpu_mma, layout) {
    static size_t layouts[NUM_CASES];

    /* The others in the next run. */
    return cr_make_param_array(size_t, layouts, numbers_taken(NUM_CASES, 2, layouts));
}

ParameterizedTest(size_t *layout, projection_gpu_mma, layout) {
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    for (size_t n = 0; n < NUM_SHAPES; n++) {
        struct projection_trial t = {
            .family = "projection_gpu UNIT=mma", .seed = 5 + n, .poisoned = n % 2 == 0};
        const clattn_plan_options options = {
            .struct_size = sizeof options, .family = t.family, .tunables = t.tunables};
        char text[256];
        snprintf(text, sizeof text, "proj %s %s", cases[*layout].options, cases[*layout].shapes[n]);
        t.problem = fixture_problem(text);
        snprintf(t.tunables, sizeof t.tunables, "%s", cases[*layout].tunables);
        if (clattn_plan_supports(f.context, &t.problem, &options) != CLATTN_SUCCESS) {
            const char *reason = clattn_context_last_error(f.context);
            cr_assert(strstr(reason, "instruction"), "%s: %s", text, reason);
            cr_skip_test("the device has another matrix instruction");
        }
        projection_pass(&f, &t);
    }
    fixture_close(&f);
}

Test(projection_gpu_mma, refusals) {
    static const struct family_refusal refused[] = {
        {"proj f32 q3 d8", "", "not f32"},
        {"proj f16 q3 d8", "BLOCK_M=32 SUB_GROUPS_M=4", "no whole fragments"},
        {"proj f16 q3 d8", "BLOCK_M=256 BLOCK_N=256 SUB_GROUPS_M=1 SUB_GROUPS_N=2", "registers"},
        {"proj bf16 q3 d100", "SPLIT_K=2", "a depth of 64"},
    };

    families_expect_refusals("projection_gpu UNIT=mma", refused, sizeof refused / sizeof *refused);
}
