/* SPDX-License-Identifier: Apache-2.0 */
/* Attention's products of a warpgroup's queries with a whole tile of K or V in local memory (warpgroup_tile.h). */
#pragma once
#include "mma/tile_weights.h"
#define REST_OF_DIMS (ROUND_UP(DIM_V, 16) % 128) /* of DIMS */
#include "mma/warpgroup_tile.h"

#if BLOCK_N % 32 || K_CACHE || V_CACHE
#error "wgmma multiplies with tiles of whole steps of 16 columns"
#endif

/* Starts s = q k^T, with the sub-group's rows of Q in registers if Q_RESIDENT, else those of its
 * warpgroup from row `first` of q_tile on, a tile of all_rows. It is complete after finish_qk(). */
INLINE void begin_qk(const __local ushort *q_tile, const int first, const int all_rows,
                     const __local ushort *k_tile,
                     uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS],
                     float s[M_FRAGMENTS][KEY_SUMS], const int lane, __local float *exchange)
{
#if Q_RESIDENT
    begin_rows_of_tile(q_words[0], PART_COLUMNS, k_tile, BLOCK_N, false, s[0], lane, exchange);
#else
    begin_tile_products(q_tile, first, all_rows, PART_COLUMNS, k_tile, BLOCK_N, false, s[0], lane,
                        exchange);
#endif
}

/* Completes the scores; the `latest` groups of products, begun later, need not be complete. */
INLINE void finish_qk(uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS],
                      float s[M_FRAGMENTS][KEY_SUMS], const int latest)
{
    products_wait(latest);
    sums_here(s[0], KEY_SUMS);
    if (Q_RESIDENT)
        keep_operands(q_words[0], PART_DEPTHS);
}

/* Scores of a fragment become weights, and earlier sums are rescaled to them. With OVERLAP this
 * waits for the products that are still being added to these sums. */
INLINE void weigh(const int fragment_row, const int lane, const float scale[LANE_QUERIES],
                  float s[KEY_SUMS], const float highest[LANE_QUERIES],
                  struct fragment_state *state, const float weight_exponent,
                  const __local uchar *kept)
{
    float base[LANE_QUERIES], rescale[LANE_QUERIES];
    const bool rescales = take_maxima(scale, highest, state, weight_exponent, base, rescale);

    if (!OVERLAP)
        rescale_sums(rescales, rescale, state->out);
    weights_of_scores(fragment_row, lane, scale, base, s, state, kept);
    if (OVERLAP) {
        weights_here(state->row_sum);
        products_wait(0);
        sums_here(state->out, DIM_SUMS);
        rescale_sums(rescales, rescale, state->out);
    }
}

/* Rounds all weights of a tile to operands. */
typedef uint tile_weights[PART_SLABS * WEIGHT_PARTS][QUERY_WORDS];
INLINE void round_weights(tile_weights weights, const __local float *v_factors, weights_of_tile p,
                          const int lane, __local float *exchange)
{
    UNROLL
    for (int slab = 0; slab < PART_SLABS; slab++)
        get_weights(weights + slab * WEIGHT_PARTS, p, 0, slab, v_factors, lane, exchange);
}

/* out += p v */
INLINE void multiply_pv(const __local ushort *v_tile, const __local float *v_factors,
                        weights_of_tile p, struct fragment_state state[M_FRAGMENTS], const int lane,
                        __local float *exchange)
{
    tile_weights weights;

    round_weights(weights, v_factors, p, lane, exchange);
    add_rows_of_tile(weights, WEIGHT_PARTS, PART_KEYS, v_tile, DIMS, state[0].out, lane, exchange);
}
