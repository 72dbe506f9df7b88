/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/tensors.h"
#include "bench/judge/function.h"
#include "bench/judge/function_syntax.h"
#include "bench/judge/values.h"

#include <stdlib.h>
#include <string.h>

static void set_sizes(struct tensor_shape *s, size_t b, size_t h, size_t i, size_t d)
{
    memcpy(s->size, (size_t[]){b, h, i, d}, sizeof s->size);
}

static void pack(struct tensor_shape *s)
{
    s->stride[3] = 1;
    for (int n = 2; n >= 0; n--)
        s->stride[n] = s->stride[n + 1] * (s->size[n + 1] ? s->size[n + 1] : 1);
}

static void set_packed(struct tensor_shape *s, size_t b, size_t h, size_t i, size_t d)
{
    set_sizes(s, b, h, i, d);
    pack(s);
}

static void set_list(struct tensor_shape *s, size_t length)
{
    set_packed(s, 1, 1, 1, length);
}

static size_t block_rows(const clattn_problem *p)
{
    return p->block_q > 0 ? (p->seq_q + p->block_q - 1) / p->block_q : 0;
}

/* Operand n of the problem's functions, those of the score function first; NULL if there is none. */
static const struct function_operand *function_operand(const clattn_problem *p, size_t n)
{
    const clattn_function *functions[] = {p->score_function, p->mask_function};

    for (int f = 0; f < 2; f++) {
        const struct function_program *program = function_program_of(functions[f]);
        const size_t count = program ? program->num_operands : 0;
        if (n < count)
            return &program->operands[n];
        n -= count;
    }
    return NULL;
}

void tensor_function_sizes(const clattn_problem *p, size_t sizes[5])
{
    const bool part = p->whole_q > 0;

    sizes[0] = part ? p->whole_batch : p->batch;
    sizes[1] = part ? p->whole_heads : p->heads;
    sizes[2] = sizes[1] / (p->heads / p->kv_heads);
    sizes[3] = part ? p->whole_q : p->seq_q;
    sizes[4] = part ? p->whole_kv : p->seq_kv;
}

static size_t elements_of(const clattn_problem *p, const struct function_operand *operand)
{
    size_t length = 1, sizes[5];

    tensor_function_sizes(p, sizes);
    for (size_t e = 0; e < operand->num_extents; e++) {
        const struct function_extent *extent = &operand->extents[e];
        length *=
            extent->letter ? sizes[strchr("bhgqk", extent->letter) - "bhgqk"] : extent->number;
    }
    return length;
}

size_t tensor_function_gradient(const clattn_problem *p, size_t n)
{
    const struct function_program *program = function_program_of(p->score_function);
    size_t sum = 0;

    for (size_t o = 0; program && o < n && o < program->num_operands; o++)
        if (program->operands[o].type <= CLATTN_FUNCTION_BFLOAT)
            sum += elements_of(p, &program->operands[o]);
    return sum;
}

static void set_function(struct tensor_shape *s, const clattn_problem *p, size_t n)
{
    static const size_t bytes[] = {4, 2, 2, 4, 1, 1};
    const struct function_operand *operand = function_operand(p, n);

    if (!operand)
        return;
    set_list(s, elements_of(p, operand));
    s->dtype = operand->type == CLATTN_FUNCTION_HALF     ? CLATTN_F16
               : operand->type == CLATTN_FUNCTION_BFLOAT ? CLATTN_BF16
                                                         : CLATTN_F32;
    s->element_bytes = bytes[operand->type];
}

/* A list of so many ints of each batch and head, or of all. */
static void set_lists(struct tensor_shape *s, const clattn_problem *p, size_t length)
{
    set_packed(s, p->block_batches ? p->batch : 1, p->block_heads ? p->heads : 1, 1, length);
}

/* Four zero strides stand for the packed tensor in q, k, v, o and their gradients, and for one
 * value in bias and mask. */
static void set_layout(struct tensor_shape *s, const clattn_layout *layout, bool zero_packs)
{
    bool all_zero = true;

    for (int n = 0; n < 4; n++) {
        s->stride[n] = layout->stride[n];
        all_zero = all_zero && layout->stride[n] == 0;
    }
    if (zero_packs && all_zero)
        pack(s);
}

static void set_rows(struct tensor_shape *s, const clattn_problem *p, size_t dim,
                     const clattn_layout *layout)
{
    s->dtype = p->dtype;
    if (p->total_q > 0)
        set_sizes(s, 1, p->heads, p->total_q, dim);
    else
        set_sizes(s, p->batch, p->heads, p->seq_q, dim);
    set_layout(s, layout, true);
}

/* Sets the dtype of o and of its gradient's kind. */
static void set_wide(struct tensor_shape *s, const clattn_problem *p)
{
    if (p->o_f32)
        s->dtype = CLATTN_F32;
}

static void set_results(struct tensor_shape *s, const clattn_problem *p)
{
    set_rows(s, p, p->dim_v, &p->o);
    set_wide(s, p);
}

static void set_lse(struct tensor_shape *s, const clattn_problem *p)
{
    if (p->total_q > 0)
        set_packed(s, 1, p->heads, 1, p->total_q);
    else
        set_packed(s, p->batch, p->heads, 1, p->seq_q);
}

static void set_key_sums(struct tensor_shape *s, const clattn_problem *p)
{
    if (p->total_kv > 0)
        set_packed(s, 1, p->kv_heads, 1, p->total_kv);
    else
        set_packed(s, p->batch, p->kv_heads, 1, p->seq_kv);
}

static void set_keys(struct tensor_shape *s, const clattn_problem *p, size_t dim,
                     const clattn_layout *layout)
{
    s->dtype = p->dtype;
    if (p->total_kv > 0)
        set_sizes(s, 1, p->kv_heads, p->total_kv, dim);
    else
        set_sizes(s, p->batch, p->kv_heads, p->seq_kv, dim);
    set_layout(s, layout, true);
}

/* Entries that a batch has in the table. */
static size_t pages_of(const clattn_problem *p)
{
    return p->page_size == 0 ? 0 : p->seq_kv / p->page_size + (p->seq_kv % p->page_size != 0);
}

static void set_cached(struct tensor_shape *s, const clattn_problem *p, size_t dim,
                       const clattn_layout *layout, clattn_cache cache)
{
    set_keys(s, p, dim, layout);
    if (value_in_blocks(cache))
        s->cache = cache;
    else
        s->dtype = value_dtype(cache, s->dtype);
    if (p->page_size == 0)
        return;
    set_sizes(s, p->pages, p->kv_heads, p->page_size, dim);
    set_layout(s, layout, true);
}

/* A scale for each row of a cache, or fewer. */
static void set_scales(struct tensor_shape *s, const clattn_problem *p, const clattn_layout *layout)
{
    if (p->page_size > 0)
        set_sizes(s, p->pages, p->kv_heads, p->page_size, 1);
    else if (p->total_kv > 0)
        set_sizes(s, 1, p->kv_heads, p->total_kv, 1);
    else
        set_sizes(s, p->batch, p->kv_heads, p->seq_kv, 1);
    set_layout(s, layout, false);
}

/* Where the bias broadcasts, even over nothing, its gradient has one element. */
static void set_bias(struct tensor_shape *s, const clattn_problem *p, bool is_gradient)
{
    s->dtype = p->bias_dtype;
    set_sizes(s, p->batch, p->heads, p->seq_q, p->seq_kv);
    set_layout(s, &p->bias_layout, false);
    for (int n = 0; is_gradient && n < 4; n++)
        if (s->stride[n] == 0)
            s->size[n] = 1;
}

static void set_mask(struct tensor_shape *s, const clattn_problem *p)
{
    set_sizes(s, p->batch, p->heads, p->seq_q, p->mask_keys ? p->mask_keys : p->seq_kv);
    set_layout(s, &p->mask_layout, false);
}

static void set_strided(struct tensor_shape *s, clattn_dtype dtype, const clattn_layout *layout,
                        size_t b, size_t h, size_t i, size_t d)
{
    s->dtype = dtype;
    set_sizes(s, b, h, i, d);
    set_layout(s, layout, true);
}

/* Entries that a batch has in the table of an append. */
static size_t append_columns(const clattn_append_problem *p)
{
    return p->page_size == 0 ? 0 : (p->capacity + p->page_size - 1) / p->page_size;
}

static void set_append_cache(struct tensor_shape *s, const clattn_append_problem *p,
                             const clattn_layout *layout, clattn_cache format, size_t dim)
{
    s->cache = format;
    if (p->page_size > 0)
        set_strided(s, p->cache_dtype, layout, p->pages, p->kv_heads, p->page_size, dim);
    else
        set_strided(s, p->cache_dtype, layout, p->batch, p->kv_heads, p->capacity, dim);
}

static void set_append_scales(struct tensor_shape *s, const clattn_append_problem *p,
                              const clattn_layout *layout)
{
    if (p->page_size > 0)
        set_sizes(s, p->pages, p->kv_heads, p->page_size, 1);
    else
        set_sizes(s, p->batch, p->kv_heads, p->capacity, 1);
    set_layout(s, layout, false);
}

static void set_indexer_rows(struct tensor_shape *s, const clattn_indexer_problem *p,
                             clattn_dtype dtype, const clattn_layout *layout, size_t dim)
{
    if (p->total_q > 0)
        set_strided(s, dtype, layout, 1, p->heads, p->total_q, dim);
    else
        set_strided(s, dtype, layout, p->batch, p->heads, p->seq_q, dim);
}

static void set_indexer_keys(struct tensor_shape *s, const clattn_indexer_problem *p,
                             const clattn_layout *layout)
{
    if (p->page_size > 0)
        set_strided(s, p->dtype, layout, p->pages, 1, p->page_size, p->dim);
    else if (p->total_kv > 0)
        set_strided(s, p->dtype, layout, 1, 1, p->total_kv, p->dim);
    else
        set_strided(s, p->dtype, layout, p->batch, 1, p->seq_kv, p->dim);
}

static void set_chosen(struct tensor_shape *s, const clattn_indexer_problem *p)
{
    set_packed(s, p->total_q > 0 ? 1 : p->batch, 1, p->total_q > 0 ? p->total_q : p->seq_q,
               p->topk);
}

/* Entries that a batch has in the table of an indexer. */
static size_t indexer_columns(const clattn_indexer_problem *p)
{
    return p->page_size == 0 ? 0 : (p->seq_kv + p->page_size - 1) / p->page_size;
}

#define WRITTEN_BY_NOBODY false
#define WRITTEN_BY_FORWARD (!backward)
#define WRITTEN_BY_BACKWARD backward

static void describe_attention(struct tensor_shape *s, const clattn_problem *p, int id)
{
    const bool backward = p->operation == CLATTN_BACKWARD;

    switch (id) {
#define TENSOR(ID, member, text, GIVEN, WRITER, has, shape)                                        \
    case TENSOR_##ID:                                                                              \
        s->name = text;                                                                            \
        s->present = (has) != 0;                                                                   \
        s->written = WRITTEN_BY_##WRITER;                                                          \
        shape;                                                                                     \
        break;
        TENSORS(TENSOR)
#undef TENSOR
    default:
        break;
    }
}

#define TENSOR(ID, member, role, has, shape)                                                       \
    case ID:                                                                                       \
        s->name = #member;                                                                         \
        s->present = (has) != 0;                                                                   \
        s->written = TENSOR_IF_IN(role, false) TENSOR_IF_OUT(role, true);                          \
        shape;                                                                                     \
        break;

static void describe_own(struct tensor_shape *s, const clattn_problem *problem, int id)
{
    switch (problem->operation) {
#define JUDGED(ID, name, ...)                                                                      \
    case CLATTN_##ID: {                                                                            \
        const clattn_##name##_problem *p = &problem->name;                                         \
        switch (id) {                                                                              \
            ID##_TENSORS(TENSOR) default : break;                                                  \
        }                                                                                          \
        break;                                                                                     \
    }
        JUDGED_OPERATIONS(JUDGED)
#undef JUDGED
    default:
        break;
    }
}
#undef TENSOR

struct tensor_shape tensor_shape_of(const clattn_problem *p, int id)
{
    const bool attends = p->operation == CLATTN_FORWARD || p->operation == CLATTN_BACKWARD;
    struct tensor_shape s = {.extent = 0};

    if (attends)
        describe_attention(&s, p, id);
    else
        describe_own(&s, p, id);
    /* an int's bytes are a float's */
    if (s.element_bytes == 0)
        s.element_bytes = attends && id == TENSOR_MASK ? 1 : value_bytes(s.dtype);
    if (s.cache != CLATTN_CACHE_PLAIN)
        s.element_bytes = value_block_bytes(s.cache);
    s.extent = tensor_extent(s.size, s.stride);
    s.present = s.present && s.extent > 0;
    if (!s.present)
        s.extent = 0;
    return s;
}

size_t tensor_extent(const size_t sizes[4], const size_t strides[4])
{
    size_t extent = 1;

    for (int n = 0; n < 4; n++) {
        if (sizes[n] == 0)
            return 0;
        extent += (sizes[n] - 1) * strides[n];
    }
    return extent;
}

size_t tensor_index(const struct tensor_shape *s, size_t b, size_t h, size_t i, size_t d)
{
    return b * s->stride[0] + h * s->stride[1] + i * s->stride[2] + d * s->stride[3];
}

size_t tensor_count(const struct tensor_shape *s)
{
    return s->size[0] * s->size[1] * s->size[2] * s->size[3];
}

size_t tensor_packed(const struct tensor_shape *s, size_t b, size_t h, size_t i, size_t d)
{
    const size_t at[4] = {b, h, i, d};
    size_t index = 0;

    for (int n = 0; n < 4; n++)
        index = index * s->size[n] + (s->size[n] == 1 ? 0 : at[n]);
    return index;
}

size_t tensor_nth(const struct tensor_shape *s, size_t n)
{
    const size_t row = n / s->size[3], plane = row / s->size[2];

    return tensor_index(s, plane / s->size[1], plane % s->size[1], row % s->size[2],
                        n % s->size[3]);
}

size_t tensor_bytes(const struct tensor_shape *s, size_t elements)
{
    return elements / (s->cache == CLATTN_CACHE_PLAIN ? 1 : VALUE_BLOCK) * s->element_bytes;
}

double tensor_load(const struct tensor_shape *s, const void *base, size_t index)
{
    int32_t number;

    if (s->holds_ints) {
        memcpy(&number, (const unsigned char *)base + index * sizeof number, sizeof number);
        return number;
    }
    return s->cache == CLATTN_CACHE_PLAIN ? value_get(s->dtype, base, index)
                                          : value_get_quantized(s->cache, base, index);
}

void tensor_store(const struct tensor_shape *s, void *base, size_t index, double value)
{
    const int32_t number = s->holds_ints ? (int32_t)value : 0;

    if (s->holds_ints)
        memcpy((unsigned char *)base + index * sizeof number, &number, sizeof number);
    else
        value_set(s->dtype, base, index, value);
}

/* Returns how many rows sequence b has, and the first, of `total` rows. */
static size_t sequence(const struct tensor_view *view, enum tensor_id starts, size_t b,
                       size_t total, size_t longest, size_t *first)
{
    int32_t edge[2];
    size_t rows = 0;

    memcpy(edge, view->at[starts] + b * sizeof *edge, sizeof edge);
    *first = edge[0] < 0 ? 0 : (size_t)edge[0];
    while (rows < longest && *first + rows < total && (int64_t)(*first + rows) < edge[1])
        rows++;
    return rows;
}

size_t tensor_queries(const clattn_problem *p, const struct tensor_view *view, size_t b)
{
    size_t first;

    return p->total_q == 0 ? p->seq_q
                           : sequence(view, TENSOR_Q_STARTS, b, p->total_q, p->seq_q, &first);
}

size_t tensor_keys(const clattn_problem *p, const struct tensor_view *view, size_t b)
{
    size_t first;

    return p->total_kv == 0 ? p->seq_kv
                            : sequence(view, TENSOR_KV_STARTS, b, p->total_kv, p->seq_kv, &first);
}

bool tensor_locate_query(const clattn_problem *p, const struct tensor_view *view, size_t b,
                         size_t i, size_t *block, size_t *row)
{
    size_t first;

    *block = b;
    *row = i;
    if (p->total_q == 0)
        return true;
    if (i >= sequence(view, TENSOR_Q_STARTS, b, p->total_q, p->seq_q, &first))
        return false;
    *block = 0;
    *row = first + i;
    return true;
}

bool tensor_locate_key(const clattn_problem *p, const struct tensor_view *view, size_t b, size_t j,
                       size_t *block, size_t *row)
{
    size_t first;
    int32_t page;

    *block = b;
    *row = j;
    if (p->total_kv > 0) {
        if (j >= sequence(view, TENSOR_KV_STARTS, b, p->total_kv, p->seq_kv, &first))
            return false;
        *block = 0;
        *row = first + j;
        return true;
    }
    if (p->page_size == 0)
        return true;
    memcpy(&page, view->at[TENSOR_PAGE_TABLE] + (b * pages_of(p) + j / p->page_size) * sizeof page,
           sizeof page);
    if (page < 0 || (size_t)page >= p->pages)
        return false;
    *block = (size_t)page;
    *row = j % p->page_size;
    return true;
}

void tensor_load_row(const struct tensor_shape *s, const void *base, size_t b, size_t h, size_t i,
                     double *values)
{
    const size_t first = tensor_index(s, b, h, i, 0);

    if (s->cache == CLATTN_CACHE_PLAIN)
        value_get_row(s->dtype, base, first, s->stride[3], s->size[3], values);
    else
        for (size_t d = 0; d < s->size[3]; d++)
            values[d] = value_get_quantized(s->cache, base, first + d * s->stride[3]);
}

bool tensor_has_row(const clattn_problem *p, const struct tensor_view *view, enum tensor_id id,
                    size_t row)
{
    const bool of_keys = id == TENSOR_DK || id == TENSOR_DV;
    const bool of_rows = of_keys || id == TENSOR_O || id == TENSOR_LSE || id == TENSOR_DQ;
    size_t block, first;

    if (!of_rows || (of_keys ? p->total_kv : p->total_q) == 0)
        return true;
    for (size_t b = 0; b < p->batch; b++) {
        const size_t rows = of_keys ? tensor_keys(p, view, b) : tensor_queries(p, view, b);
        const bool some = of_keys ? tensor_locate_key(p, view, b, 0, &block, &first)
                                  : tensor_locate_query(p, view, b, 0, &block, &first);
        if (some && row >= first && row - first < rows)
            return true;
    }
    return false;
}
