/* SPDX-License-Identifier: Apache-2.0 */
/* A range's tiles of quantized keys and values that arrive as bytes (quantized_bytes.h): the next
 * tile's bytes arrive while a tile is multiplied.
 *
 * A part of split_gpu_mma.cl, which includes it before its kernels. */
#pragma once

/* Computes attention over the tiles of a range of keys. */
INLINE void attend_tiles_of_bytes(const struct arguments *args, const struct task task,
                                  const struct matrices m, const struct shared l, struct keys keys,
                                  const struct lane_row rows[M_FRAGMENTS][LANE_QUERIES],
                                  const volatile __local uint *seen_tiles, __local long *places,
                                  const bool again, volatile __local int *v_nonfinite,
                                  uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS],
                                  struct fragment_state state[M_FRAGMENTS],
                                  const float weight_exponent, const int lane,
                                  __local float *exchange)
{
    __local uchar *const k_bytes = l.k_bytes, *const v_bytes = l.v_bytes;
    struct keys next;

    if (keys.j0 < task.end)
        COPY_KEYS(m, keys, keys.number);
    copies_end_set();
    if (keys.j0 < task.end)
        COPY_VALUES(m, keys, keys.number);
    copies_end_set();
    for (; keys.j0 < task.end; keys = next) {
        float s[M_FRAGMENTS][KEY_SUMS], highest[M_FRAGMENTS][LANE_QUERIES];

        COPIES_WAIT_BUT_SETS(1);
        LOCAL_BARRIER(); /* the keys' bytes are complete, values may be overwritten */
        CONVERT_KEYS(l.k_tile, l.k_factors, keys, task.b, task.kv_head);
        next = find_tile_of_keys(args, &task, keys.j0 + keys.count, 1 - keys.number, seen_tiles);
        list_places(args, task.b, next.j0, next.count, next.number, places);
        LOCAL_BARRIER(); /* K and the next places are complete, the keys' bytes may be overwritten */
        if (next.j0 < task.end)
            COPY_KEYS(m, next, next.number);
        copies_end_set();
        /* scores */
        clear_products(s);
        multiply_qk(l.q_tile, l.k_tile, l.k_factors, q_words, s, lane, exchange);
        find_scores(args, &task, &keys, rows, state, s, highest, lane, exchange);
        store_statistics(&l, highest, lane);
        COPIES_WAIT_BUT_SETS(1);
        LOCAL_BARRIER(); /* maxima and the values' bytes are complete, K may be overwritten */
        CONVERT_VALUES(l.v_tile, l.v_factors, keys, task.b, task.kv_head, again, v_nonfinite);
        /* softmax */
        weigh_tile(args, &l, rows, s, state, weight_exponent, lane);
        LOCAL_BARRIER(); /* V and weights are complete, the values' bytes may be overwritten */
        if (next.j0 < task.end)
            COPY_VALUES(m, next, next.number);
        copies_end_set();
        /* values */
        multiply_pv(l.v_tile, l.v_factors, l.p_tile, state, lane, exchange);
    }
}
