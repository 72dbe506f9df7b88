/* SPDX-License-Identifier: Apache-2.0 */
/* Double backward: each element against double precision, and what follows from its formula. */
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(double_backward, .timeout = 120, .init = unoptimised);

/* Each element of random problems. */
DeviceTest(double_backward, random)
{
    static const struct trial_base bases[] = {
        {"bwd2 f32 h4/2 q1 k1 d19/9 causal=br qlen klen", NULL, NULL},
        {"bwd2 f16 h2 q1 k1 d40/16 window=5,3", NULL, NULL},
        {"bwd2 bf16 h2 q1 k1 d16/33 klen ggq=none", NULL, NULL},
        {"bwd2 f32 q1 k1 d32 causal=2 window=7,* ggk=none", NULL, NULL},
        {"bwd2 f32 h3/1 q1 k1 d8 ggv=none diagonal=br window=2,6 qlen scale=0.7", NULL, NULL},
    };

    trials_pass_of(f, bases, sizeof bases / sizeof *bases, 2, 12, 1);
}

/* As on GPUs: items share the columns of tiles, of which several form a group, the last of them
 * without rows. */
DeviceTest(double_backward, items_that_share_columns)
{
    struct trial t = {.problem = fixture_problem("bwd2 f16 b2 h4/2 q37 k21 d35/9 causal=br klen"),
                      .family = "double_backward",
                      .tunables = "SIMD_WIDTH=4 OWNED=2 ROW_ITEMS=8 GROUP_TILES=4",
                      .seed = 3};

    fixture_need_groups(f);
    trial_pass(f, &t);
}

DeviceTest(double_backward, on_host_memory)
{
    struct trial t = {.problem = fixture_problem("bwd2 f32 h2 q9 k13 d8 layout=bshd"), .seed = 4};

    trial_pass_host(f, &t);
}

/* Backward's dq, dk and dv for the data of a trial, its do moved by a step along gdo's direction and so on: L is the
 * product of ggq, ggk and ggv with them. */
struct loss {
    float *q, *k, *v, *d_o;
    const float *ggq, *ggk, *ggv;
};

enum {
    HEADS = 2,
    QUERIES = 5,
    KEYS = 7,
    DIM = 6,
    Q = HEADS * QUERIES * DIM,
    K = HEADS * KEYS * DIM
};

static double loss_of(struct fixture *f, const struct loss *l)
{
    const clattn_problem forward = fixture_problem("fwd f32 h2 q5 k7 d6 causal=br lse");
    const clattn_problem backward = fixture_problem("bwd f32 h2 q5 k7 d6 causal=br");
    static float o[Q], lse[HEADS * QUERIES], dq[Q], dk[K], dv[K];
    double sum = 0.0;

    const clattn_host_forward_tensors there = {
        .struct_size = sizeof there, .q = l->q, .k = l->k, .v = l->v, .o = o, .lse = lse};
    const clattn_host_backward_tensors back = {.struct_size = sizeof back,
                                               .q = l->q,
                                               .k = l->k,
                                               .v = l->v,
                                               .o = o,
                                               .lse = lse,
                                               .d_o = l->d_o,
                                               .dq = dq,
                                               .dk = dk,
                                               .dv = dv};
    cr_assert(clattn_attention_forward_host(f->context, &forward, NULL, &there) == CLATTN_SUCCESS);
    cr_assert(clattn_attention_backward_host(f->context, &backward, NULL, &back) == CLATTN_SUCCESS);
    for (size_t n = 0; n < Q; n++)
        sum += (double)l->ggq[n] * (double)dq[n];
    for (size_t n = 0; n < K; n++)
        sum += (double)l->ggk[n] * (double)dk[n] + (double)l->ggv[n] * (double)dv[n];
    return sum;
}

/* The gradients are slopes of a loss that backward's own results give. */
DeviceTest(double_backward, slopes_of_backward)
{
    static float q[Q], k[K], v[K], d_o[Q], ggq[Q], ggk[K], ggv[K], gq[Q], gk[K], gv[K], gdo[Q];
    float *const all[] = {q, k, v, d_o, ggq, ggk, ggv};
    const size_t sizes[] = {Q, K, K, Q, Q, K, K};
    const float *const slopes[] = {gq, gk, gv, gdo};
    const clattn_problem p = fixture_problem("bwd2 f32 h2 q5 k7 d6 causal=br");
    const struct loss loss = {q, k, v, d_o, ggq, ggk, ggv};
    struct rng r = rng_seed(6);

    for (size_t n = 0; n < 7; n++)
        for (size_t m = 0; m < sizes[n]; m++)
            all[n][m] = (float)rng_uniform(&r, -1, 1);
    const clattn_host_double_backward_tensors tensors = {.struct_size = sizeof tensors,
                                                         .q = q,
                                                         .k = k,
                                                         .v = v,
                                                         .d_o = d_o,
                                                         .ggq = ggq,
                                                         .ggk = ggk,
                                                         .ggv = ggv,
                                                         .gq = gq,
                                                         .gk = gk,
                                                         .gv = gv,
                                                         .gdo = gdo};
    cr_assert(clattn_double_backward_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last);
    for (size_t n = 0; n < 4; n++) {
        for (size_t m = n; m < sizes[n]; m += sizes[n] / 5) {
            const float kept = all[n][m], step = 0x1p-7f;
            all[n][m] = kept + step;
            const double above = loss_of(f, &loss);
            all[n][m] = kept - step;
            const double below = loss_of(f, &loss), slope = (above - below) / (2.0 * (double)step);
            all[n][m] = kept;
            cr_expect(fabs(slope - (double)slopes[n][m]) < 2e-3,
                      "result %zu, element %zu: %g, not %g", n, m, (double)slopes[n][m], slope);
        }
    }
}
