/* SPDX-License-Identifier: Apache-2.0 */
/* backward_gpu UNIT=warpgroup, emulated where the device has no wgmma. The sweep draws more (CLATTN_TEST_FAMILY=backward_gpu UNIT=warpgroup). */
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

TestSuite(backward_gpu_warpgroup, .init = unoptimised, .timeout = 300);

enum { MOST_SHAPES = 4 };

/* Both sizes of tiles and of dims, both dtypes, and each option. */
static const struct wgmma_case {
    const char *tunables, *options, *shapes[MOST_SHAPES];
} cases[] = {
    {"BLOCK_STREAMED=32 STAGES=1",
     "f16 d64/128 causal=br klen qlen sinks dsinks",
     {"b2 h4/2 q70 k90", "q1 k1", "h2/1 q64 k33"}},
    {"BLOCK_STREAMED=64 STAGES=2",
     "bf16 d128/64 window=9,30 softcap=4 q=bshd k=bshd do=bshd dk=bshd",
     {"b2 h4/2 q130 k90", "q40 k3", "q3 k140"}},
    {"BLOCK_STREAMED=32 STAGES=1",
     "bf16 d64 mask=bqk bias=f16:hqk dropout=0.2 alibi dslopes",
     {"b2 h2 q70 k150", "q17 k128"}},
    {"BLOCK_STREAMED=128 STAGES=2", "bf16 d128 totalq=260 totalkv=300", {"b2 h4/2 q70 k90"}},
    {"BLOCK_STREAMED=64 STAGES=2", "f16 d64 blocks=16x16:20", {"b2 h4/2 q70 k90"}},
    {"BLOCK_STREAMED=32 STAGES=3 PRODUCER=1",
     "f16 d64/128 causal=br klen qlen alibi",
     {"b2 h4/2 q130 k170", "q3 k140", "q70 k3"}},
};

static struct trial make(const struct wgmma_case *c, const char *shape)
{
    char text[256];
    struct trial t = {.family = "backward_gpu UNIT=warpgroup", .seed = 5};

    snprintf(text, sizeof text, "bwd %s %s", c->options, shape);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "SUB_GROUPS=4 %s EXP=2 EMULATE=1", c->tunables);
    return t;
}

static void open_emulated(struct fixture *f)
{
    fixture_open(f);
    fixture_need_groups(f);
    if (ca_instruction_of(clattn_context_device(f->context)) != 0)
        cr_skip_test("the device has a matrix instruction of its own");
}

ParameterizedTestParameters(backward_gpu_warpgroup, emulated) {
    static size_t numbers[sizeof cases / sizeof *cases];
    const size_t count = /* the others in the next two runs */
        numbers_taken(sizeof cases / sizeof *cases, 3, numbers);

    return cr_make_param_array(size_t, numbers, count);
}

ParameterizedTest(size_t *number, backward_gpu_warpgroup, emulated) {
    const struct wgmma_case *c = &cases[*number];
    struct fixture f;

    open_emulated(&f);
    for (size_t n = 0; n < MOST_SHAPES && c->shapes[n]; n++) {
        struct trial t = make(c, c->shapes[n]);
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* In rows that some see, or are seen by, and others not: what the second time around is for. */
Test(backward_gpu_warpgroup, infinities) {
    static const struct wgmma_case ways[] = {
        {"BLOCK_STREAMED=32", "f16 d64 window=8,4", {NULL}},
        {"BLOCK_STREAMED=32 STAGES=2 PRODUCER=1", "f16 d64 window=8,4", {NULL}}};
    struct fixture f;

    open_emulated(&f);
    for (size_t n = 0; n < sizeof ways / sizeof *ways; n++) {
        struct trial t = make(&ways[n], "h2 q70 k80");
        trial_fill(&t);
        trial_set(&t, TENSOR_DO, 0, 0, 21, 3, INFINITY);
        trial_set(&t, TENSOR_DO, 0, 1, 11, 5, NAN);
        trial_set(&t, TENSOR_Q, 0, 1, 66, 2, NAN);
        trial_set(&t, TENSOR_K, 0, 0, 37, 7, NAN);
        trial_set(&t, TENSOR_V, 0, 1, 50, 1, -INFINITY);
        trial_data_fill_results(&t);
        trial_run(&f, &t);
        trial_check(&t);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* It is Hopper's alone, and for what its registers hold. */
Test(backward_gpu_warpgroup, hopper_has_it) {
    static const struct {
        const char *profile, *problem, *family;
    } choices[] = {
        {"sm_90", "bwd f16 b2 h8 q4096 k4096 d128 causal=br", "backward_gpu UNIT=warpgroup"},
        {"sm_90", "bwd bf16 b2 h8/2 q4096 k4096 d64", "backward_gpu UNIT=warpgroup"},
        {"sm_90", "bwd bf16 b2 h8 q4096 k4096 d80", "backward_gpu UNIT=mma"},
        {"sm_90", "bwd f16 b2 h8 q32 k32 d128", "backward_gpu UNIT=mma"},
        {"sm_86", "bwd f16 b2 h8 q4096 k4096 d128", "backward_gpu UNIT=mma"}};

    for (size_t n = 0; n < sizeof choices / sizeof *choices; n++) {
        const struct profile profile = profile_named(choices[n].profile);
        const clattn_problem p = fixture_problem(choices[n].problem);
        const struct ca_family *best = family_untuned(&p, &profile.info);
        cr_expect_str_eq(best->full_name, choices[n].family, "%s on %s: %s", choices[n].problem,
                         choices[n].profile, best->full_name);
    }
}

Test(backward_gpu_warpgroup, refusals) {
    static const struct family_refusal refused[] = {
        {"bwd f32 q3 k5 d64", "", "not f32"},
        {"bwd f16 q3 k5 d64 strict", "", "strict"},
        {"bwd f16 q3 k5 d80", "", "64 or 128"},
        {"bwd f16 q3 k5 d192", "", "64 or 128"},
        {"bwd f16 q3 k5 d64 bias=f16:qk dbias", "", "sums of a bias"}};

    families_expect_refusals("backward_gpu UNIT=warpgroup", refused,
                             sizeof refused / sizeof *refused);
}
