/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/problem_data.h"
#include "bench/judge/values.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *dtype_name(clattn_dtype dtype)
{
    return dtype == CLATTN_F32 ? "F32" : dtype == CLATTN_F16 ? "F16" : "BF16";
}

/* The tensor of that dtype and shape, or NULL. Sizes of 1 are right for `broadcast` ones. */
static const struct safetensor *find(const struct problem_data *data, const char *name,
                                     const char *dtype, size_t rank, const size_t *shape,
                                     bool broadcast, struct message *why)
{
    const struct safetensor *tensor = safetensors_find(&data->file, name);
    bool fits = tensor != NULL && tensor->rank == rank && strcmp(tensor->dtype, dtype) == 0;

    for (size_t n = 0; fits && n < rank; n++)
        fits = tensor->shape[n] == shape[n] || (broadcast && tensor->shape[n] == 1);
    if (fits)
        return tensor;
    message_set(why, "the data has no tensor '%s' that fits the problem", name);
    return NULL;
}

static bool find_packed(const struct problem_data *data, const char *name, size_t heads, size_t seq,
                        size_t dim, const unsigned char **bytes, size_t *count, struct message *why)
{
    const clattn_problem *p = &data->problem;
    const bool projection = p->operation == CLATTN_PROJECTION;
    const size_t batch = projection ? p->projection.batch : p->batch;
    const struct safetensor *tensor = find(data, name, dtype_name(ca_problem_own_dtype(p)), 4,
                                           (size_t[]){batch, heads, seq, dim}, false, why);

    if (tensor == NULL)
        return false;
    *bytes = tensor->data;
    *count = tensor->bytes;
    return true;
}

/* K or v, in a format of its own or not. */
static bool find_cache(const struct problem_data *data, const char *name, enum ca_argument argument,
                       size_t dim, const unsigned char **bytes, size_t *count, struct message *why)
{
    const clattn_problem *p = &data->problem;
    const clattn_cache cache = ca_problem_cache(p, argument);
    const bool quantized = cache != CLATTN_CACHE_PLAIN;
    const size_t columns = quantized ? dim / VALUE_BLOCK * value_block_bytes(cache) : dim;
    const struct safetensor *tensor =
        find(data, name, quantized ? "U8" : dtype_name(ca_problem_dtype(p, argument)), 4,
             (size_t[]){p->batch, p->kv_heads, p->seq_kv, columns}, false, why);

    if (tensor == NULL)
        return false;
    *bytes = tensor->data;
    *count = tensor->bytes;
    return true;
}

/* A copy of a tensor of 4-byte elements. */
static bool copy_tensor(const struct problem_data *data, const char *name, const char *dtype,
                        size_t rank, const size_t *shape, void **copy, struct message *why)
{
    const struct safetensor *tensor = find(data, name, dtype, rank, shape, false, why);

    if (tensor == NULL)
        return false;
    *copy = malloc(tensor->bytes + 1);
    if (*copy == NULL)
        return message_set(why, "no memory for '%s'", name);
    memcpy(*copy, tensor->data, tensor->bytes);
    return true;
}

/* One element for each head or batch. */
static bool copy_list(const struct problem_data *data, const char *name, const char *dtype,
                      size_t count, void **copy, struct message *why)
{
    return copy_tensor(data, name, dtype, 1, &count, copy, why);
}

static bool read_lists(struct problem_data *data, struct message *why)
{
    const clattn_problem *p = &data->problem;
    void *lists[4] = {NULL, NULL, NULL, NULL};
    const bool ok =
        (!p->alibi || copy_list(data, "slopes", "F32", p->heads, &lists[0], why)) &&
        (!p->sinks || copy_list(data, "sinks", "F32", p->heads, &lists[1], why)) &&
        (!p->q_lengths || copy_list(data, "q_lengths", "I32", p->batch, &lists[2], why)) &&
        (!p->kv_lengths || copy_list(data, "kv_lengths", "I32", p->batch, &lists[3], why));

    data->slopes = lists[0];
    data->sinks = lists[1];
    data->q_lengths = lists[2];
    data->kv_lengths = lists[3];
    return ok;
}

/* ---- bias and mask --------------------------------------------------------------------------- */

/* Where element (b, h, i, j) of a tensor lies whose sizes of 1 broadcast. */
static size_t place(const struct safetensor *tensor, const size_t at[4])
{
    size_t index = 0;

    for (int n = 0; n < 4; n++)
        index = index * tensor->shape[n] + (tensor->shape[n] == 1 ? 0 : at[n]);
    return index;
}

/* Of one element, from tensors that may be NULL. */
static float addend_of(const struct safetensor *bias, const void *bias_data, clattn_dtype dtype,
                       const struct safetensor *mask, const size_t at[4])
{
    if (mask != NULL && mask->data[place(mask, at)] == 0)
        return -INFINITY;
    return bias != NULL ? (float)value_get(dtype, bias_data, place(bias, at)) : 0.0f;
}

/* Only as large as the two tensors need it, but for the keys. */
static bool allocate_addend(struct problem_data *data, const struct safetensor *bias,
                            const struct safetensor *mask, size_t size[4], struct message *why)
{
    const size_t all[4] = {data->problem.batch, data->problem.heads, data->problem.seq_q,
                           data->problem.seq_kv};
    size_t step = all[3];

    size[3] = all[3];
    for (int n = 2; n >= 0; n--) {
        const bool whole =
            (bias != NULL && bias->shape[n] > 1) || (mask != NULL && mask->shape[n] > 1);
        size[n] = whole ? all[n] : 1;
        data->addend_stride[n] = whole ? step : 0;
        step *= size[n];
    }
    data->addend_count = step;
    data->addend = step < SIZE_MAX / sizeof(float) ? malloc(step * sizeof(float)) : NULL;
    return data->addend != NULL || message_set(why, "no memory for the mask");
}

static bool join(struct problem_data *data, const struct safetensor *bias,
                 const struct safetensor *mask, struct message *why)
{
    const clattn_dtype dtype = data->problem.bias_dtype;
    void *aligned = malloc(bias != NULL ? bias->bytes + 1 : 1);
    size_t size[4], at[4];
    float *next;

    if (aligned == NULL || !allocate_addend(data, bias, mask, size, why)) {
        free(aligned);
        return message_set(why, "no memory for the bias");
    }
    if (bias != NULL)
        memcpy(aligned, bias->data, bias->bytes);
    next = data->addend;
    for (at[0] = 0; at[0] < size[0]; at[0]++)
        for (at[1] = 0; at[1] < size[1]; at[1]++)
            for (at[2] = 0; at[2] < size[2]; at[2]++)
                for (at[3] = 0; at[3] < size[3]; at[3]++)
                    *next++ = addend_of(bias, aligned, dtype, mask, at);
    free(aligned);
    return true;
}

static bool read_addend(struct problem_data *data, struct message *why)
{
    const clattn_problem *p = &data->problem;
    const size_t shape[4] = {p->batch, p->heads, p->seq_q, p->seq_kv};
    const struct safetensor *bias = NULL, *mask = NULL;

    if (p->bias)
        bias = find(data, "bias", dtype_name(p->bias_dtype), 4, shape, true, why);
    if (p->mask)
        mask = find(data, "mask", "BOOL", 4, shape, true, why);
    if ((p->bias && bias == NULL) || (p->mask && mask == NULL))
        return false;
    return (bias == NULL && mask == NULL) || join(data, bias, mask, why);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* What backward needs besides. */
static bool read_backward(struct problem_data *data, struct message *why)
{
    const clattn_problem *p = &data->problem;
    void *lse = NULL;
    const bool ok =
        find_packed(data, "o", p->heads, p->seq_q, p->dim_v, &data->o, &data->o_bytes, why) &&
        find_packed(data, "do", p->heads, p->seq_q, p->dim_v, &data->d_o, &data->o_bytes, why) &&
        copy_tensor(data, "lse", "F32", 3, (size_t[]){p->batch, p->heads, p->seq_q}, &lse, why);

    data->lse = lse;
    data->result_bytes = data->q_bytes + data->k_bytes + data->v_bytes;
    return ok;
}

static bool read_projection_bias(struct problem_data *data, struct message *why)
{
    const clattn_projection_problem *p = &data->problem.projection;
    const struct safetensor *bias = find(data, "bias", dtype_name(p->bias_dtype), 2,
                                         (size_t[]){p->y_heads, p->y_dim}, false, why);
    void *aligned = bias != NULL ? malloc(bias->bytes + 1) : NULL;

    if (bias == NULL)
        return false;
    data->projection_bias = malloc((bias->count + 1) * sizeof(float));
    if (aligned != NULL && data->projection_bias != NULL) {
        memcpy(aligned, bias->data, bias->bytes);
        for (size_t n = 0; n < bias->count; n++)
            data->projection_bias[n] = (float)value_get(p->bias_dtype, aligned, n);
    }
    free(aligned);
    return data->projection_bias != NULL || message_set(why, "no memory for the bias");
}

/* X and w in place of q and k. */
static bool read_projection(struct problem_data *data, struct message *why)
{
    const clattn_projection_problem *p = &data->problem.projection;
    const size_t shape[4] = {p->x_heads, p->x_dim, p->y_heads, p->y_dim};
    const struct safetensor *w = find(data, "w", dtype_name(p->dtype), 4, shape, false, why);

    if (w == NULL)
        return false;
    data->k = w->data;
    data->k_bytes = w->bytes;
    return find_packed(data, "x", p->x_heads, p->rows, p->x_dim, &data->q, &data->q_bytes, why) &&
           (!p->bias || read_projection_bias(data, why));
}

static bool read_attention(struct problem_data *data, struct message *why)
{
    const clattn_problem *p = &data->problem;

    data->scale = isnan(p->scale) ? (float)(1.0 / sqrt((double)p->dim_qk)) : p->scale;
    return find_packed(data, "q", p->heads, p->seq_q, p->dim_qk, &data->q, &data->q_bytes, why) &&
           find_cache(data, "k", CA_K, p->dim_qk, &data->k, &data->k_bytes, why) &&
           find_cache(data, "v", CA_V, p->dim_v, &data->v, &data->v_bytes, why) &&
           read_lists(data, why) && read_addend(data, why) &&
           (p->operation != CLATTN_BACKWARD || read_backward(data, why));
}

static bool read_tensors(struct problem_data *data, const char *path, struct message *why)
{
    const clattn_problem *p = &data->problem;

    if (!safetensors_read(&data->file, path, why))
        return false;
    if (p->operation == CLATTN_PROJECTION) {
        const clattn_projection_problem *y = &p->projection;
        data->o_bytes = y->batch * y->y_heads * y->rows * y->y_dim * value_bytes(y->dtype);
    } else {
        data->o_bytes =
            p->batch * p->heads * p->seq_q * p->dim_v * value_bytes(ca_problem_dtype(p, CA_O));
    }
    data->result_bytes = data->o_bytes;
    return p->operation == CLATTN_PROJECTION ? read_projection(data, why)
                                             : read_attention(data, why);
}

bool problem_data_read(struct problem_data *data, const char *problem, const char *path,
                       struct message *why)
{
    clattn_problem *p = &data->problem;
    char reason[256];

    memset(data, 0, sizeof *data);
    if (clattn_problem_parse(problem, p, reason, sizeof reason) != CLATTN_SUCCESS)
        return message_set(why, "the problem is malformed: %s", reason);
    if (p->operation == CLATTN_PROJECTION ? !p->projection.batch || !p->projection.rows
                                          : p->batch == 0 || p->seq_q == 0 || p->seq_kv == 0)
        return message_set(why, "a problem without batches, queries or keys leaves nothing to do");
    if (read_tensors(data, path, why))
        return true;
    problem_data_free(data);
    return false;
}

void problem_data_free(struct problem_data *data)
{
    free(data->lse);
    free(data->projection_bias);
    free(data->addend);
    free(data->slopes);
    free(data->sinks);
    free(data->q_lengths);
    free(data->kv_lengths);
    safetensors_free(&data->file);
    memset(data, 0, sizeof *data);
}

/* ---- what is visible ------------------------------------------------------------------------- */

static size_t in_use(const cl_int *lengths, size_t batch, size_t whole)
{
    if (lengths == NULL)
        return whole;
    if (lengths[batch] < 0)
        return 0;
    return (size_t)lengths[batch] < whole ? (size_t)lengths[batch] : whole;
}

size_t problem_data_queries(const struct problem_data *data, size_t batch)
{
    return in_use(data->q_lengths, batch, data->problem.seq_q);
}

size_t problem_data_keys(const struct problem_data *data, size_t batch)
{
    return in_use(data->kv_lengths, batch, data->problem.seq_kv);
}

int64_t problem_data_diagonal(const struct problem_data *data, size_t batch)
{
    const clattn_problem *p = &data->problem;

    if (p->diagonal == CLATTN_OFFSET)
        return p->diagonal_offset;
    if (p->diagonal == CLATTN_TOP_LEFT)
        return 0;
    return (int64_t)problem_data_keys(data, batch) - (int64_t)problem_data_queries(data, batch);
}

int64_t problem_data_left(const clattn_problem *p)
{
    return p->window_left >= 0 ? p->window_left : PEER_UNLIMITED;
}

int64_t problem_data_right(const clattn_problem *p)
{
    return p->causal ? 0 : p->window_right >= 0 ? p->window_right : PEER_UNLIMITED;
}

void problem_data_visible(const struct problem_data *data, size_t batch, size_t i, size_t *first,
                          size_t *end)
{
    const int64_t keys = (int64_t)problem_data_keys(data, batch);
    const int64_t now = (int64_t)i + problem_data_diagonal(data, batch);
    const int64_t left = now - problem_data_left(&data->problem);
    const int64_t right = now + problem_data_right(&data->problem) + 1;
    const int64_t low = left > 0 ? left : 0, high = right < keys ? right : keys;
    const bool some = i < problem_data_queries(data, batch) && low < high;

    *first = some ? (size_t)low : 0;
    *end = some ? (size_t)high : 0;
}

bool problem_data_limited(const struct problem_data *data)
{
    const clattn_problem *p = &data->problem;

    for (size_t b = 0; b < p->batch; b++) {
        for (size_t i = 0; i < p->seq_q; i++) {
            size_t first, end;
            problem_data_visible(data, b, i, &first, &end);
            if (first > 0 || end < p->seq_kv)
                return true;
        }
    }
    return false;
}

const float *problem_data_addend(const struct problem_data *data, size_t batch, size_t head,
                                 size_t i)
{
    const size_t *stride = data->addend_stride;

    if (data->addend == NULL)
        return NULL;
    return data->addend + batch * stride[0] + head * stride[1] + i * stride[2];
}
