/* The loop over tiles of keys where softmax of a tile overlaps with products: of a tile, the scores of the next one and the
 * values are under way together; softmax waits for the scores alone. The way is FlashAttention-3's within a warpgroup
 * (arXiv 2407.08608, algorithm 2).
 *
 * Local      two tiles of keys, of whose halves the scores need those of K a tile before V's: the next K but one and the
 *            next V arrive meanwhile.
 * Registers  of a work-item: outputs and queries, scores of one tile, weights, rounded, of the one before.
 *
 * Before including this: fused_gpu_mma.cl as far as its kernel. */
#ifndef CLATTN_FUSED_OVERLAP_H
#define CLATTN_FUSED_OVERLAP_H

INLINE void attend(SHAPE_PARAMS, const struct query_block block, const struct task t,
                   const int first_row, __local ushort *q_tile,
                   uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS], const bool finite,
                   volatile __local int *v_nonfinite, float row_max[M_FRAGMENTS][LANE_QUERIES],
                   float row_sum[M_FRAGMENTS][LANE_QUERIES],
                   float seen[M_FRAGMENTS][LANE_QUERIES],
                   float out[M_FRAGMENTS][DIM_SUMS] SCORE_OPERANDS_PARAM FRAGMENT_PARAM)
{
    struct keys keys = find_keys(a, at, block, block.begin PAGES_ARG);
    int number = 0; /* of the tile whose values are next, even or odd */
    float s[M_FRAGMENTS][KEY_SUMS];
    TILE_WEIGHTS(weights);

    if (keys.j0 >= block.end)
        return;
    STAGE_KEYS(keys, 0);
    copies_wait();
    LOCAL_BARRIER(); /* the first K is complete */
    struct keys next = find_keys(a, at, block, after_keys(keys) PAGES_ARG);
    STAGE_VALUES(keys, 0, finite, v_nonfinite);
    if (next.j0 < block.end)
        STAGE_KEYS(next, 1);
    begin_qk(q_tile, first_row, K_TILE(0), q_words, s FRAGMENT_ARG);
    FINISH_QK(q_words, s, 0);
    weigh_tile(a, at, &block, &keys, first_row, s, row_max, row_sum, seen,
               out SCORE_OPERANDS_ARG KEPT_ARG FRAGMENT_ARG);
    round_weights(weights, 0, s FRAGMENT_ARG);
    for (; next.j0 < block.end; number = 1 - number) {
        copies_wait();
        LOCAL_BARRIER(); /* V and the next K are complete, those before may be overwritten */
        begin_qk(q_tile, first_row, K_TILE(1 - number), q_words, s FRAGMENT_ARG);
        begin_sums_of_tile(weights, WEIGHT_PARTS, PART_KEYS, V_TILE(number), DIMS,
                           out[0] FRAGMENT_ARG);
        const struct keys after = find_keys(a, at, block, after_keys(next) PAGES_ARG);
        if (after.j0 < block.end)
            STAGE_KEYS(after, number);
        STAGE_VALUES(next, 1 - number, finite, v_nonfinite);
        FINISH_QK(q_words, s, 1);
        weigh_tile(a, at, &block, &next, first_row, s, row_max, row_sum, seen,
                   out SCORE_OPERANDS_ARG KEPT_ARG FRAGMENT_ARG);
        round_weights(weights, 0, s FRAGMENT_ARG);
        next = after;
    }
    copies_wait();
    LOCAL_BARRIER(); /* the last V is complete */
    add_rows_of_tile(weights, WEIGHT_PARTS, PART_KEYS, V_TILE(number), DIMS, out[0] FRAGMENT_ARG);
}

#endif
