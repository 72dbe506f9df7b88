/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a trial: ordinary numbers where some query looks, hostile ones elsewhere. */
#include "tests/trials/trial_data.h"

#include "bench/judge/score.h"
#include "tests/support/inputs.h"
#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Calls body for each element of a tensor, at its position `at`. */
#define EACH_ELEMENT(s, b, h, i, d, at)                                                            \
    for (size_t b = 0; b < (s)->size[0]; b++)                                                      \
        for (size_t h = 0; h < (s)->size[1]; h++)                                                  \
            for (size_t i = 0; i < (s)->size[2]; i++)                                              \
                for (size_t d = 0, at = tensor_index((s), b, h, i, 0); d < (s)->size[3];           \
                     d++, at += (s)->stride[3])

static unsigned char *first(struct host_tensor *t)
{
    return t->bytes + tensor_bytes(&t->shape, t->offset);
}

/* Sometimes beyond both ends, and as far as a cl_int goes, where they are clamped. */
static void fill_lengths(struct host_tensor *t, struct rng *r, const size_t seq)
{
    if (!t->shape.present)
        return;
    for (size_t b = 0; b < t->shape.size[3]; b++) {
        cl_int length = (cl_int)rng_below(r, seq + 1);
        if (rng_one_in(r, 12))
            length = RNG_PICK(r, -1, -4, INT32_MIN, INT32_MAX);
        else if (rng_one_in(r, 4))
            length = (cl_int)(seq + rng_below(r, 5));
        memcpy(first(t) + b * sizeof length, &length, sizeof length);
    }
}

/* The row after the last of those that a start and the next let a sequence have. */
static int64_t end_of(const int32_t *starts, size_t b, int64_t longest, int64_t total)
{
    const int64_t begin = starts[b] < 0 ? 0 : starts[b], end = starts[b + 1];
    const int64_t most = begin + longest < total ? begin + longest : total;

    return end < most ? end : most;
}

static int overlap(const int32_t *starts, size_t batch, int64_t longest, int64_t total)
{
    int64_t past = 0;

    for (size_t b = 0; b < batch; b++) {
        const int64_t begin = starts[b] < 0 ? 0 : starts[b];
        const int64_t end = end_of(starts, b, longest, total);
        if (begin < end && begin < past)
            return 1;
        past = begin < end ? end : past;
    }
    return 0;
}

/* Sequences that follow each other, some empty, some longer than the longest; sometimes starts that
 * decrease or lie outside. Rows of o that several sequences would write have none to be compared with. */
static void fill_starts(struct host_tensor *t, struct rng *r, size_t longest, size_t total)
{
    const size_t batch = t->shape.present ? t->shape.size[3] - 1 : 0;
    int32_t starts[8] = {0}, hostile[8];

    if (batch == 0 || batch >= 8)
        return;
    starts[0] = (int32_t)rng_below(r, 3);
    for (size_t b = 0; b < batch; b++)
        starts[b + 1] = starts[b] + (int32_t)rng_below(r, 2 * total / batch + 2);
    memcpy(hostile, starts, sizeof starts);
    for (size_t b = 0; b <= batch; b++)
        if (rng_one_in(r, 4))
            hostile[b] = RNG_PICK(r, -1, -1000000, INT32_MIN, INT32_MAX, (int32_t)total,
                                  (int32_t)total + 1, 0);
    const int use = rng_one_in(r, 2) && !overlap(hostile, batch, (int64_t)longest, (int64_t)total);
    memcpy(first(t), use ? hostile : starts, (batch + 1) * sizeof *starts);
}

/* Pages that may be named twice; sometimes entries that are no pages. */
static void fill_pages(struct host_tensor *t, struct rng *r, const size_t pages)
{
    const int32_t strange[] = {-1, INT32_MIN, INT32_MAX, (int32_t)pages, (int32_t)pages + 1};
    const int is_hostile = rng_one_in(r, 2);

    if (!t->shape.present)
        return;
    for (size_t n = 0; n < t->shape.size[3]; n++) {
        int32_t page = (int32_t)rng_below(r, pages);
        if (is_hostile && rng_one_in(r, 3))
            page = strange[rng_below(r, 5)];
        memcpy(first(t) + n * sizeof page, &page, sizeof page);
    }
}

/* The pairs that a mask or an additive bias hides: scattered pairs, blocks of keys, whole rows,
 * or all but one block (so that whole tiles are hidden and others are not). */
struct pattern {
    size_t kind, sparsity, block, origin;
};

static struct pattern draw_pattern(struct rng *r)
{
    return (struct pattern){rng_below(r, 5), 1 + rng_below(r, 6), RNG_PICK(r, 8, 16, 48, 64, 100),
                            rng_below(r, 100)};
}

static int hides(const struct pattern *p, struct rng *r, const size_t i, const size_t j)
{
    switch (p->kind) {
    case 0:
        return !rng_one_in(r, p->sparsity);
    case 1:
        return ((i + p->origin) / p->block + j / p->block) % 2;
    case 2:
        return i % (p->sparsity + 1) == 0 || rng_one_in(r, 3);
    case 3:
        return j / p->block != p->origin % 3;
    default:
        return 0;
    }
}

static void fill_mask(struct host_tensor *t, struct rng *r)
{
    const struct pattern pattern = draw_pattern(r);

    if (t->shape.present)
        EACH_ELEMENT(&t->shape, b, h, i, j, at)
    first(t)[at] = hides(&pattern, r, i, j) ? 0 : (unsigned char)(1 + rng_below(r, 255));
}

static void fill_bias(struct host_tensor *t, struct rng *r)
{
    struct pattern pattern = draw_pattern(r);

    if (rng_one_in(r, 2))
        pattern.kind = 4; /* hides nothing */
    if (t->shape.present)
        EACH_ELEMENT(&t->shape, b, h, i, j, at)
    value_set(t->shape.dtype, first(t), at,
              hides(&pattern, r, i, j) ? -INFINITY : rng_uniform(r, -2, 2));
}

/* An operand of a function: floats in +-1, and small integers. */
static void fill_operand(struct host_tensor *t, struct rng *r, clattn_function_type type)
{
    const int least = type == CLATTN_FUNCTION_UCHAR ? 0 : -4;

    if (type <= CLATTN_FUNCTION_BFLOAT)
        fill_numbers(&t->shape, first(t), r, 1.0);
    for (size_t n = 0; type > CLATTN_FUNCTION_BFLOAT && n < t->shape.extent; n++) {
        const cl_int value = (cl_int)rng_below(r, 8) + least;
        if (type == CLATTN_FUNCTION_INT)
            memcpy(first(t) + n * sizeof value, &value, sizeof value);
        else
            first(t)[n] = (unsigned char)value;
    }
}

static void fill_operands(struct trial *t, struct rng *r)
{
    const clattn_function *functions[] = {t->problem.score_function, t->problem.mask_function};
    size_t id = TENSOR_FUNCTION_0;

    for (int f = 0; f < 2; f++)
        for (size_t n = 0; functions[f]; n++) {
            clattn_function_operand operand = {.struct_size = sizeof operand};
            if (clattn_function_get_operand(functions[f], n, &operand) != CLATTN_SUCCESS ||
                !operand.name)
                break;
            if (t->tensor[id].shape.present)
                fill_operand(&t->tensor[id], r, operand.type);
            id++;
        }
}

/* Lists of some of the columns of each row, in any order; sometimes of columns that do not exist, of some
 * twice, with offsets beyond both ends and that decrease. */
static void fill_lists(struct host_tensor *offsets, struct host_tensor *entries, struct rng *r,
                       const clattn_problem *p)
{
    const int hostile = rng_one_in(r, 3), full = p->mask && rng_one_in(r, 2);
    const size_t columns = p->block_q ? (p->seq_kv + p->block_kv - 1) / p->block_kv : 0;

    if (!offsets->shape.present)
        return;
    EACH_ELEMENT(&offsets->shape, b, h, i, d, at)
    {
        const size_t rows = offsets->shape.size[3] - 1;
        cl_int offset = (cl_int)(rows ? p->max_blocks * d / rows : 0);
        if (hostile && rng_one_in(r, 6))
            offset = RNG_PICK(r, -1, INT32_MIN, (cl_int)p->max_blocks + 7, INT32_MAX, 0);
        memcpy(first(offsets) + at * sizeof offset, &offset, sizeof offset);
    }
    EACH_ELEMENT(&entries->shape, b, h, i, d, at)
    {
        cl_int entry = columns ? (cl_int)rng_below(r, columns) : 0;
        if (hostile && rng_one_in(r, 6))
            entry = RNG_PICK(r, -1, (cl_int)columns, INT32_MAX, INT32_MIN, 0x3fffffff);
        if (full && rng_one_in(r, 2) && entry >= 0)
            entry |= CLATTN_BLOCK_FULL;
        memcpy(first(entries) + at * sizeof entry, &entry, sizeof entry);
    }
}

/* Scores that are handed out before the masks show hidden keys: there only a NaN is the same
 * whatever the order of the sums. */
static double poison(const clattn_problem *p, struct rng *r)
{
    const double values[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30};
    const int shown = p->scores == CLATTN_SCORES_RAW || p->scores == CLATTN_SCORES_SOFTCAP;

    return shown ? (double)NAN : values[rng_below(r, 5)];
}

/* The rows of q and of k and v that some pair uses, and the elements of the bias that some pair
 * reads which nothing else hides. */
struct seen {
    unsigned char *q, *kv, *bias;
};

static void look(const struct trial *t, const struct seen *seen)
{
    const clattn_problem *p = &t->problem;
    const struct tensor_view view = trial_sent(t);
    struct tensor_view unbiased = view;
    const struct reference all = reference_of(p, &view, PRECISION_SINGLE);
    const struct reference others = reference_of(p, &unbiased, PRECISION_SINGLE);
    const struct tensor_shape *bias = &t->tensor[TENSOR_BIAS].shape;

    unbiased.at[TENSOR_BIAS] = NULL;
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->seq_q; i++) {
                const struct query query = reference_query(&all, b, h, i);
                for (size_t j = 0; j < p->seq_kv; j++) {
                    size_t block, row, q_block, q_row;
                    if (!reference_sees(&others, &query, j))
                        continue;
                    if (bias->present)
                        seen->bias[tensor_index(bias, b, h, i, j)] = 1;
                    if (bias->present && !reference_sees(&all, &query, j))
                        continue;
                    tensor_locate_query(p, &view, b, i, &q_block, &q_row);
                    seen->q[(q_block * p->heads + h) * t->tensor[TENSOR_Q].shape.size[2] + q_row] =
                        1;
                    tensor_locate_key(p, &view, b, j, &block, &row);
                    seen->kv[(block * p->kv_heads + query.kv_head) *
                                 t->tensor[TENSOR_K].shape.size[2] +
                             row] = 1;
                }
            }
}

/* Likewise blocks. Half of the scales are negative. */
static void fill_blocks(struct trial *t, struct host_tensor *x, const unsigned char *seen,
                        struct rng *r, const double most)
{
    const struct tensor_shape *s = &x->shape;
    const double hidden = poison(&t->problem, r);
    const double largest = most / value_block_largest(s->cache);

    EACH_ELEMENT(s, b, h, i, d, at)
    if (d % 32 == 0)
        storage_store_block(s->cache, first(x), at / 32, hidden, r);
    EACH_ELEMENT(s, b, h, i, d, at)
    if (d % 32 == 0 && seen[(b * s->size[1] + h) * s->size[2] + i])
        storage_store_block(s->cache, first(x), at / 32, rng_uniform(r, -largest, largest), r);
}

/* Poison first, ordinary values over it: where strides share a place, one user is enough. */
static void fill_rows(struct trial *t, struct host_tensor *x, const unsigned char *seen,
                      struct rng *r, const double most)
{
    const struct tensor_shape *s = &x->shape;
    const double hidden = poison(&t->problem, r);

    if (!s->present)
        return;
    if (s->cache != CLATTN_CACHE_PLAIN) {
        fill_blocks(t, x, seen, r, most);
        return;
    }
    EACH_ELEMENT(s, b, h, i, d, at)
    value_set(s->dtype, first(x), at, hidden);
    EACH_ELEMENT(s, b, h, i, d, at)
    if (seen[(b * s->size[1] + h) * s->size[2] + i])
        value_set(s->dtype, first(x), at, rng_uniform(r, -most, most));
}

static void poison_bias(struct trial *t, const unsigned char *seen, struct rng *r)
{
    struct host_tensor *bias = &t->tensor[TENSOR_BIAS];

    if (bias->shape.present)
        EACH_ELEMENT(&bias->shape, b, h, i, j, at)
    if (!seen[at])
        value_set(bias->shape.dtype, first(bias), at, poison(&t->problem, r));
}

/* A NaN in one element of q, k, v, bias or do, most likely one that is seen. */
static void spoil_one(struct trial *t, struct rng *r)
{
    const enum tensor_id ids[] = {TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_BIAS, TENSOR_DO};
    const size_t choices = t->problem.operation == CLATTN_BACKWARD ? 5 : 4;
    struct host_tensor *x = &t->tensor[ids[rng_below(r, choices)]];
    const struct tensor_shape *s = &x->shape;

    if (!s->present)
        return;
    const size_t at = tensor_index(s, rng_below(r, s->size[0]), rng_below(r, s->size[1]),
                                   rng_below(r, s->size[2]), rng_below(r, s->size[3]));
    if (s->cache != CLATTN_CACHE_PLAIN)
        storage_store_block(s->cache, first(x), at / 32, NAN, r);
    else
        value_set(s->dtype, first(x), at, NAN);
}

/* Returns whether the function hides pairs itself. Then a NaN behind a score may show, but need
 * not. */
static int hides_scores(const clattn_problem *p)
{
    return p->score_function &&
           strstr(clattn_function_source(p->score_function), "-INFINITY") != NULL;
}

void trial_data_fill_results(struct trial *t)
{
    const struct tensor_view view = trial_sent(t);
    unsigned char *const bytes[NUM_TENSORS] = {
        [TENSOR_O] = first(&t->tensor[TENSOR_O]), [TENSOR_LSE] = first(&t->tensor[TENSOR_LSE])};

    if (!fill_results(&t->problem, &view, bytes))
        abort();
}

/* Numbers; poison where forward wrote an lse of -inf. */
static void fill_dlse(struct trial *t, struct rng *r)
{
    struct host_tensor *x = &t->tensor[TENSOR_DLSE];
    const struct tensor_shape *s = &x->shape;

    if (!s->present)
        return;
    fill_numbers(s, first(x), r, 4);
    EACH_ELEMENT(s, b, h, i, d, at)
    if (value_get(CLATTN_F32, first(&t->tensor[TENSOR_LSE]), at) == -(double)INFINITY)
        value_set(CLATTN_F32, first(x), at, poison(&t->problem, r));
}

/* Scales of rows that some pair uses; those of other rows are poison, unless a row that is used shares them. */
static void fill_scales(struct trial *t, struct host_tensor *x, const unsigned char *seen,
                        struct rng *r)
{
    const struct tensor_shape *s = &x->shape;

    if (!s->present)
        return;
    for (int used = 0; used < 2; used++)
        EACH_ELEMENT(s, b, h, i, d, at)
    if (seen[(b * s->size[1] + h) * s->size[2] + i] == used)
        value_set(CLATTN_F32, first(x), at,
                  used ? rng_uniform(r, 0.1, 1.5) * (rng_one_in(r, 4) ? -1 : 1)
                       : poison(&t->problem, r));
}

/* Lists of chosen keys, in which a key in ten is none, and some stand twice. */
static void fill_chosen(struct host_tensor *x, struct rng *r, size_t keys)
{
    const cl_int none[] = {-1, -1, INT32_MIN, INT32_MAX, (cl_int)keys, (cl_int)keys + 7};
    cl_int *entries = x->shape.present ? (cl_int *)(void *)first(x) : NULL;

    for (size_t n = 0; entries && n < x->shape.extent; n++)
        entries[n] =
            keys == 0 || rng_one_in(r, 10) ? none[rng_below(r, 6)] : (cl_int)rng_below(r, keys);
}

static void fill_attention(struct trial *t, struct rng *r)
{
    const clattn_problem *p = &t->problem;
    const double most[] = {0.5, 1, 1, 2, 2, 4};
    const struct tensor_shape *bias = &t->tensor[TENSOR_BIAS].shape;
    const size_t *keys = t->tensor[TENSOR_K].shape.size;
    const size_t *queries = t->tensor[TENSOR_Q].shape.size;
    struct seen seen = {calloc(queries[0] * queries[1] * queries[2] + 1, 1),
                        calloc(keys[0] * keys[1] * keys[2] + 1, 1), calloc(bias->extent + 1, 1)};

    if (!seen.q || !seen.kv || !seen.bias)
        abort();
    fill_lengths(&t->tensor[TENSOR_Q_LENGTHS], r, p->seq_q);
    fill_lengths(&t->tensor[TENSOR_KV_LENGTHS], r, p->seq_kv);
    fill_starts(&t->tensor[TENSOR_Q_STARTS], r, p->seq_q, p->total_q);
    fill_starts(&t->tensor[TENSOR_KV_STARTS], r, p->seq_kv, p->total_kv);
    fill_chosen(&t->tensor[TENSOR_TOPK_INDICES], r, p->seq_kv);
    if (p->page_size > 0)
        fill_pages(&t->tensor[TENSOR_PAGE_TABLE], r, p->pages);
    fill_mask(&t->tensor[TENSOR_MASK], r);
    fill_bias(&t->tensor[TENSOR_BIAS], r);
    fill_lists(&t->tensor[TENSOR_BLOCK_OFFSETS], &t->tensor[TENSOR_BLOCK_ENTRIES], r, p);
    fill_numbers(&t->tensor[TENSOR_SLOPES].shape, first(&t->tensor[TENSOR_SLOPES]), r, 0.5);
    fill_numbers(&t->tensor[TENSOR_SINKS].shape, first(&t->tensor[TENSOR_SINKS]), r, 4);
    fill_operands(t, r);
    look(t, &seen);
    poison_bias(t, seen.bias, r);
    fill_rows(t, &t->tensor[TENSOR_Q], seen.q, r, most[rng_below(r, 6)]);
    fill_rows(t, &t->tensor[TENSOR_K], seen.kv, r, most[rng_below(r, 6)]);
    fill_rows(t, &t->tensor[TENSOR_V], seen.kv, r, 2);
    fill_scales(t, &t->tensor[TENSOR_K_SCALES], seen.kv, r);
    fill_scales(t, &t->tensor[TENSOR_V_SCALES], seen.kv, r);
    fill_rows(t, &t->tensor[TENSOR_DO], seen.q, r, 2);
    if (!hides_scores(p) && rng_one_in(r, 6))
        spoil_one(t, r);
    if (p->operation == CLATTN_BACKWARD)
        trial_data_fill_results(t);
    fill_dlse(t, r);
    free(seen.bias);
    free(seen.kv);
    free(seen.q);
}

void trial_data_fill(struct trial *t, struct rng *r)
{
    unsigned char *bytes[NUM_TENSORS] = {NULL};

    if (t->problem.operation == CLATTN_FORWARD || t->problem.operation == CLATTN_BACKWARD) {
        fill_attention(t, r);
        return;
    }
    for (int id = 0; id < NUM_TENSORS; id++)
        if (t->tensor[id].bytes)
            bytes[id] = first(&t->tensor[id]);
    fill_operation(&t->problem, bytes, r,
                   t->problem.operation == CLATTN_APPEND ? rng_one_in(r, 2) : t->poisoned);
}
