/* SPDX-License-Identifier: Apache-2.0 */
/* The first stage of gradients on CPUs: the statistics of rows (common/backward.h). */
#pragma once
#include "score/backward_weights.h"

/* Adds the weights exp(s - lse) of some rows of a tile and a block to the rows' sums. partial:
 * some pair may be masked. */
INLINE void add_weights_of_rows(const int partial, const struct arguments *args,
                                const struct head head, const struct key_block *block,
                                const struct row_range rows, struct query_tile *tile, float *sums)
{
    find_distances_of_tile(args, head, block, tile);
    multiply_scores(args->shape->scale, block, rows, tile);
    for (int n = rows.begin; n < rows.end; n++) {
        const struct score_row row = row_of_tile(args, head, block, tile, n);
        lanes sum = 0.0f;
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            const lanes left = tile->p[n * BLOCK_VECTORS + m];
            const struct score_vector s = finish_scores(partial, args, row, m * SIMD_WIDTH,
                                                        block->keys - m * SIMD_WIDTH, left);
            const lanes weight = weights_of_lanes(left, s, tile->minus_lse[n]);
            sum += partial && s.hidden ? (lanes)(0.0f) : weight;
        }
        sums[n] += sum_lanes(sum);
    }
}

/* Writes the correcting factors (common/backward.h) of `count` queries of a head from i on. */
NOINLINE void find_missing(const struct arguments *restrict args, const struct head head,
                           const long i, const int count, float *sums)
{
    const long end = end_key(args, head.e, min(i + count, head.e.queries) - 1);
    struct key_block block;
    struct query_tile tile;

    load_query_tile(args, head, i, count, args->workspace, &tile);
    for (long j = first_key(args, head.e, i) / BLOCK_N * BLOCK_N; j < end; j += BLOCK_N) {
        load_key_block(args, head, j, &block);
        const struct row_range rows = visible_rows(args, head, &block, &tile);
        if (rows.begin < rows.end && is_listed(head, &block, &tile))
            add_weights_of_rows(is_partial_tile(args, head, &block, &tile), args, head, &block,
                                rows, &tile, sums);
    }
    for (int n = 0; n < count; n++)
        if (is_large_lse(tile.minus_lse[n]))
            write_missing(args, head.b, head.h, i + n, sums[n], 1.0f);
}

/* Local (1, 1, 1), global (tiles of BLOCK_M queries, heads, batch). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void backward_rows(PARAMETERS_backward_rows)
{
    struct arguments arguments = ARGUMENTS_backward_rows;
    ENTER_SEQUENCE(args, &arguments, get_global_id(2));
    const long i = get_global_id(0) * BLOCK_M;
    const int count = (int)clamp(args->shape->seq_q - i, 0L, (long)BLOCK_M);
    float sums[BLOCK_M];
    int some = 0;
    struct head head;

    head.b = get_global_id(2);
    head.h = get_global_id(1);
    for (int n = 0; n < count; n++) {
        some |= is_large_lse(write_statistics(args, head.b, head.h, i + n,
                                              args->lse[lse_of(args, head.b, head.h, i + n)],
                                              row_delta(args, head.b, head.h, i + n), 1.0f));
        sums[n] = 0.0f;
        if (HAS_SINKS)
            sums[n] = exp(args->sinks[head.h] - args->lse[lse_of(args, head.b, head.h, i + n)]);
    }
    if (!some)
        return;
    head.e = extent_of(args, head.b);
    if (HAS_MARKS)
        head.marks = all_marks(args);
    if (HAS_BLOCKS) {
        head.keys_end = args->shape->seq_kv;
        head.bits = block_bits_of(args, args->workspace + marks_begin(args), head.b, head.h);
    }
    configure_tiles();
    find_missing(args, head, i, count, sums);
    release_tiles();
}
