/* SPDX-License-Identifier: Apache-2.0 */
/* Attention's products of a sub-group's fragments of queries with tiles of K and V in local memory. Floats are
 * multiplied in planes (fragment_planes.h). */
#pragma once
#include "mma/fragment_attention.h"
#include "mma/fragment_planes.h"
#include "mma/tile_weights.h"

/* ---- queries times keys ---------------------------------------------------------------------- */

#if HAS_INT8
#define ADD_QK multiply_add_bytes
#else
#define ADD_QK multiply_add
#endif

/* s += q k^T, with Q in registers if Q_RESIDENT; q_tile, k_tile and its factors: a part's columns. */
INLINE void multiply_qk(const __local ushort *q_tile, const __local ushort *k_tile,
                        const __local float *k_factors,
                        uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS],
                        float s[M_FRAGMENTS][KEY_SUMS], const int lane, __local float *exchange)
{
#if HAS_INT8
    int sums[M_FRAGMENTS][KEY_SUMS] = {{0}};
#endif
    UNROLL
    for (int d = 0; d < PART_DEPTHS; d += SCALED_DEPTHS) {
#if !Q_RESIDENT
        UNROLL
        for (int step = 0; step < SCALED_DEPTHS; step++)
            load_queries(q_tile, d + step, q_words[step], lane);
#endif
        UNROLL
        for (int n = 0; n < KEY_TILES; n += OTHERS_AT_ONCE) {
#if STAGES_CODES
            float products[M_FRAGMENTS][OTHERS_AT_ONCE * FRAGMENT_SUMS] = {{0.0f}};
#define KEY_PRODUCTS(f) products[f]
#elif HAS_INT8
#define KEY_PRODUCTS(f) (sums[f] + n * FRAGMENT_SUMS)
#else
#define KEY_PRODUCTS(f) (s[f] + n * FRAGMENT_SUMS)
#endif
            UNROLL
            for (int step = 0; step < SCALED_DEPTHS; step++) {
                uint k_words[OTHERS_AT_ONCE * OTHER_WORDS];
                load_keys(k_words,
                          k_tile + (group_key() + n * FRAGMENT_OTHERS) * K_STRIDE +
                              (d + step) * FRAGMENT_DEPTH,
                          K_STRIDE, lane);
                UNROLL
                for (int m = 0; m < OTHERS_AT_ONCE; m++)
                    UNROLL
                for (int f = 0; f < M_FRAGMENTS; f++)
                    ADD_QK(KEY_PRODUCTS(f) + m * FRAGMENT_SUMS,
                           q_words[Q_RESIDENT ? d + step : step][f], k_words + m * OTHER_WORDS,
                           lane, exchange);
            }
#if STAGES_CODES
            UNROLL
            for (int e = 0; e < OTHERS_AT_ONCE * FRAGMENT_SUMS; e++) {
                const int x = n * FRAGMENT_SUMS + e;
                const float factor = k_factors[d / SCALED_DEPTHS * BLOCK_N + key_of(lane, x)];
                UNROLL
                for (int f = 0; f < M_FRAGMENTS; f++)
                    s[f][x] = fma(products[f][e], factor, s[f][x]);
            }
#endif
        }
        in_order();
    }
#if HAS_INT8
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        UNROLL
    for (int x = 0; x < KEY_SUMS; x++)
        s[f][x] = (float)sums[f][x];
#endif
}

#if HAS_INT8
/* Sums of integers become products of queries and keys, those of the sub-group's rows from the first one on. */
INLINE void scale_byte_products(const __local float *k_scales, const __local float *q_factors,
                                const int first_row, float s[M_FRAGMENTS][KEY_SUMS], const int lane)
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        UNROLL
    for (int x = 0; x < KEY_SUMS; x++) {
        const int row =
            lane_row_of(first_row + f * FRAGMENT_QUERIES, lane, sum_query(x % TILE_SUMS));
        s[f][x] =
            fma(s[f][x] * k_scales[key_of(lane, x)], q_factors[row], q_factors[BLOCK_M + row]);
    }
}
#endif

/* Turns a fragment's scores into softmax weights, and rescales the sums of earlier tiles to the new row_max. */
INLINE void weigh(const int fragment_row, const int lane, const float scale[LANE_QUERIES],
                  float s[KEY_SUMS], const float highest[LANE_QUERIES],
                  struct fragment_state *state, const float weight_exponent,
                  const __local uchar *kept)
{
    float base[LANE_QUERIES], rescale[LANE_QUERIES];
    const bool rescales = take_maxima(scale, highest, state, weight_exponent, base, rescale);

    rescale_sums(rescales, rescale, state->out);
    weights_of_scores(fragment_row, lane, scale, base, s, state, kept);
}

/* ---- weights times values -------------------------------------------------------------------- */

/* Loads the operands of V for a slab of FRAGMENT_DEPTH keys and OTHERS_AT_ONCE tiles of dims from tile n on. */
INLINE void load_value_operands(uint words[OTHERS_AT_ONCE * OTHER_WORDS],
                                const __local ushort *v_tile, const int slab, const int n,
                                const int lane)
{
#if PACKED_VALUES
    UNROLL
    for (int w = 0; w < OTHER_WORDS; w += PACKED_RUN / 2)
        load_run(words + w,
                 v_tile + packed_at(DIMS, slab,
                                    group_dim() + n * FRAGMENT_OTHERS + other_column(lane),
                                    other_depth(lane, 2 * w)),
                 PACKED_RUN / 2);
#else
    load_values(words,
                v_tile + slab * FRAGMENT_DEPTH * V_STRIDE + group_dim() + n * FRAGMENT_OTHERS,
                V_STRIDE, lane);
#endif
}

/* out += p v for a part of the tile's keys; v_tile, its factors and the weights in memory begin
 * with the part's first key. */
INLINE void multiply_pv(const __local ushort *v_tile, const __local float *v_factors,
                        weights_of_tile p, struct fragment_state state[M_FRAGMENTS], const int lane,
                        __local float *exchange)
{
    UNROLL
    for (int slab = 0; slab < PART_SLABS; slab++) {
        uint weights[M_FRAGMENTS][WEIGHT_PARTS][QUERY_WORDS];
        UNROLL
        for (int n = 0; n < DIM_TILES; n += OTHERS_AT_ONCE) {
            UNROLL
            for (int f = 0; f < M_FRAGMENTS && n * FRAGMENT_OTHERS % SCALED_DIMS == 0; f++)
                get_weights(weights[f], p, f, slab,
                            v_factors + (group_dim() + n * FRAGMENT_OTHERS) / 32 * PART_KEYS, lane,
                            exchange);
            uint v_words[OTHERS_AT_ONCE * OTHER_WORDS];
            load_value_operands(v_words, v_tile, slab, n, lane);
            UNROLL
            for (int m = 0; m < OTHERS_AT_ONCE; m++)
                UNROLL
            for (int part = 0; part < WEIGHT_PARTS; part++)
                UNROLL
            for (int f = 0; f < M_FRAGMENTS; f++)
                add_part(part, state[f].out + (n + m) * FRAGMENT_SUMS, weights[f][part],
                         v_words + m * OTHER_WORDS, lane, exchange);
        }
        in_order();
    }
}

#if OPERAND_PARTS > 1
/* s += q k^T */
INLINE void multiply_qk_planes(const __local ushort *q_rows, const __local ushort *k_tile,
                               float s[M_FRAGMENTS][KEY_SUMS], const int lane,
                               __local float *exchange)
{
    UNROLL
    for (int plane = OPERAND_PARTS - 1; plane >= 0; plane--) {
        ROLLED
        for (int d = 0; d < PART_DEPTHS; d++) {
            uint q_words[OPERAND_PARTS][M_FRAGMENTS][QUERY_WORDS];
            UNROLL
            for (int part = 0; part < OPERAND_PARTS; part++)
                if (part < plane_parts(plane))
                    load_queries(q_rows + part * Q_TILE_PLANE, d, q_words[part], lane);
            UNROLL
            for (int n = 0; n < KEY_TILES; n += OTHERS_AT_ONCE) {
                uint k_words[OTHERS_AT_ONCE * OTHER_WORDS];
                load_keys(k_words,
                          k_tile + plane * K_TILE_PLANE + n * FRAGMENT_OTHERS * K_STRIDE +
                              d * FRAGMENT_DEPTH,
                          K_STRIDE, lane);
                UNROLL
                for (int part = OPERAND_PARTS - 1; part >= 0; part--)
                    UNROLL
                for (int m = 0; m < OTHERS_AT_ONCE; m++)
                    UNROLL
                for (int f = 0; f < M_FRAGMENTS; f++)
                    if (part < plane_parts(plane))
                        multiply_add(s[f] + (n + m) * FRAGMENT_SUMS, q_words[part][f],
                                     k_words + m * OTHER_WORDS, lane, exchange);
            }
            in_order();
        }
    }
}

/* Tiles of dims whose sums are apart at a time. */
#define SUMMED_TILES (DIM_TILES % 4 == 0 ? 4 : OTHERS_AT_ONCE)

/* out += p v of the tiles of dims from `begin` to `end`. */
INLINE void multiply_pv_planes_of(const int begin, const int end, const __local ushort *v_tile,
                                  uint weights[M_FRAGMENTS][PART_SLABS][WEIGHT_PARTS][QUERY_WORDS],
                                  struct fragment_state state[M_FRAGMENTS], const int lane,
                                  __local float *exchange)
{
    UNROLL
    for (int first = begin; first < end; first += SUMMED_TILES) {
        float sums[M_FRAGMENTS][SUMMED_TILES * FRAGMENT_SUMS] = {{0.0f}};
        UNROLL
        for (int plane = OPERAND_PARTS - 1; plane >= 0; plane--)
            UNROLL
        for (int slab = 0; slab < PART_SLABS; slab++) {
            UNROLL
            for (int n = 0; n < SUMMED_TILES; n += OTHERS_AT_ONCE) {
                uint v_words[OTHERS_AT_ONCE * OTHER_WORDS];
                load_value_operands(v_words, v_tile + plane * V_TILE_PLANE, slab, first + n, lane);
                UNROLL
                for (int part = OPERAND_PARTS - 1; part >= 0; part--)
                    UNROLL
                for (int m = 0; m < OTHERS_AT_ONCE; m++)
                    UNROLL
                for (int f = 0; f < M_FRAGMENTS; f++)
                    if (part < plane_parts(plane))
                        multiply_add(sums[f] + (n + m) * FRAGMENT_SUMS, weights[f][slab][part],
                                     v_words + m * OTHER_WORDS, lane, exchange);
            }
            in_order();
        }
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++) {
            float *const out = state[f].out + first * FRAGMENT_SUMS;
            UNROLL
            for (int x = 0; x < SUMMED_TILES * FRAGMENT_SUMS; x++)
                out[x] += sums[f][x]; /* [first * FRAGMENT_SUMS + x] kept LLVM 19 from registers */
        }
    }
}

/* out += p v, in loops that are short enough for LLVM to unroll, or `out` would not be in registers */
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
    multiply_pv_planes_of(0, MIN(16, DIM_TILES), v_tile, weights, state, lane, exchange);
    multiply_pv_planes_of(16, DIM_TILES, v_tile, weights, state, lane, exchange);
}
#endif
