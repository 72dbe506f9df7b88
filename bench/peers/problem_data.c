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

static bool widen_projection_bias(struct problem_data *data, struct message *why)
{
    const struct safetensor *bias = data->in[INPUT_PROJECTION_BIAS];

    if (bias == NULL)
        return true;
    data->projection_bias = malloc((bias->count + 1) * sizeof(float));
    for (size_t n = 0; data->projection_bias != NULL && n < bias->count; n++)
        data->projection_bias[n] =
            (float)value_get(data->problem.projection.bias_dtype, bias->data, n);
    return data->projection_bias != NULL || message_set(why, "no memory for the bias");
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
    return widen_projection_bias(data, why);
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
    free(data->projection_bias);
    safetensors_free(&data->file);
    memset(data, 0, sizeof *data);
}

/* ---- what is visible ------------------------------------------------------------------------- */

int64_t problem_diagonal(const clattn_problem *p)
{
    return p->diagonal == CLATTN_OFFSET     ? p->diagonal_offset
           : p->diagonal == CLATTN_TOP_LEFT ? 0
                                            : (int64_t)p->seq_kv - (int64_t)p->seq_q;
}

int64_t problem_left(const clattn_problem *p)
{
    return p->window_left >= 0 ? p->window_left : PEER_UNLIMITED;
}

int64_t problem_right(const clattn_problem *p)
{
    return p->causal ? 0 : p->window_right >= 0 ? p->window_right : PEER_UNLIMITED;
}

struct key_range problem_visible(const clattn_problem *p, size_t i)
{
    const int64_t keys = (int64_t)p->seq_kv, now = (int64_t)i + problem_diagonal(p);
    const int64_t left = now - problem_left(p), right = now + problem_right(p) + 1;
    const int64_t low = left > 0 ? left : 0, high = right < keys ? right : keys;

    return low < high ? (struct key_range){(size_t)low, (size_t)high} : (struct key_range){0, 0};
}

bool problem_limited(const clattn_problem *p)
{
    for (size_t i = 0; i < p->seq_q; i++) {
        const struct key_range range = problem_visible(p, i);
        if (range.first > 0 || range.end < p->seq_kv)
            return true;
    }
    return false;
}

/* ---- sets of tensors ------------------------------------------------------------------------- */

struct product product_of(const clattn_problem *problem)
{
    const clattn_projection_problem *p = &problem->projection;

    return (struct product){.rows = p->batch * p->rows,
                            .inner = p->x_heads * p->x_dim,
                            .columns = p->y_heads * p->y_dim};
}

/* Transposes (batch, a, b, bytes) to (batch, b, a, bytes). */
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
