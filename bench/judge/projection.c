/* SPDX-License-Identifier: Apache-2.0 */
/* The bound. u = 2^-24 is the error of one f32 operation, relative to its result. A sum of n
 * products in any order, fused or not, with the bias and what was there before, is certainly off by at
 * most (n + 8) u of the sum of the magnitudes; likely by growth(n) of the products and 4 u of each of
 * the three. FLT_MIN per term allows for subnormal products that a device flushes to 0. Storing adds
 * half an ulp of the dtype. Operands of bf16 below FLT_MIN may count as 0 (clattn/problem.h). */
#include "bench/judge/projection.h"
#include "bench/judge/tensors.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

struct projection_strides reference_projection_strides(const clattn_projection_problem *p)
{
    struct projection_strides s;

    tensor_resolve(&p->x, (size_t[]){p->batch, p->x_heads, p->rows, p->x_dim}, s.x);
    tensor_resolve(&p->w, (size_t[]){p->x_heads, p->x_dim, p->y_heads, p->y_dim}, s.w);
    tensor_resolve(&p->y, (size_t[]){p->batch, p->y_heads, p->rows, p->y_dim}, s.y);
    return s;
}

struct tensor_shape reference_projection_shape(const clattn_projection_problem *p,
                                               enum projection_tensor id)
{
    const struct projection_strides s = reference_projection_strides(p);
    const struct tensor_shape all[NUM_PROJECTED] = {
        [PROJECTION_X] = {.name = "x",
                          .size = {p->batch, p->x_heads, p->rows, p->x_dim},
                          .stride = {s.x[0], s.x[1], s.x[2], s.x[3]}},
        [PROJECTION_W] = {.name = "w",
                          .size = {p->x_heads, p->x_dim, p->y_heads, p->y_dim},
                          .stride = {s.w[0], s.w[1], s.w[2], s.w[3]}},
        [PROJECTION_BIAS] = {.name = "bias",
                             .size = {p->bias != 0, p->y_heads, 1, p->y_dim},
                             .stride = {0, p->y_dim, 0, 1}},
        [PROJECTION_Y] = {.name = "y",
                          .written = true,
                          .size = {p->batch, p->y_heads, p->rows, p->y_dim},
                          .stride = {s.y[0], s.y[1], s.y[2], s.y[3]}},
    };
    struct tensor_shape shape = all[id];

    shape.dtype = id == PROJECTION_BIAS ? p->bias_dtype : p->dtype;
    shape.element_bytes = value_bytes(shape.dtype);
    shape.extent = tensor_extent(shape.size, shape.stride);
    shape.present = shape.extent > 0;
    return shape;
}

static size_t place(const size_t strides[4], size_t a, size_t b, size_t c, size_t d)
{
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
}

enum { CHUNK = 64 }; /* Elements that are loaded at a time. */

struct bounded reference_projection(const clattn_projection_problem *p,
                                    const struct projection_view *view, enum precision precision,
                                    size_t b, size_t g, size_t i, size_t e)
{
    const struct projection_strides s = reference_projection_strides(p);
    struct arithmetic a = arithmetic_of(precision, p->dtype);
    const size_t terms = p->x_heads * p->x_dim;
    const double n = (double)terms + 2.0;
    const double bias = p->bias ? value_get(p->bias_dtype, view->bias, g * p->y_dim + e) : 0.0;
    const double before =
        p->accumulate ? value_get(p->dtype, view->before, place(s.y, b, g, i, e)) : 0.0;
    struct dot dot = {.sum = 0.0};
    double flushed = 0.0;

    arithmetic_relax_to(&a, p->dtype);
    for (size_t h = 0; h < p->x_heads; h++)
        for (size_t d = 0; d < p->x_dim; d += CHUNK) {
            const size_t count = p->x_dim - d < CHUNK ? p->x_dim - d : CHUNK;
            double x[CHUNK], w[CHUNK];
            value_get_row(p->dtype, view->x, place(s.x, b, h, i, d), s.x[3], count, x);
            value_get_row(p->dtype, view->w, place(s.w, h, d, g, e), s.w[1], count, w);
            const struct dot part = dot_of(x, w, count);
            dot.sum += part.sum;
            dot.magnitude += part.magnitude;
            dot.squares += part.squares;
            for (size_t c = 0; a.flushes && c < count; c++)
                flushed += arithmetic_flushed(&a, x[c], w[c]);
        }
    const double others = fabs(bias) + fabs(before);
    const double error =
        arithmetic_bound(&a, (n + 8.0) * a.value * (dot.magnitude + others),
                         dot_error(&a, &dot, terms) + 4.0 * a.value * (fabs(dot.sum) + others)) +
        flushed + n * (double)FLT_MIN;
    const struct bounded y = {dot.sum + bias + before, error};
    return isfinite(y.value) ? bounded_stored(p->dtype, y) : bounded_exactly(y.value);
}

enum { FEWEST_ROWS = 8 };

bool judge_projection(const clattn_projection_problem *p, const struct projection_view *view,
                      enum precision precision, double budget, judge_row *row, void *user)
{
    const size_t all = p->batch * p->rows;
    const double work = (double)(p->x_heads * p->x_dim) * (double)(p->y_heads * p->y_dim);
    const size_t rows = judge_affordable(budget, all, work, FEWEST_ROWS);
    struct bounded *want = calloc(p->y_dim + 1, sizeof *want);
    const bool ok = want != NULL;

    for (size_t n = 0; ok && n < rows * p->y_heads; n++) {
        const size_t index = judge_spread(n / p->y_heads, rows, all);
        const size_t at[4] = {index / p->rows, n % p->y_heads, index % p->rows, 0};
        for (size_t e = 0; e < p->y_dim; e++)
            want[e] = reference_projection(p, view, precision, at[0], at[1], at[2], e);
        row(user, 0, at, want, p->y_dim);
    }
    free(want);
    return ok;
}
