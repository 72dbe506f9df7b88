/* SPDX-License-Identifier: Apache-2.0 */
/* The call that takes host pointers and does everything. */
#include "tests/support/unoptimised.h"
#include "tests/trials/random_problem.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(host, .init = unoptimised, .timeout = 300);

/* Inputs as they were sent, results into copies, so that what lies between them is checked too. */
static clattn_host_forward_tensors arguments(struct trial *t)
{
    for (int id = 0; id < NUM_TENSORS; id++) {
        struct host_tensor *x = &t->tensor[id];
        if (!x->bytes)
            continue;
        x->got = malloc(x->num_bytes);
        cr_assert(x->got != NULL);
        memcpy(x->got, x->bytes, x->num_bytes);
    }
    const struct tensor_view view = trial_got(t);
    return tensor_host_forward(&view);
}

static void passes(struct fixture *f, struct trial *t)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = t->family};

    trial_fill(t);
    const clattn_host_forward_tensors tensors = arguments(t);
    cr_assert(clattn_attention_forward_host(f->context, &t->problem, &options, &tensors) ==
                  CLATTN_SUCCESS,
              "%s", f->log.last);
    trial_check(t);
    trial_free(t);
}

DeviceTest(host, results)
{
    static const char *const problems[] = {
        "fwd f32 b2 h4/2 q9 k20 d16 causal=br lse",
        "fwd f16 b2 h3 q9 k20 d16/8 o=1000.300.20.2 bias=bf16:qk mask=bk alibi sinks qlen klen lse",
        "fwd bf16 h2 q9 k20 d16 q=bshd k=sbhd v=0.0.16.1 o=bshd scores=weights",
        "fwd f32 h2 q5 k0 d8 lse",
        "fwd f32 b0 q5 k3 d8 lse",
    };

    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {.problem = fixture_problem(problems[n]), .seed = n + 1};
        passes(f, &t);
    }
}

/* An equal problem compiles nothing the second time. */
DeviceTest(host, second_call_builds_nothing)
{
    struct trial t = {.problem = fixture_problem("fwd f32 q9 k20 d16"), .seed = 1};

    passes(f, &t);
    const size_t builds = clattn_context_builds(f->context);
    t.seed = 2;
    passes(f, &t);
    cr_expect(clattn_context_builds(f->context) == builds);
}

DeviceTest(host, a_problem_that_is_none_is_refused)
{
    const clattn_host_forward_tensors none = {.struct_size = sizeof none};
    clattn_problem bad = fixture_problem("fwd f32 q9 k20 d16");

    bad.dim_v = 0;
    fixture_refused(f, clattn_attention_forward_host(f->context, &bad, NULL, &none),
                    CLATTN_INVALID_PROBLEM, "dim_v");
}
