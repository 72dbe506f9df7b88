/* SPDX-License-Identifier: Apache-2.0 */
/* The results of forward: rows of o, lse and scores, and sums of weights. */
#include "bench/judge/judge.h"
#include "bench/judge/row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_ROWS = 32 };

static void visit_row(const clattn_problem *p, const struct tensor_view *view,
                      const struct reference_row *row, size_t b, size_t h, size_t i,
                      judge_visit *visit, void *user)
{
    size_t block, place;

    if (!tensor_locate_query(p, view, b, i, &block, &place))
        return; /* a sequence of a packed batch that is shorter */
    visit(user, TENSOR_O, (size_t[]){block, h, place, 0}, row->o, p->dim_v);
    if (p->lse)
        visit(user, TENSOR_LSE, (size_t[]){block, h, 0, place}, &row->lse, 1);
    if (p->scores != CLATTN_SCORES_NONE && p->scores != CLATTN_SCORES_MEAN)
        visit(user, TENSOR_SCORES, (size_t[]){b, h, i, 0}, row->scores, p->seq_kv);
}

/* ---- sums of weights ------------------------------------------------------------------------- */

/* Adds the weights of a query's row, each times factor. A sum of n terms is off by (n + 8) u besides what these are off by. */
static void add_weights(const clattn_problem *p, const struct tensor_view *view, size_t b, size_t h,
                        size_t i, double factor, struct reference_row *row, struct bounded *sums)
{
    size_t block, place;

    if (!tensor_locate_query(p, view, b, i, &block, &place))
        return;
    reference_row_compute(p, view, b, h, i, row);
    for (size_t j = 0; j < p->seq_kv; j++) {
        sums[j].value += factor * row->weights[j].value;
        sums[j].bound += factor * row->weights[j].bound;
    }
}

static void finish_sums(struct bounded *sums, size_t count, size_t terms)
{
    for (size_t j = 0; j < count; j++)
        sums[j].bound += (double)(terms + 8) * 0x1p-24 * fabs(sums[j].value);
}

/* The sums of a batch's and kv head's keys, over all queries that share these. */
static void judge_key_sums(const clattn_problem *p, const struct tensor_view *view, size_t b,
                           size_t kv_head, struct reference_row *row, struct bounded *sums,
                           judge_visit *visit, void *user)
{
    const size_t group = p->heads / p->kv_heads;
    size_t block, place;

    memset(sums, 0, p->seq_kv * sizeof *sums);
    for (size_t n = 0; n < group * p->seq_q; n++)
        add_weights(p, view, b, kv_head * group + n / p->seq_q, n % p->seq_q, 1.0, row, sums);
    finish_sums(sums, p->seq_kv, group * p->seq_q);
    if (p->total_kv == 0)
        visit(user, TENSOR_KEY_SUMS, (size_t[]){b, kv_head, 0, 0}, sums, p->seq_kv);
    for (size_t j = 0; p->total_kv > 0 && j < p->seq_kv; j++)
        if (tensor_locate_key(p, view, b, j, &block, &place))
            visit(user, TENSOR_KEY_SUMS, (size_t[]){0, kv_head, 0, place}, sums + j, 1);
}

static void judge_mean(const clattn_problem *p, const struct tensor_view *view, size_t b, size_t i,
                       struct reference_row *row, struct bounded *sums, judge_visit *visit,
                       void *user)
{
    memset(sums, 0, p->seq_kv * sizeof *sums);
    for (size_t h = 0; h < p->heads; h++)
        add_weights(p, view, b, h, i, 1.0 / (double)p->heads, row, sums);
    finish_sums(sums, p->seq_kv, p->heads + 2);
    visit(user, TENSOR_SCORES, (size_t[]){b, 0, i, 0}, sums, p->seq_kv);
}

static bool judge_sums(const clattn_problem *p, const struct tensor_view *view, double budget,
                       struct reference_row *row, judge_visit *visit, void *user)
{
    struct bounded *sums = calloc(p->seq_kv + 1, sizeof *sums);
    const double row_work = (double)(p->seq_kv + 1) * (double)(p->dim_qk + p->dim_v);
    const size_t key_rows = p->batch * p->kv_heads, queries = p->batch * p->seq_q;
    const size_t some_keys = judge_affordable(
        budget, key_rows, row_work * (double)(p->seq_q * (p->heads / p->kv_heads) + 1), 2);
    const size_t some_queries =
        judge_affordable(budget, queries, row_work * (double)p->heads, FEWEST_ROWS);

    for (size_t n = 0; sums && p->key_sums && n < some_keys; n++) {
        const size_t at = judge_spread(n, some_keys, key_rows);
        judge_key_sums(p, view, at / p->kv_heads, at % p->kv_heads, row, sums, visit, user);
    }
    for (size_t n = 0; sums && p->scores == CLATTN_SCORES_MEAN && n < some_queries; n++) {
        const size_t at = judge_spread(n, some_queries, queries);
        judge_mean(p, view, at / p->seq_q, at % p->seq_q, row, sums, visit, user);
    }
    free(sums);
    return sums != NULL;
}

bool judge_rows(const clattn_problem *p, const struct tensor_view *view, enum precision precision,
                double budget, judge_visit *visit, void *user)
{
    const size_t all = p->batch * p->heads * p->seq_q;
    const double row_work = (double)(p->seq_kv + 1) * (double)(p->dim_qk + p->dim_v);
    const size_t count = judge_affordable(budget, all, row_work, FEWEST_ROWS);
    struct reference_row row;
    bool ok = reference_row_open(p, precision, &row);

    for (size_t n = 0; ok && n < count; n++) {
        const size_t index = judge_spread(n, count, all);
        const size_t b = index / p->seq_q / p->heads, h = index / p->seq_q % p->heads;
        reference_row_compute(p, view, b, h, index % p->seq_q, &row);
        visit_row(p, view, &row, b, h, index % p->seq_q, visit, user);
    }
    ok = ok && judge_sums(p, view, budget, &row, visit, user);
    reference_row_close(&row);
    return ok;
}
