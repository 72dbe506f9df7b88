/* SPDX-License-Identifier: Apache-2.0 */
/* Attention's products of a warpgroup's queries with a whole tile of K or V in local memory (warpgroup_tile.h).
 *
 * A part of fragment_attention.h, which includes it. */
#pragma once

#if PART_COLUMNS % 16 || DIMS % 16 || BLOCK_N % 32 || KV_PARTS || K_CACHE || V_CACHE
#error "wgmma multiplies with tiles of whole steps of 16 columns"
#endif

/* Starts s = q k^T, with the sub-group's rows of Q in registers if Q_RESIDENT, else those of its
 * warpgroup from row `first` of q_tile on, a tile of all_rows. It is complete after FINISH_QK(). */
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

/* latest: the number of products that were begun later, and need not be complete. */
#if Q_RESIDENT
#define KEEP_QUERIES(q_words) KEEP_OPERANDS((q_words)[0], PART_DEPTHS)
#else
#define KEEP_QUERIES(q_words)
#endif
#define FINISH_QK(q_words, s, latest)                                                              \
    do {                                                                                           \
        PRODUCTS_WAIT(latest);                                                                     \
        SUMS_HERE((s)[0], KEY_SUMS);                                                               \
        KEEP_QUERIES(q_words);                                                                     \
    } while (0)

/* Rounds all weights of a tile to operands. */
#define TILE_WEIGHTS(weights) uint weights[PART_SLABS * WEIGHT_PARTS][QUERY_WORDS]
INLINE void round_weights(TILE_WEIGHTS(weights), const __local float *v_factors, weights_of_tile p,
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
    TILE_WEIGHTS(weights);

    round_weights(weights, v_factors, p, lane, exchange);
    add_rows_of_tile(weights, WEIGHT_PARTS, PART_KEYS, v_tile, DIMS, state[0].out, lane, exchange);
}
