/* SPDX-License-Identifier: Apache-2.0 */
/* The first stage of gradients for GPUs: the statistics of rows (common/backward.h). ROW_LANES
 * work-items share a row, so that a sub-group reads whole cache lines. For rows with a large lse
 * the group then adds up the weights, ROWS_AT_ONCE rows at a time, one key a work-item. Such rows
 * are too few to fill a tile.
 *
 * Sizes      THREADS, the work-items of a group. */
#pragma once
#include "gpu/backward_tile.h"
#include "gpu/tile_load.h"
#include "gpu/local_barrier.h"

enum {
    GROUP_ROWS = THREADS / ROW_LANES,
    ROWS_AT_ONCE = 4,
    /* The number of elements that a work-item loads at once, of o and of do, which may have different dtypes. */
    PIECE = WIDTH_OF(O_DTYPE == DTYPE ? DTYPE : DTYPE_F32, UNIT_O *UNIT_DO, DIM_V),
    /* The pieces of a row that a work-item has, and those of o and do that it loads before it waits. */
    ROW_PIECES = DIVIDE_UP(DIM_V, ROW_LANES *PIECE),
    PIECES_AT_ONCE = MIN(ROW_PIECES, 4)
};

/* exp(s - lse) of query i and key j from their product, with the steps of pair_gradient_of(); 0 if
 * the pair is masked. */
INLINE float weight_of_pair(const struct arguments *args, const struct tile t, const long i,
                            const long j, const float product, const float minus_lse)
{
    struct score_tile pair = score_tile_at(args, t.e, t.b, t.h, i, j, 1, 1, 1L);

    if (HAS_BLOCKS)
        find_blocks(t.bits, i, j, false, &pair);
    struct score s = score_of(args, pair, 0, 0, product);
    return hide(args, pair, in_window(pair, 0, 0), 0, 0, &s) ? weight_of(s, minus_lse, 0.0f) : 0.0f;
}

/* Adds the weights of ROWS_AT_ONCE queries, counted from i0, and key j. */
INLINE void add_weights(const struct arguments *args, const struct tile t, const int *rows,
                        const long j, const float *minus_lse, float *sums)
{
    const __global storage *q_head = args->q + row_offset(args->shape->q_stride, t.b, t.h, t.i0);
    const __global storage *key =
        args->k + row_offset(args->shape->k_stride, t.b, t.h / args->shape->group, j);
    float products[ROWS_AT_ONCE] = {0.0f, 0.0f, 0.0f, 0.0f};

    for (int d = 0; d < DIM_QK; d++) {
        const float y = load1_of(DTYPE, key, d * k_step(args));
        for (int n = 0; n < ROWS_AT_ONCE; n++)
            products[n] = MULTIPLY_ADD(
                load1_of(DTYPE, q_head, rows[n] * args->shape->q_stride[2] + d * q_step(args)), y,
                products[n]);
    }
#pragma unroll
    for (int n = 0; n < ROWS_AT_ONCE; n++)
        sums[n] += weight_of_pair(args, t, t.i0 + rows[n], j, products[n], minus_lse[n]);
}

/* The first column of the work-item's piece n, and whether that piece exists. */
INLINE int piece_begin(const int lane, const int n)
{
    return (lane + ROW_LANES * n) * PIECE;
}

INLINE bool has_piece(const int lane, const int n)
{
    return DIM_V % (PIECES_AT_ONCE * ROW_LANES * PIECE) == 0 || piece_begin(lane, n) < DIM_V;
}

/* Loads the work-item's pieces of a row from number `first` on, PIECES_AT_ONCE at most; in place of those past the
 * last the row's first piece. Without branches between them loads can be in flight together. */
INLINE void load_row_pieces(const struct arguments *args, const __global o_storage *o_row,
                            const __global storage *d_o_row, const int lane, const int first,
                            const bool aligned, struct piece *x, struct piece *y)
{
#pragma unroll
    for (int n = 0; n < PIECES_AT_ONCE; n++) {
        const int d = has_piece(lane, first + n) ? piece_begin(lane, first + n) : 0;
        x[n] = load_piece(O_DTYPE, o_row + d * o_step(args), PIECE, aligned);
        y[n] = load_piece(DTYPE, d_o_row + d * do_step(args), PIECE, aligned);
    }
}

/* This work-item's part of dot(do[i], o[i]): neighbours in a row read neighbouring pieces. */
INLINE float part_of_delta(const struct arguments *args, const long b, const long h, const long i,
                           const int lane)
{
    const __global o_storage *const o_row = args->o + row_offset(args->shape->o_stride, b, h, i);
    const __global storage *const d_o_row =
        args->d_o + row_offset(args->shape->d_o_stride, b, h, i);
    const bool aligned =
        rows_aligned_of(O_DTYPE, o_row, 0, PIECE) && rows_aligned(d_o_row, 0, PIECE);
    float4 sums = 0.0f;

#pragma unroll 1
    for (int first = 0; first < ROW_PIECES; first += PIECES_AT_ONCE) {
        struct piece x[PIECES_AT_ONCE], y[PIECES_AT_ONCE];
        if (aligned)
            load_row_pieces(args, o_row, d_o_row, lane, first, true, x, y);
        else
            load_row_pieces(args, o_row, d_o_row, lane, first, false, x, y);
#pragma unroll
        for (int n = 0; n < PIECES_AT_ONCE; n++)
            if (has_piece(lane, first + n)) {
                sums = fma(x[n].low, y[n].low, sums);
                sums = fma(x[n].high, y[n].high, sums);
            }
    }
    return (sums.x + sums.y) + (sums.z + sums.w);
}

/* Groups are numbered by (blocks of GROUP_ROWS rows, heads, batches). */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
backward_rows(PARAMETERS_backward_rows)
{
    struct arguments arguments = ARGUMENTS_backward_rows;
    ENTER_SEQUENCE(args, &arguments, get_group_id(2));
    __local float deltas[ROW_LANES][GROUP_ROWS];
    __local float partial[THREADS][ROWS_AT_ONCE];
    __local int large[GROUP_ROWS]; /* the group's rows with a large lse, in any order */
    __local int count;             /* the number of rows in `large` */
    const int item = get_local_id(0), row = item / ROW_LANES, lane = item % ROW_LANES;
    float row_lse = 0.0f; /* of row number `item` */
    struct tile t;

#ifdef LEAVE_FIRST_ASSEMBLY /* kernels with matrix instructions have such a row tile */
    LEAVE_FIRST_ASSEMBLY();
#endif
    t.b = get_group_id(2);
    t.h = get_group_id(1);
    t.i0 = get_group_id(0) * GROUP_ROWS;
    LEAVE_IF_BEYOND(t.i0, args->shape->seq_q);
    t.e = extent_of(args, t.b);
    t.queries = (int)clamp(t.e.queries - t.i0, 0L, (long)GROUP_ROWS);
    find_head(args, &t);
    if (item == 0)
        count = 0;
    const bool has_row = item < GROUP_ROWS && t.i0 + item < args->shape->seq_q;
    if (has_row)
        row_lse = args->lse[lse_of(args, t.b, t.h, t.i0 + item)];
    deltas[lane][row] =
        part_of_delta(args, t.b, t.h, min(t.i0 + row, args->shape->seq_q - 1), lane);
    LOCAL_BARRIER(); /* the parts are complete, and no row is counted yet */
    if (has_row) {
        float delta = 0.0f;
        for (int n = 0; n < ROW_LANES; n++)
            delta += deltas[n][item];
        if (is_large_lse(
                write_statistics(args, t.b, t.h, t.i0 + item, row_lse, delta, keep_of(args))))
            large[atomic_inc(&count)] = item;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    STORE_APART(); /* all rows are counted, and statistics are written */
    for (int first = 0; first < count; first += ROWS_AT_ONCE) {
        float sums[ROWS_AT_ONCE], minus_lse[ROWS_AT_ONCE];
        int rows[ROWS_AT_ONCE];
        for (int n = 0; n < ROWS_AT_ONCE; n++) {
            rows[n] = large[min(first + n, count - 1)];
            minus_lse[n] = statistic_of(args, t.b, t.h, t.i0 + rows[n]).s0;
            sums[n] = 0.0f;
        }
        for (long j = first_key(args, t.e, t.i0) + item; j < end_key_of_queries(args, t);
             j += THREADS)
            add_weights(args, t, rows, j, minus_lse, sums);
        LOCAL_BARRIER(); /* all have read the old contents */
        for (int n = 0; n < ROWS_AT_ONCE; n++)
            partial[item][n] = sums[n];
        LOCAL_BARRIER(); /* all parts are complete */
        if (item < ROWS_AT_ONCE && first + item < count) {
            const long i = t.i0 + large[first + item];
            float sum = 0.0f;
            for (int n = 0; n < THREADS; n++)
                sum += partial[n][item];
            if (HAS_SINKS)
                sum += exp(args->sinks[t.h] - args->lse[lse_of(args, t.b, t.h, i)]);
            write_missing(args, t.b, t.h, i, sum, keep_of(args));
        }
    }
    END_KERNEL();
}
