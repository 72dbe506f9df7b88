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
 *            then computed as floats (exact_scores()).
 *
 * Who includes this includes mma/fragment_attention.h before. */
#pragma once
#include "mma/fragment_attention.h"
#if PLANES > 1

/* The parts of rows that are multiplied with a plane of a tile: 0 .. PLANE_PARTS(plane) - 1. */
#define PLANE_PARTS(plane) (PLANES - (plane))

/* The number of elements in a plane of a tile in local memory: of queries, keys and values. */
#define Q_TILE_PLANE (BLOCK_M * ROW_STRIDE)
#define K_TILE_PLANE (BLOCK_N * K_STRIDE)
#define V_TILE_PLANE (BLOCK_N * V_STRIDE)

#define ROLLED _Pragma("unroll 1")
#define ALL_BITS_IF(condition) ((condition) ? 0xffffffffu : 0u)
/* Scores of a fragment that are NaNs become products of floats; q and k begin with the tile's first row and key. The
 * number of a sum is no constant: code for each of them would be long. Sums are chosen by masks, not by branches, in
 * which NVIDIA's compiler would take the number as an index and keep all sums in memory. */
INLINE void exact_scores(const struct arguments *args, const __global float *q,
                         const __global float *k, const int rows, const int keys,
                         const int fragment_row, float s[KEY_SUMS], const int lane)
{
    ROLLED
    for (int here = 0; here < KEY_SUMS; here++) {
        const int row = ROW(SUM_QUERY(here % FRAGMENT_SUMS)), key = KEY(here);
        uint bits = 0;
        UNROLL
        for (int x = 0; x < KEY_SUMS; x++)
            bits |= as_uint(s[x]) & ALL_BITS_IF(x == here);
        const bool inexact = as_float(bits) != as_float(bits) && row < rows && key < keys;
        const __global float *const q_row = q + row * args->shape->q_stride[2];
        const __global float *const k_row = k + key * args->shape->k_stride[2];
        float sum = 0.0f;
        ROLLED
        for (int d = 0; d < (inexact ? DIM_QK : 0); d++)
            sum = fma(q_row[d * Q_STEP], k_row[d * K_STEP], sum);
        UNROLL
        for (int x = 0; x < KEY_SUMS; x++) {
            const uint mask = ALL_BITS_IF(x == here) & ALL_BITS_IF(inexact);
            s[x] = as_float((as_uint(s[x]) & ~mask) | (as_uint(sum) & mask));
        }
    }
}

#if HAS_TILE_PRODUCTS
/* Adds the warpgroup's rows of the queries' planes times a plane of K to s, or starts s with that.
 * The products are asynchronous until PRODUCTS_WAIT(); the smallest plane comes first. */
INLINE void begin_plane_scores(const __local ushort *q_rows, const __local ushort *k_plane,
                               const int plane, float s[KEY_SUMS], const int lane,
                               __local float *exchange)
{
    PRODUCTS_BEGIN();
    UNROLL
    for (int part = PLANES - 1; part >= 0; part--)
        if (part < PLANE_PARTS(plane))
            ask_tile_products(q_rows + part * Q_TILE_PLANE, 0, 64, PART_COLUMNS, k_plane, BLOCK_N,
                              plane < PLANES - 1, s, lane, exchange);
    PRODUCTS_UNDER_WAY();
}

/* Adds the weights' parts times a plane of V to sums, or starts sums with that; asynchronous as
 * well. */
INLINE void begin_plane_sums(uint weights[][QUERY_WORDS], const __local ushort *v_plane,
                             const int plane, float sums[DIM_SUMS], const int lane,
                             __local float *exchange)
{
    PRODUCTS_BEGIN();
    UNROLL
    for (int part = PLANES - 1; part >= 0; part--)
        UNROLL
    for (int slab = 0; slab < PART_SLABS; slab++)
        UNROLL
    for (int d = 0; d < DIMS; d += DIMS - d < 128 ? 64 : 128) /* one product has 64 or 128 dims */
        if (part < PLANE_PARTS(plane))
            multiply_tile(sums + d / FRAGMENT_OTHERS * FRAGMENT_SUMS, DIMS - d < 128 ? 64 : 128,
                          weights[slab * WEIGHT_PARTS + part], v_plane,
                          tile_descriptor(v_plane, BLOCK_N,
                                          d / 64 * BLOCK_N * 128 + slab * FRAGMENT_DEPTH * 128),
                          true, plane < PLANES - 1 || slab > 0, lane, exchange);
    PRODUCTS_UNDER_WAY();
}
#else
/* s += q k^T */
INLINE void multiply_qk_planes(const __local ushort *q_rows, const __local ushort *k_tile,
                               float s[M_FRAGMENTS][KEY_SUMS], const int lane,
                               __local float *exchange)
{
    UNROLL
    for (int plane = PLANES - 1; plane >= 0; plane--) {
        ROLLED
        for (int d = 0; d < PART_DEPTHS; d++) {
            uint q_words[PLANES][M_FRAGMENTS][QUERY_WORDS];
            UNROLL
            for (int part = 0; part < PLANES; part++)
                if (part < PLANE_PARTS(plane))
                    load_queries(q_rows + part * Q_TILE_PLANE, d, q_words[part], lane);
            UNROLL
            for (int n = 0; n < KEY_TILES; n += OTHERS_AT_ONCE) {
                uint k_words[OTHERS_AT_ONCE * OTHER_WORDS];
                load_keys(k_words,
                          k_tile + plane * K_TILE_PLANE + n * FRAGMENT_OTHERS * K_STRIDE +
                              d * FRAGMENT_DEPTH,
                          K_STRIDE, lane);
                UNROLL
                for (int part = PLANES - 1; part >= 0; part--)
                    UNROLL
                for (int m = 0; m < OTHERS_AT_ONCE; m++)
                    UNROLL
                for (int f = 0; f < M_FRAGMENTS; f++)
                    if (part < PLANE_PARTS(plane))
                        multiply_add(s[f] + (n + m) * FRAGMENT_SUMS, q_words[part][f],
                                     k_words + m * OTHER_WORDS, lane, exchange);
            }
            IN_ORDER();
        }
    }
}

/* The number of tiles of dims whose sums are kept apart at a time. */
#define SUMMED_TILES (DIM_TILES % 4 == 0 ? 4 : OTHERS_AT_ONCE)

/* out += p v */
INLINE void multiply_pv_planes(const __local ushort *v_tile, float p[M_FRAGMENTS][KEY_SUMS],
                               struct fragment_state state[M_FRAGMENTS], const int lane,
                               __local float *exchange)
{
    uint weights[M_FRAGMENTS][PART_SLABS][WEIGHT_PARTS][QUERY_WORDS];

    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        UNROLL
    for (int slab = 0; slab < PART_SLABS; slab++)
        get_weights(weights[f][slab], p, f, slab, 0, lane, exchange);
    UNROLL
    for (int first = 0; first < DIM_TILES; first += SUMMED_TILES) {
        float sums[M_FRAGMENTS][SUMMED_TILES * FRAGMENT_SUMS] = {{0.0f}};
        UNROLL
        for (int plane = PLANES - 1; plane >= 0; plane--)
            UNROLL
        for (int slab = 0; slab < PART_SLABS; slab++) {
            UNROLL
            for (int n = 0; n < SUMMED_TILES; n += OTHERS_AT_ONCE) {
                uint v_words[OTHERS_AT_ONCE * OTHER_WORDS];
                load_value_operands(v_words, v_tile + plane * V_TILE_PLANE, slab, first + n, lane);
                UNROLL
                for (int part = PLANES - 1; part >= 0; part--)
                    UNROLL
                for (int m = 0; m < OTHERS_AT_ONCE; m++)
                    UNROLL
                for (int f = 0; f < M_FRAGMENTS; f++)
                    if (part < PLANE_PARTS(plane))
                        multiply_add(sums[f] + (n + m) * FRAGMENT_SUMS, weights[f][slab][part],
                                     v_words + m * OTHER_WORDS, lane, exchange);
            }
            IN_ORDER();
        }
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            UNROLL
        for (int x = 0; x < SUMMED_TILES * FRAGMENT_SUMS; x++)
            state[f].out[first * FRAGMENT_SUMS + x] += sums[f][x];
    }
}
#endif
#endif
