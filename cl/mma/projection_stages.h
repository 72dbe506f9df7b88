/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of BLOCK_K of the depth that projections by matrix instructions walk through, and whether they can be
 * copied in pieces of 16 bytes. */
#pragma once
#include "gpu/projection_task.h"
#include "mma/fragment.h"

#define ELEMENTS_OF_X(args) ((const __global element *)(args)->x)
#define ELEMENTS_OF_W(args) ((const __global element *)(args)->w)

/* Returns whether x and w can be copied in pieces, and a stage's pieces have the same distances in
 * global as in local memory. */
INLINE bool has_pieces(const struct projection_arguments *args)
{
#if BY_PARTS
    return true;
#elif !UNIT_X_COLUMN || !(UNIT_W_COLUMN || UNIT_W_ROW)
    return false;
#else
    const long x_steps =
        args->shape->x_stride[0] | args->shape->x_stride[1] | args->shape->x_stride[2];
#if UNIT_W_COLUMN
    const long w_steps = args->shape->w_stride[0] | args->shape->w_stride[1] |
                         args->shape->w_stride[2] | args->shape->y_dim;
#else
    const long w_steps =
        args->shape->w_stride[0] | args->shape->w_stride[2] | args->shape->w_stride[3];
#endif

    return ((x_steps | w_steps | args->shape->x_dim) & 7) == 0 &&
           (args->shape->x_heads == 1 || args->shape->x_dim % BLOCK_K == 0) &&
           (((size_t)args->x | (size_t)args->w) & 15) == 0;
#endif
}

/* The begin of a stage: its depth, the depth in its head of x, and the offsets of both in x and w.
 * */
struct stage {
    long k, inner, x, w;
};

INLINE struct stage first_stage(const struct projection_arguments *args, const struct task *t)
{
    const struct stage s = {t->begin, t->begin % args->shape->x_dim, place_in_x(t, t->begin),
                            place_in_w(t, t->begin)};

    return s;
}

INLINE struct stage next_stage(const struct projection_arguments *args, const struct task *t,
                               struct stage s)
{
    s.k += BLOCK_K;
    s.inner += BLOCK_K;
    s.x += BLOCK_K * t->depths_of_x.inner_step;
    s.w += BLOCK_K * t->depths_of_w.inner_step;
    if (s.inner >= args->shape->x_dim) { /* the stage begins in the next head of x */
        s.inner -= args->shape->x_dim;
#if BY_PARTS
        s.x = place_in_x(t, s.k);
        s.w = place_in_w(t, s.k);
#else
        s.x += t->depths_of_x.outer_step - args->shape->x_dim * t->depths_of_x.inner_step;
        s.w += t->depths_of_w.outer_step - args->shape->x_dim * t->depths_of_w.inner_step;
#endif
    }
    return s;
}
