/* SPDX-License-Identifier: Apache-2.0 */
/* Right answers of the backward direction, each with the error that f32 may leave on it: the rules
 * of answer.c, carried through the formulas of clattn/problem.h. */
#include "problem/function.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double u = CA_TRUST_ROUNDOFF;

int ca_gradients_has_bias(const clattn_problem *p)
{
    const size_t *s = p->bias_layout.stride, sizes[4] = {p->batch, p->heads, p->seq_q, p->seq_kv};

    for (int n = 0; n < 4; n++)
        if (s[n] == 0 && sizes[n] > 1)
            return 0;
    return p->dbias;
}

int ca_gradients_fill_lse(struct ca_trust_case *c, unsigned *state)
{
    const clattn_problem *p = &c->problem;
    unsigned char *lse = c->bytes[CA_LSE] + CA_TRUST_GUARD;
    struct ca_trust_row row;
    const int complete = ca_trust_row_open(p, &row);

    for (size_t n = 0; complete && n < p->batch * p->heads * p->seq_q; n++) {
        const float plausible = logf((float)p->seq_kv) + 1.0f + 0.5f * ca_value_next(state);
        size_t place;
        ca_trust_row_locate(c, n, &row);
        if (ca_trust_lse_place(c, &row, &place))
            ca_value_store(lse, CLATTN_F32, place,
                           !ca_trust_seen(c, &row)      ? -INFINITY
                           : ca_trust_is_high(c, row.i) ? CA_TRUST_HIGH_BIAS
                                                        : plausible);
    }
    ca_trust_row_close(&row);
    return complete;
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* sums[d] += weight * vector[d]; the bounds collect what the weights may be off by, and terms[] the
 * magnitudes, whose rounding comes last. */
static void add(struct ca_bounded *sums, struct ca_bounded weight, const double *vector, size_t dim,
                double *terms)
{
    for (size_t d = 0; d < dim; d++) {
        sums[d].value += weight.value * vector[d];
        sums[d].bound += weight.bound * fabs(vector[d]);
        terms[d] += fabs(weight.value * vector[d]);
    }
}

static void finish(const clattn_problem *p, struct ca_bounded *sums, const double *terms,
                   size_t dim, size_t count, double factor)
{
    for (size_t d = 0; d < dim; d++) {
        const double error =
            fabs(factor) * (sums[d].bound + 2.0 * ca_trust_length_error(count) * terms[d]);
        sums[d].value *= factor;
        sums[d].bound = error + FLT_MIN;
        sums[d].bound += ca_value_rounding(p->dtype, fabs(sums[d].value) + error);
    }
}

/* ---- sweeps --------------------------------------------------------------------------------- */

/* dq and dbias of one row. */
static void solve_row(struct ca_trust_case *c, size_t index, struct ca_pair_row *row, double *terms)
{
    const clattn_problem *p = &c->problem;
    struct ca_bounded *dbias = NULL;
    size_t visible = 0, block, place;
    struct ca_pair pair;

    memset(terms, 0, p->dim_qk * sizeof *terms);
    ca_pair_row_locate(c, index, row);
    const struct ca_trust_row *at = &row->scores;
    if (!ca_trust_locate_query(c, at->b, at->i, &block, &place))
        return;
    struct ca_bounded *dq = ca_trust_answer(c, CA_DQ, block, at->h, place, p->dim_qk);
    if (ca_gradients_has_bias(p))
        dbias = ca_trust_answer(c, CA_DBIAS, at->b, at->h, at->i, p->seq_kv);
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!ca_pair_look(c, row, j, &pair))
            continue;
        ca_pair_load(c, CA_K, &p->k, at->b, at->h / (p->heads / p->kv_heads), j, p->dim_qk,
                     row->other);
        add(dq, ca_trust_operand(p, pair.ds), row->other, p->dim_qk, terms);
        if (dbias) {
            dbias[j] = pair.raw;
            dbias[j].bound += ca_value_rounding(p->bias_dtype, fabs(pair.raw.value));
        }
        visible++;
    }
    finish(p, dq, terms, p->dim_qk, visible, (double)p->scale);
}

/* dk and dv of one key. */
static void solve_key(struct ca_trust_case *c, size_t index, struct ca_pair_row *row, double *terms)
{
    const clattn_problem *p = &c->problem;
    const size_t b = index / p->seq_kv / p->kv_heads, head = index / p->seq_kv % p->kv_heads;
    const size_t group = p->heads / p->kv_heads;
    double *terms_v = terms + p->dim_qk;
    size_t visible = 0, block, place;
    struct ca_pair pair;

    if (!ca_trust_locate_key(c, b, index % p->seq_kv, &block, &place))
        return;
    struct ca_bounded *dk = ca_trust_answer(c, CA_DK, block, head, place, p->dim_qk);
    struct ca_bounded *dv = ca_trust_answer(c, CA_DV, block, head, place, p->dim_v);
    memset(terms, 0, (p->dim_qk + p->dim_v) * sizeof *terms);
    for (size_t h = head * group; h < (head + 1) * group; h++)
        for (size_t i = 0; i < p->seq_q; i++) {
            ca_pair_row_locate(c, (b * p->heads + h) * p->seq_q + i, row);
            if (!ca_pair_look(c, row, index % p->seq_kv, &pair))
                continue;
            add(dk, ca_trust_operand(p, pair.ds), row->scores.q, p->dim_qk, terms);
            add(dv, ca_trust_operand(p, pair.p), row->d_o, p->dim_v, terms_v);
            visible++;
        }
    finish(p, dk, terms, p->dim_qk, visible, (double)p->scale);
    finish(p, dv, terms_v, p->dim_v, visible, 1.0);
}

/* Adds a pair's share to the elements of dfunction that its score depends on. */
static void add_loads(const struct ca_function_loads *loads, struct ca_bounded raw, double rounding,
                      struct ca_bounded *dfunction)
{
    for (size_t n = 0; n < loads->count; n++) {
        struct ca_bounded *to = &dfunction[loads->place[n]];
        const struct ca_bounded slope = loads->derivative[n];
        const double term = raw.value * slope.value;
        to->value += term;
        to->bound += raw.bound * fabs(slope.value) + (fabs(raw.value) + raw.bound) * slope.bound +
                     rounding * fabs(term);
    }
}

/* dslopes, dsinks and dfunction, as far as they are wanted. */
static void solve_sums(struct ca_trust_case *c, struct ca_pair_row *row)
{
    const clattn_problem *p = &c->problem;
    struct ca_bounded *dslopes =
        p->dslopes ? ca_trust_answer(c, CA_DSLOPES, 0, 0, 0, p->heads) : NULL;
    struct ca_bounded *dsinks = p->dsinks ? ca_trust_answer(c, CA_DSINKS, 0, 0, 0, p->heads) : NULL;
    struct ca_bounded *dfunction =
        p->dfunction ? ca_trust_answer(c, CA_DFUNCTION, 0, 0, 0, ca_function_gradients(p)) : NULL;
    const int of_pairs = dslopes || dfunction;
    const double rounding =
        2.0 * ca_trust_length_error(p->batch * p->seq_q * (of_pairs ? p->seq_kv : 1));
    struct ca_pair pair;

    for (size_t index = 0; index < p->batch * p->heads * p->seq_q; index++) {
        const size_t h = index / p->seq_q % p->heads;
        ca_pair_row_locate(c, index, row);
        for (size_t j = 0; of_pairs && j < p->seq_kv; j++) {
            if (!ca_pair_look(c, row, j, &pair))
                continue;
            if (dfunction)
                add_loads(&row->scores.loads, pair.raw, rounding, dfunction);
            if (!dslopes)
                continue;
            const double distance = ca_trust_distance(p, &row->scores, j);
            dslopes[h].value += pair.raw.value * distance;
            dslopes[h].bound += (pair.raw.bound + rounding * fabs(pair.raw.value)) * fabs(distance);
        }
        if (dsinks && row->lse.value != -INFINITY) {
            const double sink = ca_value_load(ca_trust_elements(c, CA_SINKS), CLATTN_F32, h);
            const double weight = exp(sink - row->lse.value);
            ca_pair_row_load(c, row);
            dsinks[h].value -= weight * row->delta.value;
            dsinks[h].bound +=
                weight *
                (row->delta.bound +
                 fabs(row->delta.value) *
                     (rounding + (8.0 + 4.0 * fabs(sink) + 4.0 * fabs(row->lse.value)) * u));
        }
    }
}

int ca_gradients_solve(struct ca_trust_case *c, const struct ca_sample *rows,
                       const struct ca_sample *keys, int sums)
{
    const clattn_problem *p = &c->problem;
    double *terms = malloc((p->dim_qk + p->dim_v) * sizeof *terms);
    struct ca_pair_row row;
    const int complete = ca_pair_row_open(p, &row) && terms;

    for (size_t n = 0; complete && n < rows->count; n++)
        solve_row(c, ca_trust_place(rows, n), &row, terms);
    for (size_t n = 0; complete && n < keys->count; n++)
        solve_key(c, ca_trust_place(keys, n), &row, terms);
    if (complete && sums && (p->dslopes || p->dsinks || p->dfunction))
        solve_sums(c, &row);
    ca_pair_row_close(&row);
    free(terms);
    return complete;
}
