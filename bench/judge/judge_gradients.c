/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of a backward problem, from the view's own o and lse. */
#include "bench/judge/gradients.h"
#include "bench/judge/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_ROWS = 8, FEWEST_SUMS = 2 };

struct judging {
    struct gradient_work work;
    double budget;
    judge_visit *visit;
    void *user;
    struct gradient_sum *sums; /* Owned: room for a row of dk and of dv. */
};

static const clattn_problem *problem_of(const struct judging *g)
{
    return g->work.reference.problem;
}

static void visit_sum(const struct judging *g, enum tensor_id id, const size_t at[4],
                      const struct gradient_sum *sum)
{
    const struct bounded want = gradient_work_finish(&g->work, id, sum);

    g->visit(g->user, id, at, &want, 1);
}

/* Visits the sums of a row along the last dimension. */
static void visit_sums(const struct judging *g, enum tensor_id id, size_t b, size_t h, size_t i,
                       const struct gradient_sum *sums)
{
    for (size_t d = 0; d < g->work.reference.shape[id].size[3]; d++)
        visit_sum(g, id, (size_t[]){b, h, i, d}, &sums[d]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Query `index` of all, counted (batch, head, query). */
static void judge_query(const struct judging *g, size_t index)
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
    visit_sums(g, TENSOR_DQ, block, h, row, g->sums);
}

/* Key `index` of all, counted (batch, kv head, key). */
static void judge_key(const struct judging *g, size_t index)
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
    visit_sums(g, TENSOR_DK, block, head, row, to.dk);
    visit_sums(g, TENSOR_DV, block, head, row, to.dv);
}

/* ---- elements that are sums over many pairs -------------------------------------------------- */

/* The pairs of batches [begin[0], end[0]) and so on. */
struct region {
    size_t begin[4], end[4];
};

static void add_region(const struct judging *g, const struct region *region,
                       const struct gradient_sums *to)
{
    for (size_t b = region->begin[0]; b < region->end[0]; b++)
        for (size_t h = region->begin[1]; h < region->end[1]; h++)
            for (size_t i = region->begin[2]; i < region->end[2]; i++)
                gradient_work_add(&g->work, b, h, i, region->begin[3], region->end[3], to);
}

/* The pairs behind element `index` of dbias, and its place; what broadcasts has one for all. */
static struct region bias_region(const struct judging *g, size_t index, size_t place[4])
{
    const struct tensor_shape *all = &g->work.reference.shape[TENSOR_BIAS];
    const struct tensor_shape *own = &g->work.reference.shape[TENSOR_DBIAS];
    struct region region;

    for (int n = 3; n >= 0; n--) {
        const bool whole = own->size[n] != all->size[n];
        place[n] = index % own->size[n];
        region.begin[n] = whole ? 0 : place[n];
        region.end[n] = whole ? all->size[n] : place[n] + 1;
        index /= own->size[n];
    }
    return region;
}

/* The pairs behind the gradient of a head's slope; behind that of its sink, queries without keys. */
static struct region head_region(const struct judging *g, enum tensor_id id, size_t h,
                                 size_t place[4])
{
    const clattn_problem *p = problem_of(g);
    const size_t keys = id == TENSOR_DSLOPES ? p->seq_kv : 0;

    memcpy(place, (size_t[]){0, 0, 0, h}, 4 * sizeof *place);
    return (struct region){.begin = {0, h, 0, 0}, .end = {p->batch, h + 1, p->seq_q, keys}};
}

/* A gradient of which each element sums so many pairs. */
static void judge_sums(const struct judging *g, enum tensor_id id, double pairs)
{
    const clattn_problem *p = problem_of(g);
    const size_t all = tensor_count(&g->work.reference.shape[id]);
    const double work = (pairs + 1.0) * (double)(p->dim_qk + p->dim_v);
    const size_t count = judge_affordable(g->budget, all, work, FEWEST_SUMS);

    for (size_t n = 0; n < count; n++) {
        size_t place[4];
        const size_t index = judge_spread(n, count, all);
        const struct region region =
            id == TENSOR_DBIAS ? bias_region(g, index, place) : head_region(g, id, index, place);
        struct gradient_sum sum = {.terms = 0};
        add_region(g, &region,
                   &(struct gradient_sums){.dbias = id == TENSOR_DBIAS ? &sum : NULL,
                                           .dslope = id == TENSOR_DSLOPES ? &sum : NULL,
                                           .dsink = id == TENSOR_DSINKS ? &sum : NULL});
        visit_sum(g, id, place, &sum);
    }
}

/* The gradients of a function's operands: any pair may add to any element. */
static bool judge_loads(const struct judging *g)
{
    const clattn_problem *p = problem_of(g);
    const size_t count = tensor_count(&g->work.reference.shape[TENSOR_DFUNCTION]);
    struct gradient_sum *sums = calloc(count + 1, sizeof *sums);
    const struct region all = {.end = {p->batch, p->heads, p->seq_q, p->seq_kv}};

    if (sums == NULL)
        return false;
    add_region(g, &all, &(struct gradient_sums){.dfunction = sums});
    visit_sums(g, TENSOR_DFUNCTION, 0, 0, 0, sums);
    free(sums);
    return true;
}

static bool judge_some(const struct judging *g)
{
    const clattn_problem *p = problem_of(g);
    const struct tensor_shape *shape = g->work.reference.shape;
    const size_t queries = p->batch * p->heads * p->seq_q, group = p->heads / p->kv_heads;
    const size_t keys = p->batch * p->kv_heads * p->seq_kv;
    const double pair_work = 2.0 * (double)(p->dim_qk + p->dim_v);
    const size_t rows =
        judge_affordable(g->budget, queries, (double)(p->seq_kv + 1) * pair_work, FEWEST_ROWS);
    const size_t columns =
        judge_affordable(g->budget, keys, (double)(group * p->seq_q + 1) * pair_work, FEWEST_ROWS);

    for (size_t n = 0; n < rows; n++)
        judge_query(g, judge_spread(n, rows, queries));
    for (size_t n = 0; n < columns; n++)
        judge_key(g, judge_spread(n, columns, keys));
    if (shape[TENSOR_DBIAS].present)
        judge_sums(g, TENSOR_DBIAS,
                   (double)tensor_count(&shape[TENSOR_BIAS]) /
                       (double)tensor_count(&shape[TENSOR_DBIAS]));
    if (shape[TENSOR_DSLOPES].present)
        judge_sums(g, TENSOR_DSLOPES, (double)(p->batch * p->seq_q) * (double)p->seq_kv);
    if (shape[TENSOR_DSINKS].present)
        judge_sums(g, TENSOR_DSINKS, 0.0);
    return !shape[TENSOR_DFUNCTION].present || judge_loads(g);
}

/* All that is written, each pair looked at once. */
static bool judge_all(const struct judging *g)
{
    const clattn_problem *p = problem_of(g);
    const struct tensor_view *view = g->work.reference.view;
    struct reference_gradients want;
    const bool ok = reference_gradients_open(p, view, &want);

    for (int id = 0; ok && id < NUM_TENSORS; id++) {
        const struct tensor_shape *shape = &g->work.reference.shape[id];
        const size_t *size = shape->size, rows = size[0] * size[1] * size[2];
        for (size_t n = 0; shape->present && shape->written && n < rows; n++)
            if (tensor_has_row(p, view, (enum tensor_id)id, n % size[2]))
                g->visit(g->user, id,
                         (size_t[]){n / size[2] / size[1], n / size[2] % size[1], n % size[2], 0},
                         want.at[id] + n * size[3], size[3]);
    }
    reference_gradients_close(&want);
    return ok;
}

bool judge_gradients(const clattn_problem *p, const struct tensor_view *view,
                     enum precision precision, double budget, judge_visit *visit, void *user)
{
    struct judging g = {.budget = budget,
                        .visit = visit,
                        .user = user,
                        .sums = calloc(p->dim_qk + p->dim_v + 1, sizeof *g.sums)};
    bool ok = gradient_work_open(p, view, precision, &g.work) && g.sums != NULL;

    if (ok && budget == INFINITY && precision == PRECISION_SINGLE)
        ok = judge_all(&g);
    else if (ok)
        ok = judge_some(&g);
    gradient_work_close(&g.work);
    free(g.sums);
    return ok;
}
