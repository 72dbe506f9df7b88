/* SPDX-License-Identifier: Apache-2.0 */
/* The bound. u = 2^-24 is the error of one f32 operation, relative to its result. A difference of two lse
 * is off by u of itself, which its exponential multiplies; the functions and the quotient of OpenCL are
 * off by 6 u, sums of n by n u. A weight that f32 cannot hold may be 0. */
#include "bench/judge/judge.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define U 0x1p-24

/* One row of all states; the last is what the outputs held. Beside them there may be a sink. */
struct states {
    const clattn_merge_problem *p;
    const struct tensor_view *view;
    struct tensor_shape parts, o;
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

    return s < p->states ? value_get(CLATTN_F32, t->view->at[MERGE_PARTS_LSE], s * rows + row)
                         : value_get(CLATTN_F32, t->view->at[MERGE_LSE], row);
}

static double value_of(const struct states *t, size_t s, size_t d)
{
    const int before = s == t->p->states;
    const size_t b = before ? t->b : s * t->p->batch + t->b;

    return value_get(t->p->dtype, t->view->at[before ? MERGE_O : MERGE_PARTS],
                     tensor_index(before ? &t->o : &t->parts, b, t->h, t->i, d));
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

enum { FEWEST_ROWS = 64 };

bool judge_merge(const clattn_problem *problem, const struct tensor_view *view,
                 enum precision precision, double budget, judge_visit *visit, void *user)
{
    const clattn_merge_problem *p = &problem->merge;
    const size_t all = p->batch * p->heads * p->seq_q, count = p->states + (p->accumulate != 0);
    const size_t rows =
        judge_affordable(budget, all, (double)(p->states + 1) * (double)p->dim * 16.0, FEWEST_ROWS);
    struct states t = {.p = p,
                       .view = view,
                       .parts = tensor_shape_of(problem, MERGE_PARTS),
                       .o = tensor_shape_of(problem, MERGE_O),
                       .count = count,
                       .terms = count + (p->sinks != 0)};
    struct bounded *o = calloc(p->dim + 1, sizeof *o);
    const bool ok = o != NULL;

    (void)precision;
    for (size_t n = 0; ok && n < rows; n++) {
        const size_t index = judge_spread(n, rows, all);
        t.b = index / p->seq_q / p->heads;
        t.h = index / p->seq_q % p->heads;
        t.i = index % p->seq_q;
        t.sink = p->sinks ? value_get(CLATTN_F32, view->at[MERGE_SINKS], t.h) : -HUGE_VAL;
        weigh(&t);
        for (size_t d = 0; d < p->dim; d++)
            o[d] = t.most == -HUGE_VAL ? bounded_exactly(0.0) : merged_value(&t, d);
        const struct bounded lse = merged_lse(&t);
        visit(user, MERGE_O, (size_t[]){t.b, t.h, t.i, 0}, o, p->dim);
        visit(user, MERGE_LSE, (size_t[]){t.b, t.h, 0, t.i}, &lse, 1);
    }
    free(o);
    return ok;
}
