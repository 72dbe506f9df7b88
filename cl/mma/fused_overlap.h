/* SPDX-License-Identifier: Apache-2.0 */
/* The loop over tiles of keys with softmax overlapped by products, as in FlashAttention-3 within a
 * warpgroup (arXiv 2407.08608, algorithm 2). The scores of the next tile and the product of this
 * tile's weights with V run together; softmax waits for the scores alone.
 *
 * Local      two tiles of K and of V. Scores need a tile's K one step before its V: the K after the next one
 *            and the next V arrive meanwhile.
 * Registers  of a work-item: outputs and queries, scores of one tile, rounded weights of the one before. */
#pragma once
#include "mma/fused_rows.h"
#include "mma/warpgroup_products.h"

INLINE void attend_overlapped(const struct arguments *args, const struct query_block block,
                              const struct task t, const int first_row, __local ushort *q_tile,
                              uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS],
                              const bool finite, volatile __local int *v_nonfinite,
                              struct fragment_state state[M_FRAGMENTS], const int lane,
                              __local float *exchange)
{
    __local long *const places = 0; /* rows in pages do not overlap */
    struct keys keys = find_keys(args, block, block.begin);
    int number = 0; /* the number modulo 2 of the tile whose V is read next */
    float s[M_FRAGMENTS][KEY_SUMS];
    tile_weights weights;

    if (keys.j0 >= block.end)
        return;
    STAGE_KEYS(keys, 0);
    copies_wait();
    LOCAL_BARRIER(); /* the first K is complete */
    struct keys next = find_keys(args, block, after_keys(keys));
    STAGE_VALUES(keys, 0, finite, v_nonfinite);
    if (next.j0 < block.end)
        STAGE_KEYS(next, 1);
    begin_qk(q_tile, warpgroup_rows(first_row), BLOCK_M, k_tile_at(q_tile, 0), q_words, s, lane,
             exchange);
    finish_qk(q_words, s, 0);
    softmax_of_tile(args, &block, &keys, first_row, s, state, weight_exponent_of(false), 0, lane,
                    exchange);
    round_weights(weights, 0, s, lane, exchange);
    for (; next.j0 < block.end; number = 1 - number) {
        copies_wait();
        LOCAL_BARRIER(); /* V and the next K are complete, those before may be overwritten */
        begin_qk(q_tile, warpgroup_rows(first_row), BLOCK_M, k_tile_at(q_tile, 1 - number), q_words,
                 s, lane, exchange);
        begin_sums_of_tile(weights, WEIGHT_PARTS, PART_KEYS, v_tile_at(q_tile, number), DIMS,
                           state[0].out, lane, exchange);
        const struct keys after = find_keys(args, block, after_keys(next));
        if (after.j0 < block.end)
            STAGE_KEYS(after, number);
        STAGE_VALUES(next, 1 - number, finite, v_nonfinite);
        finish_qk(q_words, s, 1);
        softmax_of_tile(args, &block, &next, first_row, s, state, weight_exponent_of(false), 0,
                        lane, exchange);
        round_weights(weights, 0, s, lane, exchange);
        next = after;
    }
    copies_wait();
    LOCAL_BARRIER(); /* the last V is complete */
    add_rows_of_tile(weights, WEIGHT_PARTS, PART_KEYS, v_tile_at(q_tile, number), DIMS,
                     state[0].out, lane, exchange);
}
