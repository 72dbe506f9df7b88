/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of queries from the weights of a tile (fragment_attention.h). A sub-group's own stay where they are. Those of
 * all sub-groups pass through local memory (WEIGHTS_IN_MEMORY): in f32, scaled and rounded as they are read, where values
 * are quantized, else rounded, each part of strict weights in a block of rows of its own.
 *
 * get_weights() makes the operands of fragment f, in parts, of weights slab FRAGMENT_DEPTH keys .. + FRAGMENT_DEPTH; of
 * quantized values times their factors of a block of dims. */
#pragma once
#include "mma/fragment_attention.h"

#if WEIGHTS_IN_MEMORY && V_CACHE
typedef float weight_storage;
typedef const __local float *weights_of_tile;

/* Stores the sub-group's weights of a fragment. */
INLINE void store_weights(const int fragment_row, const int lane, const float p[KEY_SUMS],
                          __local float *p_tile)
{
    UNROLL
    for (int x = 0; x < KEY_SUMS; x += KEYS_OF_SUMS) {
        __local float *const to =
            p_tile + lane_row_of(fragment_row, lane, sum_query(x % TILE_SUMS)) * P_STRIDE +
            key_of(lane, x);
        if (KEYS_OF_SUMS == 4)
            *(__local float4 *)to = vload4(0, p + x);
        else if (KEYS_OF_SUMS == 2)
            *(__local float2 *)to = vload2(0, p + x);
        else
            *to = p[x];
    }
}

INLINE void get_weights(uint words[WEIGHT_PARTS][QUERY_WORDS], weights_of_tile p, const int f,
                        const int slab, const __local float *v_factors, const int lane,
                        __local float *exchange)
{
    const __local float *rows = p + f * FRAGMENT_QUERIES * P_STRIDE + slab * FRAGMENT_DEPTH;
    float scaled[QUERY_ELEMENTS];

    UNROLL
    for (int e = 0; e < QUERY_ELEMENTS; e++)
        scaled[e] = rows[query_row(lane, e) * P_STRIDE + query_depth(lane, e)] *
                    v_factors[slab * FRAGMENT_DEPTH + query_depth(lane, e)];
    UNROLL
    for (int part = 0; part < WEIGHT_PARTS; part++)
        UNROLL
    for (int w = 0; w < QUERY_WORDS; w++)
        words[part][w] = take_pair(&scaled[2 * w], &scaled[2 * w + 1]);
}
#elif WEIGHTS_IN_MEMORY
typedef ushort weight_storage;
typedef const __local ushort *weights_of_tile;

INLINE void store_weights(const int fragment_row, const int lane, float p[KEY_SUMS],
                          __local ushort *p_tile)
{
    UNROLL
    for (int part = 0; part < WEIGHT_PARTS; part++)
        UNROLL
    for (int x = 0; x < KEY_SUMS; x += MAX(KEYS_OF_SUMS, 2)) {
        const uint word = take_pair(&p[x], &p[x + 1]);
        __local ushort *const rows = p_tile + part * TILE_ROWS * P_STRIDE;
        __local ushort *const to =
            rows + lane_row_of(fragment_row, lane, sum_query(x % TILE_SUMS)) * P_STRIDE +
            key_of(lane, x);
        if (KEYS_OF_SUMS == 4) {
            *(__local uint2 *)to = (uint2)(word, take_pair(&p[x + 2], &p[x + 3]));
        } else if (KEYS_OF_SUMS == 2) {
            *(__local uint *)to = word;
        } else {
            *to = (ushort)word;
            rows[lane_row_of(fragment_row, lane, sum_query((x + 1) % FRAGMENT_SUMS)) * P_STRIDE +
                 key_of(lane, x + 1)] = (ushort)(word >> 16);
        }
    }
}

INLINE void get_weights(uint words[WEIGHT_PARTS][QUERY_WORDS], weights_of_tile p, const int f,
                        const int slab, const __local float *v_factors, const int lane,
                        __local float *exchange)
{
    UNROLL
    for (int part = 0; part < WEIGHT_PARTS; part++)
        load_query(words[part],
                   p + (part * TILE_ROWS + f * FRAGMENT_QUERIES) * P_STRIDE + slab * FRAGMENT_DEPTH,
                   P_STRIDE, lane);
}
#else
typedef float (*weights_of_tile)[KEY_SUMS];

INLINE void get_weights(uint words[WEIGHT_PARTS][QUERY_WORDS], weights_of_tile p, const int f,
                        const int slab, const __local float *v_factors, const int lane,
                        __local float *exchange)
{
    float products[KEY_SUMS]; /* compilers remove the elements of other slabs */
    float *const scaled = V_CACHE ? products : p[f];

    UNROLL
    for (int x = 0; x < (V_CACHE ? KEY_SUMS : 0); x++)
        products[x] = p[f][x] * v_factors[key_of(lane, x)];
    UNROLL
    for (int part = 0; part < WEIGHT_PARTS; part++)
        take_weights(words[part], scaled, slab, lane, exchange);
}
#endif
