/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of a query and a key backward: p and ds, each with the error that f32 may leave on it. */
#include "problem/philox.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double u = CA_TRUST_ROUNDOFF;

int ca_pair_row_open(const clattn_problem *p, struct ca_pair_row *row)
{
    const size_t dim = p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;

    memset(row, 0, sizeof *row);
    row->d_o = malloc(p->dim_v * sizeof(double));
    row->other = malloc(dim * sizeof(double));
    return ca_trust_row_open(p, &row->scores) && row->d_o && row->other;
}

void ca_pair_row_close(struct ca_pair_row *row)
{
    ca_trust_row_close(&row->scores);
    free(row->d_o);
    free(row->other);
}

void ca_pair_load(const struct ca_trust_case *c, unsigned argument, const clattn_layout *layout,
                  size_t b, size_t h, size_t s, size_t dim, double *to)
{
    const int of_keys = argument == CA_K || argument == CA_V;
    size_t block, row;

    if (of_keys ? ca_trust_locate_key(c, b, s, &block, &row)
                : ca_trust_locate_query(c, b, s, &block, &row))
        ca_values_load(ca_trust_elements(c, argument), ca_problem_dtype(&c->problem, argument),
                       ca_trust_position(layout, block, h, row, 0), layout->stride[3], dim, to);
}

static struct ca_bounded dot(const double *x, const double *y, size_t count)
{
    double sum = 0.0, magnitude = 0.0;

    for (size_t d = 0; d < count; d++) {
        sum += x[d] * y[d];
        magnitude += fabs(x[d] * y[d]);
    }
    return (struct ca_bounded){sum, ca_trust_length_error(count) * magnitude + FLT_MIN};
}

int ca_trust_is_high(const struct ca_trust_case *c, size_t i)
{
    return c->hostile && c->problem.operation == CLATTN_BACKWARD && c->problem.bias &&
           c->problem.bias_dtype != CLATTN_F16 && i % 8 == 5;
}

size_t ca_trust_seen(const struct ca_trust_case *c, const struct ca_trust_row *row)
{
    const clattn_problem *p = &c->problem;
    size_t seen = 0;

    for (size_t j = 0; j < p->seq_kv; j++)
        seen += ca_trust_row_sees(c, row, j) &&
                !(p->bias && ca_value_load(ca_trust_elements(c, CA_BIAS), p->bias_dtype,
                                           ca_trust_position(&p->bias_layout, row->b, row->h,
                                                             row->i, j)) == -INFINITY);
    return seen;
}

void ca_pair_row_locate(const struct ca_trust_case *c, size_t index, struct ca_pair_row *row)
{
    ca_trust_row_locate(c, index, &row->scores);
    size_t place;
    row->lse.value = ca_trust_lse_place(c, &row->scores, &place)
                         ? ca_value_load(ca_trust_elements(c, CA_LSE), CLATTN_F32, place)
                         : -INFINITY;
    row->lse.bound = 2.0 * u * fabs(row->lse.value);
    row->seen = ca_trust_is_high(c, row->scores.i) ? ca_trust_seen(c, &row->scores) : 0;
    row->loaded = 0;
}

void ca_pair_row_load(const struct ca_trust_case *c, struct ca_pair_row *row)
{
    const clattn_problem *p = &c->problem;
    const struct ca_trust_row *at = &row->scores;
    size_t place;

    if (row->loaded)
        return;
    ca_pair_load(c, CA_Q, &p->q, at->b, at->h, at->i, p->dim_qk, row->scores.q);
    ca_pair_load(c, CA_DO, &p->d_o, at->b, at->h, at->i, p->dim_v, row->d_o);
    ca_pair_load(c, CA_O, &p->o, at->b, at->h, at->i, p->dim_v, row->other);
    row->delta = dot(row->d_o, row->other, p->dim_v);
    if (p->dlse && ca_trust_lse_place(c, at, &place)) {
        const double dlse = ca_value_load(ca_trust_elements(c, CA_DLSE), CLATTN_F32, place);
        row->delta.value -= dlse;
        row->delta.bound += u * (fabs(dlse) + fabs(row->delta.value));
    }
    row->loaded = 1;
}

int ca_pair_look(const struct ca_trust_case *c, struct ca_pair_row *row, size_t j,
                 struct ca_pair *pair)
{
    const clattn_problem *p = &c->problem;
    struct ca_bounded unused;

    if (!ca_trust_row_sees(c, &row->scores, j))
        return 0;
    ca_pair_row_load(c, row);
    const struct ca_bounded s = ca_trust_row_score(c, &row->scores, j, &unused);
    if (s.value == -INFINITY)
        return 0;
    const double distance = row->seen ? -log((double)row->seen) : s.value - row->lse.value;
    const double loose = row->seen
                             ? ((double)row->seen + 32.0) * u
                             : expm1(s.bound + row->lse.bound + (8.0 + 3.0 * fabs(distance)) * u);
    const size_t head = row->scores.h / (p->heads / p->kv_heads);
    ca_pair_load(c, CA_V, &p->v, row->scores.b, head, j, p->dim_v, row->other);
    struct ca_bounded dp = dot(row->d_o, row->other, p->dim_v);
    double factor = 1.0;
    if (p->dropout > 0.0f) {
        factor = ca_dropout_factor(p, CA_TRUST_SEED, CA_TRUST_STREAM, row->scores.b, row->scores.h,
                                   row->scores.i, j);
        dp.value *= factor;
        dp.bound = factor * dp.bound + 4.0 * u * fabs(dp.value);
    }
    const double difference = dp.value - row->delta.value;
    pair->p.value = exp(distance);
    pair->p.bound = pair->p.value * loose + FLT_MIN;
    pair->raw.value = pair->p.value * difference;
    pair->raw.bound = pair->p.bound * fabs(difference) +
                      pair->p.value * (dp.bound + row->delta.bound) +
                      4.0 * u * pair->p.value * (fabs(dp.value) + fabs(row->delta.value)) + FLT_MIN;
    pair->p.value *= factor;
    pair->p.bound = factor * pair->p.bound + 4.0 * u * pair->p.value;
    const struct ca_bounded slope = row->scores.slope;
    pair->ds.value = pair->raw.value * slope.value;
    pair->ds.bound = pair->raw.bound * fabs(slope.value) + fabs(pair->raw.value) * slope.bound;
    return 1;
}
