/* SPDX-License-Identifier: Apache-2.0 */
#include "race_calls.h"

#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows packed and with gaps, of each dtype; the work-items of the last group are not all needed. */
static const clattn_quantization quantizations[] = {
    {.struct_size = sizeof(clattn_quantization),
     .from = CLATTN_F32,
     .to = CLATTN_CACHE_Q8_0,
     .size = {2, 1, 3, 64}},
    {.struct_size = sizeof(clattn_quantization),
     .from = CLATTN_F16,
     .to = CLATTN_CACHE_Q4_0,
     .size = {1, 2, 5, 32},
     .values = {{400, 40, 80, 1}},
     .cache = {{0, 192, 32, 1}}},
    {.struct_size = sizeof(clattn_quantization),
     .from = CLATTN_BF16,
     .to = CLATTN_CACHE_Q8_0,
     .size = {1, 1, 2, 96},
     .values = {{0, 0, 1, 2}}},
};
static const char *const masks[] = {"fwd f32 b2 h3 q5 k13 d4 dropout=0.3"};

enum {
    NUM_QUANTIZATIONS = sizeof quantizations / sizeof *quantizations,
    NUM_MASKS = sizeof masks / sizeof *masks
};

/* Elements from the first to the last, packed where there are no strides. */
static size_t extent(const clattn_quantization *q, const clattn_layout *layout)
{
    size_t last = 0, packed = 1;

    for (int n = 3; n >= 0; n--) {
        const int given = layout->stride[3] != 0;
        last += (q->size[n] - 1) * (given ? layout->stride[n] : packed);
        packed *= q->size[n];
    }
    return last + 1;
}

/* Returns whether a buffer finally holds what the host has computed. */
static int holds(cl_command_queue queue, cl_mem buffer, const void *want, size_t bytes)
{
    unsigned char *got = malloc(bytes);
    const int same =
        got &&
        clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, got, 0, NULL, NULL) == CL_SUCCESS &&
        memcmp(got, want, bytes) == 0;

    free(got);
    return same;
}

static int quantize(clattn_context *context, cl_command_queue queue, const clattn_quantization *q)
{
    cl_context opencl = clattn_context_opencl(context);
    const size_t count = extent(q, &q->values), size = count * value_bytes(q->from);
    const size_t blocks = clattn_quantized_bytes(q->to, extent(q, &q->cache));
    unsigned char *values = malloc(size), *want = calloc(blocks, 1);
    struct rng r = rng_seed(1);
    int ok = values && want;

    for (size_t n = 0; ok && n < count; n++)
        value_set(q->from, values, n, rng_uniform(&r, -2, 2));
    cl_mem from =
        ok ? clCreateBuffer(opencl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, values, NULL)
           : NULL;
    cl_mem to =
        ok ? clCreateBuffer(opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, blocks, want, NULL)
           : NULL;
    ok = from && to && clattn_quantize_host(q, values, want) == CLATTN_SUCCESS &&
         clattn_quantize(context, q, queue, &(clattn_buffer){.buffer = from},
                         &(clattn_buffer){.buffer = to}, 0, NULL, NULL) == CLATTN_SUCCESS &&
         holds(queue, to, want, blocks);
    if (from)
        clReleaseMemObject(from);
    if (to)
        clReleaseMemObject(to);
    free(want);
    free(values);
    return ok;
}

static int mask(clattn_context *context, cl_command_queue queue, const char *text)
{
    clattn_problem p;

    if (clattn_problem_parse(text, &p, NULL, 0) != CLATTN_SUCCESS)
        return 0;
    const size_t rows = p.batch * p.heads * p.seq_q, bytes = rows * p.seq_kv;
    unsigned char *want = malloc(bytes);
    cl_mem to =
        clCreateBuffer(clattn_context_opencl(context), CL_MEM_WRITE_ONLY, bytes, NULL, NULL);
    const int ok = want && to &&
                   clattn_dropout_mask_host(&p, 7, 2, 0, rows, want) == CLATTN_SUCCESS &&
                   clattn_dropout_mask(context, &p, 7, 2, queue, &(clattn_buffer){.buffer = to}, 0,
                                       NULL, NULL) == CLATTN_SUCCESS &&
                   holds(queue, to, want, bytes);

    if (to)
        clReleaseMemObject(to);
    free(want);
    return ok;
}

int race_call(clattn_context *context, size_t n)
{
    int ok;

    if (n >= NUM_QUANTIZATIONS + NUM_MASKS)
        return -1;
    cl_command_queue queue = clCreateCommandQueue(clattn_context_opencl(context),
                                                  clattn_context_device(context)->device, 0, NULL);
    if (!queue)
        return 0;
    if (n < NUM_QUANTIZATIONS)
        ok = quantize(context, queue, &quantizations[n]);
    else
        ok = mask(context, queue, masks[n - NUM_QUANTIZATIONS]);
    clReleaseCommandQueue(queue);
    printf("%s %s %zu\n", ok ? "ok  " : "FAIL", n < NUM_QUANTIZATIONS ? "quantize" : "dropout_mask",
           n);
    return ok;
}
