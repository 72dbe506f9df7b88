/* SPDX-License-Identifier: Apache-2.0 */
/* The softmax of split_gpu_item: one thread a row and thread group turns products into weights.
 *
 * Tunables   BLOCK_M. */
#pragma once
#include "score/score.h"
#include "gpu/tile_exp.h"
#include "gpu/thread_keys.h"

#include "common/dropout.h"

/* The index of four keys of a row and a thread group, in one thread's products or in weights. */
#define QUAD_AT(row, quad, thread_n) (((row)*QUADS + (quad)) * THREADS_N + (thread_n))
/* A row of a work-group, which is a query of a head, and the group's keys [first, end) that
 * lengths, window and causality leave visible to it. */
struct row_window {
    long b, h, i, first, end;
    struct extent e;
#if HAS_BLOCKS
    struct block_bits bits; /* the bits of the head's block list */
#endif
};

/* The score of the row and key j, from s = scale * dot after softcap; -INFINITY if masked. */
INLINE float score_of_key(const struct arguments *args, const struct row_window row, const long j,
                          const float s)
{
#if HAS_BLOCKS
    if (j < row.first || j >= row.end ||
        !unmasked(args, row.e, block_at(row.bits, row.i / BLOCK_Q, j / BLOCK_KV), row.b, row.h,
                  row.i, j))
        return -INFINITY;
    return biased(args, row.e, row.b, row.h, row.i, j, s);
#else
    return biased_score(args, row.e, row.first, row.end, row.b, row.h, row.i, j, s);
#endif
}

/* The scale of key j where the row sees it; 1 elsewhere. */
INLINE float scale_of_key(const struct row_window row, const struct row_scales scales, const long j)
{
    return j >= row.first && j < row.end ? scale_of_row(scales, j) : 1.0f;
}

/* Computes the weights of row r and thread group thread_n for the tile from key j0 on from the sum
 * of all its threads' products; masked keys get -0. *row_max and *row_sum cover the group's keys so
 * far. Returns the factor that rescales earlier weights. */
INLINE float weigh_keys(const struct arguments *args, const struct row_window row, const int r,
                        const int thread_n, const long j0, const __local float4 *products,
                        __local float4 *weights, float *row_max, float *row_sum)
{
    const float old = *row_max, scale = score_scale(args, row.h);
    const long kv_head = row.h / args->shape->group;
    const struct row_scales k_scales = k_scales_from(args, row.b, kv_head, 0);
    const struct row_scales v_scales = v_scales_from(args, row.b, kv_head, 0);
    float s[THREAD_N], new = old, sum = 0.0f;

#pragma unroll
    for (int quad = 0; quad < QUADS; quad++) {
        float4 x = 0.0f;
        for (int thread_d = 0; thread_d < THREADS_D; thread_d++)
            x += products[thread_d * THREAD_STRIDE + QUAD_AT(r, quad, thread_n)];
        if (HAS_K_SCALES) {
            const long j = j0 + KEY_OF(thread_n, 4 * quad);
            x *= (float4)(scale_of_key(row, k_scales, j), scale_of_key(row, k_scales, j + 1),
                          scale_of_key(row, k_scales, j + 2), scale_of_key(row, k_scales, j + 3));
        }
        const float4 scaled = SOFTCAPPED(scale * x);
        vstore4(scaled, quad, s);
    }
#pragma unroll
    for (int n = 0; n < THREAD_N; n++) {
        s[n] = score_of_key(args, row, j0 + KEY_OF(thread_n, n), s[n]);
        new = fmax(new, s[n]);
    }
    const float rescale = power_of_two((old - finite_maximum(new)) * M_LOG2E_F);
#pragma unroll
    for (int n = 0; n < THREAD_N; n++) {
        s[n] = s[n] == -INFINITY ? -0.0f : power_of_two((s[n] - finite_maximum(new)) * M_LOG2E_F);
        sum += s[n];
        if (HAS_V_SCALES && as_int(s[n]) != as_int(-0.0f))
            s[n] *= scale_of_key(row, v_scales, j0 + KEY_OF(thread_n, n));
    }
    *row_max = new;
    *row_sum = *row_sum * rescale + sum;
#pragma unroll
    for (int quad = 0; quad < QUADS; quad++) {
        float4 x = vload4(quad, s);
#if HAS_DROPOUT
        float kept[4];
        dropout_factors(args, dropout_head(args, row.b, row.h), (uint)row.i,
                        (uint)((j0 + KEY_OF(thread_n, 4 * quad)) / 4), kept);
        x *= vload4(0, kept);
#endif
        weights[QUAD_AT(r, quad, thread_n)] = x;
    }
    return rescale;
}
