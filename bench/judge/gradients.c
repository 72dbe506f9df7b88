/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds, in the terms of score.c: u = 2^-24, first order, FLT_MIN for what may be flushed to 0 or
 * underflow; e_j the error of a score.
 *
 * p           exp(s - lse) with lse as given. With the difference, its product with log2(e) and exp, certainly
 *             slack = expm1(e_j + (8 + 3 |s - lse| + 2 |s| + 2 |lse|) u).
 *             Likely, and with an lse that is as wrong as the score:
 *             slack = expm1(2 e_j) + (16 + 2 |s| + 2 |lse|) u.
 *             Dropout multiplies by 1 / (1 - r): 3 u more in p' and in w dp.
 * ... of a row whose |lse| is large (64, or 1024 where p' may be rounded): exp(s - m) over the sum of these,
 *             as long as the lse that is given is that of the row itself: within (dim_qk + 16) u |lse| of it.
 *             The sum S is off by what each of its terms is, and by n + 16 additions:
 *             E = sum_j p_j expm1(e_j + (8 + 3 |s_j - m|) u) + (n + 16) u,
 *             and p_j by its own slack and E. No weight is less than 0 or more than 1, whatever e_j.
 *             A bias so large that its ulp is more than a score is off by decides what a score is in f32, if
 *             that is not near the middle between two floats: these scores are taken as f32 has them.
 * delta       sum do o - dlse, of which the difference is rounded once more: 2 u |dlse|. A library that computes o anew has
 *             another one: each of its elements by itself may be rounded otherwise, or not at all.
 * g = w dp - delta, where dp = sum do v and delta are products of dim_v terms, and the sum of dp may
 *             start at -delta: certainly
 *             (dim_v + 6) u (w sum|do v| + sum|do o| + |delta|) + 4 u (w |dp| + |delta|).
 * ds = p g    |g| times p's error, p times g's, and 2 u |ds|.
 * Slope       ds times the derivative of softcap and score function (score.c).
 * Standard    precision rounds p' and dt to the dtype before they are multiplied: 2^-8 (bf16) or 2^-11
 *             (f16) of each more. ds itself, and what it gives for bias, slopes and sinks, stays.
 * Sums        n terms in any order, some of them in partial sums: certainly (n + 16) u sum|terms|,
 *             likely growth(n), besides what the terms are off by; then the factor scale and half an
 *             ulp of the dtype.
 * dsink       exp(sink - lse), relative: (8 + 3 |sink - lse| + 2 |sink| + 2 |lse|) u, likely
 *             (16 + 4 |lse|) u.
 *
 * Operands    of a function: ds times the score's derivative by an element, which function_number.h carries along
 *             with its error.
 *
 * An element that no pair adds to is 0, exactly. */
#include "bench/judge/gradients.h"
#include "bench/judge/dropout.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double tiny = FLT_MIN;

/* ---- a query --------------------------------------------------------------------------------- */

/* Rows of the query and of a key, and values that all pairs of the query share. */
struct rows {
    double *q, *k, *v, *o, *d_o;
    double lse, delta;
    double certain, likely; /* Errors of delta: certain, and statistically likely. */
    bool summed;            /* Whether lse, highest + log_sum, is that of the row's own weights. */
    double highest, log_sum;
    /* If summed: relative errors of the weights' sum, and of weights by the lse that was given. */
    double slack, unsure;
};

static void load(const struct reference *r, enum tensor_id id, size_t b, size_t h, size_t i,
                 double *to)
{
    tensor_load_row(&r->shape[id], r->view->at[id], b, h, i, to);
}

/* The query's number in a tensor of one for each; `without` where the batch's sequence has no such query. */
static double number_of(const struct reference *r, const struct query *query, enum tensor_id id,
                        double without)
{
    size_t block, row;

    if (!tensor_locate_query(r->problem, r->view, query->b, query->i, &block, &row))
        return without;
    return value_get(CLATTN_F32, r->view->at[id],
                     tensor_index(&r->shape[id], block, query->h, 0, row));
}

static double lse_of(const struct reference *r, const struct query *query)
{
    return number_of(r, query, TENSOR_LSE, -(double)INFINITY);
}

static struct rows load_query(const struct gradient_work *work, const struct query *query)
{
    const struct reference *r = &work->reference;
    const struct arithmetic *a = &r->arithmetic;
    const size_t dim_qk = r->problem->dim_qk, dim_v = r->problem->dim_v;
    struct rows rows = {.q = work->rows,
                        .k = work->rows + dim_qk,
                        .v = work->rows + 2 * dim_qk,
                        .o = work->rows + 2 * dim_qk + dim_v,
                        .d_o = work->rows + 2 * dim_qk + 2 * dim_v};

    size_t block = 0, row = 0;

    if (tensor_locate_query(r->problem, r->view, query->b, query->i, &block, &row)) {
        load(r, TENSOR_Q, block, query->h, row, rows.q);
        load(r, TENSOR_O, block, query->h, row, rows.o);
        load(r, TENSOR_DO, block, query->h, row, rows.d_o);
    }
    const struct dot delta = dot_of(rows.d_o, rows.o, dim_v);
    const double other = value_roundoff(r->problem->dtype) + 4.0 * a->value;
    const double dlse = r->problem->dlse ? number_of(r, query, TENSOR_DLSE, 0.0) : 0.0;
    const double stored = 2.0 * value_roundoff(CLATTN_F32) * fabs(dlse);
    rows.lse = lse_of(r, query);
    rows.delta = delta.sum - dlse;
    rows.certain = (double)(dim_v + 6) * (a->value * delta.magnitude + tiny) + stored;
    rows.likely = dot_error(a, &delta, dim_v) + 6.0 * other * sqrt(delta.squares) +
                  4.0 * a->value * (fabs(delta.sum) + fabs(dlse)) + stored;
    return rows;
}

/* ---- rows of which lse says too little --------------------------------------------------------- */

/* The score of the row and a key, as f32 has it if a bias decides that; bias and ALiBi may be added
 * in any order. */
static struct score score_in_f32(const struct reference *r, const struct query *query,
                                 const struct rows *rows, size_t j)
{
    const clattn_problem *p = r->problem;
    struct score score = reference_score(r, query, j, rows->q, rows->k);
    const double stored = (double)(float)score.s.value;
    const double half = value_rounding(CLATTN_F32, (double)nextafterf((float)stored, 0.0f));
    double beside = fabs(score.s.value - stored);

    if (p->alibi)
        beside = fabs(score.mapped.value) +
                 fabs(value_get(CLATTN_F32, r->view->at[TENSOR_SLOPES], query->h) *
                      reference_distance(r, query, j));
    if (p->bias && half - beside > 2.0 * score.mapped.bound)
        score.s = bounded_exactly(stored);
    return score;
}

static bool holds_large(const struct reference *r, double lse)
{
    const clattn_problem *p = r->problem;
    const bool rounds = p->dtype != CLATTN_F32 && !p->strict;

    return r->arithmetic.precision != PRECISION_HALF && r->arithmetic.precision != PRECISION_PEER &&
           isfinite(lse) && fabs(lse) >= (rounds ? 1024.0 : 64.0);
}

/* Relative, of exp(s - lse) by itself. */
static double slack_of(const struct arithmetic *a, struct bounded s, double lse)
{
    return expm1(s.bound + (8.0 + 3.0 * fabs(s.value - lse)) * a->value);
}

/* The row's weights summed anew, where lse is large and theirs. */
static void sum_row(const struct reference *r, const struct query *query, struct rows *rows)
{
    const clattn_problem *p = r->problem;
    const struct arithmetic *a = &r->arithmetic;
    const double sink = reference_sink(r, query), given = rows->lse;
    const double explained = (double)(p->dim_qk + 16) * a->value * fabs(given);
    double highest = sink, sum = 0.0, error = 0.0;
    size_t count = 0;

    for (int pass = 0; pass < 2; pass++)
        for (size_t j = 0; j < p->seq_kv; j++) {
            size_t block = 0, row = 0;
            if (!reference_sees(r, query, j))
                continue;
            tensor_locate_key(p, r->view, query->b, j, &block, &row);
            load(r, TENSOR_K, block, query->kv_head, row, rows->k);
            const struct bounded s = score_in_f32(r, query, rows, j).s;
            if (s.value == -(double)INFINITY)
                continue; /* hidden by a function */
            if (pass == 0) {
                highest = fmax(highest, s.value);
                continue;
            }
            sum += exp(s.value - highest);
            error += exp(s.value - highest) * slack_of(a, s, highest);
            count++;
        }
    sum += exp(sink - highest);
    const double slack = error / sum + (double)(count + 16) * a->value;
    const double off = fabs(log(sum) - (given - highest));
    if (!(off <= explained + log1p(slack)))
        return; /* lse must come from more keys than this problem has */
    rows->summed = true;
    rows->lse = highest + log(sum);
    rows->highest = highest;
    rows->log_sum = log(sum);
    rows->slack = slack;
    rows->unsure = off + log1p(slack) > explained ? expm1(off) : 0.0;
}

static struct rows load_row(const struct gradient_work *work, const struct query *query)
{
    struct rows rows = load_query(work, query);

    if (holds_large(&work->reference, rows.lse))
        sum_row(&work->reference, query, &rows);
    return rows;
}

/* ---- a pair ---------------------------------------------------------------------------------- */

/* The weight after dropout, and the derivative of the loss by the score after and before softcap. */
struct pair {
    struct score score;
    struct bounded dropped, ds, dt;
};

/* exp(s - m) over the sum of these. */
static struct bounded weigh_summed(const struct reference *r, const struct rows *rows,
                                   struct bounded s)
{
    const struct arithmetic *a = &r->arithmetic;
    const double weight = exp(s.value - rows->highest - rows->log_sum);
    const double over = rows->slack < 0.5 ? rows->slack / (1.0 - rows->slack) : INFINITY;
    const double slack = slack_of(a, s, rows->highest), most = fmax(weight, 1.0 - weight);
    const double error = weight * ((1.0 + slack) * (1.0 + over) * (1.0 + rows->unsure) - 1.0);

    return (struct bounded){
        weight, fmin(error, most + (double)(r->problem->seq_kv + 32) * a->value) + 2.0 * tiny};
}

/* exp(s - lse). */
static struct bounded weigh(const struct reference *r, const struct rows *rows, struct bounded s)
{
    const struct arithmetic *a = &r->arithmetic;
    const double u = a->value, far = fabs(rows->lse), distance = s.value - rows->lse;
    const double weight = exp(distance);
    const double certain =
        expm1(s.bound + (8.0 + 3.0 * fabs(distance) + 2.0 * fabs(s.value) + 2.0 * far) * u);
    const double likely = expm1(2.0 * s.bound) + (16.0 + 2.0 * fabs(s.value) + 2.0 * far) * u;
    const double slack = arithmetic_weight_error(a, arithmetic_bound(a, certain, likely));

    return (struct bounded){weight, weight * slack + 2.0 * tiny};
}

/* p (w dp - delta). */
static struct bounded derive(const struct reference *r, const struct rows *rows, struct bounded p,
                             double w)
{
    const struct arithmetic *a = &r->arithmetic;
    const size_t n = r->problem->dim_v;
    const struct dot dot = dot_of(rows->d_o, rows->v, n);
    const double u = a->value, dp = w * dot.sum, g = dp - rows->delta;
    const double rounding = r->problem->dropout > 0.0f ? 3.0 * u : 0.0;
    const double certain =
        (double)(n + 6) * (w * (u * dot.magnitude + tiny) + u * fabs(rows->delta)) + rows->certain +
        rounding * fabs(dp) + 4.0 * u * (fabs(dp) + fabs(rows->delta));
    const double likely = w * dot_error(a, &dot, n) + rows->likely + 4.0 * u * (fabs(dp) + fabs(g));
    double flushed = 0.0;

    for (size_t d = 0; a->flushes && d < n; d++)
        flushed += arithmetic_flushed(a, rows->d_o[d], rows->v[d]);

    return (struct bounded){
        p.value * g,
        p.bound * fabs(g) + (p.value + p.bound) * w * flushed +
            arithmetic_bound(a, (p.value + p.bound) * certain + 2.0 * u * fabs(p.value * g) + tiny,
                             p.value * likely)};
}

/* A derivative by a value, times that of the value. */
static struct bounded chain(const struct arithmetic *a, struct bounded ds, struct bounded slope)
{
    const double dt = ds.value * slope.value;
    const double error = ds.bound * fabs(slope.value) + fabs(ds.value) * slope.bound;
    const double certain = ds.bound * slope.bound + 2.0 * a->value * fabs(dt) + tiny;

    return (struct bounded){dt, error + arithmetic_bound(a, certain, 0.0)};
}

static struct pair make_pair(const struct reference *r, const struct query *query,
                             const struct rows *rows, size_t j)
{
    const clattn_problem *p = r->problem;
    const struct arithmetic *a = &r->arithmetic;
    const double w = reference_dropout_factor(p, r->view, query->b, query->h, query->i, j);
    const double rounding = p->dropout > 0.0f ? 3.0 * a->value : 0.0;
    const struct score score = rows->summed ? score_in_f32(r, query, rows, j)
                                            : reference_score(r, query, j, rows->q, rows->k);
    const struct bounded weight = score.s.value == -(double)INFINITY ? bounded_exactly(0.0)
                                  : rows->summed ? weigh_summed(r, rows, score.s)
                                                 : weigh(r, rows, score.s);
    struct pair pair = {.score = score, .ds = derive(r, rows, weight, w)};

    pair.dropped = (struct bounded){
        w * weight.value, w * (weight.bound + arithmetic_bound(a, rounding * weight.value, 0.0))};
    pair.dt = pair.ds;
    if (p->softcap > 0.0f || p->score_function)
        pair.dt = chain(a, pair.ds, score.slope);
    return pair;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* to[d] += weight * x[d]. */
static void add(const struct arithmetic *a, struct gradient_sum *to, struct bounded weight,
                const double *x, size_t count)
{
    const bool half = a->precision == PRECISION_HALF;

    for (size_t d = 0; d < count; d++) {
        struct gradient_sum *sum = &to[d];
        const double term = weight.value * x[d], far = fabs(x[d]);
        sum->value += term;
        sum->magnitude += fabs(term);
        sum->error +=
            arithmetic_part(a, weight.bound * far + arithmetic_flushed(a, weight.value, x[d]));
        sum->terms++;
        if (half) {
            sum->squares += term * term;
            sum->largest = far > sum->largest ? far : sum->largest;
        }
    }
}

/* Adds a visible pair's share to the gradients of the elements that the score function loads for it. */
static void add_loads(const struct reference *r, const struct query *query, size_t j,
                      const struct pair *pair, struct gradient_sum *sums)
{
    struct function_load loads[64];
    const size_t count =
        reference_loads(r, query, j, &pair->score, loads, sizeof loads / sizeof *loads);
    const double one = 1.0;

    for (size_t n = 0; n < count; n++) {
        const size_t first = tensor_function_gradient(r->problem, loads[n].operand);
        const size_t end = tensor_function_gradient(r->problem, loads[n].operand + 1);
        if (loads[n].element < end - first)
            add(&r->arithmetic, sums + first + loads[n].element,
                chain(&r->arithmetic, pair->ds, loads[n].slope), &one, 1);
    }
}

/* Adds the share of a visible pair; n counts from the first key of the range. */
static void add_pair(const struct gradient_work *work, const struct query *query,
                     const struct rows *rows, size_t j, size_t n, const struct gradient_sums *sums)
{
    const struct reference *r = &work->reference;
    const struct arithmetic *a = &r->arithmetic;
    const size_t dim_qk = r->problem->dim_qk, dim_v = r->problem->dim_v;
    const struct pair pair = make_pair(r, query, rows, j);
    const struct bounded dt = arithmetic_operand(a, pair.dt);
    const double one = 1.0, distance = reference_distance(r, query, j);

    if (sums->dq != NULL)
        add(a, sums->dq, dt, rows->k, dim_qk);
    if (sums->dk != NULL)
        add(a, sums->dk + n * dim_qk, dt, rows->q, dim_qk);
    if (sums->dv != NULL)
        add(a, sums->dv + n * dim_v, arithmetic_operand(a, pair.dropped), rows->d_o, dim_v);
    if (sums->dbias != NULL)
        add(a, sums->dbias + n * sums->dbias_step, pair.ds, &one, 1);
    if (sums->dslope != NULL)
        add(a, sums->dslope, pair.ds, &distance, 1);
    if (sums->dfunction != NULL && pair.score.s.value != -(double)INFINITY)
        add_loads(r, query, j, &pair, sums->dfunction);
}

/* The share of a row that sees something in the gradient of its head's sink. */
static void add_sink(const struct reference *r, const struct query *query, const struct rows *rows,
                     struct gradient_sum *dsink)
{
    const struct arithmetic *a = &r->arithmetic;
    const double sink = reference_sink(r, query), minus_one = -1.0;
    const double distance = rows->summed ? sink - rows->highest - rows->log_sum : sink - rows->lse;
    const double weight = exp(distance), delta = fabs(rows->delta);
    const double slack =
        expm1((8.0 + 3.0 * fabs(distance) + 2.0 * fabs(sink) + 2.0 * fabs(rows->lse)) * a->value) +
        rows->slack;
    const double certain =
        weight * (1.0 + slack) * rows->certain + (weight * slack + 2.0 * tiny) * delta;
    const double likely =
        weight * (rows->likely + a->value * (16.0 + 4.0 * fabs(rows->lse)) * delta);

    add(a, dsink, (struct bounded){weight * rows->delta, arithmetic_bound(a, certain, likely)},
        &minus_one, 1);
}

void gradient_work_add(const struct gradient_work *work, size_t b, size_t h, size_t i, size_t begin,
                       size_t end, const struct gradient_sums *sums)
{
    const struct reference *r = &work->reference;
    const struct query query = reference_query(r, b, h, i);

    if (lse_of(r, &query) == -(double)INFINITY)
        return; /* the row has no visible key with a score above -inf, and so no weights */
    struct rows rows = {.q = NULL};
    for (size_t j = begin; j < end; j++) {
        if (!reference_sees(r, &query, j))
            continue;
        if (rows.q == NULL)
            rows = load_row(work, &query);
        size_t block = 0, row = 0;
        tensor_locate_key(r->problem, r->view, b, j, &block, &row);
        load(r, TENSOR_K, block, query.kv_head, row, rows.k);
        load(r, TENSOR_V, block, query.kv_head, row, rows.v);
        add_pair(work, &query, &rows, j, j - begin, sums);
    }
    if (sums->dsink != NULL) {
        if (rows.q == NULL)
            rows = load_row(work, &query);
        add_sink(r, &query, &rows, sums->dsink);
    }
}

struct bounded gradient_work_finish(const struct gradient_work *work, enum tensor_id gradient,
                                    const struct gradient_sum *sum)
{
    const struct reference *r = &work->reference;
    const struct arithmetic *a = &r->arithmetic;
    const clattn_dtype dtype = r->shape[gradient].dtype;
    const double factor = gradient == TENSOR_DQ || gradient == TENSOR_DK ? r->scale : 1.0;
    const double value = fabs(sum->value), n = (double)(sum->terms + 16);
    const double reach = arithmetic_reach(a, sum->value, sum->magnitude, sum->squares);
    double likely = arithmetic_growth(a, sum->terms) * (reach + value) + 2.0 * a->value * value;

    if (sum->terms == 0)
        return bounded_exactly(0.0);
    if (a->precision == PRECISION_HALF) /* f16 has no weights below 2^-25 */
        likely += 4.0 * a->value * value +
                  (r->problem->dtype == CLATTN_F16
                       ? value_tiny(CLATTN_F16) * (double)sum->terms * sum->largest
                       : 0.0);
    const double error = arithmetic_parts_sum(a, sum->error) +
                         arithmetic_bound(a, n * a->value * sum->magnitude, likely) + n * tiny;
    return bounded_stored(dtype,
                          (struct bounded){factor * sum->value, fabs(factor) * error + tiny});
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool gradient_work_open(const clattn_problem *p, const struct tensor_view *view,
                        enum precision precision, struct gradient_work *work)
{
    *work =
        (struct gradient_work){.reference = reference_of(p, view, precision),
                               .rows = calloc(2 * p->dim_qk + 3 * p->dim_v + 1, sizeof(double))};
    return work->rows != NULL;
}

void gradient_work_close(struct gradient_work *work)
{
    free(work->rows);
}

/* The sums of all elements of each tensor; NULL for tensors that the problem lacks. */
struct all_sums {
    struct gradient_sum *at[NUM_TENSORS];
};

static struct gradient_sum *place(const struct reference *r, const struct all_sums *all,
                                  enum tensor_id id, size_t b, size_t h, size_t i)
{
    return all->at[id] == NULL ? NULL : all->at[id] + tensor_packed(&r->shape[id], b, h, i, 0);
}

static void add_all(const struct gradient_work *work, const struct all_sums *all)
{
    const struct reference *r = &work->reference;
    const clattn_problem *p = r->problem;

    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->seq_q; i++) {
                const size_t kv_head = h / (p->heads / p->kv_heads);
                size_t q_block, q_row, kv_block, kv_row;
                if (!tensor_locate_query(p, r->view, b, i, &q_block, &q_row) ||
                    !tensor_locate_key(p, r->view, b, 0, &kv_block, &kv_row))
                    continue; /* the query or the keys do not exist: no pair */
                struct gradient_sums sums = {
                    .dq = place(r, all, TENSOR_DQ, q_block, h, q_row),
                    .dk = place(r, all, TENSOR_DK, kv_block, kv_head, kv_row),
                    .dv = place(r, all, TENSOR_DV, kv_block, kv_head, kv_row),
                    .dbias = place(r, all, TENSOR_DBIAS, b, h, i),
                    .dbias_step = r->shape[TENSOR_DBIAS].size[3] > 1,
                    .dfunction = all->at[TENSOR_DFUNCTION],
                };
                if (all->at[TENSOR_DSLOPES] != NULL)
                    sums.dslope = all->at[TENSOR_DSLOPES] + h;
                if (all->at[TENSOR_DSINKS] != NULL)
                    sums.dsink = all->at[TENSOR_DSINKS] + h;
                gradient_work_add(work, b, h, i, 0, p->seq_kv, &sums);
            }
}

static bool finish_all(const struct gradient_work *work, const struct all_sums *all,
                       struct reference_gradients *gradients)
{
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape *s = &work->reference.shape[id];
        const size_t count = s->present ? tensor_count(s) : 0;
        if (!s->written)
            continue;
        gradients->at[id] = malloc((count + 1) * sizeof *gradients->at[id]);
        if (gradients->at[id] == NULL)
            return false;
        for (size_t n = 0; n < count; n++)
            gradients->at[id][n] = gradient_work_finish(work, (enum tensor_id)id, &all->at[id][n]);
    }
    return true;
}

bool reference_gradients_open(const clattn_problem *p, const struct tensor_view *view,
                              struct reference_gradients *gradients)
{
    struct gradient_work work;
    struct all_sums all = {{NULL}};
    bool complete = gradient_work_open(p, view, PRECISION_SINGLE, &work);

    *gradients = (struct reference_gradients){{NULL}};
    for (int id = 0; complete && id < NUM_TENSORS; id++) {
        const struct tensor_shape *s = &work.reference.shape[id];
        if (!s->written || !s->present)
            continue;
        all.at[id] = calloc(tensor_count(s), sizeof *all.at[id]);
        complete = all.at[id] != NULL;
    }
    if (complete)
        add_all(&work, &all);
    complete = complete && finish_all(&work, &all, gradients);
    for (int id = 0; id < NUM_TENSORS; id++)
        free(all.at[id]);
    gradient_work_close(&work);
    return complete;
}

void reference_gradients_close(struct reference_gradients *gradients)
{
    for (int id = 0; id < NUM_TENSORS; id++)
        free(gradients->at[id]);
}
