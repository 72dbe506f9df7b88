/* SPDX-License-Identifier: Apache-2.0 */
/* projection_gpu UNIT=warpgroup, emulated where the device has no wgmma: w both ways, with splits and without, heads that stages end
 * in, ragged rows, columns and depth. What its pieces do not fit, the self-check of every program computes. */
#include "families/fragments.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/projection_trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

TestSuite(projection_gpu_warpgroup, .init = unoptimised, .timeout = 300);

enum { MOST_SHAPES = 4 };

static const struct wgmma_case {
    const char *tunables, *options, *shapes[MOST_SHAPES];
} cases[] = {
    {"SUB_GROUPS=4 BLOCK_N=64 SPLIT_K=1", "f16 bias=f32", {"b2 h3/2 q33 d64/24", "q70 d200/136"}},
    {"SUB_GROUPS=8 BLOCK_N=128 SPLIT_K=1",
     "bf16 w=oi accumulate",
     {"b2 h3/2 q33 d128/40", "q1 d72/8", "q150 d64/144"}},
    {"SUB_GROUPS=4 BLOCK_N=128 SPLIT_K=2", "bf16 x=bshd y=bshd", {"h2 q33 d64/24", "q70 d264/136"}},
    {"SUB_GROUPS=4 BLOCK_N=64 SPLIT_K=2", "f16 w=oi bias=f16", {"b2 h5 q33 d64"}},
    /* y in whole rows of heads, and where it has no pieces */
    {"SUB_GROUPS=4 BLOCK_N=64 STAGES=3 SPLIT_K=1",
     "bf16 w=oi bias=bf16 y=bshd",
     {"b2 h3/2 q70 d64/24", "q40 d72/12"}},
};

ParameterizedTestParameters(projection_gpu_warpgroup, emulated) {
    static size_t numbers[sizeof cases / sizeof *cases];

    /* The others in the next run. */
    return cr_make_param_array(size_t, numbers,
                               numbers_taken(sizeof cases / sizeof *cases, 2, numbers));
}

ParameterizedTest(size_t *number, projection_gpu_warpgroup, emulated) {
    const struct wgmma_case *c = &cases[*number];
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    if (ca_instruction_of(clattn_context_device(f.context)) != 0)
        cr_skip_test("the device has a matrix instruction of its own");
    for (size_t n = 0; n < MOST_SHAPES && c->shapes[n]; n++) {
        struct projection_trial t = {.family = "projection_gpu UNIT=warpgroup",
                                     .seed = 5 + n,
                                     .poisoned = n % 2 == 0,
                                     .aligned = 1};
        char text[256];
        snprintf(text, sizeof text, "proj %s %s", c->options, c->shapes[n]);
        t.problem = fixture_problem(text);
        snprintf(t.tunables, sizeof t.tunables, "%s EMULATE=1", c->tunables);
        projection_pass(&f, &t);
    }
    fixture_close(&f);
}

Test(projection_gpu_warpgroup, refusals) {
    static const struct family_refusal refused[] = {
        {"proj f32 q3 d64", "", "not f32"},
        {"proj f16 q3 d60", "", "pieces of 8"},
        {"proj f16 h1/2 q3 d80/8 w=1000.8.8.1", "", "whole stages of 64"},
        {"proj f16 q8 d64 x=bhds", "", "x does not lie in pieces"},
        {"proj bf16 q3 d64/12", "", "w does not lie in pieces"}};

    families_expect_refusals("projection_gpu UNIT=warpgroup", refused,
                             sizeof refused / sizeof *refused);
}
