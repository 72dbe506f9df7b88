/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the weights p and the gradients ds of scores for a tile of BLOCK_OWNED owned and BLOCK_STREAMED streamed rows, from
 * the products Q K^T and dO V^T. All gradients are sums with p or ds. Formulas: clattn/problem.h. */
#pragma once
#include "gpu/backward_tile.h"
#include "gpu/tile_products.h"
#include "gpu/tile_dropout.h"

#if HAS_DROPOUT
/* Sets x[n][c] to the dropout factor, 0 or another number, of owned row r + n of a thread's quad and the thread's
 * streamed row c. */
INLINE void quad_factors(const bool owns_keys, const struct arguments *args, const struct tile t,
                         const int r, float x[4][THREAD_N], __local uchar *kept)
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;
    const uint bh = dropout_head(args, t.b, t.h);

#pragma unroll
    for (int c = 0; c < THREAD_N; c++) {
        float y[4];
        if (owns_keys)
            dropout_factors(args, bh, (uint)(t.i0 + thread_n + THREADS_N * c),
                            (uint)((t.j0 + ROW(r)) / 4), y);
#pragma unroll
        for (int n = 0; n < 4; n++)
            x[n][c] = owns_keys ? y[n] : kept_factor(args, ROW(r + n), c, kept);
    }
}
#endif

/* Turns products into p and ds in the same registers. p is after dropout, for dv; ds has softcap's
 * derivative unless ds_is_raw. Owned rows are keys if owns_keys. partial (constant): some pair of
 * the tile may be masked or missing. `statistics` are those of the thread's queries. *nonfinite is
 * set if a masked pair's product is not finite. slope_sums and bias_sums, of owned rows, add up ds
 * times the distance, and ds. */
INLINE void gradients_of_tile(const bool owns_keys, const bool ds_is_raw, const bool partial,
                              const struct arguments *args, const struct tile t,
                              const float4 *statistics, float p[THREAD_M][THREAD_N],
                              float ds[THREAD_M][THREAD_N], volatile __local int *nonfinite,
                              float *slope_sums, float *bias_sums, __local uchar *kept)
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;
    const struct score_tile tile = scores_of_tile(args, t);
    bool finds_nonfinite = false;

#if HAS_DROPOUT
    float factors_of_quad[4][THREAD_N];
#endif
#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
#if HAS_DROPOUT
        if (r % 4 == 0)
            quad_factors(owns_keys, args, t, r, factors_of_quad, kept);
#endif
#pragma unroll
        for (int c = 0; c < THREAD_N; c++) {
            const int own = ROW(r), streamed = thread_n + THREADS_N * c;
            const int row = owns_keys ? streamed : own, key = owns_keys ? own : streamed;
            const float4 statistic = statistics[owns_keys ? c : r];
            const bool finite = p[r][c] * 0.0f == 0.0f && ds[r][c] * 0.0f == 0.0f;
            struct score s = score_of(args, tile, row, key, p[r][c]);
            bool sees = true;
            if (partial) {
                sees = hide(args, tile, in_window(tile, row, key), row, key, &s);
                finds_nonfinite = finds_nonfinite || (!sees && !finite);
            }
#if HAS_DROPOUT
            const bool keeps = factors_of_quad[r % 4][c] != 0.0f;
#else
            const bool keeps = true;
#endif
            const struct pair_gradient pair = pair_gradient_of(s, ds[r][c], statistic, keeps);
#if HAS_DSLOPES
            slope_sums[r] = MULTIPLY_ADD(sees ? pair.ds : 0.0f, s.distance, slope_sums[r]);
#endif
#if HAS_DBIAS
            bias_sums[r] += sees ? pair.ds : 0.0f;
#endif
            /* Adding 0 turns -0, the mark of a masked pair, into 0. */
            p[r][c] = sees ? pair.weight : -0.0f;
            ds[r][c] = sees ? (ds_is_raw ? pair.ds : pair.ds * s.derivative) + 0.0f : -0.0f;
        }
    }
    if (finds_nonfinite)
        atomic_or(nonfinite, 1);
    (void)slope_sums;
    (void)bias_sums;
}

/* Computes p and ds of a tile, as gradients_of_tile() returns them. Owned rows are keys and values
 * if owns_keys, else queries and do; the others are streamed. next: the product or sum after this
 * one. */
INLINE void weigh_gradient_tile(const bool owns_keys, const bool ds_is_raw, const bool partial,
                                const struct arguments *args, const struct tile t,
                                const struct matrix owned_qk, const struct matrix owned_v,
                                const struct matrix streamed_qk, const struct matrix streamed_v,
                                const struct next next, const float4 *statistics,
                                __local float4 *tiles, int *stage, volatile __local int *nonfinite,
                                float p[THREAD_M][THREAD_N], float ds[THREAD_M][THREAD_N],
                                float *slope_sums, float *bias_sums, __local uchar *kept)
{
    const struct next of_v = {PRODUCT_NEXT, owned_v, streamed_v};

    multiply_matrices(owned_qk, streamed_qk, of_v, tiles, 0, stage, p);
#if HAS_DROPOUT
    /* There was a barrier after the last tile's statistics were read; the next product has another.
     * */
    if (!owns_keys)
        draw_kept(args, dropout_head(args, t.b, t.h), t.i0, t.j0, kept);
#endif
    multiply_matrices(owned_v, streamed_v, next, tiles, OWNED_V_AT, stage, ds);
/* two loops spare a branch for each pair; with one stage (AMD) registers are spilled */
#if STAGES > 1
    if (!partial) {
        gradients_of_tile(owns_keys, ds_is_raw, false, args, t, statistics, p, ds, nonfinite,
                          slope_sums, bias_sums, kept);
        return;
    }
    gradients_of_tile(owns_keys, ds_is_raw, true, args, t, statistics, p, ds, nonfinite, slope_sums,
                      bias_sums, kept);
#else
    gradients_of_tile(owns_keys, ds_is_raw, partial, args, t, statistics, p, ds, nonfinite,
                      slope_sums, bias_sums, kept);
#endif
}
