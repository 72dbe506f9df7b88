/* The gradients of a backward problem, from the case's own o and lse. */
#include "bench/reference/gradients.h"
#include "bench/verify/sample.h"

#include <stdlib.h>
#include <string.h>

enum { FEWEST_ROWS = 8, FEWEST_SUMS = 2 };

struct gradients {
    struct gradient_work work;
    const struct results *results;
    struct worst *worst;
    struct gradient_sum *sums; /* Owned: room for a row of dk and of dv. */
};

static const clattn_problem *problem_of(const struct gradients *g)
{
    return g->work.reference.problem;
}

static void check_sum(const struct gradients *g, enum tensor_id id, size_t place,
                      const struct gradient_sum *sum)
{
    sample_compare(g->worst, g->results, id, &g->work.reference.shape[id], place,
                   gradient_work_finish(&g->work, id, sum));
}

/* Of sums along the last dimension. */
static void check_sums(const struct gradients *g, enum tensor_id id, size_t b, size_t h, size_t i,
                       const struct gradient_sum *sums)
{
    const struct tensor_shape *shape = &g->work.reference.shape[id];

    for (size_t d = 0; d < shape->size[3]; d++)
        check_sum(g, id, tensor_index(shape, b, h, i, d), &sums[d]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Query `index` of all, counted (batch, head, query). */
static void check_query(const struct gradients *g, size_t index)
{
    const clattn_problem *p = problem_of(g);
    const size_t b = index / p->seq_q / p->heads, h = index / p->seq_q % p->heads;
    const size_t i = index % p->seq_q;
    const struct gradient_sums to = {.dq = g->sums};
    size_t block, row;

    if (!tensor_locate_query(p, g->work.reference.view, b, i, &block, &row))
        return;
    memset(g->sums, 0, p->dim_qk * sizeof *g->sums);
    gradient_work_add(&g->work, b, h, i, 0, p->seq_kv, &to);
    check_sums(g, TENSOR_DQ, block, h, row, g->sums);
}

/* Key `index` of all, counted (batch, kv head, key). */
static void check_key(const struct gradients *g, size_t index)
{
    const clattn_problem *p = problem_of(g);
    const size_t b = index / p->seq_kv / p->kv_heads, head = index / p->seq_kv % p->kv_heads;
    const size_t j = index % p->seq_kv, group = p->heads / p->kv_heads;
    const struct gradient_sums to = {.dk = g->sums, .dv = g->sums + p->dim_qk};
    size_t block, row;

    if (!tensor_locate_key(p, g->work.reference.view, b, j, &block, &row))
        return;
    memset(g->sums, 0, (p->dim_qk + p->dim_v) * sizeof *g->sums);
    for (size_t h = head * group; h < (head + 1) * group; h++)
        for (size_t i = 0; i < p->seq_q; i++)
            gradient_work_add(&g->work, b, h, i, j, j + 1, &to);
    check_sums(g, TENSOR_DK, block, head, row, to.dk);
    check_sums(g, TENSOR_DV, block, head, row, to.dv);
}

/* ---- elements that are sums over many pairs -------------------------------------------------- */

/* The pairs of batches [begin[0], end[0]) and so on. */
struct region {
    size_t begin[4], end[4];
};

static void add_region(const struct gradients *g, const struct region *region,
                       const struct gradient_sums *to)
{
    for (size_t b = region->begin[0]; b < region->end[0]; b++)
        for (size_t h = region->begin[1]; h < region->end[1]; h++)
            for (size_t i = region->begin[2]; i < region->end[2]; i++)
                gradient_work_add(&g->work, b, h, i, region->begin[3], region->end[3], to);
}

/* The pairs behind element `index` of dbias, and its place; what broadcasts has one for all. */
static struct region bias_region(const struct gradients *g, size_t index, size_t *place)
{
    const struct tensor_shape *all = &g->work.reference.shape[TENSOR_BIAS];
    const struct tensor_shape *own = &g->work.reference.shape[TENSOR_DBIAS];
    struct region region;

    *place = 0;
    for (int n = 3; n >= 0; n--) {
        const size_t at = index % own->size[n];
        const bool whole = own->size[n] != all->size[n];
        region.begin[n] = whole ? 0 : at;
        region.end[n] = whole ? all->size[n] : at + 1;
        *place += at * own->stride[n];
        index /= own->size[n];
    }
    return region;
}

/* How many of `count` sums of so many pairs can be afforded. */
static size_t sums_of(const struct gradients *g, size_t count, double pairs)
{
    const clattn_problem *p = problem_of(g);

    return sample_affordable(count, (pairs + 1.0) * (double)(p->dim_qk + p->dim_v), FEWEST_SUMS);
}

static void check_bias(const struct gradients *g)
{
    const struct tensor_shape *shape = &g->work.reference.shape[TENSOR_DBIAS];
    const size_t all = tensor_count(shape);
    const double pairs = (double)tensor_count(&g->work.reference.shape[TENSOR_BIAS]) / (double)all;
    const size_t count = sums_of(g, all, pairs);

    for (size_t n = 0; n < count; n++) {
        size_t place;
        const struct region region = bias_region(g, sample_spread(n, count, all), &place);
        struct gradient_sum sum = {.terms = 0};
        add_region(g, &region, &(struct gradient_sums){.dbias = &sum});
        check_sum(g, TENSOR_DBIAS, place, &sum);
    }
}

static void check_slopes(const struct gradients *g)
{
    const clattn_problem *p = problem_of(g);
    const size_t count =
        sums_of(g, p->heads, (double)p->batch * (double)p->seq_q * (double)p->seq_kv);

    for (size_t n = 0; n < count; n++) {
        const size_t h = sample_spread(n, count, p->heads);
        const struct region region = {.begin = {0, h, 0, 0},
                                      .end = {p->batch, h + 1, p->seq_q, p->seq_kv}};
        struct gradient_sum sum = {.terms = 0};
        add_region(g, &region, &(struct gradient_sums){.dslope = &sum});
        check_sum(g, TENSOR_DSLOPES, h, &sum);
    }
}

static void check_sinks(const struct gradients *g)
{
    const clattn_problem *p = problem_of(g);

    for (size_t h = 0; h < p->heads; h++) {
        const struct region region = {.begin = {0, h, 0, 0}, .end = {p->batch, h + 1, p->seq_q, 0}};
        struct gradient_sum sum = {.terms = 0};
        add_region(g, &region, &(struct gradient_sums){.dsink = &sum});
        check_sum(g, TENSOR_DSINKS, h, &sum);
    }
}

/* ---------------------------------------------------------------------------------------------- */

static void check_all(const struct gradients *g)
{
    const clattn_problem *p = problem_of(g);
    const struct tensor_shape *shape = g->work.reference.shape;
    const size_t queries = p->batch * p->heads * p->seq_q, group = p->heads / p->kv_heads;
    const size_t keys = p->batch * p->kv_heads * p->seq_kv;
    const double pair_work = 2.0 * (double)(p->dim_qk + p->dim_v);
    const size_t rows =
        sample_affordable(queries, (double)(p->seq_kv + 1) * pair_work, FEWEST_ROWS);
    const size_t columns =
        sample_affordable(keys, (double)(group * p->seq_q + 1) * pair_work, FEWEST_ROWS);

    for (size_t n = 0; n < rows; n++)
        check_query(g, sample_spread(n, rows, queries));
    for (size_t n = 0; n < columns; n++)
        check_key(g, sample_spread(n, columns, keys));
    if (shape[TENSOR_DBIAS].present)
        check_bias(g);
    if (shape[TENSOR_DSLOPES].present)
        check_slopes(g);
    if (shape[TENSOR_DSINKS].present)
        check_sinks(g);
}

bool check_gradients(const struct attention_case *attention, const struct results *results,
                     enum precision precision, struct worst *worst, struct message *why)
{
    const clattn_problem *p = &attention->job.problem;
    const struct tensor_view view = sample_inputs(attention);
    struct gradients g = {.results = results,
                          .worst = worst,
                          .sums = case_allocate(p->dim_qk + p->dim_v, sizeof *g.sums, why)};
    const bool ok = g.sums != NULL && (gradient_work_open(p, &view, precision, &g.work) ||
                                       message_set(why, "no memory for rows of gradients"));

    if (ok)
        check_all(&g);
    gradient_work_close(&g.work);
    free(g.sums);
    return ok;
}
