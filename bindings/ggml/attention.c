/* SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include <stdlib.h>
#include <string.h>

bool attention_open(struct attention *a, struct device *device)
{
    cl_int error = CL_SUCCESS;

    *a = (struct attention){.device = device, .context = device_acquire(device)};
    if (a->context == NULL)
        return false;
    a->plans.context = a->context;
    a->queue = clCreateCommandQueue(clattn_context_opencl(a->context), device->id, 0, &error);
    if (error == CL_SUCCESS) {
        buffers_open(&a->buffers, clattn_context_opencl(a->context), a->queue, device->id,
                     device->shares_memory);
        return true;
    }
    host_log(device->host, GGML_LOG_LEVEL_WARN, "no queue on %s: clCreateCommandQueue gives %d",
             device->description, error);
    attention_close(a);
    return false;
}

void attention_close(struct attention *a)
{
    plans_free(&a->plans);
    buffers_close(&a->buffers);
    if (a->workspace != NULL)
        clReleaseMemObject(a->workspace);
    if (a->queue != NULL)
        clReleaseCommandQueue(a->queue);
    if (a->context != NULL)
        device_release(a->device);
    free(a->mask.data);
    free(a->lengths.data);
    *a = (struct attention){.device = a->device};
}

/* ---- memory of its own ----------------------------------------------------------------------- */

static void *scratch_reserve(struct scratch *scratch, size_t bytes)
{
    const size_t line = 64;

    if (bytes > scratch->bytes) {
        free(scratch->data);
        scratch->bytes = (bytes + line - 1) / line * line;
        scratch->data = aligned_alloc(line, scratch->bytes);
        if (scratch->data == NULL)
            scratch->bytes = 0;
    }
    return scratch->data;
}

static bool reserve_workspace(struct attention *a, size_t bytes)
{
    cl_int error = CL_SUCCESS;

    if (bytes <= a->workspace_bytes)
        return true;
    if (a->workspace != NULL)
        clReleaseMemObject(a->workspace);
    a->workspace =
        clCreateBuffer(clattn_context_opencl(a->context), CL_MEM_READ_WRITE, bytes, NULL, &error);
    if (error != CL_SUCCESS)
        a->workspace = NULL;
    a->workspace_bytes = a->workspace != NULL ? bytes : 0;
    return a->workspace != NULL;
}

static bool set_lengths(struct attention *a, const struct operation *o, struct operand *operand)
{
    cl_int *lengths = scratch_reserve(&a->lengths, o->shape.batch * sizeof *lengths);

    if (lengths == NULL)
        return false;
    for (size_t b = 0; b < o->shape.batch; b++)
        lengths[b] = (cl_int)o->keys;
    *operand = (struct operand){.data = (char *)lengths,
                                .bytes = o->shape.batch * sizeof *lengths,
                                .unit_bytes = sizeof *lengths,
                                .unit_values = 1};
    return true;
}

/* ---- masks that are copied ------------------------------------------------------------------- */

/* The row of a batch, head and query. */
static void copy_row(const struct host *host, const struct operation *o, size_t b, size_t h,
                     size_t i, void *mask)
{
    const struct shape *s = &o->shape;
    const size_t *to = s->stride[OPERAND_BIAS], *from = o->mask_stride;
    const size_t place = b * to[0] + h * to[1] + i * to[2];
    const ggml_fp16_t *row = (const ggml_fp16_t *)(const void *)o->operand[OPERAND_BIAS].data +
                             b * from[0] + h * from[1] + i * from[2];

    if (s->mask == MASK_COPIED) {
        memcpy((ggml_fp16_t *)mask + place, row, o->keys * sizeof *row);
        return;
    }
    const float slope = operation_slope(o->max_bias, s->heads, h);
    float *sloped = (float *)mask + place;
    host->ggml_fp16_to_fp32_row(row, sloped, (int64_t)o->keys);
    for (size_t j = 0; j < o->keys; j++)
        sloped[j] *= slope;
}

static bool copy_mask(struct attention *a, const struct operation *o, struct operand *operand)
{
    const struct shape *s = &o->shape;
    const size_t *stride = s->stride[OPERAND_BIAS];
    const size_t batches = stride[0] != 0 ? s->batch : 1, heads = stride[1] != 0 ? s->heads : 1;
    const size_t element = s->mask == MASK_COPIED ? sizeof(ggml_fp16_t) : sizeof(float);
    const size_t elements = batches * heads * s->seq_q * s->seq_kv;
    void *mask = scratch_reserve(&a->mask, elements * element);

    if (mask == NULL)
        return false;
    for (size_t b = 0; b < batches; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < s->seq_q; i++)
                copy_row(a->device->host, o, b, h, i, mask);
    *operand = (struct operand){
        .data = mask, .bytes = elements * element, .unit_bytes = element, .unit_values = 1};
    return true;
}

/* ---- executing ------------------------------------------------------------------------------- */

static bool locate(const struct ranges *ranges, const struct operation *o,
                   const struct operand *lengths, clattn_forward_tensors *t)
{
    clattn_buffer *const buffer[OPERANDS] = {
        [OPERAND_Q] = &t->q, [OPERAND_K] = &t->k,       [OPERAND_V] = &t->v,
        [OPERAND_O] = &t->o, [OPERAND_BIAS] = &t->bias, [OPERAND_SINKS] = &t->sinks};

    for (int n = 0; n < OPERANDS; n++)
        if (o->operand[n].data != NULL && !ranges_locate(ranges, &o->operand[n], buffer[n]))
            return false;
    return lengths->data == NULL || ranges_locate(ranges, lengths, &t->kv_lengths);
}

/* All keys that the plan may look at: those in use have values, and those behind them room. */
static void add_range(struct ranges *ranges, struct operation *o, int n)
{
    struct operand *operand = &o->operand[n];
    const size_t used = n == OPERAND_O ? 0 : operand->bytes, more = o->shape.seq_kv - o->keys;

    if (n == OPERAND_K || n == OPERAND_V)
        operand->bytes +=
            more * (o->shape.stride[n][2] / operand->unit_values) * operand->unit_bytes;
    ranges_add(ranges, operand->data, operand->bytes, used, n == OPERAND_O);
}

static bool enqueue(struct attention *a, const struct plan_entry *entry, const struct operation *o,
                    const struct operand *lengths, const struct ranges *ranges)
{
    clattn_forward_tensors tensors = {.struct_size = sizeof tensors};

    if (!locate(ranges, o, lengths, &tensors) || !reserve_workspace(a, entry->workspace_bytes))
        return false;
    tensors.workspace.buffer = entry->workspace_bytes > 0 ? a->workspace : NULL;
    return clattn_attention_forward(entry->plan, a->queue, &tensors, 0, NULL, NULL) ==
               CLATTN_SUCCESS &&
           ranges_finish(ranges, &a->buffers);
}

static bool prepare(struct attention *a, struct operation *o, struct operand *lengths,
                    struct ranges *ranges)
{
    if (o->shape.kv_lengths && !set_lengths(a, o, lengths))
        return false;
    if ((o->shape.mask == MASK_COPIED || o->shape.mask == MASK_SLOPED) &&
        !copy_mask(a, o, &o->operand[OPERAND_BIAS]))
        return false;
    for (int n = 0; n < OPERANDS; n++)
        if (o->operand[n].data != NULL)
            add_range(ranges, o, n);
    if (lengths->data != NULL)
        ranges_add(ranges, lengths->data, lengths->bytes, lengths->bytes, false);
    return ranges_make(ranges, &a->buffers);
}

bool attention_compute(struct attention *a, const struct operation *operation)
{
    struct operand lengths = {.data = NULL};
    struct ranges ranges = {.count = 0};
    struct operation o = *operation;

    const struct plan_entry *entry = plans_get(&a->plans, &o.shape);
    if (entry->plan == NULL)
        return false;
    const bool fine = prepare(a, &o, &lengths, &ranges) && enqueue(a, entry, &o, &lengths, &ranges);
    if (!fine)
        clFinish(a->queue); /* nothing of a failed call may run on in memory that ggml uses again */
    ranges_release(&ranges);
    return fine;
}
