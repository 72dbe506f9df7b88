/* SPDX-License-Identifier: Apache-2.0 */
/* The bound. u = 2^-24 is the error of one f32 operation, relative to its result. A sum of n
 * products in any order, fused or not, with the bias and what was there before, is certainly off by at
 * most (n + 8) u of the sum of the magnitudes; likely by growth(n) of the products and 4 u of each of
 * the three. FLT_MIN per term allows for subnormal products that a device flushes to 0. Storing adds
 * half an ulp of the dtype. Operands of bf16 below FLT_MIN may count as 0 (clattn/problem.h). */
#include "bench/judge/judge.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { CHUNK = 64 }; /* Elements that are loaded at a time. */

/* Tensors that a projection reads, and y, to which it may add. */
struct projecting {
    const clattn_projection_problem *p;
    const struct tensor_view *view;
    enum precision precision;
    struct tensor_shape x, w, y;
};

static struct bounded projected(const struct projecting *t, size_t b, size_t g, size_t i, size_t e)
{
    const clattn_projection_problem *p = t->p;
    struct arithmetic a = arithmetic_of(t->precision, p->dtype);
    const size_t terms = p->x_heads * p->x_dim;
    const double n = (double)terms + 2.0;
    const unsigned char *const *at = t->view->at;
    const double bias =
        p->bias ? value_get(p->bias_dtype, at[PROJECTION_BIAS], g * p->y_dim + e) : 0.0;
    const double before =
        p->accumulate ? value_get(p->dtype, at[PROJECTION_Y], tensor_index(&t->y, b, g, i, e))
                      : 0.0;
    struct dot dot = {.sum = 0.0};
    double flushed = 0.0;

    arithmetic_relax_to(&a, p->dtype);
    for (size_t h = 0; h < p->x_heads; h++)
        for (size_t d = 0; d < p->x_dim; d += CHUNK) {
            const size_t count = p->x_dim - d < CHUNK ? p->x_dim - d : CHUNK;
            double x[CHUNK], w[CHUNK];
            value_get_row(p->dtype, at[PROJECTION_X], tensor_index(&t->x, b, h, i, d),
                          t->x.stride[3], count, x);
            value_get_row(p->dtype, at[PROJECTION_W], tensor_index(&t->w, h, d, g, e),
                          t->w.stride[1], count, w);
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

bool judge_projection(const clattn_problem *problem, const struct tensor_view *view,
                      enum precision precision, double budget, judge_visit *visit, void *user)
{
    const clattn_projection_problem *p = &problem->projection;
    const struct projecting t = {.p = p,
                                 .view = view,
                                 .precision = precision,
                                 .x = tensor_shape_of(problem, PROJECTION_X),
                                 .w = tensor_shape_of(problem, PROJECTION_W),
                                 .y = tensor_shape_of(problem, PROJECTION_Y)};
    const size_t all = p->batch * p->rows;
    const double work = (double)(p->x_heads * p->x_dim) * (double)(p->y_heads * p->y_dim);
    const size_t rows = judge_affordable(budget, all, work, FEWEST_ROWS);
    struct bounded *want = calloc(p->y_dim + 1, sizeof *want);
    const bool ok = want != NULL;

    for (size_t n = 0; ok && n < rows * p->y_heads; n++) {
        const size_t index = judge_spread(n / p->y_heads, rows, all);
        const size_t at[4] = {index / p->rows, n % p->y_heads, index % p->rows, 0};
        for (size_t e = 0; e < p->y_dim; e++)
            want[e] = projected(&t, at[0], at[1], at[2], e);
        visit(user, PROJECTION_Y, at, want, p->y_dim);
    }
    free(want);
    return ok;
}
