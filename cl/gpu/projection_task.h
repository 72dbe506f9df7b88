/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of projection kernels with work-groups that own a tile of y: a group's tile and
 * part of the depth, the addresses of its rows, columns and depths, and the sum of the parts.
 *
 * Places     of rows, columns and of the first stage's depth are computed once, in local memory; those
 *            of a later stage from the last one's: pairs cost no division in the loop. Where a matrix
 *            allows it, four neighbours are loaded at once.
 * Splits     with SPLIT_K > 1: [SPLIT_K][rows][columns] sums in the workspace; projection_sum adds them up.
 *
 * Sizes      THREADS, the work-items of a group.
 * Tunables   BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SPLIT_K. */
#pragma once
#include "common/projection.h"

/* Is 1 if x and w are planes of parts of f32 (mma/projection_parts.h); a head of x is then a pair
 * of planes. */
#ifndef BY_PARTS
#define BY_PARTS 0
#endif

/* An index n counts n / size outer and n % size inner ones. */
struct pair {
    long size, outer_step, inner_step;
};

INLINE long place(const struct pair p, const long n)
{
    if (n < p.size) /* the usual case, without a division */
        return n * p.inner_step;
    return n / p.size * p.outer_step + n % p.size * p.inner_step;
}

/* Returns index n; past the last of count indices, an index of the last quad instead. */
INLINE long clamped(const long n, const long count)
{
    return n < count ? n : max(count - 4 + n % 4, 0L);
}

/* Returns whether quads of neighbours are within one inner dimension, and aligned for one load. */
INLINE bool has_quads(const __global storage *p, const long size, const long step, const long step2,
                      const long step3)
{
    return ((size | step | step2 | step3) & 3) == 0 && ((size_t)p & (4 * bytes_of(DTYPE) - 1)) == 0;
}

/* The tile of a group: GROUP_M rows of tiles column by column, then the next GROUP_M rows. */
INLINE void find_tile(const long row_tiles, const long column_tiles, const long n, long *row,
                      long *column)
{
    const long group = n / (GROUP_M * column_tiles), within = n - group * GROUP_M * column_tiles;
    const long height = min((long)GROUP_M, row_tiles - group * GROUP_M);

    *row = group * GROUP_M + within % height;
    *column = within / height;
}

/* The tile of y that a work-group computes, and its part of the depth. */
struct task {
    long rows, columns, depth; /* the sizes of the whole product */
    long row, column, begin, end;
    struct pair depths_of_x, depths_of_w;
    bool x_quads, w_quads;
};

/* The offsets of depth n in x and w. */
INLINE long place_in_x(const struct task *t, const long n)
{
#if BY_PARTS
    return first_part((int)(n / t->depths_of_x.size)) * t->depths_of_x.outer_step +
           n % t->depths_of_x.size;
#else
    return place(t->depths_of_x, n);
#endif
}

INLINE long place_in_w(const struct task *t, const long n)
{
#if BY_PARTS
    return second_part((int)(n / t->depths_of_w.size)) * t->depths_of_w.outer_step +
           n % t->depths_of_w.size;
#else
    return place(t->depths_of_w, n);
#endif
}

INLINE struct task find_output_task(const struct projection_arguments *args)
{
    const long split = get_group_id(1);
    struct task t;

    t.rows = args->shape->batch * args->shape->rows;
    t.columns = args->shape->y_heads * args->shape->y_dim;
    t.depth = args->shape->x_heads * args->shape->x_dim;
    const long stages = (t.depth + BLOCK_K - 1) / BLOCK_K;
    t.begin = stages * split / SPLIT_K * BLOCK_K;
    t.end = min(stages * (split + 1) / SPLIT_K * BLOCK_K, t.depth);
    t.depths_of_x = (struct pair){args->shape->x_dim, args->shape->x_stride[1], X_COLUMN_STEP};
    t.depths_of_w = (struct pair){args->shape->x_dim, args->shape->w_stride[0], W_ROW_STEP};
    t.x_quads = UNIT_X_COLUMN
                    ? has_quads(args->x, args->shape->x_dim, args->shape->x_stride[0],
                                args->shape->x_stride[1], args->shape->x_stride[2])
                    : UNIT_X_ROW && has_quads(args->x, args->shape->rows, args->shape->x_stride[0],
                                              args->shape->x_stride[1], args->shape->x_stride[3]);
    t.w_quads = UNIT_W_COLUMN
                    ? has_quads(args->w, args->shape->y_dim, args->shape->w_stride[0],
                                args->shape->w_stride[1], args->shape->w_stride[2])
                    : UNIT_W_ROW && has_quads(args->w, args->shape->x_dim, args->shape->w_stride[0],
                                              args->shape->w_stride[2], args->shape->w_stride[3]);
    find_tile((t.rows + BLOCK_M - 1) / BLOCK_M, (t.columns + BLOCK_N - 1) / BLOCK_N,
              get_group_id(0), &t.row, &t.column);
    t.row *= BLOCK_M;
    t.column *= BLOCK_N;
    return t;
}

#define ROWS_OF_X ((struct pair){args->shape->rows, args->shape->x_stride[0], X_ROW_STEP})
#define COLUMNS_OF_W ((struct pair){args->shape->y_dim, args->shape->w_stride[2], W_COLUMN_STEP})

/* Finds the offsets of the tile's rows and columns. */
INLINE void find_rows_and_columns(const struct projection_arguments *args, const struct task *t,
                                  __local long *x_rows, __local long *w_columns)
{
    for (int n = get_local_id(0); n < BLOCK_M; n += THREADS)
        x_rows[n] = place(ROWS_OF_X, clamped(t->row + n, t->rows));
    for (int n = get_local_id(0); n < BLOCK_N; n += THREADS)
        w_columns[n] = place(COLUMNS_OF_W, clamped(t->column + n, t->columns));
}

/* Finds the offsets of rows, of columns and of the first stage's depth. */
INLINE void find_places(const struct projection_arguments *args, const struct task *t,
                        __local long *x_rows, __local long *w_columns, __local long *x_depths,
                        __local long *w_depths, __local long *inner)
{
    find_rows_and_columns(args, t, x_rows, w_columns);
    for (int n = get_local_id(0); n < BLOCK_K; n += THREADS) {
        x_depths[n] = place_in_x(t, clamped(t->begin + n, t->depth));
        w_depths[n] = place_in_w(t, clamped(t->begin + n, t->depth));
        inner[n] = (t->begin + n) % args->shape->x_dim;
    }
}

/* Finds the offsets of the stage that begins at depth `next` from those of the stage before. */
INLINE void step_places(const struct projection_arguments *args, const struct task *t,
                        const long next, const __local long *x_before, const __local long *w_before,
                        __local long *x_depths, __local long *w_depths, __local long *inner)
{
    for (int n = get_local_id(0); n < BLOCK_K; n += THREADS) {
        /* beyond the depth the last offset is used again */
        const bool inside = next + n < t->depth;
        long x_place = x_before[n], w_place = w_before[n], at_inner = inner[n] + BLOCK_K;
        if (inside) {
            x_place += BLOCK_K * t->depths_of_x.inner_step;
            w_place += BLOCK_K * t->depths_of_w.inner_step;
        }
        for (; inside && at_inner >= args->shape->x_dim; at_inner -= args->shape->x_dim) {
#if BY_PARTS
            x_place = place_in_x(t, next + n);
            w_place = place_in_w(t, next + n);
#else
            x_place += t->depths_of_x.outer_step - args->shape->x_dim * t->depths_of_x.inner_step;
            w_place += t->depths_of_w.outer_step - args->shape->x_dim * t->depths_of_w.inner_step;
#endif
        }
        x_depths[n] = x_place;
        w_depths[n] = w_place;
        inner[n] = at_inner;
    }
}

#if SPLIT_K > 1
__kernel void projection_sum(PARAMETERS_projection_sum)
{
    const struct projection_arguments arguments = ARGUMENTS_projection_sum;
    const struct projection_arguments *const args = &arguments;
    const long columns = args->shape->y_heads * args->shape->y_dim,
               count = args->shape->batch * args->shape->rows * columns;
    const long n = get_global_id(0);
    float sum = 0.0f;

    if (n >= count)
        return;
#if BY_PARTS && HAS_ACCUMULATE
    const struct projection_parts parts = find_projection_parts(args);
    if (*parts.w_is_flagged || parts.x.flags[n / columns]) /* projection_flagged adds to y */
        return;
#endif
    for (int part = 0; part < SPLIT_K; part++)
        sum += args->workspace[part * count + n];
    const long i = n / columns, j = n % columns;
    __global storage *const to =
        args->y +
        place((struct pair){args->shape->rows, args->shape->y_stride[0], args->shape->y_stride[2]},
              i) +
        place((struct pair){args->shape->y_dim, args->shape->y_stride[1], Y_COLUMN_STEP}, j);
    STORE_Y(sum, to, 0, 0, j);
}
#endif
