/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/problem_data.h"
#include "bench/judge/values.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static bool take_tensor(struct problem_data *data, const struct peer_tensor *wanted,
                        struct message *why)
{
    const struct safetensor *tensor = safetensors_find(&data->file, wanted->name);

    if (tensor == NULL || tensor->rank != wanted->rank ||
        strcmp(tensor->dtype, wanted->dtype) != 0 ||
        memcmp(tensor->shape, wanted->shape, wanted->rank * sizeof *wanted->shape) != 0 ||
        (uintptr_t)tensor->data % peer_tensor_alignment(wanted) != 0)
        return message_set(why, "the data has no tensor '%s' that fits the problem", wanted->name);
    data->in[wanted->input] = tensor;
    return true;
}

static const void *values_of(const struct safetensor *tensor)
{
    return tensor != NULL ? tensor->data : NULL;
}

/* Where element (b, h, i, j) of a tensor lies whose sizes of 1 broadcast. */
static size_t place(const struct safetensor *tensor, const size_t at[4])
{
    size_t index = 0;

    for (int n = 0; n < 4; n++)
        index = index * tensor->shape[n] + (tensor->shape[n] == 1 ? 0 : at[n]);
    return index;
}

/* Only as large as the two tensors need it, but for the keys. */
static bool allocate_addend(struct problem_data *data, const size_t size[4], const size_t whole[4],
                            struct message *why)
{
    data->addend_count = size[3];
    for (int n = 2; n >= 0; n--) {
        data->addend_stride[n] = size[n] == whole[n] ? data->addend_count : 0;
        data->addend_count *= size[n];
    }
    data->addend = data->addend_count < SIZE_MAX / sizeof(float)
                       ? malloc((data->addend_count + 1) * sizeof(float))
                       : NULL;
    return data->addend != NULL || message_set(why, "no memory for the mask");
}

static bool join_bias_and_mask(struct problem_data *data, struct message *why)
{
    const clattn_problem *p = &data->problem;
    const struct safetensor *bias = data->in[INPUT_BIAS], *mask = data->in[INPUT_MASK];
    const size_t whole[4] = {p->batch, p->heads, p->seq_q, p->seq_kv};
    size_t size[4], at[4];

    if (bias == NULL && mask == NULL)
        return true;
    for (int n = 0; n < 4; n++) {
        const bool varies =
            (bias != NULL && bias->shape[n] > 1) || (mask != NULL && mask->shape[n] > 1);
        size[n] = varies || n == 3 ? whole[n] : 1;
    }
    if (!allocate_addend(data, size, whole, why))
        return false;
    float *next = data->addend;
    for (at[0] = 0; at[0] < size[0]; at[0]++)
        for (at[1] = 0; at[1] < size[1]; at[1]++)
            for (at[2] = 0; at[2] < size[2]; at[2]++)
                for (at[3] = 0; at[3] < size[3]; at[3]++, next++) {
                    *next = bias == NULL
                                ? 0.0f
                                : (float)value_get(p->bias_dtype, bias->data, place(bias, at));
                    if (mask != NULL && mask->data[place(mask, at)] == 0)
                        *next = -INFINITY;
                }
    return true;
}

static bool widen_projection_bias(struct problem_data *data, struct message *why)
{
    const struct safetensor *bias = data->in[INPUT_PROJECTION_BIAS];

    if (bias == NULL)
        return true;
    data->addend = malloc((bias->count + 1) * sizeof(float));
    for (size_t n = 0; data->addend != NULL && n < bias->count; n++)
        data->addend[n] = (float)value_get(data->problem.projection.bias_dtype, bias->data, n);
    return data->addend != NULL || message_set(why, "no memory for the bias");
}

static bool read_tensors(struct problem_data *data, const char *path, struct message *why)
{
    struct peer_tensor tensors[PEER_MOST_TENSORS];
    const size_t count = peer_tensors_list(&data->job, tensors);

    if (!safetensors_read(&data->file, path, why))
        return false;
    for (size_t n = 0; n < count; n++)
        if (!take_tensor(data, &tensors[n], why))
            return false;
    data->slopes = values_of(data->in[INPUT_SLOPES]);
    data->sinks = values_of(data->in[INPUT_SINKS]);
    data->q_lengths = values_of(data->in[INPUT_Q_LENGTHS]);
    data->kv_lengths = values_of(data->in[INPUT_KV_LENGTHS]);
    return join_bias_and_mask(data, why) && widen_projection_bias(data, why);
}

bool problem_data_is_empty(const struct problem_data *data)
{
    const clattn_problem *p = &data->problem;

    return p->operation == CLATTN_PROJECTION ? p->projection.batch == 0 || p->projection.rows == 0
                                             : p->batch == 0 || p->seq_q == 0 || p->seq_kv == 0;
}

bool problem_data_read(struct problem_data *data, const char *problem, const char *path,
                       struct message *why)
{
    clattn_problem *p = &data->problem;
    char reason[256];

    memset(data, 0, sizeof *data);
    if (!job_parse(problem, &data->job, reason, sizeof reason))
        return message_set(why, "the problem is malformed: %s", reason);
    *p = data->job.problem;
    data->scale = isnan(p->scale) ? (float)(1.0 / sqrt((double)p->dim_qk)) : p->scale;
    data->results = peer_results_list(&data->job, data->result);
    for (size_t n = 0; n < data->results; n++)
        data->result_bytes += peer_result_bytes(&data->result[n]);
    if (read_tensors(data, path, why))
        return true;
    problem_data_free(data);
    return false;
}

void problem_data_free(struct problem_data *data)
{
    free(data->addend);
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

/* ---- what becomes of scores ------------------------------------------------------------------ */

struct row_rule problem_data_rule(const struct problem_data *data, struct row_place at, size_t key)
{
    const size_t *stride = data->addend_stride;
    const double now = (double)at.i + (double)problem_data_diagonal(data, at.batch);
    size_t first, end;

    problem_data_visible(data, at.batch, at.i, &first, &end);
    return (struct row_rule){.first = first > key ? first - key : 0,
                             .end = end > key ? end - key : 0,
                             .addend = data->addend == NULL
                                           ? NULL
                                           : data->addend + at.batch * stride[0] +
                                                 at.head * stride[1] + at.i * stride[2] + key,
                             .slope = data->slopes != NULL ? data->slopes[at.head] : 0.0f,
                             .distance = (float)((double)key - now),
                             .has_sink = data->sinks != NULL,
                             .sink = data->sinks != NULL ? data->sinks[at.head] : 0.0f};
}

bool problem_data_ruled(const struct problem_data *data)
{
    return data->addend != NULL || data->slopes != NULL || problem_data_limited(data);
}

bool problem_data_addends(const struct problem_data *data, struct row_place at, size_t key,
                          size_t keys, float *values)
{
    const struct row_rule rule = problem_data_rule(data, at, key);
    bool any = false;

    for (size_t j = 0; j < keys; j++) {
        float x = rule.addend != NULL ? rule.addend[j] : 0.0f;
        if (rule.slope != 0.0f)
            x += rule.slope * ((float)j + rule.distance);
        values[j] = j >= rule.first && j < rule.end ? x : -INFINITY;
        any = any || values[j] != -INFINITY;
    }
    return any;
}

/* ---- sets of tensors ------------------------------------------------------------------------- */

struct product product_of(const clattn_problem *problem)
{
    const clattn_projection_problem *p = &problem->projection;

    return (struct product){.rows = p->batch * p->rows,
                            .inner = p->x_heads * p->x_dim,
                            .columns = p->y_heads * p->y_dim};
}

/* From (batch, a, b, bytes) to (batch, b, a, bytes). */
static void swap(void *to, const void *from, size_t batch, size_t a, size_t b, size_t bytes)
{
    unsigned char *next = to;
    const unsigned char *source = from;

    for (size_t n = 0; n < batch; n++)
        for (size_t y = 0; y < b; y++)
            for (size_t x = 0; x < a; x++, next += bytes)
                memcpy(next, source + ((n * a + x) * b + y) * bytes, bytes);
}

void *host_allocate(size_t bytes)
{
    enum { LINE = 64 };

    return aligned_alloc(LINE, bytes / LINE * LINE + LINE);
}

static bool copy_operand(struct host_set *set, const struct problem_data *data, enum input input)
{
    const struct safetensor *tensor = data->in[input];
    const clattn_projection_problem *p = &data->problem.projection;

    if (tensor == NULL)
        return true;
    set->in[input] = host_allocate(tensor->bytes);
    if (set->in[input] == NULL)
        return false;
    if (input == INPUT_PROJECTION_X)
        swap(set->in[input], tensor->data, p->batch, p->x_heads, p->rows,
             p->x_dim * value_bytes(p->dtype));
    else
        memcpy(set->in[input], tensor->data, tensor->bytes);
    return true;
}

bool host_set_make(struct host_set *set, const struct problem_data *data, struct message *why)
{
    static const enum input operands[] = {
        INPUT_Q,           INPUT_K, INPUT_V, INPUT_O, INPUT_DO, INPUT_LSE, INPUT_PROJECTION_X,
        INPUT_PROJECTION_W};
    bool ok = true;

    *set = (struct host_set){{NULL}, {NULL}};
    for (size_t n = 0; ok && n < sizeof operands / sizeof *operands; n++)
        ok = copy_operand(set, data, operands[n]);
    for (size_t n = 0; ok && n < data->results; n++) {
        set->out[n] = host_allocate(peer_result_bytes(&data->result[n]));
        ok = set->out[n] != NULL;
    }
    return ok || message_set(why, "no memory for a set of tensors");
}

void host_set_poison(const struct host_set *set, const struct problem_data *data)
{
    for (size_t n = 0; n < data->results; n++) /* all bits set: NaN in each format */
        memset(set->out[n], 0xff, peer_result_bytes(&data->result[n]));
}

void host_set_read(const struct host_set *set, const struct problem_data *data, void *results)
{
    const clattn_projection_problem *p = &data->problem.projection;
    unsigned char *to = results;

    if (data->problem.operation == CLATTN_PROJECTION) {
        swap(to, set->out[0], p->batch, p->rows, p->y_heads, p->y_dim * value_bytes(p->dtype));
        return;
    }
    for (size_t n = 0; n < data->results; n++) {
        memcpy(to, set->out[n], peer_result_bytes(&data->result[n]));
        to += peer_result_bytes(&data->result[n]);
    }
}

void host_set_free(struct host_set *set)
{
    for (int n = 0; n < INPUT_COUNT; n++)
        free(set->in[n]);
    for (int n = 0; n < PEER_MOST_RESULTS; n++)
        free(set->out[n]);
    memset(set, 0, sizeof *set);
}
