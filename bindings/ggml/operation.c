/* SPDX-License-Identifier: Apache-2.0 */
#include "operation.h"

#include <math.h>
#include <string.h>

/* With up to so many queries, a plan is made for the whole cache that the keys are a view of. It
 * is told how many keys are in use, so that it serves every length: generation makes one plan,
 * not one for each token. A prompt's plan is made for its own length, which costs no compilation
 * either; its mask is too large to be copied. */
#define MOST_QUERIES_OF_GENERATION 16

/* ---- tensors --------------------------------------------------------------------------------- */

/* Formats that both have. */
static const struct {
    enum ggml_type type;
    clattn_cache cache;
    size_t unit_bytes; /* 0: of a block, which the library knows. */
} formats[] = {{GGML_TYPE_F32, CLATTN_CACHE_F32, 4},       {GGML_TYPE_F16, CLATTN_CACHE_F16, 2},
               {GGML_TYPE_BF16, CLATTN_CACHE_BF16, 2},     {GGML_TYPE_Q8_0, CLATTN_CACHE_Q8_0, 0},
               {GGML_TYPE_Q4_0, CLATTN_CACHE_Q4_0, 0},     {GGML_TYPE_Q5_0, CLATTN_CACHE_Q5_0, 0},
               {GGML_TYPE_IQ4_NL, CLATTN_CACHE_IQ4_NL, 0}, {GGML_TYPE_Q4_1, CLATTN_CACHE_Q4_1, 0},
               {GGML_TYPE_Q5_1, CLATTN_CACHE_Q5_1, 0}};

static const char *set_format(const struct ggml_tensor *tensor, struct operand *operand,
                              clattn_cache *cache)
{
    for (size_t n = 0; n < sizeof formats / sizeof *formats; n++)
        if (formats[n].type == tensor->type) {
            const size_t block = clattn_quantized_bytes(formats[n].cache, 1);
            *cache = formats[n].cache;
            operand->unit_bytes = block ? block : formats[n].unit_bytes;
            operand->unit_values = block ? 32 : 1;
            return NULL;
        }
    return "a tensor of a type that clattn does not have";
}

/* Strides along (batch, heads, seq), in elements, of dimensions 3, 2 and 1 of ggml, or, of what is
 * written, 3, 1 and 2; 0 where there is one element or it is broadcast. */
static const char *set_strides(const struct ggml_tensor *tensor, const int dimension[3],
                               const struct operand *operand, size_t stride[4])
{
    if (tensor->nb[0] != operand->unit_bytes)
        return "rows whose elements are not neighbours";
    for (int n = 0; n < 3; n++) {
        const size_t bytes = tensor->ne[dimension[n]] == 1 ? 0 : tensor->nb[dimension[n]];
        if (bytes % operand->unit_bytes != 0)
            return "strides that are not whole elements";
        stride[n] = bytes / operand->unit_bytes * operand->unit_values;
    }
    stride[3] = 1;
    return NULL;
}

static void set_memory(const struct ggml_tensor *tensor, struct operand *operand)
{
    operand->data = tensor->data;
    operand->bytes = tensor->nb[0] * ((size_t)tensor->ne[0] / operand->unit_values);
    for (int n = 1; n < GGML_MAX_DIMS; n++)
        operand->bytes += tensor->nb[n] * (size_t)(tensor->ne[n] - 1);
}

static const char *read_tensor(const struct ggml_tensor *tensor, const int dimension[3],
                               struct operation *o, enum operand_name name, clattn_cache *cache)
{
    struct operand *operand = &o->operand[name];
    const char *why = set_format(tensor, operand, cache);

    for (int n = 0; why == NULL && n < GGML_MAX_DIMS; n++)
        if (tensor->ne[n] < 1)
            why = "a tensor without elements";
    if (why == NULL)
        why = set_strides(tensor, dimension, operand, o->shape.stride[name]);
    if (why == NULL)
        set_memory(tensor, operand);
    return why;
}

/* Returns how many rows there are from the first one of a cache's view to the end of the cache. */
static size_t rows_of_cache(const struct host *host, const struct ggml_tensor *view)
{
    const size_t rows = (size_t)view->ne[1];
    const struct ggml_tensor *cache = view->view_src;

    if (cache == NULL || view->data == NULL || cache->data == NULL || view->nb[1] == 0)
        return rows;
    const char *end = (const char *)cache->data + host->ggml_nbytes(cache);
    const char *last = (const char *)view->data + (size_t)(view->ne[2] - 1) * view->nb[2] +
                       (size_t)(view->ne[3] - 1) * view->nb[3];
    const size_t row_bytes = view->nb[1];
    /* The last head's and batch's row ends with the cache, if it is as long as one may be. */
    const size_t left = end > last ? (size_t)(end - last) : 0;
    const size_t row = (size_t)view->ne[0] * view->nb[0]; /* at least its bytes */
    const size_t all = left < row ? 0 : (left - row) / row_bytes + 1;
    /* Not into the next batch or head, whose rows are longer than the steps between them. */
    size_t most = all;
    for (int n = 2; n < GGML_MAX_DIMS; n++)
        if (view->ne[n] > 1 && view->nb[n] > row_bytes && view->nb[n] / row_bytes < most)
            most = view->nb[n] / row_bytes;
    return most > rows ? most : rows;
}

/* ---- the mask -------------------------------------------------------------------------------- */

static const char *read_mask(const struct ggml_tensor *mask, struct operation *o)
{
    static const int dimension[3] = {3, 2, 1};
    struct shape *s = &o->shape;
    clattn_cache cache = CLATTN_CACHE_PLAIN;

    if (mask == NULL)
        return o->max_bias > 0.0f ? "slopes without a mask" : NULL;
    const char *why = read_tensor(mask, dimension, o, OPERAND_BIAS, &cache);
    if (why != NULL)
        return why;
    if (cache != CLATTN_CACHE_F16)
        return "a mask that is not f16";
    if ((size_t)mask->ne[0] < o->keys || (size_t)mask->ne[1] < s->seq_q)
        return "a mask smaller than the scores";
    if ((mask->ne[2] != 1 && (size_t)mask->ne[2] != s->heads) ||
        (mask->ne[3] != 1 && (size_t)mask->ne[3] != s->batch))
        return "a mask that repeats over heads or batches";
    if (s->seq_q == 1)
        s->stride[OPERAND_BIAS][2] = 0;
    memcpy(o->mask_stride, s->stride[OPERAND_BIAS], sizeof o->mask_stride);
    s->mask = o->max_bias > 0.0f                      ? MASK_SLOPED
              : s->seq_q > MOST_QUERIES_OF_GENERATION ? MASK_IN_PLACE
                                                      : MASK_COPIED;
    return NULL;
}

/* Packed (batches, heads, seq_q, seq_kv), with batches and heads 1 where all have the same. */
static void pack_mask(struct operation *o)
{
    struct shape *s = &o->shape;
    const size_t rows = s->seq_q * s->seq_kv;
    const bool heads = s->mask == MASK_SLOPED || o->mask_stride[1] != 0;
    size_t *stride = s->stride[OPERAND_BIAS];

    stride[0] = o->mask_stride[0] != 0 ? rows * (heads ? s->heads : 1) : 0;
    stride[1] = heads && s->heads > 1 ? rows : 0;
    stride[2] = s->seq_q > 1 ? s->seq_kv : 0;
}

/* ---- the operation --------------------------------------------------------------------------- */

static const char *read_sizes(const struct ggml_tensor *node, struct operation *o)
{
    const struct ggml_tensor *q = node->src[0], *k = node->src[1], *v = node->src[2];
    struct shape *s = &o->shape;

    s->dim_qk = (size_t)q->ne[0];
    s->seq_q = (size_t)q->ne[1];
    s->heads = (size_t)q->ne[2];
    s->batch = (size_t)q->ne[3];
    s->kv_heads = (size_t)k->ne[2];
    s->dim_v = (size_t)v->ne[0];
    o->keys = (size_t)k->ne[1];
    if (k->ne[0] != q->ne[0] || v->ne[1] != k->ne[1])
        return "keys that do not fit the queries or the values";
    if (v->ne[2] != k->ne[2])
        return "keys and values of different numbers of heads";
    if (k->ne[3] != q->ne[3] || v->ne[3] != q->ne[3])
        return "keys or values that repeat over batches";
    if (s->dim_qk % o->operand[OPERAND_K].unit_values != 0)
        return "keys that end within a block";
    return NULL;
}

static const char *read_tensors(const struct ggml_tensor *node, struct operation *o)
{
    static const int input[3] = {3, 2, 1}, output[3] = {3, 1, 2};
    clattn_cache q = CLATTN_CACHE_PLAIN, k = q, v = q, out = q;
    const char *why = read_tensor(node->src[0], input, o, OPERAND_Q, &q);

    if (why == NULL)
        why = read_tensor(node->src[1], input, o, OPERAND_K, &k);
    if (why == NULL)
        why = read_tensor(node->src[2], input, o, OPERAND_V, &v);
    if (why == NULL)
        why = read_tensor(node, output, o, OPERAND_O, &out);
    if (why == NULL && (q != CLATTN_CACHE_F32 || out != CLATTN_CACHE_F32))
        why = "queries or results that are not f32";
    o->shape.k_cache = (size_t)k;
    o->shape.v_cache = (size_t)v;
    return why;
}

static void read_sinks(const struct ggml_tensor *sinks, struct operation *o)
{
    if (sinks == NULL)
        return;
    o->shape.sinks = 1;
    o->operand[OPERAND_SINKS] = (struct operand){.data = sinks->data,
                                                 .bytes = o->shape.heads * sizeof(float),
                                                 .unit_bytes = sizeof(float),
                                                 .unit_values = 1};
}

const char *operation_read(const struct host *host, const struct ggml_tensor *node,
                           struct operation *o)
{
    struct shape *s = &o->shape;
    float parameters[3]; /* scale, max_bias, logit_softcap */

    memset(o, 0, sizeof *o);
    memcpy(parameters, node->op_params, sizeof parameters);
    s->scale = parameters[0];
    o->max_bias = parameters[1];
    s->softcap = parameters[2];
    if (isnan(s->scale)) /* which clattn takes for the default */
        return "a scale that is not a number";
    const char *why = read_tensors(node, o);
    if (why == NULL)
        why = read_sizes(node, o);
    if (why == NULL)
        why = read_mask(node->src[3], o);
    if (why != NULL)
        return why;
    read_sinks(node->src[4], o);
    s->seq_kv = o->keys;
    if (s->seq_q <= MOST_QUERIES_OF_GENERATION) {
        const size_t k = rows_of_cache(host, node->src[1]), v = rows_of_cache(host, node->src[2]);
        s->seq_kv = k < v ? k : v;
        s->kv_lengths = 1;
    }
    if (s->mask == MASK_COPIED || s->mask == MASK_SLOPED)
        pack_mask(o);
    return NULL;
}

void operation_problem(const struct shape *s, clattn_problem *p)
{
    clattn_problem_init(p);
    p->batch = s->batch;
    p->heads = s->heads;
    p->kv_heads = s->kv_heads;
    p->seq_q = s->seq_q;
    p->seq_kv = s->seq_kv;
    p->dim_qk = s->dim_qk;
    p->dim_v = s->dim_v;
    memcpy(p->q.stride, s->stride[OPERAND_Q], sizeof p->q.stride);
    memcpy(p->k.stride, s->stride[OPERAND_K], sizeof p->k.stride);
    memcpy(p->v.stride, s->stride[OPERAND_V], sizeof p->v.stride);
    memcpy(p->o.stride, s->stride[OPERAND_O], sizeof p->o.stride);
    memcpy(p->bias_layout.stride, s->stride[OPERAND_BIAS], sizeof p->bias_layout.stride);
    p->k_cache = (clattn_cache)s->k_cache;
    p->v_cache = (clattn_cache)s->v_cache;
    p->scale = s->scale;
    p->softcap = s->softcap;
    p->bias = s->mask != MASK_NONE;
    p->bias_dtype = s->mask == MASK_SLOPED ? CLATTN_F32 : p->bias ? CLATTN_F16 : CLATTN_F32;
    p->sinks = s->sinks != 0;
    p->kv_lengths = s->kv_lengths != 0;
}

double operation_multiply_adds(const struct operation *o)
{
    const struct shape *s = &o->shape;

    return (double)(s->batch * s->heads) * (double)(s->seq_q * o->keys) *
           (double)(s->dim_qk + s->dim_v);
}

float operation_slope(float max_bias, size_t heads, size_t head)
{
    size_t power = 1;

    if (!(max_bias > 0.0f))
        return 1.0f;
    while (power * 2 <= heads)
        power *= 2;
    const float step = max_bias / (float)power;
    return head < power ? powf(2.0f, -step * (float)(head + 1))
                        : powf(2.0f, -step / 2.0f * (float)(2 * (head - power) + 1));
}
