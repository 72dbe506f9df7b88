/* SPDX-License-Identifier: Apache-2.0 */
/* Products of floats by instructions of bf16. A float is the sum of three parts of bf16, which
 * together have its 24 bits; a tile has a plane of each part, the largest first. Of the nine
 * products of two floats' parts, six count: those whose parts' numbers add up to less than 3
 * (PART_PAIRS). The others are below 2^-26 of the product.
 *
 * Sums       Matrix units truncate sums. So a tile's weights times V are summed apart, small
 *            products first, and are then added to the outputs.
 * Infs       An Inf in q or k is Inf in its first part and 0 in the others, and Inf times a part of
 *            0 is a NaN. It reaches an output, and all is computed again: scores that are NaNs are
 *            then computed as floats (exact_scores()). */
#pragma once
#include "mma/fragment_attention.h"
#if OPERAND_PARTS > 1

/* The parts of rows that are multiplied with a plane of a tile: 0 .. plane_parts(plane) - 1. */
INLINE int plane_parts(const int plane)
{
    return OPERAND_PARTS - plane;
}

/* The number of elements in a plane of a tile in local memory: of queries, keys and values. */
enum {
    Q_TILE_PLANE = BLOCK_M * ROW_STRIDE,
    K_TILE_PLANE = BLOCK_N * K_STRIDE,
    V_TILE_PLANE = BLOCK_N * V_STRIDE
};

#define ROLLED _Pragma("unroll 1")
INLINE uint all_bits_if(const bool condition)
{
    return condition ? 0xffffffffu : 0u;
}

/* Scores of a fragment that are NaNs become products of floats; q and k begin with the tile's first row and key. The
 * number of a sum is no constant: code for each of them would be long. Sums are chosen by masks, not by branches, in
 * which NVIDIA's compiler would take the number as an index and keep all sums in memory. */
INLINE void exact_scores(const struct arguments *args, const __global float *q,
                         const __global float *k, const int rows, const int keys,
                         const int fragment_row, float s[KEY_SUMS], const int lane)
{
    ROLLED
    for (int here = 0; here < KEY_SUMS; here++) {
        const int row = lane_row_of(fragment_row, lane, sum_query(here % FRAGMENT_SUMS)),
                  key = key_of(lane, here);
        uint bits = 0;
        UNROLL
        for (int x = 0; x < KEY_SUMS; x++)
            bits |= as_uint(s[x]) & all_bits_if(x == here);
        const bool inexact = as_float(bits) != as_float(bits) && row < rows && key < keys;
        const __global float *const q_row = q + row * args->shape->q_stride[2];
        const __global float *const k_row = k + key * args->shape->k_stride[2];
        float sum = 0.0f;
        ROLLED
        for (int d = 0; d < (inexact ? DIM_QK : 0); d++)
            sum = fma(q_row[d * q_step(args)], k_row[d * k_step(args)], sum);
        UNROLL
        for (int x = 0; x < KEY_SUMS; x++) {
            const uint mask = all_bits_if(x == here) & all_bits_if(inexact);
            s[x] = as_float((as_uint(s[x]) & ~mask) | (as_uint(sum) & mask));
        }
    }
}
#endif
