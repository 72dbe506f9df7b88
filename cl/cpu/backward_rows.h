/* The first stage of gradients on CPUs: the statistics of rows (common/backward.h).
 *
 * Before including this: backward_weights.h, with block lists BLOCK_BITS_BEGIN. */
#ifndef CLATTN_CPU_BACKWARD_ROWS_H
#define CLATTN_CPU_BACKWARD_ROWS_H
#include "score/backward_weights.h"

/* Adds the weights exp(s - lse) of some rows of a tile and a block to the rows' sums; partial: as elsewhere. */
INLINE void add_weights(const int partial, SHAPE_PARAMS, const struct head head,
                        const struct key_block *block, const struct row_range rows,
                        struct query_tile *tile, float *sums SCORE_OPERANDS_PARAM)
{
    multiply_scores(a.scale, block, rows, tile);
    for (int n = rows.begin; n < rows.end; n++) {
        const struct score_row row = row_of_tile(a, head, block, tile, n);
        lanes sum = 0.0f;
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            const lanes left = tile->p[n * BLOCK_VECTORS + m];
            const struct score_vector s =
                finish_scores(partial, a, at, row, m * SIMD_WIDTH, block->keys - m * SIMD_WIDTH,
                              left SCORE_OPERANDS_ARG);
            const lanes weight = weight_of(left, s, tile->minus_lse[n]);
            sum += partial && s.hidden ? (lanes)(0.0f) : weight;
        }
        sums[n] += sum_lanes(sum);
    }
}

/* What the weights of `count` queries from i on lack, all of a head. */
NOINLINE void find_missing(SHAPE_PARAMS, const struct head head, const long i, const int count,
                           const __global storage *q, const __global storage *k,
                           const __global storage *v SCORE_OPERANDS_PARAM,
                           const __global storage *d_o, __global float *workspace, float *sums)
{
    const long end = end_key(a, head.e, min(i + count, head.e.queries) - 1);
    struct key_block block;
    struct query_tile tile;

    load_query_tile(a, at, head, i, count, q, d_o, workspace + at.workspace, &tile);
    for (long j = first_key(a, head.e, i) / BLOCK_N * BLOCK_N; j < end; j += BLOCK_N) {
        load_key_block(a, at, head, j, k, v, &block);
        const struct row_range rows = visible_rows(a, head, &block, &tile);
        if (rows.begin < rows.end && is_listed(head, &block, &tile))
            add_weights(is_partial(a, head, &block, &tile), a, at, head, &block, rows, &tile,
                        sums SCORE_OPERANDS_ARG);
    }
    for (int n = 0; n < count; n++)
        if (is_large_lse(tile.minus_lse[n]))
            write_missing(a, at, head.b, head.h, i + n, sums[n], workspace);
}

/* Local (1, 1, 1), global (tiles of BLOCK_M queries, heads, batch). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void backward_rows(PARAMETERS_backward_rows)
{
    ENTER_SEQUENCE(get_global_id(2));
    const long i = get_global_id(0) * BLOCK_M;
    const int count = (int)clamp(a.seq_q - i, 0L, (long)BLOCK_M);
    float sums[BLOCK_M];
    int some = 0;
    struct head head;

    head.b = get_global_id(2);
    head.h = get_global_id(1);
    for (int n = 0; n < count; n++) {
        some |= is_large_lse(write_statistics(a, at, head.b, head.h, i + n, lse,
                                              row_delta(a, at, head.b, head.h, i + n, o, d_o), workspace));
        sums[n] = 0.0f;
#if HAS_SINKS
        sums[n] = exp(sinks[at.sinks + head.h] - lse[at.lse + lse_of(a, head.b, head.h, i + n)]);
#endif
    }
    if (!some)
        return;
    head.e = extent_of(a, at, head.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
#if HAS_MARKS
    head.marks = all_marks(a, at, workspace);
#endif
#if HAS_BLOCKS
    head.keys_end = a.seq_kv;
    head.bits = block_bits_of(a, workspace + at.workspace + BLOCK_BITS_BEGIN(a), head.b, head.h);
#endif
#if OPERAND_TILES
    CONFIGURE_TILES();
#endif
    find_missing(a, at, head, i, count, q, k, v SCORE_OPERANDS_ARG, d_o, workspace, sums);
#if OPERAND_TILES
    RELEASE_TILES();
#endif
}

#endif
