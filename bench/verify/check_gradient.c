/* The gradients of a backward problem, from the formula in clattn/problem.h and the case's own o
 * and lse. A library that computes those itself has others, by what its rounding does to them. */
#include "bench/verify/check_row.h"
#include "cli/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_ROWS = 8, FEWEST_SUMS = 2 };

/* Of each query, all that its pairs share. */
struct query {
    double lse, delta, delta_slack; /* delta = dot(do, o) */
};

struct gradients {
    struct check check;
    const struct results *results;
    struct worst *worst;
    struct query *queries; /* As lse is packed. */
    struct sum *sums;      /* Room for a row of dk and of dv. */
};

/* A sum of weights times values, and what its bound needs. */
struct sum {
    double value, magnitude, squares;
    double error; /* That the weights have, in parts. */
    double largest;
    size_t count;
};

/* The weight of a pair after dropout, and the derivative of the loss by its score before and after
 * softcap; what each may be off by. */
struct pair {
    double p, p_slack, raw, raw_slack, ds, ds_slack;
};

/* ---- queries --------------------------------------------------------------------------------- */

static struct query make_query(const struct gradients *g, size_t index)
{
    const struct attention_case *c = g->check.attention;
    const struct arithmetic *a = &g->check.arithmetic;
    const struct check_row row = check_row_locate(&g->check, index);
    const struct check_dot dot = check_inputs_dot(
        &g->check, INPUT_DO, view_place(&g->check.in[INPUT_DO], row.b, row.h, row.i, 0), INPUT_O,
        view_place(&g->check.in[INPUT_O], row.b, row.h, row.i, 0), c->job.problem.dim_v);
    /* Each element of o by itself may be rounded otherwise, or not at all. */
    const double other = value_roundoff(c->job.problem.dtype) + 4.0 * a->value;

    return (struct query){.lse = ((const float *)c->in[INPUT_LSE].data)[index],
                          .delta = dot.sum,
                          .delta_slack = dot.slack + 6.0 * other * sqrt(dot.squares) +
                                         4.0 * a->value * fabs(dot.sum)};
}

static bool make_queries(struct gradients *g, struct message *why)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    const size_t count = p->batch * p->heads * p->seq_q;

    g->queries = case_allocate(count, sizeof *g->queries, why);
    g->sums = g->queries != NULL ? case_allocate(p->dim_qk + p->dim_v, sizeof *g->sums, why) : NULL;
    for (size_t n = 0; g->sums != NULL && n < count; n++)
        g->queries[n] = make_query(g, n);
    return g->sums != NULL;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* False if the query does not see key j. */
static bool look(const struct gradients *g, const struct check_row *row, size_t j,
                 struct pair *pair)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    const struct arithmetic *a = &g->check.arithmetic;
    const struct query *query = &g->queries[(row->b * p->heads + row->h) * p->seq_q + row->i];
    const struct check_score score = check_row_score(&g->check, row, j);

    if (!(score.s > -(double)INFINITY))
        return false;
    const struct check_dot dp = check_inputs_dot(
        &g->check, INPUT_DO, view_place(&g->check.in[INPUT_DO], row->b, row->h, row->i, 0), INPUT_V,
        view_place(&g->check.in[INPUT_V], row->b, row->h / (p->heads / p->kv_heads), j, 0),
        p->dim_v);
    /* The error of the score, as large a one of lse, that of their difference, that of exp. */
    double relative =
        expm1(2.0 * score.slack) + a->value * (2.0 * fabs(score.s) + 2.0 * fabs(query->lse) + 16.0);
    if (a->half) /* a weight that is nothing or double is wrong in any arithmetic */
        relative = fmin(relative, 1.0);
    const double kept = check_kept(&g->check, row, j);
    const double difference = kept * dp.sum - query->delta;
    pair->p = exp(score.s - query->lse);
    pair->p_slack = relative * pair->p;
    pair->raw = pair->p * difference;
    pair->raw_slack = pair->p_slack * fabs(difference) +
                      pair->p * (kept * dp.slack + query->delta_slack +
                                 4.0 * a->value * (fabs(kept * dp.sum) + fabs(difference)));
    pair->ds = pair->raw * score.derivative;
    pair->ds_slack = pair->raw_slack * score.derivative;
    if (p->softcap > 0.0f)
        pair->ds_slack +=
            fabs(pair->raw) * (2.0 * score.slack / (double)p->softcap + 16.0 * a->value);
    pair->p *= kept;
    pair->p_slack *= kept;
    return true;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void add(const struct gradients *g, struct sum *sum, double weight, double slack, double x)
{
    const double term = weight * x;

    sum->value += term;
    sum->magnitude += fabs(term);
    sum->squares += term * term;
    sum->error += check_part(&g->check.arithmetic, slack * fabs(x));
    sum->largest = fmax(sum->largest, fabs(x));
    sum->count++;
}

/* Adds a weight times a row of an input. */
static void add_row(const struct gradients *g, struct sum *sums, double weight, double slack,
                    enum input input, size_t place)
{
    const struct view *view = &g->check.in[input];

    for (size_t d = 0; d < view->size[3]; d++)
        add(g, &sums[d], weight, slack,
            value_get(view->dtype, g->check.attention->in[input].data,
                      place + d * view->stride[3]));
}

static void check_sum(const struct gradients *g, const struct sum *sum, double factor,
                      enum output output, size_t place)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    const struct arithmetic *a = &g->check.arithmetic;
    const clattn_dtype dtype = case_output_view(&g->check.attention->job, output).dtype;
    const double want = factor * sum->value;
    double slack =
        check_parts_sum(a, sum->error) +
        check_growth(a, sum->count) *
            (check_reach(a, sum->value, sum->magnitude, sum->squares) + fabs(sum->value));

    if (a->half) /* f16 has no weights below 2^-25 */
        slack +=
            4.0 * a->value * fabs(sum->value) +
            (p->dtype == CLATTN_F16 ? value_tiny(CLATTN_F16) * (double)sum->count * sum->largest
                                    : 0.0);
    slack = fabs(factor) * slack + 2.0 * a->value * fabs(want);
    worst_add(g->worst, value_get(dtype, g->results->out[output], place), want,
              sum->count == 0 ? 0.0 : 1.01 * (slack + check_storing(dtype, fabs(want) + slack)));
}

/* Of sums along the last dimension of an output. */
static void check_sums(const struct gradients *g, const struct sum *sums, double factor,
                       enum output output, const struct view *view, size_t place)
{
    for (size_t d = 0; d < view->size[3]; d++)
        check_sum(g, &sums[d], factor, output, place + d * view->stride[3]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void check_query(const struct gradients *g, size_t index)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    const struct check_row row = check_row_locate(&g->check, index);
    const struct view dq = case_output_view(&g->check.attention->job, OUTPUT_DQ);
    const size_t kv_head = row.h / (p->heads / p->kv_heads);
    struct pair pair;

    memset(g->sums, 0, p->dim_qk * sizeof *g->sums);
    for (size_t j = 0; j < p->seq_kv; j++)
        if (look(g, &row, j, &pair))
            add_row(g, g->sums, pair.ds, pair.ds_slack, INPUT_K,
                    view_place(&g->check.in[INPUT_K], row.b, kv_head, j, 0));
    check_sums(g, g->sums, g->check.scale, OUTPUT_DQ, &dq, view_place(&dq, row.b, row.h, row.i, 0));
}

/* Key `index` of all, counted (batch, kv head, key). */
static void check_key(const struct gradients *g, size_t index)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    const size_t b = index / p->seq_kv / p->kv_heads, head = index / p->seq_kv % p->kv_heads;
    const size_t j = index % p->seq_kv, rows = p->heads / p->kv_heads * p->seq_q;
    const struct view dk = case_output_view(&g->check.attention->job, OUTPUT_DK),
                      dv = case_output_view(&g->check.attention->job, OUTPUT_DV);
    struct sum *dv_sums = g->sums + p->dim_qk;
    struct pair pair;

    memset(g->sums, 0, (p->dim_qk + p->dim_v) * sizeof *g->sums);
    for (size_t n = 0; n < rows; n++) {
        const struct check_row row =
            check_row_locate(&g->check, (b * p->kv_heads + head) * rows + n);
        if (!look(g, &row, j, &pair))
            continue;
        add_row(g, g->sums, pair.ds, pair.ds_slack, INPUT_Q,
                view_place(&g->check.in[INPUT_Q], row.b, row.h, row.i, 0));
        add_row(g, dv_sums, pair.p, pair.p_slack, INPUT_DO,
                view_place(&g->check.in[INPUT_DO], row.b, row.h, row.i, 0));
    }
    check_sums(g, g->sums, g->check.scale, OUTPUT_DK, &dk, view_place(&dk, b, head, j, 0));
    check_sums(g, dv_sums, 1.0, OUTPUT_DV, &dv, view_place(&dv, b, head, j, 0));
}

/* ---- elements that are sums over many pairs -------------------------------------------------- */

/* The pairs of batches [begin[0], end[0]) and so on. */
struct region {
    size_t begin[4], end[4];
};

/* Sums ds, times the distance to the diagonal if that is wanted. */
static struct sum sum_region(const struct gradients *g, const struct region *region, bool distances)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    struct sum sum = {.count = 0};
    struct pair pair;

    for (size_t b = region->begin[0]; b < region->end[0]; b++)
        for (size_t h = region->begin[1]; h < region->end[1]; h++)
            for (size_t i = region->begin[2]; i < region->end[2]; i++) {
                const struct check_row row =
                    check_row_locate(&g->check, (b * p->heads + h) * p->seq_q + i);
                for (size_t j = region->begin[3]; j < region->end[3]; j++)
                    if (look(g, &row, j, &pair))
                        add(g, &sum, pair.raw, pair.raw_slack,
                            distances ? (double)j - (double)i - row.diagonal : 1.0);
            }
    return sum;
}

/* The pairs behind element `index` of dbias, and its place; what broadcasts counts once. */
static struct region bias_region(const struct view *view, size_t index, size_t *place)
{
    struct region region;

    *place = 0;
    for (int n = 3; n >= 0; n--) {
        const bool whole = view->stride[n] == 0;
        const size_t at = whole ? 0 : index % view->size[n];
        region.begin[n] = at;
        region.end[n] = whole ? view->size[n] : at + 1;
        *place += at * view->stride[n];
        index = whole ? index : index / view->size[n];
    }
    return region;
}

static void check_bias(const struct gradients *g)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    const struct view view = case_output_view(&g->check.attention->job, OUTPUT_DBIAS);
    double pairs = 1.0;
    size_t all = 1, place;

    for (int n = 0; n < 4; n++)
        if (view.stride[n] == 0)
            pairs *= (double)view.size[n];
        else
            all *= view.size[n];
    const size_t count =
        check_affordable(all, (pairs + 1.0) * (double)(p->dim_qk + p->dim_v), FEWEST_SUMS);
    for (size_t n = 0; n < count; n++) {
        const struct region region = bias_region(&view, check_spread(n, count, all), &place);
        const struct sum sum = sum_region(g, &region, false);
        check_sum(g, &sum, 1.0, OUTPUT_DBIAS, place);
    }
}

static void check_slopes(const struct gradients *g)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    const double pairs = (double)p->batch * (double)p->seq_q * (double)p->seq_kv;
    const size_t count =
        check_affordable(p->heads, (pairs + 1.0) * (double)(p->dim_qk + p->dim_v), FEWEST_SUMS);

    for (size_t n = 0; n < count; n++) {
        const size_t h = check_spread(n, count, p->heads);
        const struct region region = {.begin = {0, h, 0, 0},
                                      .end = {p->batch, h + 1, p->seq_q, p->seq_kv}};
        const struct sum sum = sum_region(g, &region, true);
        check_sum(g, &sum, 1.0, OUTPUT_DSLOPES, h);
    }
}

static void check_sinks(const struct gradients *g)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    const float *sinks = g->check.attention->in[INPUT_SINKS].data;
    const struct arithmetic *a = &g->check.arithmetic;

    for (size_t h = 0; h < p->heads; h++) {
        struct sum sum = {.count = 0};
        for (size_t b = 0; b < p->batch; b++)
            for (size_t i = 0; i < p->seq_q; i++) {
                const struct query *query = &g->queries[(b * p->heads + h) * p->seq_q + i];
                if (query->lse == -(double)INFINITY) /* it sees nothing, its sink neither */
                    continue;
                const double weight = exp((double)sinks[h] - query->lse);
                const double relative = a->value * (4.0 * fabs(query->lse) + 16.0);
                add(g, &sum, weight * query->delta,
                    weight * (query->delta_slack + relative * fabs(query->delta)), -1.0);
            }
        check_sum(g, &sum, 1.0, OUTPUT_DSINKS, h);
    }
}

/* ---------------------------------------------------------------------------------------------- */

static void check_all(const struct gradients *g)
{
    const clattn_problem *p = &g->check.attention->job.problem;
    void *const *out = g->results->out;
    const size_t queries = p->batch * p->heads * p->seq_q, group = p->heads / p->kv_heads;
    const size_t keys = p->batch * p->kv_heads * p->seq_kv;
    const double pair_work = 2.0 * (double)(p->dim_qk + p->dim_v);
    const size_t rows = check_affordable(queries, (double)(p->seq_kv + 1) * pair_work, FEWEST_ROWS);
    const size_t columns =
        check_affordable(keys, (double)(group * p->seq_q + 1) * pair_work, FEWEST_ROWS);

    for (size_t n = 0; n < rows; n++)
        check_query(g, check_spread(n, rows, queries));
    for (size_t n = 0; n < columns; n++)
        check_key(g, check_spread(n, columns, keys));
    if (p->dbias && out[OUTPUT_DBIAS] != NULL)
        check_bias(g);
    if (p->dslopes && out[OUTPUT_DSLOPES] != NULL)
        check_slopes(g);
    if (p->dsinks && out[OUTPUT_DSINKS] != NULL)
        check_sinks(g);
}

bool check_gradients(const struct attention_case *attention, const struct results *results,
                     enum precision precision, struct worst *worst, struct message *why)
{
    struct gradients g = {.results = results, .worst = worst};
    const bool ok = check_begin(&g.check, attention, precision, why) && make_queries(&g, why);

    if (ok)
        check_all(&g);
    check_end(&g.check);
    free(g.sums);
    free(g.queries);
    return ok;
}
