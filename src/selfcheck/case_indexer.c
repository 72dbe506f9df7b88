/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of indexers. Values are small integers, so that scores are exact, and many of them are equal. There is one right
 * list then, of which equal scores with the lowest keys are a part. */
#include "base/sizes.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows that exist -------------------------------------------------------------------------- */

/* The rows of a batch in q and in the lists: the first, how many there are, and how many are in use (`queries`). Of keys,
 * the first row and the number in use. */
struct batch {
    size_t b, first_row, rows, queries, first_key, keys;
    int64_t diagonal;
};

static struct batch batch_of(const struct ca_trust_case *c, size_t b)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    struct batch s = {b,
                      b * p->seq_q,
                      p->seq_q,
                      p->seq_q,
                      0,
                      p->seq_kv,
                      ca_diagonal(p->diagonal, p->diagonal_offset, p->seq_q, p->seq_kv)};

    if (p->total_q) {
        s.first_row = (size_t)ca_trust_number(c, CA_INDEXER_Q_STARTS, b);
        s.rows = s.queries = (size_t)ca_trust_number(c, CA_INDEXER_Q_STARTS, b + 1) - s.first_row;
    }
    if (p->total_kv) {
        s.first_key = (size_t)ca_trust_number(c, CA_INDEXER_KV_STARTS, b);
        s.keys = (size_t)ca_trust_number(c, CA_INDEXER_KV_STARTS, b + 1) - s.first_key;
    }
    if (p->q_lengths)
        s.queries = ca_smaller((size_t)ca_trust_number(c, CA_INDEXER_Q_LENGTHS, b), s.queries);
    if (p->kv_lengths)
        s.keys = ca_smaller((size_t)ca_trust_number(c, CA_INDEXER_KV_LENGTHS, b), s.keys);
    if (p->diagonal == CLATTN_BOTTOM_RIGHT)
        s.diagonal = (int64_t)s.keys - (int64_t)s.queries;
    return s;
}

static size_t seen_by(const clattn_indexer_problem *p, const struct batch *s, size_t i)
{
    const int64_t last = (int64_t)i + s->diagonal + 1;

    if (i >= s->queries)
        return 0;
    return !p->causal ? s->keys : last < 0 ? 0 : ca_smaller((size_t)last, s->keys);
}

/* The block and row of key j; 0 if it has none. */
static int find_key(const struct ca_trust_case *c, const struct batch *s, size_t j, size_t *block,
                    size_t *row)
{
    const clattn_indexer_problem *p = &c->problem.indexer;

    *block = p->total_kv ? 0 : s->b;
    *row = s->first_key + j;
    if (!p->page_size)
        return 1;
    const int64_t page = ca_trust_number(c, CA_INDEXER_PAGE_TABLE,
                                         s->b * ca_indexer_table_pages(p) + j / p->page_size);
    *block = (size_t)page;
    *row = j % p->page_size;
    return page >= 0 && (size_t)page < p->pages;
}

/* ---- answers ---------------------------------------------------------------------------------- */

struct scored {
    double score; /* a NaN counts as +infinity, of which the case has none */
    size_t key;
};

static int by_score(const void *x, const void *y)
{
    const struct scored *a = x, *b = y;

    return a->score != b->score ? (a->score < b->score) - (a->score > b->score)
                                : (a->key > b->key) - (a->key < b->key);
}

static int by_key(const void *x, const void *y)
{
    const struct scored *a = x, *b = y;

    return (a->key > b->key) - (a->key < b->key);
}

/* q: the rows of the heads of query i. */
static double score(const struct ca_trust_case *c, const struct batch *s, size_t i, const double *q,
                    size_t block, size_t row, double *k)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    double sum = 0.0;

    ca_values_load(ca_trust_elements(c, CA_INDEXER_K), p->dtype,
                   ca_trust_position(&p->k, block, 0, row, 0), p->k.stride[3], p->dim, k);
    for (size_t h = 0; h < p->heads; h++) {
        double dot = 0.0;
        for (size_t d = 0; d < p->dim; d++)
            dot += q[h * p->dim + d] * k[d];
        const double w = ca_value_load(ca_trust_elements(c, CA_INDEXER_W), CLATTN_F32,
                                       ca_trust_position(&p->w, p->total_q ? 0 : s->b, h,
                                                         p->total_q ? s->first_row + i : i, 0));
        sum += w * (dot < 0.0 ? 0.0 : dot);
    }
    return isnan(sum) ? (double)INFINITY : sum;
}

/* Query i of a batch: its list and scores; 0 without memory. */
static int solve_row(struct ca_trust_case *c, const struct batch *s, size_t i, double *q,
                     struct scored *all)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    const size_t seen = seen_by(p, s, i), block = p->total_q ? 0 : s->b;
    const size_t line = p->total_q ? s->first_row + i : i;
    size_t count = 0, at, row;

    for (size_t h = 0; seen > 0 && h < p->heads; h++)
        ca_values_load(ca_trust_elements(c, CA_INDEXER_Q), p->dtype,
                       ca_trust_position(&p->q, block, h, line, 0), p->q.stride[3], p->dim,
                       q + h * p->dim);
    for (size_t j = 0; j < seen; j++)
        if (find_key(c, s, j, &at, &row))
            all[count++] = (struct scored){score(c, s, i, q, at, row, q + p->heads * p->dim), j};
    qsort(all, count, sizeof *all, by_score);
    count = ca_smaller(count, p->topk);
    qsort(all, count, sizeof *all, by_key);
    struct ca_bounded *list = ca_trust_answer(c, CA_INDEXER_TOPK_INDICES, block, 0, line, p->topk);
    struct ca_bounded *scores =
        p->scores ? ca_trust_answer(c, CA_INDEXER_SCORES, block, 0, line, p->topk) : NULL;
    for (size_t n = 0; n < p->topk; n++) {
        list[n].value = n < count ? (double)all[n].key : -1.0;
        if (scores)
            scores[n].value = n >= count            ? -(double)INFINITY
                              : isinf(all[n].score) ? (double)NAN
                                                    : all[n].score;
    }
    return 1;
}

/* ---- gradients --------------------------------------------------------------------------------- */

/* Sums are exact, since values are small integers; results are rounded when they are stored. */
static void answer(struct ca_trust_case *c, unsigned argument, size_t block, size_t h, size_t row,
                   size_t count, const double *values)
{
    struct ca_bounded *want = ca_trust_answer(c, argument, block, h, row, count);

    for (size_t d = 0; d < count; d++)
        want[d] = (struct ca_bounded){
            values[d], ca_value_rounding(ca_problem_dtype(&c->problem, argument), fabs(values[d]))};
}

/* What entry n of query i names, and its gradient; 0 if it counts nothing. */
static int find_entry(const struct ca_trust_case *c, const struct batch *s, size_t i, size_t n,
                      size_t *block, size_t *row, double *gradient)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    const size_t place = (s->first_row + i) * p->topk + n;
    const int64_t j = ca_trust_number(c, CA_INDEXER_CHOSEN, place);

    if (j < 0 || (size_t)j >= seen_by(p, s, i) || !find_key(c, s, (size_t)j, block, row))
        return 0;
    *gradient = ca_value_load(ca_trust_elements(c, CA_INDEXER_DSCORES), CLATTN_F32, place);
    return 1;
}

/* Adds what entries of query i and head h contribute: to dq and dw, or, if of_key is set, to dk of a row of k. x: rows of q
 * and of k. */
static void add_entries(struct ca_trust_case *c, const struct batch *s, size_t i, size_t h,
                        size_t key_block, size_t key_row, int of_key, double *x, double *sums,
                        double *dw)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    const size_t at = p->total_q ? 0 : s->b, line = p->total_q ? s->first_row + i : i;
    double *y = x + p->dim, gradient;
    size_t block, row;

    if (i >= s->queries)
        return;
    const double w = ca_value_load(ca_trust_elements(c, CA_INDEXER_W), CLATTN_F32,
                                   ca_trust_position(&p->w, at, h, line, 0));
    ca_values_load(ca_trust_elements(c, CA_INDEXER_Q), p->dtype,
                   ca_trust_position(&p->q, at, h, line, 0), p->q.stride[3], p->dim, x);
    for (size_t n = 0; n < p->topk; n++) {
        double dot = 0.0;
        if (!find_entry(c, s, i, n, &block, &row, &gradient) ||
            (of_key && (block != key_block || row != key_row)))
            continue;
        ca_values_load(ca_trust_elements(c, CA_INDEXER_K), p->dtype,
                       ca_trust_position(&p->k, block, 0, row, 0), p->k.stride[3], p->dim, y);
        for (size_t d = 0; d < p->dim; d++)
            dot += x[d] * y[d];
        if (dot <= 0.0)
            continue;
        *dw += gradient * dot;
        for (size_t d = 0; d < p->dim; d++)
            sums[d] += gradient * w * (of_key ? x : y)[d];
    }
}

/* Rows counted (b, i), and as many rows of k. */
static int solve_gradients(struct ca_trust_case *c, const struct ca_sample *rows)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    double *sums = malloc(3 * p->dim * sizeof *sums);
    const int ok = sums != NULL;

    for (size_t n = 0; ok && n < rows->count; n++) {
        const size_t row = ca_trust_place(rows, n), i = row % p->seq_q, h = n % p->heads;
        const struct batch s = batch_of(c, row / p->seq_q);
        double dw = 0.0;
        memset(sums, 0, p->dim * sizeof *sums);
        if (i >= s.rows)
            continue;
        add_entries(c, &s, i, h, 0, 0, 0, sums + p->dim, sums, &dw);
        answer(c, CA_INDEXER_DQ, p->total_q ? 0 : s.b, h, p->total_q ? s.first_row + i : i, p->dim,
               sums);
        answer(c, CA_INDEXER_DW, p->total_q ? 0 : s.b, h, p->total_q ? s.first_row + i : i, 1, &dw);
    }
    for (size_t n = 0; ok && n < rows->count; n++) {
        const size_t all = ca_indexer_blocks(p) * ca_indexer_rows(p);
        const size_t key = n * all / rows->count, block = key / ca_indexer_rows(p),
                     row = key % ca_indexer_rows(p);
        double dw = 0.0;
        memset(sums, 0, p->dim * sizeof *sums);
        for (size_t b = 0; b < p->batch; b++) {
            const struct batch s = batch_of(c, b);
            for (size_t i = 0; i < s.queries; i++)
                for (size_t h = 0; h < p->heads; h++)
                    add_entries(c, &s, i, h, block, row, 1, sums + p->dim, sums, &dw);
        }
        answer(c, CA_INDEXER_DK, block, 0, row, p->dim, sums);
    }
    free(sums);
    return ok;
}

/* Rows counted (b, i), of those that exist. */
static int solve(struct ca_trust_case *c, const struct ca_sample *rows)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    if (p->gradients)
        return solve_gradients(c, rows);
    double *q = malloc((p->heads + 1) * p->dim * sizeof *q);
    struct scored *all = malloc((p->seq_kv + 1) * sizeof *all);
    const int ok = q && all;

    for (size_t n = 0; ok && n < rows->count; n++) {
        const size_t row = ca_trust_place(rows, n);
        const struct batch s = batch_of(c, row / p->seq_q);
        if (row % p->seq_q < s.rows)
            solve_row(c, &s, row % p->seq_q, q, all);
    }
    free(q);
    free(all);
    return ok;
}

/* ---- data --------------------------------------------------------------------------------------- */

static float small(unsigned *state, float most)
{
    return rintf(most * ca_value_next(state));
}

static void fill_row(struct ca_trust_case *c, unsigned argument, const clattn_layout *layout,
                     size_t b, size_t h, size_t row, unsigned *state)
{
    const clattn_indexer_problem *p = &c->problem.indexer;

    for (size_t d = 0; d < p->dim; d++)
        ca_value_store(c->bytes[argument] + CA_TRUST_GUARD, p->dtype,
                       ca_trust_position(layout, b, h, row, d), small(state, 1.4f));
}

/* Fills a list of chosen keys. Most entries are visible keys; one in five is not, and some repeat the key before. */
static void fill_list(struct ca_trust_case *c, const struct batch *s, size_t i, unsigned *state)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    const size_t seen = seen_by(p, s, i);

    for (size_t n = 0; n < p->topk; n++) {
        const size_t place = (s->first_row + i) * p->topk + n;
        const size_t at = n > 0 && n % 7 == 0 ? n - 1 : n;
        const size_t j = n % 5 == 3 || seen == 0 ? p->seq_kv : (at * 13 + i) % seen;
        ca_trust_set_number(c, CA_INDEXER_CHOSEN, place, j);
        ca_value_store(c->bytes[CA_INDEXER_DSCORES] + CA_TRUST_GUARD, CLATTN_F32, place,
                       j < seen ? small(state, 1.4f) : NAN);
    }
}

/* Fills the rows in use; all else stays NaN. One key of each other batch is NaN, if `hostile`. */
static void fill(struct ca_trust_case *c, int hostile)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    unsigned state = 20240229u;
    size_t block, row;

    for (size_t b = 0; b < p->batch; b++) {
        const struct batch s = batch_of(c, b);
        for (size_t i = 0; i < s.rows && p->gradients; i++)
            fill_list(c, &s, i, &state);
        for (size_t i = 0; i < s.queries; i++)
            for (size_t h = 0; h < p->heads; h++) {
                const size_t at = p->total_q ? 0 : b, line = p->total_q ? s.first_row + i : i;
                fill_row(c, CA_INDEXER_Q, &p->q, at, h, line, &state);
                ca_value_store(c->bytes[CA_INDEXER_W] + CA_TRUST_GUARD, CLATTN_F32,
                               ca_trust_position(&p->w, at, h, line, 0), small(&state, 2.4f));
            }
        for (size_t j = 0; j < s.keys; j++)
            if (find_key(c, &s, j, &block, &row) && !(hostile && b % 2 == 1 && j == 5))
                fill_row(c, CA_INDEXER_K, &p->k, block, 0, row, &state);
    }
}

/* ---- the hostile case ----------------------------------------------------------------------------- */

/* More keys than candidates that are kept at a time; fewer if the products would take long. */
enum { BATCH = 2, QUERIES = 5, KEYS = 611, FEWEST_KEYS = 67, TOPK = 9 };
#define MOST_PRODUCTS 0x1p25

static clattn_problem shrink(const clattn_problem *real)
{
    clattn_problem made = *real;
    clattn_indexer_problem *p = &made.indexer;
    const double keys =
        MOST_PRODUCTS / (double)BATCH / (double)QUERIES / (double)p->heads / (double)p->dim;

    p->batch = BATCH;
    p->seq_q = QUERIES;
    p->seq_kv = keys > KEYS ? KEYS : keys < FEWEST_KEYS ? FEWEST_KEYS : (size_t)keys;
    p->topk = TOPK;
    if (p->causal && p->diagonal != CLATTN_BOTTOM_RIGHT) {
        p->diagonal = CLATTN_OFFSET;
        p->diagonal_offset = (int64_t)p->seq_kv - QUERIES - 2;
    }
    p->total_q = p->total_q ? BATCH * QUERIES - 1 : 0;
    p->total_kv = p->total_kv ? BATCH * p->seq_kv - 3 : 0;
    if (p->page_size) /* more than are named */
        p->pages = BATCH * ca_indexer_table_pages(p) + 1;
    p->q = ca_trust_keep_unit(&p->q, p->total_q ? 1 : BATCH, p->heads,
                              p->total_q ? p->total_q : QUERIES, p->dim);
    p->k = ca_trust_keep_unit(&p->k, ca_indexer_blocks(p), 1, ca_indexer_rows(p), p->dim);
    p->w = ca_trust_gapped(
        (const int[]){0, 2, 1, 3},
        (size_t[]){p->total_q ? 1 : BATCH, p->heads, p->total_q ? p->total_q : QUERIES, 1}, 1,
        CA_TRUST_GAP);
    if (p->gradients) {
        p->dq = ca_trust_keep_unit(&p->dq, p->total_q ? 1 : BATCH, p->heads,
                                   p->total_q ? p->total_q : QUERIES, p->dim);
        p->dk = ca_trust_keep_unit(&p->dk, ca_indexer_blocks(p), 1, ca_indexer_rows(p), p->dim);
        p->dw = p->w;
    }
    return made;
}

/* Lengths, starts and pages. A page of the second batch is none, where its keys have several. */
static void place(struct ca_trust_case *c, int hostile)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    const size_t columns = ca_indexer_table_pages(p);

    for (size_t b = 0; b <= p->batch; b++) {
        if (p->total_q)
            ca_trust_set_number(c, CA_INDEXER_Q_STARTS, b,
                                (int64_t)ca_smaller(b * p->seq_q, p->total_q));
        if (p->total_kv)
            ca_trust_set_number(c, CA_INDEXER_KV_STARTS, b,
                                (int64_t)ca_smaller(b * p->seq_kv, p->total_kv));
        if (b < p->batch && p->q_lengths)
            ca_trust_set_number(c, CA_INDEXER_Q_LENGTHS, b, p->seq_q - b % 2 * (p->seq_q / 3));
        if (b < p->batch && p->kv_lengths)
            ca_trust_set_number(c, CA_INDEXER_KV_LENGTHS, b, p->seq_kv - b % 3 * (p->seq_kv / 5));
    }
    for (size_t n = 0; n < p->batch * columns; n++)
        ca_trust_set_number(c, CA_INDEXER_PAGE_TABLE, n,
                            hostile && n / columns == 1 && n % columns == 1
                                ? p->pages
                                : (p->pages - 1 - n % p->pages));
}

static int allocate(struct ca_trust_case *c, const struct ca_sample *rows)
{
    const clattn_indexer_problem *p = &c->problem.indexer;

    return p->gradients ? ca_trust_allocate(c, 3 * rows->count, rows->count * (2 * p->dim + 1))
                        : ca_trust_allocate(c, 2 * rows->count, 2 * rows->count * p->topk);
}

int ca_indexer_case_make(struct ca_trust_case *c, clattn_context *ctx, const clattn_problem *real,
                         const struct ca_candidate *candidate)
{
    const struct ca_sample all = ca_trust_each((size_t)BATCH * QUERIES);

    (void)ctx;
    (void)candidate;
    c->problem = shrink(real);
    if (!allocate(c, &all))
        return 0;
    place(c, 1);
    fill(c, 1);
    return solve(c, &all);
}

/* ---- an ordinary case ------------------------------------------------------------------------------- */

int ca_indexer_case_make_ordinary(struct ca_trust_case *c, clattn_context *ctx)
{
    const clattn_indexer_problem *p = &c->problem.indexer;
    const struct ca_sample rows =
        ca_trust_spread(p->batch * p->seq_q, p->seq_kv * p->heads * p->dim);

    (void)ctx;
    if (!allocate(c, &rows))
        return 0;
    place(c, 0);
    fill(c, 0);
    return solve(c, &rows);
}
