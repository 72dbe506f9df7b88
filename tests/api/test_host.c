/* SPDX-License-Identifier: Apache-2.0 */
/* The call that takes host pointers and does everything. */
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(host, .init = unoptimised, .timeout = 300);

DeviceTest(host, results)
{
    static const char *const problems[] = {
        "fwd f32 b2 h4/2 q9 k20 d16 causal=br lse",
        "fwd f16 b2 h3 q9 k20 d16/8 o=1000.300.20.2 bias=bf16:qk mask=bk alibi sinks qlen klen lse",
        "fwd bf16 h2 q9 k20 d16 q=bshd k=sbhd v=0.0.16.1 o=bshd scores=weights",
        "fwd f32 h2 q5 k0 d8 lse",
        "fwd f32 b0 q5 k3 d8 lse",
        "proj f16 b2 h3/2 q5 d4/6 y=300.80.9.1 accumulate",
        "merge f16 b2 h3 q5 d20 n3 o=700.210.40.2 accumulate",
        "merge f32 h2 q3 d9 n2 sinks",
        "append f32 b2 h4/2 q3 k9 d40 cache=f16 klen rope=halves:30:10000 queries=inplace",
        ("append f16 h2 q3 k9 d64/32 kcache=q8_0 vcache=q4_0 slots pos rope=pairs:64:tables:40 "
         "queries"),
    };

    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {.problem = fixture_problem(problems[n]), .seed = n + 1};
        trial_pass_host(f, &t);
    }
}

/* An equal problem compiles nothing the second time. */
DeviceTest(host, second_call_builds_nothing)
{
    struct trial t = {.problem = fixture_problem("fwd f32 q9 k20 d16"), .seed = 1};

    trial_pass_host(f, &t);
    const size_t builds = clattn_context_builds(f->context);
    t.seed = 2;
    trial_pass_host(f, &t);
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
