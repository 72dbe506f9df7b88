/* SPDX-License-Identifier: Apache-2.0 */
/* Projections in double precision by plain loops, written from the formula in <clattn/problem.h>. It
 * shares no code with the library. */
#ifndef CLATTN_REFERENCE_PROJECTION_H
#define CLATTN_REFERENCE_PROJECTION_H

#include "bench/judge/judge.h"

/* Strides along the axes of each tensor as <clattn/problem.h> lists them: x (batch, kv_heads,
 * seq_q, dim_qk), w (kv_heads, dim_qk, heads, dim_v), y (batch, heads, seq_q, dim_v). */
struct projection_strides {
    size_t x[4], w[4], y[4];
};

struct projection_strides reference_projection_strides(const clattn_projection_problem *p);

/* The tensors as tensor_shape_of() describes those of attention. */
enum projection_tensor { PROJECTION_X, PROJECTION_W, PROJECTION_BIAS, PROJECTION_Y, NUM_PROJECTED };
struct tensor_shape reference_projection_shape(const clattn_projection_problem *p,
                                               enum projection_tensor id);

/* Pointers to element (0, 0, 0, 0). before: what y holds, looked at if the problem accumulates. */
struct projection_view {
    const void *x, *w, *bias, *before;
};

/* y[b,g,i,e], with the largest error that the arithmetic may leave on it. */
struct bounded reference_projection(const clattn_projection_problem *p,
                                    const struct projection_view *view, enum precision precision,
                                    size_t b, size_t g, size_t i, size_t e);

/* Rows of y, the output 0. */
bool judge_projection(const clattn_projection_problem *p, const struct projection_view *view,
                      enum precision precision, double budget, judge_row *row, void *user);

#endif
