/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cases/case.h"
#include "bench/cases/case_layer.h"
#include "bench/judge/values.h"

#include <clattn/quantize.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* xorshift64: fast, and the same numbers on every machine. */
static float uniform(uint64_t *state, float low, float high)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return low + (high - low) * (float)(*state >> 40) / (float)(1 << 24);
}

static void fill_values(void *data, const struct view *view, float low, float high, uint64_t *state)
{
    for (size_t n = 0; n < view->extent; n++)
        value_set(view->dtype, data, n, uniform(state, low, high));
}

/* Blocks of the same values, quantized. */
static void fill_blocks(unsigned char *data, const struct view *view, float low, float high,
                        uint64_t *state)
{
    const clattn_quantization block = {.struct_size = sizeof block,
                                       .from = CLATTN_F32,
                                       .to = view->cache,
                                       .size = {1, 1, 1, VALUE_BLOCK}};

    for (size_t n = 0; n < view->extent / VALUE_BLOCK; n++) {
        float x[VALUE_BLOCK];
        for (size_t d = 0; d < VALUE_BLOCK; d++)
            x[d] = uniform(state, low, high);
        clattn_quantize_host(&block, x, data + n * view->element);
    }
}

static void fill_mask(unsigned char *data, const struct view *view, uint64_t *state)
{
    for (size_t n = 0; n < view->extent; n++)
        data[n] = uniform(state, 0.0f, 1.0f) < 0.75f;
}

enum { MANY_REQUESTS = 8 };

/* Half of the longest or more; of many requests as servers have them: log-normal, half of them shorter
 * than a quarter of the longest, two thirds between half and twice that. */
static void fill_lengths(cl_int *data, const struct view *view, size_t longest, uint64_t *state)
{
    for (size_t b = 0; b < view->extent; b++) {
        float share = uniform(state, 0.5f, 1.0f);
        if (view->extent >= MANY_REQUESTS) {
            float normal = -6.0f;
            for (int n = 0; n < 12; n++) /* a sum of twelve, less 6, has variance 1 */
                normal += uniform(state, 0.0f, 1.0f);
            share = 0.25f * expf(0.7f * normal);
        }
        data[b] = (cl_int)((float)longest * (share < 1.0f ? share : 1.0f));
        data[b] += data[b] == 0 && longest > 0;
    }
}

/* Entries of the rows before this one, which share the room evenly. */
static size_t listed_before(const clattn_problem *p, size_t rows, size_t columns, size_t row)
{
    size_t count = 0;

    for (size_t r = 0; r < row; r++) {
        const size_t room = p->max_blocks * (r + 1) / rows - p->max_blocks * r / rows;
        count += room < columns ? room : columns;
    }
    return count;
}

/* Lists at most `room` columns: the first one, whose tokens all queries see, and those around the
 * diagonal, as in Longformer. */
static void list_window(cl_int *entry, size_t room, size_t columns, size_t centre)
{
    const size_t before = room / 2, most = columns - room;
    const size_t first = centre < before ? 0 : centre - before > most ? most : centre - before;

    for (size_t n = 0; n < room; n++)
        entry[n] = n == 0 ? 0 : (cl_int)(first + n);
}

/* As many columns of each row as there is room for, in their order: of lists of their own drawn at random,
 * of one that all share windows. Offsets alone if entries is NULL. */
static void fill_lists(const clattn_problem *p, const struct view *view, cl_int *offsets,
                       cl_int *entries, uint64_t *state)
{
    const size_t rows = (p->seq_q + p->block_q - 1) / p->block_q;
    const size_t columns = (p->seq_kv + p->block_kv - 1) / p->block_kv;
    const size_t lists = view->size[0] * view->size[1];

    for (size_t n = 0; offsets != NULL && n < lists * (rows + 1); n++)
        offsets[n] = (cl_int)listed_before(p, rows, columns, n % (rows + 1));
    for (size_t n = 0; entries != NULL && n < lists * p->max_blocks; n++)
        entries[n] = 0;
    for (size_t n = 0; entries != NULL && n < lists * rows; n++) {
        const size_t row = n % rows, begin = listed_before(p, rows, columns, row);
        cl_int *entry = entries + n / rows * p->max_blocks + begin;
        size_t left = listed_before(p, rows, columns, row + 1) - begin;
        if (lists == 1) {
            list_window(entry, left, columns, row * columns / rows);
            continue;
        }
        for (size_t c = 0; c < columns && left > 0; c++)
            if (uniform(state, 0.0f, (float)(columns - c)) < (float)left) {
                *entry++ = (cl_int)c;
                left--;
            }
    }
}

/* Pages in random order, as an allocator that serves many requests hands them out; they repeat where
 * the pool has fewer than the table has entries. */
static void fill_pages(cl_int *data, const struct view *view, size_t pages, uint64_t *state)
{
    for (size_t n = 0; n < view->extent; n++)
        data[n] = (cl_int)(n % pages);
    for (size_t n = view->extent; n > 1; n--) {
        const size_t other = (size_t)((float)n * uniform(state, 0.0f, 1.0f)) % n;
        const cl_int page = data[n - 1];
        data[n - 1] = data[other];
        data[other] = page;
    }
}

/* Lists of different keys, spread over those up to the diagonal; -1 where they are too few. */
static void fill_chosen(size_t topk, size_t seq_kv, int64_t diagonal, cl_int *data,
                        const struct view *view, uint64_t *state)
{
    for (size_t n = 0; n < view->extent; n++) {
        const size_t i = n / topk % view->size[2], place = n % topk;
        const int64_t seen = (int64_t)i + diagonal + 1;
        const size_t keys = seen < 0 ? 0 : (size_t)seen < seq_kv ? (size_t)seen : seq_kv;
        const size_t begin = place * keys / topk, end = (place + 1) * keys / topk;
        const float where = (float)(end - begin) * uniform(state, 0.0f, 0.99f);
        data[n] = keys >= topk   ? (cl_int)(begin + (size_t)where)
                  : place < keys ? (cl_int)place
                                 : -1;
    }
}

/* Sequences of 1 to `longest` rows that fill about `total`; the same for queries and keys of the same
 * sizes. */
static void fill_starts(cl_int *data, const struct view *view, size_t longest, size_t total)
{
    const size_t batch = view->extent - 1, share = (2 * total + batch - 1) / batch;
    const size_t most = share < longest ? share : longest;
    uint64_t state = 0x2545f4914f6cdd1du;
    size_t end = 0;

    for (size_t b = 0; b <= batch; b++) {
        data[b] = (cl_int)end;
        const size_t rows = (size_t)ceilf((float)most * uniform(&state, 0.0f, 1.0f));
        end = rows < total - end ? end + rows : total;
    }
}

/* A weight's largest value: a product over so many columns of x has elements as large as x's. */
static float weight(size_t columns)
{
    return sqrtf(3.0f / (float)columns);
}

/* The lists of an append: caches with room for the tokens, positions and slots of their own. */
static bool fill_append(void *data, const clattn_append_problem *p, enum input input,
                        const struct view *view, uint64_t *state)
{
    const size_t room = p->capacity > p->tokens ? p->capacity - p->tokens : 0;
    const size_t places = p->page_size > 0 ? p->pages * p->page_size : p->batch * p->capacity;
    cl_int *list = data;

    switch (input) {
    case INPUT_APPEND_KV_LENGTHS:
        for (size_t b = 0; b < view->extent; b++)
            list[b] = (cl_int)((float)room * uniform(state, 0.5f, 1.0f));
        return true;
    case INPUT_APPEND_PAGE_TABLE:
        fill_pages(data, view, p->pages, state);
        return true;
    case INPUT_APPEND_POSITIONS:
        for (size_t n = 0; n < view->extent; n++)
            list[n] = (cl_int)((float)p->capacity * uniform(state, 0.0f, 1.0f));
        return true;
    case INPUT_APPEND_SLOTS:
        for (size_t n = 0; n < view->extent; n++)
            list[n] = (cl_int)((n * 7919 + 13) % places);
        return true;
    case INPUT_APPEND_COS:
    case INPUT_APPEND_SIN:
        fill_values(data, view, -1.0f, 1.0f, state);
        return true;
    default:
        return false;
    }
}

enum { DOCUMENTS = 8 };

/* An operand of a function. Ints of each token are the numbers of documents that follow each other; ints of
 * each batch are lengths of prefixes. */
static void fill_function(void *data, const struct job *job, enum input input,
                          const struct view *view, uint64_t *state)
{
    cl_int *const ints = data;

    switch (case_function_operand(job, input).type) {
    case CLATTN_FUNCTION_INT:
        for (size_t n = 0; n < view->extent; n++)
            ints[n] = (cl_int)(view->extent < DOCUMENTS ? job->problem.seq_kv / 4
                                                        : n * DOCUMENTS / view->extent);
        break;
    case CLATTN_FUNCTION_CHAR:
    case CLATTN_FUNCTION_UCHAR:
        fill_mask(data, view, state);
        break;
    default:
        fill_values(data, view, -1.0f, 1.0f, state);
    }
}

static void fill(void *data, const struct job *job, enum input input, const struct view *view,
                 uint64_t *state)
{
    const clattn_problem *p = &job->problem;
    const clattn_indexer_problem *x = &p->indexer;
    /* a plausible lse for scores of this data */
    const float lse = logf((float)p->seq_kv + 1.0f) + 1.0f;

    if (p->operation == CLATTN_APPEND && fill_append(data, &p->append, input, view, state))
        return;
    switch (input) {
    case INPUT_FUNCTION_0:
    case INPUT_FUNCTION_1:
    case INPUT_FUNCTION_2:
    case INPUT_FUNCTION_3:
    case INPUT_FUNCTION_4:
    case INPUT_FUNCTION_5:
        fill_function(data, job, input, view, state);
        break;
    case INPUT_MASK:
        fill_mask(data, view, state);
        break;
    case INPUT_SLOPES:
        fill_values(data, view, 0.004f, 0.5f, state);
        break;
    case INPUT_BIAS:
    case INPUT_SINKS:
    case INPUT_O:
    case INPUT_PROJECTION_BIAS:
    case INPUT_MERGE_SINKS:
    case INPUT_B_Q:
    case INPUT_B_K:
    case INPUT_B_V:
    case INPUT_B_O:
        fill_values(data, view, -1.0f, 1.0f, state);
        break;
    case INPUT_Q_LENGTHS:
        fill_lengths(data, view, p->seq_q, state);
        break;
    case INPUT_KV_LENGTHS:
        fill_lengths(data, view, p->seq_kv, state);
        break;
    case INPUT_DOUBLE_BACKWARD_Q_LENGTHS:
        fill_lengths(data, view, p->double_backward.seq_q, state);
        break;
    case INPUT_DOUBLE_BACKWARD_KV_LENGTHS:
        fill_lengths(data, view, p->double_backward.seq_kv, state);
        break;
    case INPUT_INDEXER_Q_LENGTHS:
        fill_lengths(data, view, x->seq_q, state);
        break;
    case INPUT_INDEXER_KV_LENGTHS:
        fill_lengths(data, view, x->seq_kv, state);
        break;
    case INPUT_INDEXER_PAGE_TABLE:
        fill_pages(data, view, x->pages, state);
        break;
    case INPUT_INDEXER_CHOSEN:
        fill_chosen(x->topk, x->seq_kv,
                    x->causal && !x->total_q
                        ? ca_diagonal(x->diagonal, x->diagonal_offset, x->seq_q, x->seq_kv)
                        : (int64_t)x->seq_kv,
                    data, view, state);
        break;
    case INPUT_INDEXER_Q_STARTS:
        fill_starts(data, view, x->seq_q, x->total_q);
        break;
    case INPUT_INDEXER_KV_STARTS:
        fill_starts(data, view, x->seq_kv, x->total_kv);
        break;
    case INPUT_BLOCK_OFFSETS:
        fill_lists(p, view, data, NULL, state);
        break;
    case INPUT_BLOCK_ENTRIES:
        fill_lists(p, view, NULL, data, state);
        break;
    case INPUT_PAGE_TABLE:
        fill_pages(data, view, p->pages, state);
        break;
    case INPUT_TOPK_INDICES:
        fill_chosen(p->topk, p->seq_kv,
                    p->causal && !p->total_q ? ca_problem_diagonal(p) : (int64_t)p->seq_kv, data,
                    view, state);
        break;
    case INPUT_Q_STARTS:
        fill_starts(data, view, p->seq_q, p->total_q);
        break;
    case INPUT_KV_STARTS:
        fill_starts(data, view, p->seq_kv, p->total_kv);
        break;
    case INPUT_LSE:
        fill_values(data, view, lse, lse + 0.5f, state);
        break;
    case INPUT_MERGE_PARTS_LSE:
        fill_values(data, view, -4.0f, 4.0f, state);
        break;
    case INPUT_W_Q:
    case INPUT_W_K:
    case INPUT_W_V:
    case INPUT_W_O: {
        const float most = weight(layer_parameter(&job->layer, input).view.size[3]);
        fill_values(data, view, -most, most, state);
        break;
    }
    default:
        if (view->cache != CLATTN_CACHE_PLAIN)
            fill_blocks(data, view, -2.0f, 2.0f, state);
        else
            fill_values(data, view, -2.0f, 2.0f, state);
    }
}

bool case_random(struct attention_case *attention, const struct job *job, unsigned seed,
                 struct message *why)
{
    uint64_t state = 0x9e3779b97f4a7c15u ^ seed;

    memset(attention, 0, sizeof *attention);
    attention->job = *job;
    attention->answers = job->is_layer ? calloc(PRECISION_COUNT, sizeof *attention->answers) : NULL;
    for (int n = 0; n < INPUT_COUNT; n++) {
        const struct view view = case_input_view(job, (enum input)n);
        struct block *block = &attention->in[n];
        if (!case_has_input(job, (enum input)n) || n == INPUT_RESERVE)
            continue;
        block->bytes = view_extent_bytes(&view);
        block->data = case_allocate(block->bytes, 1, why);
        if (block->data == NULL) {
            case_free(attention);
            return false;
        }
        fill(block->data, job, (enum input)n, &view, &state);
    }
    return true;
}
