/* SPDX-License-Identifier: Apache-2.0 */
/* The loop over tiles of quantized keys and values that arrive as bytes (quantized_bytes.h). The
 * work-group decodes a tile together; the next tile's bytes arrive while it is multiplied. */
#pragma once
#include "mma/fragment_products.h"
#include "mma/fused_rows.h"
#include "mma/quantized_bytes.h"

INLINE void attend_bytes(const struct arguments *args, const struct query_block block,
                         const struct task t, const int first_row, const __local ushort *q_rows,
                         uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS], const bool finite,
                         volatile __local int *v_nonfinite, __local long *places,
                         __local uchar *k_bytes, __local uchar *v_bytes, __local float *k_factors,
                         __local float *v_factors, __local ushort *q_tile,
                         struct fragment_state state[M_FRAGMENTS], const float weight_exponent,
                         const int lane, __local float *exchange)
{
    struct keys keys = find_keys(args, block, block.begin), next;
    int number = 0; /* the tile's number modulo 2 */

    list_first_places(args, block.b, keys.j0, keys.count, places);
    if (keys.j0 < block.end) {
        COPY_KEYS(t, keys, number);
        COPY_VALUES(t, keys, number);
    }
    for (; keys.j0 < block.end; keys = next, number = 1 - number) {
        float s[M_FRAGMENTS][KEY_SUMS];

        copies_wait();
        LOCAL_BARRIER(); /* bytes are complete, K and V may be overwritten */
        CONVERT_KEYS(k_tile_at(q_tile, 0), k_factors, keys, block.b, block.h / args->shape->group);
        CONVERT_VALUES(v_tile_at(q_tile, 0), v_factors, keys, block.b, block.h / args->shape->group,
                       finite, v_nonfinite);
        next = find_keys(args, block, after_keys(keys));
        list_places(args, block.b, next.j0, next.count, 1 - number, places);
        LOCAL_BARRIER(); /* K, V and the next addresses are complete, bytes may be overwritten */
        if (next.j0 < block.end) {
            COPY_KEYS(t, next, 1 - number);
            COPY_VALUES(t, next, 1 - number);
        }
        clear_products(s);
        multiply_qk(q_rows, k_tile_at(q_tile, 0), k_factors, q_words, s, lane, exchange);
        softmax_of_tile(args, &block, &keys, first_row, s, state, weight_exponent, 0, lane,
                        exchange);
        multiply_pv(v_tile_at(q_tile, 0), v_factors, s, state, lane, exchange);
    }
}
