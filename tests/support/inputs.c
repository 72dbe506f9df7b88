/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/inputs.h"

#include "bench/judge/row.h"
#include "tests/support/storage.h"
#include <limits.h>
#include <math.h>
#include <string.h>

void fill_input(const clattn_problem *p, enum tensor_id id, const struct tensor_shape *s,
                struct rng *r, unsigned char *bytes)
{
    for (size_t n = 0; n < s->extent; n += s->cache ? 32 : 1) {
        if (s->cache != CLATTN_CACHE_PLAIN)
            storage_store_block(s->cache, bytes, n / 32, 1.27 / value_block_largest(s->cache), r);
        else if (id == TENSOR_MASK)
            bytes[n] = (unsigned char)rng_below(r, 2);
        else if (id == TENSOR_Q_LENGTHS || id == TENSOR_KV_LENGTHS)
            ((cl_int *)(void *)bytes)[n] =
                (cl_int)rng_below(r, (id == TENSOR_Q_LENGTHS ? p->seq_q : p->seq_kv) + 1);
        else if (id == TENSOR_PAGE_TABLE) /* some name no page */
            ((cl_int *)(void *)bytes)[n] = (cl_int)rng_below(r, p->pages + 2) - 1;
        else if (id == TENSOR_Q_STARTS || id == TENSOR_KV_STARTS)
            ((cl_int *)(void *)bytes)[n] =
                (cl_int)((id == TENSOR_Q_STARTS ? p->total_q : p->total_kv) * n / p->batch);
        else if (id == TENSOR_TOPK_INDICES) /* some are no key */
            ((cl_int *)(void *)bytes)[n] = (cl_int)rng_below(r, p->seq_kv + 3) - 1;
        else if (id == TENSOR_BLOCK_OFFSETS || id == TENSOR_BLOCK_ENTRIES)
            ((cl_int *)(void *)bytes)[n] = (cl_int)rng_below(
                r, id == TENSOR_BLOCK_OFFSETS ? p->max_blocks + 2 : p->seq_kv / p->block_kv + 2);
        else
            value_set(s->dtype, bytes, n, rng_uniform(r, -1, 1));
    }
}

void fill_numbers(const struct tensor_shape *s, unsigned char *bytes, struct rng *r, double most)
{
    for (size_t n = 0; s->present && n < tensor_count(s); n++)
        value_set(s->dtype, bytes, tensor_nth(s, n), rng_uniform(r, -most, most));
}

static void fill_projection(const clattn_problem *p, unsigned char *const bytes[NUM_TENSORS],
                            struct rng *r, int hostile)
{
    for (int id = 0; id < NUM_PROJECTION_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(p, id);
        if (!s.written || p->projection.accumulate)
            fill_numbers(&s, bytes[id], r, 1.0);
        if (hostile && s.present && (id == PROJECTION_X || id == PROJECTION_W))
            value_set(s.dtype, bytes[id], tensor_nth(&s, rng_below(r, tensor_count(&s))),
                      id == PROJECTION_X ? NAN : INFINITY);
    }
}

/* States: lse within +-spread; one in `empty` is empty (0: none), its row NaN. */
static void fill_states(const clattn_problem *p, unsigned char *const bytes[NUM_TENSORS], int id,
                        int lse_id, struct rng *r, double spread, size_t empty)
{
    const struct tensor_shape s = tensor_shape_of(p, id);

    for (size_t n = 0; s.present && n < tensor_count(&s); n++) {
        const size_t row = n / s.size[3];
        if (n % s.size[3] == 0)
            value_set(CLATTN_F32, bytes[lse_id], row,
                      empty && rng_one_in(r, empty) ? -INFINITY : rng_uniform(r, -spread, spread));
        value_set(s.dtype, bytes[id], tensor_nth(&s, n),
                  isinf(value_get(CLATTN_F32, bytes[lse_id], row)) ? (double)NAN
                                                                   : rng_uniform(r, -1, 1));
    }
}

static void fill_merge(const clattn_problem *p, unsigned char *const bytes[NUM_TENSORS],
                       struct rng *r)
{
    const struct tensor_shape sinks = tensor_shape_of(p, MERGE_SINKS);
    const double spread = RNG_PICK(r, 1, 10, 500);
    const size_t empty = RNG_PICK(r, 0, 3);

    fill_states(p, bytes, MERGE_PARTS, MERGE_PARTS_LSE, r, spread, empty);
    if (p->merge.accumulate)
        fill_states(p, bytes, MERGE_O, MERGE_LSE, r, spread, empty);
    fill_numbers(&sinks, bytes[MERGE_SINKS], r, spread);
}

/* Sets an entry of a list, if there is the list. */
static void set_entry(unsigned char *list, size_t n, cl_int entry)
{
    if (list)
        memcpy(list + n * sizeof entry, &entry, sizeof entry);
}

/* Each slot once, from a random one on; every third outside of the cache if hostile. */
static void fill_places(const clattn_append_problem *p, const struct tensor_shape *cache,
                        unsigned char *const bytes[NUM_TENSORS], struct rng *r, int hostile)
{
    static const cl_int strange[] = {-1, INT_MIN, INT_MAX, -1000000};
    const cl_int edges[] = {-2, (cl_int)p->capacity - 1, INT_MAX, INT_MIN};
    const cl_int none[] = {-1, INT_MIN, INT_MAX, (cl_int)p->pages};
    const size_t room = p->capacity > p->tokens ? p->capacity - p->tokens : 0;
    const size_t places = cache->size[0] * cache->size[2];
    const size_t first = places ? rng_below(r, places) : 0;
    const size_t pages = p->page_size ? (p->capacity + p->page_size - 1) / p->page_size : 0;

    for (size_t b = 0; b < p->batch; b++)
        set_entry(bytes[APPEND_KV_LENGTHS], b,
                  hostile ? edges[rng_below(r, 4)] : (cl_int)rng_below(r, room + 1));
    for (size_t n = 0; n < p->batch * p->tokens; n++) {
        cl_int slot = (hostile && n % 3 == 1) || n >= places ? strange[rng_below(r, 4)]
                                                             : (cl_int)((first + n) % places);
        if (hostile && n % 3 == 2)
            slot = (cl_int)(places + rng_below(r, 3));
        set_entry(bytes[APPEND_SLOTS], n, slot);
        set_entry(bytes[APPEND_POSITIONS], n, (cl_int)rng_below(r, 4000) - 1000);
    }
    for (size_t n = 0; n < p->batch * pages; n++) { /* a page each, as long as there are some */
        const int has = n < p->pages && !(hostile && rng_one_in(r, 3));
        set_entry(bytes[APPEND_PAGE_TABLE], n,
                  has ? (cl_int)(p->pages - 1 - n) : none[rng_below(r, 4)]);
    }
}

static void fill_append(const clattn_problem *p, unsigned char *const bytes[NUM_TENSORS],
                        struct rng *r, int hostile)
{
    static const int numbers[] = {APPEND_K, APPEND_V, APPEND_Q, APPEND_COS, APPEND_SIN};
    const struct tensor_shape cache = tensor_shape_of(p, APPEND_K_CACHE);
    const struct tensor_shape out = tensor_shape_of(p, APPEND_Q_OUT);

    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        const struct tensor_shape s = tensor_shape_of(p, numbers[n]);
        fill_numbers(&s, bytes[numbers[n]], r, 2.0);
    }
    for (int id = APPEND_K_SCALES; id <= APPEND_V_SCALES; id++) {
        const struct tensor_shape s = tensor_shape_of(p, id);
        for (size_t n = 0; s.present && n < tensor_count(&s); n++)
            value_set(CLATTN_F32, bytes[id], tensor_nth(&s, n),
                      rng_uniform(r, 0.5, 2) * (rng_one_in(r, 4) ? -1 : 1));
    }
    if (p->append.queries == CLATTN_QUERIES_IN_PLACE)
        fill_numbers(&out, bytes[APPEND_Q_OUT], r, 2.0);
    fill_places(&p->append, &cache, bytes, r, hostile);
}

/* Rows that lengths hide are NaN. */
static void hide_rows(const struct tensor_shape *s, unsigned char *bytes, size_t b, size_t first)
{
    for (size_t n = 0; s->present && n < tensor_count(s); n++)
        if (n / s->size[3] / s->size[2] / s->size[1] == b && n / s->size[3] % s->size[2] >= first)
            value_set(s->dtype, bytes, tensor_nth(s, n), NAN);
}

static void fill_double_backward(const clattn_problem *p, unsigned char *const bytes[NUM_TENSORS],
                                 struct rng *r)
{
    static const int of_queries[] = {DOUBLE_BACKWARD_Q, DOUBLE_BACKWARD_GGQ, DOUBLE_BACKWARD_DO};
    static const int of_keys[] = {DOUBLE_BACKWARD_K, DOUBLE_BACKWARD_GGK, DOUBLE_BACKWARD_V,
                                  DOUBLE_BACKWARD_GGV};
    const clattn_double_backward_problem *d = &p->double_backward;
    const double spread = RNG_PICK(r, 1, 1, 3);

    for (int id = 0; id < NUM_DOUBLE_BACKWARD_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(p, id);
        if (!s.written && id != DOUBLE_BACKWARD_Q_LENGTHS && id != DOUBLE_BACKWARD_KV_LENGTHS)
            fill_numbers(&s, bytes[id], r, spread);
    }
    for (size_t b = 0; b < d->batch; b++) {
        const size_t queries = rng_below(r, d->seq_q + 2), keys = rng_below(r, d->seq_kv + 2);
        set_entry(bytes[DOUBLE_BACKWARD_Q_LENGTHS], b, (cl_int)queries);
        set_entry(bytes[DOUBLE_BACKWARD_KV_LENGTHS], b, (cl_int)keys);
        for (size_t n = 0; n < 3 && d->q_lengths; n++) {
            const struct tensor_shape s = tensor_shape_of(p, of_queries[n]);
            hide_rows(&s, bytes[of_queries[n]], b, queries);
        }
        for (size_t n = 0; n < 4 && d->kv_lengths; n++) {
            const struct tensor_shape s = tensor_shape_of(p, of_keys[n]);
            hide_rows(&s, bytes[of_keys[n]], b, keys);
        }
    }
}

/* A row of numbers, or of small integers, of which many scores are equal. */
static void fill_row(const struct tensor_shape *s, unsigned char *bytes, size_t b, size_t h,
                     size_t row, int whole, struct rng *r)
{
    for (size_t d = 0; d < s->size[3]; d++)
        value_set(s->dtype, bytes, tensor_index(s, b, h, row, d),
                  whole ? (double)rng_below(r, 3) - 1.0 : rng_uniform(r, -1, 1));
}

/* The first row of sequence b, of `total` rows of which no sequence has more than `longest`, and how many it has. */
static size_t rows_of(const unsigned char *starts, size_t b, size_t total, size_t longest,
                      size_t *first)
{
    cl_int edge[2];

    memcpy(edge, starts + b * sizeof *edge, sizeof edge);
    const cl_int begin = edge[0] < 0 ? 0 : edge[0] > (cl_int)total ? (cl_int)total : edge[0];
    const cl_int left = edge[1] - begin, most = (cl_int)total - begin;
    *first = (size_t)begin;
    const size_t rows = left < 0 ? 0 : (size_t)(left < most ? left : most);
    return rows < longest ? rows : longest;
}

/* Lists of any entries, with a gradient for those that query i of a sequence with so many keys in use sees. */
static void fill_entries(const clattn_indexer_problem *p, unsigned char *const bytes[NUM_TENSORS],
                         size_t row, int64_t last, struct rng *r)
{
    for (size_t n = row * p->topk; n < (row + 1) * p->topk; n++) {
        cl_int entry;
        memcpy(&entry, bytes[INDEXER_CHOSEN] + 4 * n, sizeof entry);
        if (entry >= 0 && entry <= last)
            value_set(CLATTN_F32, bytes[INDEXER_DSCORES], n, rng_uniform(r, -1, 1));
    }
}

/* Numbers in rows that are in use; all else is NaN, and so is a key now and then. */
static void fill_indexer(const clattn_problem *problem, unsigned char *const bytes[NUM_TENSORS],
                         struct rng *r)
{
    const clattn_indexer_problem *p = &problem->indexer;
    const struct tensor_shape q = tensor_shape_of(problem, INDEXER_Q),
                              k = tensor_shape_of(problem, INDEXER_K),
                              w = tensor_shape_of(problem, INDEXER_W);
    const size_t columns = p->page_size ? (p->seq_kv + p->page_size - 1) / p->page_size : 0;
    const int whole = rng_one_in(r, 2);

    for (size_t n = 0; q.present && n < q.extent; n++)
        value_set(q.dtype, bytes[INDEXER_Q], n, NAN);
    for (size_t n = 0; k.present && n < k.extent; n++)
        value_set(k.dtype, bytes[INDEXER_K], n, NAN);
    for (size_t n = 0; w.present && n < w.extent; n++)
        value_set(w.dtype, bytes[INDEXER_W], n, NAN);
    const struct tensor_shape lists = tensor_shape_of(problem, INDEXER_CHOSEN);
    for (size_t n = 0; lists.present && n < lists.extent; n++) {
        set_entry(bytes[INDEXER_CHOSEN], n,
                  rng_one_in(r, 20) ? INT32_MIN : (cl_int)rng_below(r, p->seq_kv + 5) - 2);
        value_set(CLATTN_F32, bytes[INDEXER_DSCORES], n, NAN);
    }
    for (size_t n = 0; n < p->batch * columns; n++) /* some are no pages */
        set_entry(bytes[INDEXER_PAGE_TABLE], n, (cl_int)rng_below(r, p->pages + 2) - 1);
    cl_int start = -2; /* no query is of two sequences, whose results would be those of either */
    for (size_t n = 0; n <= p->batch; n++) {
        if (p->total_q) {
            const cl_int near = (cl_int)(n * p->total_q / p->batch + rng_below(r, 4)) - 2;
            start = near > start ? near : start;
            set_entry(bytes[INDEXER_Q_STARTS], n, start);
        }
        if (p->total_kv)
            set_entry(bytes[INDEXER_KV_STARTS], n,
                      (cl_int)(n * p->total_kv / p->batch + rng_below(r, 4)) - 2);
    }
    for (size_t b = 0; b < p->batch; b++) {
        size_t first_row = 0, first_key = 0;
        size_t queries = p->total_q
                             ? rows_of(bytes[INDEXER_Q_STARTS], b, p->total_q, p->seq_q, &first_row)
                             : p->seq_q;
        size_t keys = p->total_kv
                          ? rows_of(bytes[INDEXER_KV_STARTS], b, p->total_kv, p->seq_kv, &first_key)
                          : p->seq_kv;
        if (p->q_lengths) {
            const size_t length = rng_below(r, queries + 2);
            set_entry(bytes[INDEXER_Q_LENGTHS], b, (cl_int)length);
            queries = length < queries ? length : queries;
        }
        if (p->kv_lengths) {
            const size_t length = rng_below(r, keys + 2);
            set_entry(bytes[INDEXER_KV_LENGTHS], b, length == 0 ? -7 : (cl_int)length);
            keys = length < keys ? length : keys;
        }
        for (size_t i = 0; i < queries; i++)
            for (size_t h = 0; h < p->heads; h++) {
                fill_row(&q, bytes[INDEXER_Q], p->total_q ? 0 : b, h, first_row + i, whole, r);
                fill_row(&w, bytes[INDEXER_W], p->total_q ? 0 : b, h, first_row + i, whole, r);
            }
        const int64_t diagonal = p->diagonal == CLATTN_BOTTOM_RIGHT
                                     ? (int64_t)keys - (int64_t)queries
                                     : p->diagonal_offset;
        for (size_t i = 0; i < queries && lists.present; i++) {
            const int64_t last = p->causal ? (int64_t)i + diagonal : (int64_t)keys;
            fill_entries(p, bytes, p->total_q ? first_row + i : b * p->seq_q + i,
                         last < (int64_t)keys - 1 ? last : (int64_t)keys - 1, r);
        }
        for (size_t j = 0; j < keys; j++) {
            cl_int page = p->total_kv ? 0 : (cl_int)b;
            if (p->page_size)
                memcpy(&page, bytes[INDEXER_PAGE_TABLE] + 4 * (b * columns + j / p->page_size), 4);
            if (page >= 0 && (size_t)page < k.size[0] && !rng_one_in(r, 200))
                fill_row(&k, bytes[INDEXER_K], (size_t)page, 0,
                         p->page_size ? j % p->page_size : first_key + j, whole, r);
        }
    }
}

void fill_operation(const clattn_problem *p, unsigned char *const bytes[NUM_TENSORS], struct rng *r,
                    int hostile)
{
    if (p->operation == CLATTN_PROJECTION)
        fill_projection(p, bytes, r, hostile);
    else if (p->operation == CLATTN_MERGE)
        fill_merge(p, bytes, r);
    else if (p->operation == CLATTN_DOUBLE_BACKWARD)
        fill_double_backward(p, bytes, r);
    else if (p->operation == CLATTN_INDEXER)
        fill_indexer(p, bytes, r);
    else
        fill_append(p, bytes, r, hostile);
}

int fill_results(const clattn_problem *p, const struct tensor_view *view,
                 unsigned char *const bytes[NUM_TENSORS])
{
    const struct tensor_shape o = tensor_shape_of(p, TENSOR_O),
                              lse = tensor_shape_of(p, TENSOR_LSE);
    struct reference_row row;
    const int ok = reference_row_open(p, PRECISION_SINGLE, &row);

    for (size_t n = 0; ok && n < p->batch * p->heads * p->seq_q; n++) {
        const size_t b = n / p->seq_q / p->heads, h = n / p->seq_q % p->heads, i = n % p->seq_q;
        size_t block, place;
        if (!tensor_locate_query(p, view, b, i, &block, &place))
            continue;
        reference_row_compute(p, view, b, h, i, &row);
        for (size_t d = 0; d < p->dim_v; d++)
            value_set(o.dtype, bytes[TENSOR_O], tensor_index(&o, block, h, place, d),
                      row.o[d].value);
        value_set(lse.dtype, bytes[TENSOR_LSE], tensor_index(&lse, block, h, 0, place),
                  row.lse.value);
    }
    reference_row_close(&row);
    return ok;
}
