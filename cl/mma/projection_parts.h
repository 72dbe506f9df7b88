/* SPDX-License-Identifier: Apache-2.0 */
/* Projections of f32 by products of parts (f32_parts.h): the stages before and behind a kernel of matrix instructions,
 * which multiplies planes of x and w as if they were heads of a problem of bf16.
 *
 * Planes     x has a line for each row, w one for each column, along the depth, whichever way it lies: a Hopper
 *            multiplies by such lines at 118 TFLOP/s, by lines across the depth at 98. The depth is padded to whole
 *            stages, so that a stage is part of one pair of planes.
 * Flags      y is computed from the f32 themselves, by projection_flagged, in rows of x that are flagged, and everywhere
 *            if w is. The kernel's first group writes whether w is to w's word behind its parts.
 *
 * Tunables   SPLIT_K. */
#pragma once
#include "common/projection.h"
#include "families/projection_gpu/projection_gpu_sizes.h"
#include "mma/f32_parts.h"

struct projection_parts {
    struct parts x, w;
    __global int *w_is_flagged;
};

/* Finds the parts of x and w in the workspace. whole: the arguments that the kernel was called with. */
INLINE struct projection_parts find_projection_parts(const struct projection_arguments *whole)
{
    const struct projection_shape *s = whole->shape;
    const long rows = s->batch * s->rows, columns = s->y_heads * s->y_dim;
    const long depth = s->x_heads * s->x_dim;
    const long x_at = SPLIT_SUM_BYTES(rows, columns);
    const long w_at = x_at + PARTS_BYTES(rows, PART_DEPTH(depth));
    struct projection_parts p;

    p.x = parts_at(whole->workspace, x_at, rows, PART_DEPTH(depth));
    p.w = parts_at(whole->workspace, w_at, columns, PART_DEPTH(depth));
    p.w_is_flagged = (__global int *)(p.w.planes + 3 * p.w.lines * p.w.elements);
    return p;
}

/* The arguments and the shape of the product of planes: heads of x are pairs of parts. */
INLINE struct projection_arguments arguments_of_parts(const struct projection_arguments *whole,
                                                      const struct projection_parts *p,
                                                      struct projection_shape *shape)
{
    struct projection_arguments args = *whole;

    *shape = *whole->shape;
    shape->x_heads = PART_PAIRS;
    shape->x_dim = p->x.elements;
    shape->x_stride[0] = shape->rows * p->x.elements;
    shape->x_stride[1] = p->x.lines * p->x.elements;
    shape->x_stride[2] = p->x.elements;
    shape->x_stride[3] = 1;
    shape->w_stride[0] = p->w.lines * p->w.elements;
    shape->w_stride[1] = 1;
    shape->w_stride[2] = shape->y_dim * p->w.elements;
    shape->w_stride[3] = p->w.elements;
    args.shape = shape;
    args.x = (const __global float *)p->x.planes;
    args.w = (const __global float *)p->w.planes;
    return args;
}

/* ---- the stage before ------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(PART_ITEMS, 1, 1))) void
projection_parts(PARAMETERS_projection_parts)
{
    LEAVE_FIRST_ASSEMBLY();
    const struct projection_arguments arguments = ARGUMENTS_projection_parts;
    const struct projection_shape *s = arguments.shape;
    const struct projection_parts parts = find_projection_parts(&arguments);
    struct parts to = parts.x;
    struct lines from = {arguments.x,
                         {1, s->batch, s->rows},
                         {0, s->x_stride[0], s->x_stride[2]},
                         {s->x_heads, s->x_dim},
                         {s->x_stride[1], s->x_stride[3]}};
    __local int flags[PART_ITEMS];

    if (get_group_id(1) == 1) {
        const struct lines w = {arguments.w,
                                {1, s->y_heads, s->y_dim},
                                {0, s->w_stride[2], s->w_stride[3]},
                                {s->x_heads, s->x_dim},
                                {s->w_stride[0], s->w_stride[1]}};
        from = w;
        to = parts.w;
    }
    split_lines(&from, &to, flags);
}

/* ---- in the kernel --------------------------------------------------------------------------- */

/* Makes `arguments`, those of the product of planes, from a kernel's own. */
#define DECLARE_ARGUMENTS(own)                                                                     \
    __local int any_flag;                                                                          \
    const struct projection_arguments whole = own;                                                 \
    const struct projection_parts parts = find_projection_parts(&whole);                           \
    struct projection_shape shape_of_parts;                                                        \
    const struct projection_arguments arguments =                                                  \
        arguments_of_parts(&whole, &parts, &shape_of_parts)

/* Returns to all work-items of the group, which meet at barriers, whether w is flagged; any: a word
 * of the group. */
INLINE bool w_is_flagged(const struct projection_parts *p, const int threads, __local int *any)
{
    if (THIS_THREAD == 0)
        *any = 0;
    LOCAL_BARRIER();
    if (has_flagged_lines(&p->w, 0, p->w.lines, threads))
        atomic_or(any, 1);
    LOCAL_BARRIER();
    return *any != 0;
}

/* The first group tells later stages whether w is flagged. Elements of y that are added to must
 * keep their values where they are computed again: in flagged rows, or everywhere if w is flagged.
 * Their offsets become negative. */
#if HAS_ACCUMULATE && SPLIT_K == 1
#define LEAVES_FLAGGED 1
#define IS_COMPUTED_HERE(row) ((row) >= 0)
#else
#define LEAVES_FLAGGED 0
#define IS_COMPUTED_HERE(row) true
#endif
INLINE void leave_flagged(const struct projection_parts *p, const long row, const long rows,
                          __local long *y_rows, const int count, const int threads,
                          __local int *any)
{
    const bool is_first = get_group_id(0) == 0 && get_group_id(1) == 0;

    if (!LEAVES_FLAGGED && !is_first)
        return;
    const bool all = w_is_flagged(p, threads, any);
    if (is_first && THIS_THREAD == 0)
        *p->w_is_flagged = all;
    for (int n = THIS_THREAD; n < count && LEAVES_FLAGGED; n += threads)
        if (all || (row + n < rows && p->x.flags[row + n]))
            y_rows[n] = -1;
}

/* ---- the stage behind ------------------------------------------------------------------------ */

/* Computes y of the rows whose bits are set in `which`, in one column. */
INLINE void multiply_whole_rows(const struct projection_arguments *args, const long row,
                                const uint which, const long column)
{
    const struct projection_shape *s = args->shape;
    const long head = column / s->y_dim, e = column % s->y_dim;
    const __global float *w = args->w + head * s->w_stride[2] + e * s->w_stride[3];
    const __global float *x[FLAGGED_ROWS];
    float sums[FLAGGED_ROWS];

    UNROLL
    for (int r = 0; r < FLAGGED_ROWS; r++) {
        const long at = which >> r & 1 ? row + r : row;
        x[r] = args->x + at / s->rows * s->x_stride[0] + at % s->rows * s->x_stride[2];
        sums[r] = 0.0f;
    }
    for (long h = 0; h < s->x_heads; h++)
        for (long d = 0; d < s->x_dim; d++) {
            const float factor = w[h * s->w_stride[0] + d * s->w_stride[1]];
            UNROLL
            for (int r = 0; r < FLAGGED_ROWS; r++)
                sums[r] = fma(x[r][h * s->x_stride[1] + d * s->x_stride[3]], factor, sums[r]);
        }
    UNROLL
    for (int r = 0; r < FLAGGED_ROWS; r++)
        if (which >> r & 1) {
            __global float *const y = args->y + (row + r) / s->rows * s->y_stride[0] +
                                      (row + r) % s->rows * s->y_stride[2];
            STORE_Y(sums[r], y, head * s->y_stride[1] + e * s->y_stride[3], head, e);
        }
}

__kernel __attribute__((reqd_work_group_size(PART_ITEMS, 1, 1))) void
projection_flagged(PARAMETERS_projection_flagged)
{
    LEAVE_FIRST_ASSEMBLY();
    const struct projection_arguments arguments = ARGUMENTS_projection_flagged;
    const struct projection_shape *s = arguments.shape;
    const struct projection_parts parts = find_projection_parts(&arguments);
    const long rows = s->batch * s->rows, columns = s->y_heads * s->y_dim;
    const bool all = *parts.w_is_flagged != 0;

    for (long row = (long)get_group_id(0) * FLAGGED_ROWS; row < rows;
         row += (long)get_num_groups(0) * FLAGGED_ROWS) {
        uint which = 0;
        for (int r = 0; r < FLAGGED_ROWS && row + r < rows; r++)
            which |= (uint)(all || parts.x.flags[row + r]) << r;
        for (long column = THIS_THREAD; column < columns && which; column += PART_ITEMS)
            multiply_whole_rows(&arguments, row, which, column);
    }
}
