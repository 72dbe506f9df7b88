/* SPDX-License-Identifier: Apache-2.0 */
/* The bound. u = 2^-24 is the error of one f32 operation, relative to its result. A difference of two lse
 * is off by u of itself, which its exponential multiplies; the functions and the quotient of OpenCL are
 * off by 6 u, sums of n by n u. A weight that f32 cannot hold may be 0. */
#include "bench/judge/merge.h"
#include "bench/judge/tensors.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define U 0x1p-24

struct merge_strides reference_merge_strides(const clattn_merge_problem *p)
{
    struct merge_strides s;

    tensor_resolve(&p->parts, (size_t[]){p->states * p->batch, p->heads, p->seq_q, p->dim},
                   s.parts);
    tensor_resolve(&p->o, (size_t[]){p->batch, p->heads, p->seq_q, p->dim}, s.o);
    return s;
}

/* One row of all states; the last is what the outputs held. Beside them there may be a sink. */
struct states {
    const clattn_merge_problem *p;
    const struct merge_view *view;
    struct merge_strides strides;
    size_t b, h, i, count, terms; /* terms: number of terms of the sums */
    double sink;                  /* -inf: none */
    double most;                  /* the largest lse */
    double sum;                   /* of the weights, each relative to that of the largest lse */
    double
        spread; /* the sum of -w log(w) over the weights w: what errors of lse are multiplied with */
};

static double lse_of(const struct states *t, size_t s)
{
    const clattn_merge_problem *p = t->p;
    const size_t row = (t->b * p->heads + t->h) * p->seq_q + t->i;
    const size_t rows = p->batch * p->heads * p->seq_q;

    return (double)(s < p->states ? t->view->parts_lse[s * rows + row] : t->view->lse[row]);
}

static double value_of(const struct states *t, size_t s, size_t d)
{
    const clattn_merge_problem *p = t->p;
    const int before = s == p->states;
    const size_t *stride = before ? t->strides.o : t->strides.parts;
    const size_t b = before ? t->b : s * p->batch + t->b;

    return value_get(p->dtype, before ? t->view->o : t->view->parts,
                     b * stride[0] + t->h * stride[1] + t->i * stride[2] + d * stride[3]);
}

static double weight(const struct states *t, double lse)
{
    return lse == t->most ? 1.0 : exp(lse - t->most);
}

static void count(struct states *t, double lse)
{
    const double w = weight(t, lse);

    t->sum += w;
    if (w > 0.0 && w < 1.0)
        t->spread += w * -log(w);
}

static double larger(double x, double most)
{
    return isnan(x) || x > most ? x : most;
}

/* The sink of a row that sees nothing counts for nothing. */
static void weigh(struct states *t)
{
    t->most = -HUGE_VAL;
    t->sum = t->spread = 0.0;
    for (size_t s = 0; s < t->count; s++)
        t->most = larger(lse_of(t, s), t->most);
    if (t->most == -HUGE_VAL)
        return;
    t->most = larger(t->sink, t->most);
    for (size_t s = 0; s < t->count; s++)
        count(t, lse_of(t, s));
    count(t, t->sink);
}

static struct bounded merged_lse(const struct states *t)
{
    if (t->most == -HUGE_VAL || !isfinite(t->most))
        return bounded_exactly(t->most);
    const double n = (double)t->terms, all = t->most + log(t->sum);
    const double error = (n + 16.0) * U + t->spread / t->sum * U;
    return (struct bounded){all, error + 6.0 * U * fabs(log(t->sum)) + U * fabs(all)};
}

static struct bounded merged_value(const struct states *t, size_t d)
{
    const double n = (double)t->terms;
    double value = 0.0, error = 0.0;

    for (size_t s = 0; s < t->count; s++) {
        if (lse_of(t, s) == -HUGE_VAL)
            continue;
        const double w = weight(t, lse_of(t, s)) / t->sum, x = value_of(t, s, d);
        const double apart = w > 0.0 ? fmin(t->most - lse_of(t, s), 200.0) : 0.0;
        value += w * x;
        error +=
            (w * (apart + t->spread / t->sum + 2.0 * n + 24.0) * U + (double)FLT_MIN) * fabs(x);
    }
    return isfinite(value)
               ? bounded_stored(t->p->dtype, (struct bounded){value, error + (double)FLT_MIN})
               : bounded_exactly(value);
}

void reference_merge(const clattn_merge_problem *p, const struct merge_view *view, size_t b,
                     size_t h, size_t i, struct bounded *o, struct bounded *lse)
{
    struct states t = {.p = p,
                       .view = view,
                       .strides = reference_merge_strides(p),
                       .b = b,
                       .h = h,
                       .i = i,
                       .count = p->states + (p->accumulate != 0),
                       .terms = p->states + (p->accumulate != 0) + (p->sinks != 0),
                       .sink = p->sinks ? (double)view->sinks[h] : -HUGE_VAL};

    weigh(&t);
    *lse = merged_lse(&t);
    for (size_t d = 0; d < p->dim; d++)
        o[d] = t.most == -HUGE_VAL ? bounded_exactly(0.0) : merged_value(&t, d);
}

enum { FEWEST_ROWS = 64 };

bool judge_merge(const clattn_merge_problem *p, const struct merge_view *view, double budget,
                 judge_row *row, void *user)
{
    const size_t all = p->batch * p->heads * p->seq_q;
    const size_t rows =
        judge_affordable(budget, all, (double)(p->states + 1) * (double)p->dim * 16.0, FEWEST_ROWS);
    struct bounded *o = calloc(p->dim + 1, sizeof *o), lse;
    const bool ok = o != NULL;

    for (size_t n = 0; ok && n < rows; n++) {
        const size_t index = judge_spread(n, rows, all);
        const size_t at[4] = {index / p->seq_q / p->heads, index / p->seq_q % p->heads,
                              index % p->seq_q, 0};
        reference_merge(p, view, at[0], at[1], at[2], o, &lse);
        row(user, MERGED_O, at, o, p->dim);
        row(user, MERGED_LSE, at, &lse, 1);
    }
    free(o);
    return ok;
}
