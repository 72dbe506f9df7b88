/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of keys that an indexer chooses. A score is off by at most a few roundings of its parts' magnitudes. A list is
 * right if it could be that of scores within their bounds: it has as many visible keys as it may, in rising order, and
 * none that is left out is above one that is listed by more than both bounds. Gradients are sums over listed pairs, of
 * which those whose product may have either sign may count or not. */
#include "bench/judge/judge.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define U 0x1p-24

struct indexing {
    const clattn_indexer_problem *p;
    const struct tensor_view *view;
    struct tensor_shape q, k, w, lists;
    double *rows, *key, *weights; /* rows of q of all heads; a row of k; w of all heads */
};

/* A sequence: its first row in q and the lists, its rows, those in use; and its keys. */
struct extent {
    size_t b, first_row, rows, queries, first_key, keys;
};

static int64_t listed(const struct tensor_view *view, int id, size_t n)
{
    int32_t entry;

    memcpy(&entry, view->at[id] + n * sizeof entry, sizeof entry);
    return entry;
}

static int64_t clamped(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static void find_sequence(const struct tensor_view *view, int starts, size_t b, size_t total,
                          size_t longest, size_t *first, size_t *rows)
{
    const int64_t begin = clamped(listed(view, starts, b), (int64_t)total);
    const int64_t most = (int64_t)(total - (size_t)begin);

    *first = (size_t)begin;
    *rows = (size_t)clamped(listed(view, starts, b + 1) - begin,
                            most < (int64_t)longest ? most : (int64_t)longest);
}

static struct extent extent_of(const struct indexing *x, size_t b)
{
    const clattn_indexer_problem *p = x->p;
    struct extent e = {b, 0, p->seq_q, 0, 0, p->seq_kv};

    if (p->total_q > 0)
        find_sequence(x->view, INDEXER_Q_STARTS, b, p->total_q, p->seq_q, &e.first_row, &e.rows);
    if (p->total_kv > 0)
        find_sequence(x->view, INDEXER_KV_STARTS, b, p->total_kv, p->seq_kv, &e.first_key, &e.keys);
    e.queries = e.rows;
    if (p->q_lengths)
        e.queries = (size_t)clamped(listed(x->view, INDEXER_Q_LENGTHS, b), (int64_t)e.rows);
    if (p->kv_lengths)
        e.keys = (size_t)clamped(listed(x->view, INDEXER_KV_LENGTHS, b), (int64_t)e.keys);
    return e;
}

static bool sees(const clattn_indexer_problem *p, const struct extent *e, size_t i, size_t j)
{
    const bool follows = p->q_lengths || p->kv_lengths || p->total_q > 0 || p->total_kv > 0;
    const int64_t bottom_right =
        follows ? (int64_t)e->keys - (int64_t)e->queries : (int64_t)p->seq_kv - (int64_t)p->seq_q;
    const int64_t diagonal = p->diagonal == CLATTN_BOTTOM_RIGHT ? bottom_right
                             : p->diagonal == CLATTN_OFFSET     ? p->diagonal_offset
                                                                : 0;

    return i < e->queries && j < e->keys && (!p->causal || (int64_t)j <= (int64_t)i + diagonal);
}

/* Loads the row of key j; false if it has no page. */
static bool load_key(const struct indexing *x, const struct extent *e, size_t j)
{
    const clattn_indexer_problem *p = x->p;
    size_t block = p->total_kv > 0 ? 0 : e->b, row = e->first_key + j;

    if (p->page_size > 0) {
        const size_t columns = (p->seq_kv + p->page_size - 1) / p->page_size;
        const int64_t page = listed(x->view, INDEXER_PAGE_TABLE, e->b * columns + j / p->page_size);
        if (page < 0 || page >= (int64_t)p->pages)
            return false;
        block = (size_t)page;
        row = j % p->page_size;
    }
    tensor_load_row(&x->k, x->view->at[INDEXER_K], block, 0, row, x->key);
    return true;
}

static void load_query(const struct indexing *x, const struct extent *e, size_t i)
{
    const size_t block = x->p->total_q > 0 ? 0 : e->b;

    for (size_t h = 0; h < x->p->heads; h++) {
        tensor_load_row(&x->q, x->view->at[INDEXER_Q], block, h, e->first_row + i,
                        x->rows + h * x->p->dim);
        tensor_load_row(&x->w, x->view->at[INDEXER_W], block, h, e->first_row + i, x->weights + h);
    }
}

/* Of the query and the key that are loaded. */
static struct bounded score(const struct indexing *x)
{
    const clattn_indexer_problem *p = x->p;
    double sum = 0.0, error = 0.0, tiny = FLT_MIN;

    for (size_t h = 0; h < p->heads; h++) {
        double dot = 0.0, magnitude = 0.0;
        for (size_t d = 0; d < p->dim; d++) {
            const double product = x->rows[h * p->dim + d] * x->key[d];
            dot += product;
            magnitude += fabs(product);
            /* operands that count as 0, and products that do */
            tiny += fabs(x->weights[h]) * (double)FLT_MIN *
                    (fabs(x->rows[h * p->dim + d]) + fabs(x->key[d]) + 1.0);
        }
        sum += x->weights[h] * (dot < 0.0 ? 0.0 : dot);
        error += fabs(x->weights[h]) * magnitude * U * (double)(p->dim + 4 + p->heads);
    }
    return (struct bounded){sum, error + tiny};
}

struct scored {
    double rank; /* the score, +infinity for a NaN */
    struct bounded score;
    size_t key;
};

static int by_score(const void *x, const void *y)
{
    const struct scored *a = x, *b = y;

    return a->rank != b->rank ? (a->rank < b->rank) - (a->rank > b->rank)
                              : (a->key > b->key) - (a->key < b->key);
}

static int by_key(const void *x, const void *y)
{
    const struct scored *a = x, *b = y;

    return (a->key > b->key) - (a->key < b->key);
}

static double above(const struct scored *s)
{
    return isfinite(s->rank) ? s->rank + s->score.bound : s->rank;
}

static double below(const struct scored *s)
{
    return isfinite(s->rank) ? s->rank - s->score.bound : s->rank;
}

/* Moves the entries of a list to the front of all[], in its order. Returns whether it could be a right one. */
static bool take_list(const int32_t *list, size_t topk, struct scored *all, size_t count)
{
    const size_t wanted = count < topk ? count : topk;
    size_t taken = 0;
    double least = INFINITY, most = -INFINITY;

    for (size_t n = wanted; n < topk; n++)
        if (list[n] != -1)
            return false;
    for (size_t n = 0; n < count && taken < wanted; n++) /* all[] is in the order of keys */
        if ((int64_t)all[n].key == list[taken]) {
            const struct scored one = all[taken];
            least = fmin(least, above(&all[n]));
            all[taken++] = all[n];
            all[n] = one;
        }
    for (size_t n = taken; n < count; n++)
        most = fmax(most, below(&all[n]));
    return taken == wanted && !(least < most);
}

static void judge_list(const struct indexing *x, const struct extent *e, size_t i,
                       struct scored *all, struct bounded *want, judge_visit *visit, void *user)
{
    const clattn_indexer_problem *p = x->p;
    const size_t block = p->total_q > 0 ? 0 : e->b;
    size_t count = 0;

    if (i < e->queries)
        load_query(x, e, i);
    for (size_t j = 0; j < e->keys; j++)
        if (sees(p, e, i, j) && load_key(x, e, j)) {
            const struct bounded one = score(x);
            all[count++] = (struct scored){isnan(one.value) ? INFINITY : one.value, one, j};
        }
    const size_t wanted = count < p->topk ? count : p->topk;
    const unsigned char *chosen =
        x->view->chosen
            ? x->view->chosen + 4 * tensor_index(&x->lists, block, 0, e->first_row + i, 0)
            : NULL;
    int32_t *list = chosen ? malloc(p->topk * sizeof *list) : NULL;
    if (list)
        memcpy(list, chosen, p->topk * sizeof *list);
    if (!list || !take_list(list, p->topk, all, count)) {
        qsort(all, count, sizeof *all, by_score);
        qsort(all, wanted, sizeof *all, by_key);
    }
    free(list);
    const size_t at[4] = {block, 0, e->first_row + i, 0};
    for (size_t n = 0; n < p->topk; n++)
        want[n] = (struct bounded){n < wanted ? (double)all[n].key : -1.0, 0.0};
    visit(user, INDEXER_TOPK_INDICES, at, want, p->topk);
    for (size_t n = 0; n < p->topk; n++)
        want[n] = n < wanted ? all[n].score : (struct bounded){-INFINITY, 0.0};
    if (p->scores)
        visit(user, INDEXER_SCORES, at, want, p->topk);
}

/* ---- gradients ---------------------------------------------------------------------------------- */

/* A sum of terms, each with an error of its own. */
struct sum {
    double value, magnitude, doubt;
    size_t terms;
};

static void add(struct sum *sum, double term, double doubt)
{
    sum->value += term;
    sum->magnitude += fabs(term);
    sum->doubt += doubt + (double)FLT_MIN;
    sum->terms++;
}

/* Roundings of each addition, of a product of two factors and of the weight that it is multiplied by. */
static struct bounded total(const struct sum *sum, clattn_dtype dtype)
{
    const double roundings = (double)sum->terms + 6.0;

    return bounded_stored(
        dtype, (struct bounded){sum->value, sum->doubt + roundings * U * sum->magnitude});
}

/* The product of the key that is loaded and a head's row. */
static struct bounded product(const struct indexing *x, size_t h)
{
    struct sum sum = {0.0, 0.0, 0.0, 0};

    for (size_t d = 0; d < x->p->dim; d++)
        add(&sum, x->rows[h * x->p->dim + d] * x->key[d],
            (double)FLT_MIN * (fabs(x->rows[h * x->p->dim + d]) + fabs(x->key[d])));
    return (struct bounded){sum.value, sum.doubt + (double)(x->p->dim + 4) * U * sum.magnitude};
}

/* Adds `coefficient` times a row where the product is positive, as far as that is certain. */
static void add_row(struct sum *sums, size_t dim, const double *row, double coefficient,
                    struct bounded product_of_pair)
{
    const bool counts = !(product_of_pair.value <= 0.0);
    const bool uncertain = fabs(product_of_pair.value) <= product_of_pair.bound;

    for (size_t d = 0; d < dim && (counts || uncertain); d++)
        add(&sums[d], counts ? coefficient * row[d] : 0.0,
            uncertain ? fabs(coefficient * row[d]) : 0.0);
}

/* The key that entry n of row i names; -1 if it does not count. */
static int64_t named(const struct indexing *x, const struct extent *e, size_t i, size_t n)
{
    const size_t block = x->p->total_q > 0 ? 0 : e->b;
    const int64_t j =
        listed(x->view, INDEXER_CHOSEN, tensor_index(&x->lists, block, 0, e->first_row + i, n));

    return j >= 0 && (uint64_t)j < e->keys && sees(x->p, e, i, (size_t)j) ? j : -1;
}

static double dscore(const struct indexing *x, const struct extent *e, size_t i, size_t n)
{
    const size_t block = x->p->total_q > 0 ? 0 : e->b;
    float value;

    memcpy(&value,
           x->view->at[INDEXER_DSCORES] +
               4 * tensor_index(&x->lists, block, 0, e->first_row + i, n),
           sizeof value);
    return (double)value;
}

static void visit_sums(const struct sum *sums, size_t count, clattn_dtype dtype, int id,
                       const size_t at[4], struct bounded *want, judge_visit *visit, void *user)
{
    for (size_t d = 0; d < count; d++)
        want[d] = total(&sums[d], dtype);
    visit(user, id, at, want, count);
}

static size_t list_rows(const clattn_indexer_problem *p)
{
    return p->total_q > 0 ? p->total_q : p->batch * p->seq_q;
}

/* Finds the sequence of a row of the lists, the first if there are several; false if it has none. */
static bool find_row(const struct indexing *x, size_t row, struct extent *e, size_t *i)
{
    for (size_t b = 0; b < x->p->batch; b++) {
        *e = extent_of(x, b);
        const size_t first = x->p->total_q > 0 ? e->first_row : b * x->p->seq_q;
        if (row >= first && row - first < e->rows) {
            *i = row - first;
            return true;
        }
    }
    return false;
}

/* dq and dw of row i. */
static void judge_query_gradients(const struct indexing *x, const struct extent *e, size_t i,
                                  struct sum *sums, struct bounded *want, judge_visit *visit,
                                  void *user)
{
    const clattn_indexer_problem *p = x->p;

    if (i < e->queries)
        load_query(x, e, i);
    for (size_t h = 0; h < p->heads; h++) {
        const size_t at[4] = {p->total_q > 0 ? 0 : e->b, h, e->first_row + i, 0};
        struct sum dw = {0.0, 0.0, 0.0, 0};
        memset(sums, 0, p->dim * sizeof *sums);
        for (size_t n = 0; n < p->topk; n++) {
            const int64_t j = named(x, e, i, n);
            if (j < 0 || !load_key(x, e, (size_t)j))
                continue;
            const struct bounded one = product(x, h);
            const double d = dscore(x, e, i, n);
            add_row(sums, p->dim, x->key, x->weights[h] * d, one);
            add(&dw, d * (one.value <= 0.0 ? 0.0 : one.value), fabs(d) * one.bound);
        }
        visit_sums(sums, p->dim, p->dtype, INDEXER_DQ, at, want, visit, user);
        visit_sums(&dw, 1, CLATTN_F32, INDEXER_DW, at, want, visit, user);
    }
}

/* dk of a row of k. */
static void judge_key_gradient(const struct indexing *x, size_t block, size_t row, struct sum *sums,
                               struct bounded *want, judge_visit *visit, void *user)
{
    const clattn_indexer_problem *p = x->p;
    const size_t at[4] = {block, 0, row, 0};

    memset(sums, 0, p->dim * sizeof *sums);
    for (size_t number = 0; number < list_rows(p); number++) {
        struct extent e;
        size_t i;
        if (!find_row(x, number, &e, &i) || (p->total_kv == 0 && e.b != block))
            continue;
        for (size_t n = 0; n < p->topk; n++) {
            const int64_t j = named(x, &e, i, n);
            if (j < 0 || e.first_key + (size_t)j != row || !load_key(x, &e, (size_t)j))
                continue;
            load_query(x, &e, i);
            for (size_t h = 0; h < p->heads; h++)
                add_row(sums, p->dim, x->rows + h * p->dim, x->weights[h] * dscore(x, &e, i, n),
                        product(x, h));
        }
    }
    visit_sums(sums, p->dim, p->dtype, INDEXER_DK, at, want, visit, user);
}

enum { FEWEST_ROWS = 3 };

static bool judge_pairs(struct indexing *x, double budget, judge_visit *visit, void *user)
{
    const clattn_indexer_problem *p = x->p;
    const size_t all = list_rows(p), blocks = p->total_kv > 0 ? 1 : p->batch;
    const size_t keys = p->total_kv > 0 ? p->total_kv : p->seq_kv;
    const double pair = (double)p->heads * (double)p->dim;
    const size_t rows = judge_affordable(budget / 2.0, all, (double)p->topk * pair, FEWEST_ROWS);
    const size_t key_rows = judge_affordable(
        budget / 2.0, blocks * keys,
        (double)all * (double)p->topk * (1.0 + pair / (double)(keys + 1)), FEWEST_ROWS);
    struct sum *sums = malloc(p->dim * sizeof *sums);
    struct bounded *want = malloc(p->dim * sizeof *want);
    const bool ok = sums != NULL && want != NULL;

    for (size_t n = 0; ok && n < rows; n++) {
        const size_t row = judge_spread(n, rows, all);
        struct extent e;
        size_t i = 0;
        if (!find_row(x, row, &e, &i)) /* a row of no sequence sees nothing */
            e = (struct extent){.first_row = row};
        judge_query_gradients(x, &e, i, sums, want, visit, user);
    }
    for (size_t n = 0; ok && n < key_rows; n++) {
        const size_t row = judge_spread(n, key_rows, blocks * keys);
        judge_key_gradient(x, row / keys, row % keys, sums, want, visit, user);
    }
    free(sums);
    free(want);
    return ok;
}

/* ---- both --------------------------------------------------------------------------------------- */

bool judge_indexer(const clattn_problem *problem, const struct tensor_view *view,
                   enum precision precision, double budget, judge_visit *visit, void *user)
{
    const clattn_indexer_problem *p = &problem->indexer;
    struct indexing x = {
        .p = p,
        .view = view,
        .q = tensor_shape_of(problem, INDEXER_Q),
        .k = tensor_shape_of(problem, INDEXER_K),
        .w = tensor_shape_of(problem, INDEXER_W),
        .lists = tensor_shape_of(problem, p->gradients ? INDEXER_CHOSEN : INDEXER_TOPK_INDICES)};
    const size_t all = p->batch * p->seq_q;
    const size_t rows = judge_affordable(
        budget, all, (double)p->seq_kv * (double)p->heads * (double)p->dim, FEWEST_ROWS);
    struct scored *keys = malloc((p->seq_kv + 1) * sizeof *keys);
    struct bounded *want = malloc(p->topk * sizeof *want);
    x.rows = malloc(((p->heads + 1) * p->dim + p->heads) * sizeof *x.rows);
    bool ok = keys != NULL && want != NULL && x.rows != NULL;

    (void)precision;
    x.key = ok ? x.rows + p->heads * p->dim : NULL;
    x.weights = ok ? x.key + p->dim : NULL;
    if (ok && p->gradients)
        ok = judge_pairs(&x, budget, visit, user);
    for (size_t n = 0; ok && !p->gradients && n < rows; n++) {
        const size_t row = judge_spread(n, rows, all);
        const struct extent e = extent_of(&x, row / p->seq_q);
        if (row % p->seq_q < e.rows)
            judge_list(&x, &e, row % p->seq_q, keys, want, visit, user);
    }
    free(keys);
    free(want);
    free(x.rows);
    return ok;
}
