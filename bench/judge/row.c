/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds, in the terms of score.c, e_j the error of a score.
 *
 * exp(s - m)  An error in m cancels in the quotient. The difference, its product with log2(e) and
 *             exp (4 ulp = 8 u) give, relative to the value, certainly
 *             slack_j = expm1(e_j + (8 + 3 |s - m|) u), or likely
 *             slack_j = expm1(e_j) + (16 + 2 |s| + 2 |m|) u.
 *             Rescaling in steps from maximum to maximum walks the same distance |s - m|, but
 *             pays exp's error at each step.
 * Sums        n terms with at most n additions, n / 8 rescalings of 8 u, and a division: certainly
 *             gather = (2 n + 16) u, or likely growth(n), relative to the sum of magnitudes.
 * Quotient    o = sum e_j v_j / sum e_j is off by at most
 *             sum p_j |v_j| (slack_j + gather) + |o| (sum p_j slack_j + gather),
 *             to which storing adds half an ulp of the dtype. Weights likewise: v = 1 for one j.
 * Standard    precision rounds p' to the dtype: 2^-8 (bf16) or 2^-11 (f16) of each term more, and what
 *             is left of weights below the dtype's least.
 * Dropout     multiplies terms by 1 / (1 - r), which rounds three times: 3 u of them.
 * lse         m + log(sum): sum p_j slack_j + gather + 8 u (1 + |m| + |lse|); likely 4 u (|m| + |lse|). */
#include "bench/judge/row.h"
#include "bench/judge/dropout.h"
#include "bench/judge/score.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reference_key {
    double weight; /* 0 where nothing is seen. */
    double slack;  /* Its relative error. */
    double factor; /* Dropout's factor. */
    bool seen;
};

/* An element of o: the sum, the sums of its terms' magnitudes, squares and errors. */
struct reference_sum {
    double value, magnitude, squares, error, tiny;
};

/* The maximum, sum and errors that all weights of a row share. */
struct denominator {
    double max, sum;
    double slack, sink_slack; /* Relative errors of sum from the keys' scores, and from the sink. */
    double gather, growth;
    size_t visible;
};

/* Key j of k or v, times its scale; zeros for one that is in no page. */
static void load_key(const struct reference *r, enum tensor_id id, const struct query *query,
                     size_t j, double *values)
{
    const enum tensor_id scales = id == TENSOR_K ? TENSOR_K_SCALES : TENSOR_V_SCALES;
    const struct tensor_shape *shape = &r->shape[scales];
    const size_t dim = r->shape[id].size[3];
    size_t block, row;

    if (!tensor_locate_key(r->problem, r->view, query->b, j, &block, &row)) {
        memset(values, 0, dim * sizeof *values);
        return;
    }
    tensor_load_row(&r->shape[id], r->view->at[id], block, query->kv_head, row, values);
    for (size_t d = 0; shape->present && d < dim; d++)
        values[d] *= tensor_load(shape, r->view->at[scales],
                                 tensor_index(shape, block, query->kv_head, row, 0));
}

/* The mean of a query's keys ("Products of int8"): a quotient of sums of n terms, of magnitudes up to 1 / m and of 1 / m^2, and
 * so off by (2 n + 8) u sum(1 / m) / sum(1 / m^2) in f32. `key` has room for a key. */
static const struct key_mean *find_mean(const struct reference *r, const struct query *query,
                                        double *key, struct key_mean *mean)
{
    const clattn_problem *p = r->problem;
    double weights = 0.0, magnitudes = 0.0;
    size_t count = 0, block, row;

    for (size_t d = 0; d < p->dim_qk; d++)
        mean->value[d] = 0.0;
    for (size_t j = 0; j < p->seq_kv && (long double)j < query->keys; j++) {
        if (!tensor_locate_key(p, r->view, query->b, j, &block, &row))
            continue;
        load_key(r, TENSOR_K, query, j, key);
        const double most = largest_of(key, p->dim_qk);
        if (!(most >= 0x1p-40 && most <= 0x1p40))
            continue;
        for (size_t d = 0; d < p->dim_qk; d++)
            mean->value[d] += key[d] / (most * most);
        weights += 1.0 / (most * most);
        magnitudes += 1.0 / most;
        count++;
    }
    for (size_t d = 0; count > 0 && d < p->dim_qk; d++)
        mean->value[d] /= weights;
    mean->off = count > 0 ? (2.0 * (double)count + 8.0) * 0x1p-24 * magnitudes / weights : 0.0;
    return mean;
}

/* Finds the row's visible keys, and the scores that are wanted before the softmax. */
static void look(const struct reference *r, const struct query *query, struct reference_row *row)
{
    const clattn_problem *p = r->problem;
    const bool shown = p->scores == CLATTN_SCORES_RAW || p->scores == CLATTN_SCORES_SOFTCAP;
    const unsigned char *const *at = r->view->at;

    size_t block, place;

    if (tensor_locate_query(p, r->view, query->b, query->i, &block, &place))
        tensor_load_row(&r->shape[TENSOR_Q], at[TENSOR_Q], block, query->h, place, row->q);
    for (size_t j = 0; j < p->seq_kv; j++) {
        const bool seen = reference_sees(r, query, j);
        row->key[j] = (struct reference_key){.seen = seen};
        row->s[j] = row->scores[j] = bounded_exactly(-(double)INFINITY);
        if (!seen && !shown)
            continue;
        load_key(r, TENSOR_K, query, j, row->x);
        const struct score score = reference_score(r, query, j, row->q, row->x);
        row->scores[j] = p->scores == CLATTN_SCORES_RAW       ? score.raw
                         : p->scores == CLATTN_SCORES_SOFTCAP ? score.capped
                                                              : score.s;
        if (r->score_function && score.mapped.value == -(double)INFINITY) /* which hides the pair */
            row->key[j].seen = false;
        if (seen)
            row->s[j] = score.s;
    }
}

/* The weight of a score before it is divided, and its error. */
static void weigh(const struct arithmetic *a, double max, struct bounded s,
                  struct reference_key *key)
{
    const double u = a->value, far = fabs(s.value - max);

    key->weight = exp(s.value - max);
    key->slack =
        s.value == -(double)INFINITY
            ? 0.0
            : arithmetic_weight_error(
                  a, arithmetic_bound(a, expm1(s.bound + (8.0 + 3.0 * far) * u),
                                      expm1(s.bound) +
                                          (16.0 + 2.0 * fabs(s.value) + 2.0 * fabs(max)) * u));
}

static double maximum_of(const struct reference_row *row, size_t count, double sink)
{
    double max = sink;

    for (size_t j = 0; j < count; j++)
        if (row->key[j].seen && !(row->s[j].value <= max))
            max = isnan(max) ? max : row->s[j].value;
    return max;
}

static struct denominator normalise(const struct reference *r, const struct query *query,
                                    struct reference_row *row)
{
    const struct arithmetic *a = &r->arithmetic;
    const double sink = reference_sink(r, query);
    const size_t count = r->problem->seq_kv;
    struct denominator den = {.max = -(double)INFINITY};

    for (size_t j = 0; j < count; j++)
        den.visible += row->key[j].seen;
    if (den.visible > 0)
        den.max = maximum_of(row, count, sink);
    if (den.max == -(double)INFINITY)
        return den;
    den.gather = (double)(2 * den.visible + 16) * a->value;
    den.growth = arithmetic_growth(a, den.visible);
    for (size_t j = 0; j < count; j++) {
        struct reference_key *key = &row->key[j];
        if (!key->seen)
            continue;
        weigh(a, den.max, row->s[j], key);
        key->factor =
            reference_dropout_factor(r->problem, r->view, query->b, query->h, query->i, j);
        den.sum += key->weight;
        den.slack += arithmetic_part(a, key->weight * key->slack);
    }
    if (sink != -(double)INFINITY) {
        const double e = exp(sink - den.max);
        den.sum += e;
        den.sink_slack =
            e * expm1((8.0 + 3.0 * fabs(sink - den.max) + 2.0 * fabs(sink)) * a->value) / den.sum;
    }
    den.slack = arithmetic_parts_sum(a, den.slack) / den.sum;
    for (size_t j = 0; j < count; j++)
        row->key[j].weight /= den.sum;
    return den;
}

/* Adds a key's contribution to o. */
static void add_key(const struct reference *r, const struct reference_key *key, const double *v,
                    struct reference_sum *sums)
{
    const struct arithmetic *a = &r->arithmetic;
    const double weight = key->factor * key->weight;

    for (size_t d = 0; d < r->problem->dim_v; d++) {
        struct reference_sum *sum = &sums[d];
        const double term = weight * v[d], magnitude = fabs(term);
        sum->value += term;
        sum->magnitude += magnitude;
        sum->squares += term * term;
        sum->error += arithmetic_part(a, magnitude * (key->slack + a->weight) +
                                             a->weight_tiny * key->factor * fabs(v[d]) +
                                             arithmetic_flushed(a, weight, v[d]));
        sum->tiny += key->factor * fabs(v[d]);
    }
}

static struct bounded finish(const struct reference *r, const struct denominator *den,
                             const struct reference_sum *sum, double largest)
{
    const clattn_problem *p = r->problem;
    const struct arithmetic *a = &r->arithmetic;
    const double o = fabs(sum->value), rounding = p->dropout > 0.0f ? 3.0 * a->value : 0.0;
    const double reach = arithmetic_reach(a, sum->value, sum->magnitude, sum->squares);
    const double certain = sum->error + sum->magnitude * (den->gather + rounding) +
                           o * (den->slack + den->sink_slack + den->gather);
    double likely =
        arithmetic_parts_sum(a, sum->error) + den->growth * (reach + o) + den->slack * o;

    if (a->precision == PRECISION_HALF) /* stored before it is divided */
        likely += 4.0 * a->value * o;
    /* f16 loses weights below 2^-25 */
    if (a->precision == PRECISION_HALF && p->dtype == CLATTN_F16)
        likely += value_tiny(p->dtype) * (double)den->visible * largest;
    return bounded_stored(
        p->o_f32 ? CLATTN_F32 : p->dtype,
        (struct bounded){sum->value, arithmetic_bound(a, certain, likely) +
                                         (double)FLT_MIN * (2.0 * sum->tiny + 1.0)});
}

static void weigh_values(const struct reference *r, const struct query *query,
                         const struct denominator *den, struct reference_row *row)
{
    const clattn_problem *p = r->problem;
    double largest = 0.0;

    for (size_t d = 0; d < p->dim_v; d++)
        row->sum[d] = (struct reference_sum){.value = 0.0};
    for (size_t j = 0; j < p->seq_kv; j++) {
        if (!row->key[j].seen)
            continue;
        load_key(r, TENSOR_V, query, j, row->x);
        add_key(r, &row->key[j], row->x, row->sum);
        for (size_t d = 0; d < p->dim_v; d++)
            largest = fabs(row->x[d]) > largest ? fabs(row->x[d]) : largest;
    }
    for (size_t d = 0; d < p->dim_v; d++)
        row->o[d] = finish(r, den, &row->sum[d], largest);
}

static struct bounded lse_of(const struct arithmetic *a, const struct denominator *den)
{
    const double lse = den->max + log(den->sum), far = fabs(den->max) + fabs(lse);

    return (struct bounded){
        lse, den->slack +
                 arithmetic_bound(a, den->sink_slack + den->gather + 8.0 * a->value * (1.0 + far),
                                  den->growth + 4.0 * a->value * far)};
}

/* The weight of a key as it is handed out. */
static struct bounded weight_of(const struct arithmetic *a, const struct denominator *den,
                                const struct reference_key *key)
{
    const double sums = arithmetic_bound(a, den->sink_slack + 2.0 * den->gather, den->growth);

    return (struct bounded){key->weight,
                            key->weight * (key->slack + den->slack + sums) + 2.0 * (double)FLT_MIN};
}

/* The weight of a key that is computed once more, from the score and the row's lse. */
static struct bounded weight_again(const struct arithmetic *a, const struct reference_row *row,
                                   size_t j)
{
    const double weight = row->key[j].weight, s = row->s[j].value, lse = row->lse.value;
    const double off = row->s[j].bound + row->lse.bound +
                       (8.0 + 3.0 * fabs(s - lse) + 2.0 * fabs(s) + 2.0 * fabs(lse)) * a->value;
    const double most = fmax(weight, 1.0 - weight) + 2.0 * a->value;

    return (struct bounded){weight, fmin(weight * expm1(off), most) + 2.0 * (double)FLT_MIN};
}

void reference_row_compute(const clattn_problem *p, const struct tensor_view *view, size_t b,
                           size_t h, size_t i, struct reference_row *row)
{
    const struct reference r = reference_of(p, view, row->precision);
    struct query query = reference_query(&r, b, h, i);

    if (p->int8 && p->k_cache != CLATTN_CACHE_INT8)
        query.mean = find_mean(&r, &query, row->x, &row->mean);
    look(&r, &query, row);
    const struct denominator den = normalise(&r, &query, row);
    const bool nothing = den.max == -(double)INFINITY;
    for (size_t d = 0; d < p->dim_v; d++)
        row->o[d] = bounded_exactly(0.0);
    if (!nothing)
        weigh_values(&r, &query, &den, row);
    row->lse = nothing ? bounded_exactly(den.max) : lse_of(&r.arithmetic, &den);
    for (size_t j = 0; p->scores == CLATTN_SCORES_WEIGHTS && j < p->seq_kv; j++)
        row->scores[j] = nothing || !row->key[j].seen
                             ? bounded_exactly(0.0)
                             : weight_of(&r.arithmetic, &den, &row->key[j]);
    const bool again = p->key_sums || p->scores == CLATTN_SCORES_MEAN;
    for (size_t j = 0; again && j < p->seq_kv; j++)
        row->weights[j] = nothing || !row->key[j].seen ? bounded_exactly(0.0)
                                                       : weight_again(&r.arithmetic, row, j);
}

bool reference_row_open(const clattn_problem *p, enum precision precision,
                        struct reference_row *row)
{
    const size_t keys = p->seq_kv + 1, dim = p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;

    *row = (struct reference_row){
        .precision = precision,
        .o = calloc(p->dim_v, sizeof *row->o),
        .scores = calloc(keys, sizeof *row->scores),
        .weights = calloc(keys, sizeof *row->weights),
        .s = calloc(keys, sizeof *row->s),
        .key = calloc(keys, sizeof *row->key),
        .sum = calloc(p->dim_v, sizeof *row->sum),
        .q = calloc(p->dim_qk, sizeof *row->q),
        .x = calloc(dim, sizeof *row->x),
        .mean = {.value = calloc(p->dim_qk, sizeof(double))},
    };
    return row->mean.value && row->o && row->scores && row->weights && row->s && row->key &&
           row->sum && row->q && row->x;
}

void reference_row_close(struct reference_row *row)
{
    free(row->mean.value);
    free(row->x);
    free(row->q);
    free(row->sum);
    free(row->key);
    free(row->s);
    free(row->weights);
    free(row->scores);
    free(row->o);
}
