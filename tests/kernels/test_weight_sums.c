/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of weights over queries and their means over heads (clattn/problem.h), by the second program of a plan. */
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>

TestSuite(weight_sums, .init = unoptimised, .timeout = 240);

/* How keys are divided: into SIMD lanes, among the work-items of a group, one a group. */
enum mode { LANES, ITEMS, ONE_ITEM, NUM_MODES };

static void open(struct fixture *f, enum mode mode)
{
    clattn_device_info device = {.struct_size = sizeof device};

    fixture_open_checked(f, "");
    if (mode == LANES)
        return;
    cr_assert(clattn_device_query(f->device, &device) == CLATTN_SUCCESS);
    fixture_close(f);
    device.vector_width_float = 1;
    if (mode == ONE_ITEM)
        device.max_work_group_size = 1;
    fixture_open_cached(f, &device, "");
    if (mode == ITEMS)
        fixture_need_groups(f);
}

ParameterizedTestParameters(weight_sums, are_right) {
    static enum mode modes[] = {LANES, ITEMS, ONE_ITEM};
    return cr_make_param_array(enum mode, modes, NUM_MODES);
}

/* Self-checked, then with guard bands and poison behind masks, each element against double precision; options in
 * turns, each in some mode. */
ParameterizedTest(enum mode *mode, weight_sums, are_right) {
    static const char *const problems[] = {
        "fwd f32 b2 h4/2 q37 k165 d40 causal=br klen qlen sinks lse keysums",
        "fwd f32 b2 h4/2 q37 k75 d17/9 alibi softcap=4 window=20,5 lse scores=mean",
        "fwd f16 b3 h4/2 q20 k90 d32 causal=br totalq=50 totalkv=170 lse keysums",
        "fwd bf16 b2 h6/3 q9 k70 d33 bias=f32:hqk mask=bk dropout=0.3 lse scores=mean keysums",
        "fwd f32 b2 h4/1 q2 k150 d64 kcache=q8_0 vcache=q4_0 page=16 pages=25 klen lse keysums",
        "fwd f16 b2 h2/1 q5 k66 d16 kcache=bf16 mask=qk maskkeys=5 lse keysums scores=weights",
        "fwd f32 b2 h4/2 q70 k150 d24 blocks=16x24:40:bh causal=br klen lse keysums scores=mean",
        "fwd f16 b2 h4/2 q70 k150 d24 blocks=32x20:25 mask=qk alibi lse keysums",
        "fwd f32 h2 q0 k40 d8 lse keysums",
        "fwd f32 b2 h2 q3 k0 d8 lse keysums scores=mean",
    };
    struct fixture f;

    open(&f, *mode);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++)
        if (run_takes_of(n + *mode, sizeof problems / sizeof *problems, 2)) {
            struct trial t = {.problem = fixture_problem(problems[n]), .seed = n + 1};
            trial_pass(&f, &t);
        }
    fixture_close(&f);
}

/* Rows of f32 without a mask: each query's weights sum to 1, so that all sums of keys make heads * seq_q together. */
Test(weight_sums, sum_to_the_queries) {
    enum { H = 4, G = 2, Q = 33, K = 70 };
    static float x[H * Q * 24], y[G * K * 24], o[H * Q * 24], lse[H * Q], sums[G * K], mean[Q * K];
    const clattn_problem p = fixture_problem("fwd f32 h4/2 q33 k70 d24 lse keysums scores=mean");
    struct fixture f;
    double all = 0.0;

    for (size_t n = 0; n < sizeof x / sizeof *x; n++)
        x[n] = sinf((float)n);
    for (size_t n = 0; n < sizeof y / sizeof *y; n++)
        y[n] = cosf((float)(3 * n));
    fixture_open(&f);
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = x,
                                                 .k = y,
                                                 .v = y,
                                                 .o = o,
                                                 .lse = lse,
                                                 .key_sums = sums,
                                                 .scores = mean};
    cr_assert(clattn_attention_forward_host(f.context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f.log.last);
    for (size_t n = 0; n < G * K; n++)
        all += (double)sums[n];
    cr_expect(fabs(all - H * Q) < 1e-3, "%g", all);
    for (size_t j = 0; j < K; j++) {
        double of_key = 0.0;
        for (size_t i = 0; i < Q; i++)
            of_key += (double)mean[i * K + j] * H;
        cr_expect(fabs(of_key - (double)sums[j] - (double)sums[K + j]) < 1e-4, "key %zu", j);
    }
    fixture_close(&f);
}
