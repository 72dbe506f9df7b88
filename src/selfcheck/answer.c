/* SPDX-License-Identifier: Apache-2.0 */
/* Right answers in double precision, each with the error that f32 may leave on it.
 *
 * u = 2^-24 is the error of one f32 operation, relative to its result. A sum of n terms, in any
 * order and with fused or separate products, is off by at most (n + 8) u times the sum of the
 * terms' magnitudes; for long sums that bound is never met, as errors of either sign cancel like
 * steps of a random walk, so beyond n = 256 it grows with 16 sqrt(n). From there:
 *
 *   score    a sum of dim_qk products; softcap (tanh has 5 ulp) adds 16 u |s|, bias and ALiBi
 *            4 u (|s| + |bias| + |alibi|)
 *   weight   an error e of the score s and exp (4 ulp, and the argument s - m is rounded three
 *            times) give expm1(e + (8 + 3 |s - m|) u), relative to the weight
 *   o        a quotient of two sums over the visible keys; dropout adds 4 u to each weight
 *            standard precision rounds each weight to the dtype besides
 *   lse      m + log of such a sum
 */
#include "problem/philox.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double u = CA_TRUST_ROUNDOFF;

/* Scores into weights and slack; the number of keys that the query sees. */
static size_t score_row(const struct ca_trust_case *c, struct ca_trust_row *row,
                        struct ca_bounded *out)
{
    const clattn_problem *p = &c->problem;
    const int shows_hidden = p->scores == CLATTN_SCORES_RAW || p->scores == CLATTN_SCORES_SOFTCAP;
    size_t visible = 0, block, place;

    if (!ca_trust_locate_query(c, row->b, row->i, &block, &place))
        return 0;
    ca_values_load(ca_trust_elements(c, CA_Q), p->dtype,
                   ca_trust_position(&p->q, block, row->h, place, 0), p->q.stride[3], p->dim_qk,
                   row->q);
    for (size_t j = 0; j < p->seq_kv; j++) {
        const int seen = ca_trust_row_sees(c, row, j);
        struct ca_bounded s = {-INFINITY, 0.0}, shown = s;
        if (seen || shows_hidden)
            s = ca_trust_row_score(c, row, j, &shown);
        if (!seen)
            s = (struct ca_bounded){-INFINITY, 0.0};
        row->weights[j] = s.value;
        row->slack[j] = s.bound;
        visible += s.value != -INFINITY;
        if (out)
            out[j] = shows_hidden ? shown : s; /* weights come later */
    }
    return visible;
}

/* Computes weights and their errors, the sum of both, and the maximum. */
struct denominator {
    double most, sum, slack;
};

static struct denominator normalise(const struct ca_trust_case *c, struct ca_trust_row *row)
{
    const clattn_problem *p = &c->problem;
    const double sink =
        p->sinks ? ca_value_load(ca_trust_elements(c, CA_SINKS), CLATTN_F32, row->h) : -INFINITY;
    struct denominator den = {sink, 0.0, 0.0};

    for (size_t j = 0; j < p->seq_kv; j++)
        den.most = fmax(den.most, row->weights[j]);
    for (size_t j = 0; j < p->seq_kv; j++) {
        const double distance = den.most - row->weights[j];
        row->weights[j] = exp(-distance);
        row->slack[j] =
            distance < INFINITY ? expm1(row->slack[j] + (8.0 + 3.0 * distance) * u) : 0.0;
        den.sum += row->weights[j];
        den.slack += row->weights[j] * row->slack[j];
    }
    if (p->sinks) {
        const double distance = den.most - sink;
        den.sum += exp(-distance);
        den.slack += exp(-distance) * (8.0 + 3.0 * distance + 2.0 * fabs(sink)) * u;
    }
    den.slack /= den.sum;
    for (size_t j = 0; j < p->seq_kv; j++)
        row->weights[j] /= den.sum;
    return den;
}

/* o = sum of weight * v over the visible keys. gather: the relative error of such sums. */
static void weigh_values(const struct ca_trust_case *c, struct ca_trust_row *row,
                         const struct denominator *den, double gather, struct ca_bounded *o)
{
    const clattn_problem *p = &c->problem;
    const size_t g = row->h / (p->heads / p->kv_heads);
    const double dropout = p->dropout > 0.0f ? 4.0 * u : 0.0;
    const double share = ca_trust_operand_share(p), tiny = ca_trust_operand_tiny(p);

    for (size_t d = 0; d < p->dim_v; d++)
        o[d].value = row->errors[d] = 0.0;
    for (size_t j = 0; j < p->seq_kv; j++) {
        double weight = row->weights[j];
        if (!(weight > 0.0)) /* a masked key's values must not be read: they may be NaN */
            continue;
        if (p->dropout > 0.0f)
            weight *=
                ca_dropout_factor(p, CA_TRUST_SEED, CA_TRUST_STREAM, row->b, row->h, row->i, j);
        const double error = weight * (row->slack[j] + gather + dropout + share) + tiny;
        size_t block, place;
        ca_trust_locate_key(c, row->b, j, &block, &place);
        ca_trust_load_key(c, CA_V, &p->v, block, g, place, p->dim_v, row->values);
        for (size_t d = 0; d < p->dim_v; d++) {
            o[d].value += weight * row->values[d];
            row->errors[d] += error * fabs(row->values[d]);
        }
    }
    for (size_t d = 0; d < p->dim_v; d++) {
        const double magnitude = fabs(o[d].value);
        const double error = row->errors[d] + magnitude * (den->slack + gather) + FLT_MIN;
        o[d].bound = error + ca_value_rounding(ca_problem_dtype(p, CA_O), magnitude + error);
    }
}

/* What rows add their weights to: answers of sums over queries, and of means over heads. NULL: none is wanted. */
struct weight_sums {
    struct ca_bounded **keys;  /* by batch and kv head */
    struct ca_bounded **means; /* by batch and query */
};

static void add_weights(const struct ca_trust_case *c, const struct ca_trust_row *row,
                        const struct denominator *den, double gather,
                        const struct weight_sums *sums)
{
    const clattn_problem *p = &c->problem;
    const size_t kv_head = row->h / (p->heads / p->kv_heads), keys = ca_trust_keys(c, row->b);
    struct ca_bounded *to[2] = {
        sums->keys ? sums->keys[row->b * p->kv_heads + kv_head] : NULL,
        sums->means ? sums->means[row->b * p->seq_q + row->i] : NULL,
    };

    for (size_t n = 0; n < 2; n++)
        for (size_t j = 0; to[n] && j < keys; j++) {
            const double weight = row->weights[j] / (n == 0 ? 1.0 : (double)p->heads);
            if (!(weight > 0.0))
                continue;
            to[n][j].value += weight;
            to[n][j].bound += weight * (row->slack[j] + den->slack + 2.0 * gather) + FLT_MIN;
        }
}

static int open_sums(struct ca_trust_case *c, struct weight_sums *sums)
{
    const clattn_problem *p = &c->problem;
    const size_t key_rows = p->batch * p->kv_heads, queries = p->batch * p->seq_q;
    const int means = p->scores == CLATTN_SCORES_MEAN;
    size_t block, row;

    *sums =
        (struct weight_sums){p->key_sums ? calloc(key_rows + 1, sizeof(struct ca_bounded *)) : NULL,
                             means ? calloc(queries + 1, sizeof(struct ca_bounded *)) : NULL};
    for (size_t n = 0; sums->keys && n < key_rows; n++) {
        const size_t b = n / p->kv_heads, h = n % p->kv_heads;
        if (p->total_kv && !ca_trust_locate_key(c, b, 0, &block, &row))
            continue;
        sums->keys[n] = p->total_kv ? ca_trust_answer(c, CA_KEY_SUMS, 0, 0, h, ca_trust_keys(c, b))
                                    : ca_trust_answer(c, CA_KEY_SUMS, 0, b, h, p->seq_kv);
        if (p->total_kv)
            c->answers[c->num_answers - 1].first += row;
    }
    for (size_t n = 0; sums->means && n < queries; n++)
        sums->means[n] = ca_trust_answer(c, CA_SCORES, n / p->seq_q, 0, n % p->seq_q, p->seq_kv);
    return (sums->keys || !p->key_sums) && (sums->means || !means);
}

static void solve_row(struct ca_trust_case *c, struct ca_trust_row *row, size_t block, size_t place,
                      const struct weight_sums *sums)
{
    const clattn_problem *p = &c->problem;
    struct ca_bounded *o = ca_trust_answer(c, CA_O, block, row->h, place, p->dim_v);
    struct ca_bounded unused, *lse = &unused, *scores = NULL;

    if (p->lse)
        lse = ca_trust_answer_lse(c, CA_LSE, block, row->h, place, p->heads, ca_query_rows(p));
    if (p->scores != CLATTN_SCORES_NONE && !sums->means)
        scores = ca_trust_answer(c, CA_SCORES, row->b, row->h, row->i, p->seq_kv);
    const size_t visible = score_row(c, row, scores);
    const double gather = 2.0 * ca_trust_length_error(visible);

    if (visible == 0) { /* zeros, exactly */
        for (size_t j = 0; p->scores == CLATTN_SCORES_WEIGHTS && j < p->seq_kv; j++)
            scores[j] = (struct ca_bounded){0.0, 0.0};
        *lse = (struct ca_bounded){-INFINITY, 0.0};
        return;
    }
    const struct denominator den = normalise(c, row);
    weigh_values(c, row, &den, gather, o);
    add_weights(c, row, &den, gather, sums);
    for (size_t j = 0; p->scores == CLATTN_SCORES_WEIGHTS && j < p->seq_kv; j++)
        scores[j] = (struct ca_bounded){
            row->weights[j],
            row->weights[j] * (row->slack[j] + den.slack + 2.0 * gather) + 2.0 * FLT_MIN};
    lse->value = den.most + log(den.sum);
    lse->bound = den.slack + gather + 8.0 * u * (1.0 + fabs(den.most) + fabs(lse->value));
}

int ca_trust_solve(struct ca_trust_case *c, const struct ca_sample *rows)
{
    struct ca_trust_row row;
    struct weight_sums sums;
    const int complete = ca_trust_row_open(&c->problem, &row) & open_sums(c, &sums);
    size_t block, place;

    for (size_t n = 0; complete && n < rows->count; n++) {
        ca_trust_row_locate(c, ca_trust_place(rows, n), &row);
        if (ca_trust_locate_query(c, row.b, row.i, &block, &place))
            solve_row(c, &row, block, place, &sums);
    }
    free(sums.keys);
    free(sums.means);
    ca_trust_row_close(&row);
    return complete;
}
