/* SPDX-License-Identifier: Apache-2.0 */
#include "base/structs.h"
#include "context/in_flight.h"
#include "execute/buffers.h"
#include "execute/execute.h"
#include "families/candidate.h"
#include "problem/layout.h"
#include "problem/problem.h"
#include "problem/tensors.h"
#include "program/program.h"
#include "selfcheck/values.h"
#include <clattn/quantize.h>

#include <float.h>
#include <math.h>
#include <string.h>

extern const char *const ca_source_quantize[];

static ca_self_check check_program;

/* This family is none that plans choose from, but it is built, checked and kept like one. */
static const struct ca_family quantize = {
    CA_FAMILY("quantize"),
    .source = ca_source_quantize,
};

/* ---- checks ---------------------------------------------------------------------------------- */

static clattn_status check_kinds(const clattn_quantization *q, char *reason)
{
    static const char *const names[] = {"batch", "kv_heads", "seq", "dim"};

    if ((int)q->from < 0 || (int)q->from >= CA_NUM_DTYPES)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, CA_REASON_BYTES,
                              "from is %d but must be from 0 to %d", (int)q->from,
                              CA_NUM_DTYPES - 1);
    if (!ca_format_of(q->to)->is_blocks) {
        char formats[CA_REASON_BYTES / 2];
        ca_block_formats_print(formats, sizeof formats);
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, CA_REASON_BYTES,
                              "to is %d but must be %s", (int)q->to, formats);
    }
    for (size_t n = 0; n < 4; n++) {
        if (q->size[n] > CA_MAX_SIZE)
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, CA_REASON_BYTES,
                                  "%s is %zu but must be at most %zu", names[n], q->size[n],
                                  CA_MAX_SIZE);
    }
    return CLATTN_SUCCESS;
}

/* Makes the layouts explicit and finds how far both tensors reach. */
static clattn_status check(const clattn_quantization *given, clattn_quantization *q,
                           size_t *values_span, size_t *cache_span, char *reason)
{
    clattn_quantization own;

    given = CA_READ(clattn_quantization, "what", given, &own, reason);
    if (!given)
        return CLATTN_INVALID_ARGUMENT;
    *q = *given;
    const clattn_status status = check_kinds(q, reason);
    if (status != CLATTN_SUCCESS)
        return status;
    q->values = ca_layout_explicit(&q->values, q->size);
    q->cache = ca_layout_explicit(&q->cache, q->size);
    const char *refusal = ca_cache_refusal(&q->cache, q->size[3]);
    if (refusal)
        ca_reason(reason, CA_REASON_BYTES, "cache is quantized: its %s", refusal);
    else if (!ca_layout_span(&q->values, q->size, values_span) ||
             !ca_layout_span(&q->cache, q->size, cache_span))
        ca_reason(reason, CA_REASON_BYTES, "values or cache reach over more than 2^58 elements");
    else if (!ca_layout_injective(&q->cache, q->size))
        ca_reason(reason, CA_REASON_BYTES,
                  "elements of cache share places: its strides are too small");
    else
        return CLATTN_SUCCESS;
    return CLATTN_INVALID_PROBLEM;
}

size_t clattn_quantized_bytes(clattn_cache cache, size_t values)
{
    size_t bytes;

    if (!ca_format_of(cache)->is_blocks)
        return 0;
    const size_t blocks = values / CA_BLOCK + (values % CA_BLOCK != 0);
    return ca_multiply(blocks, ca_cache_bytes(cache, CLATTN_F32), &bytes) ? bytes : 0;
}

/* ---- on the host ----------------------------------------------------------------------------- */

/* With smaller scales, remainders of quotients are subnormal, which devices may flush to zero. */
#define LEAST_SCALE 0x1p-100f

/* Rounds to binary16, to nearest even, in units of the last digit; its carry goes to the exponent.
 * */
static unsigned half_of(float x)
{
    const unsigned sign = signbit(x) ? 0x8000u : 0u;
    int exponent;

    if (isnan(x))
        return 0x7e00u;
    frexpf(x, &exponent); /* x is at least half of 2^exponent */
    if (isinf(x) || exponent > 16)
        return sign | 0x7c00u;
    if (x == 0.0f || exponent < -13)
        exponent = -13; /* subnormal numbers have the spacing of the smallest normal one */
    const unsigned units = (unsigned)nearbyintf(ldexpf(fabsf(x), 11 - exponent));
    return sign | (((unsigned)(exponent + 13) << 10) + units);
}

/* The scale with the least sum of squared errors, each times the squared value. Values are scaled by a power of two, so
 * that no sum is too large or small. The sums begin with the first value, as ggml's do. */
static float fitted_scale(const struct ca_format *format, const float x[CA_BLOCK],
                          const unsigned codes[CA_BLOCK])
{
    float most = 0.0f, products = 0.0f, squares = 0.0f;
    int exponent;

    for (int n = 0; n < CA_BLOCK; n++)
        most = fmaxf(most, fabsf(x[n]));
    frexpf(most, &exponent);
    for (int n = 0; n < CA_BLOCK; n++) {
        const float y = ldexpf(x[n], -exponent), number = (float)format->number(codes[n]);
        const float square = y * y;
        const float weighted = square * number;
        const float product = weighted * y, of_number = weighted * number;
        products += product;
        squares += of_number;
    }
    return ldexpf(products / squares, exponent);
}

static void store_half(unsigned char *to, float x)
{
    const unsigned half = half_of(x);

    to[0] = (unsigned char)(half & 255);
    to[1] = (unsigned char)(half >> 8);
}

/* Quantizes one block of 32 values. Products and sums are separate statements, so that no compiler
 * fuses them. */
static void make_block(float x[CA_BLOCK], const struct ca_format *format, unsigned char *block)
{
    unsigned char *codes = block + format->codes;
    const int half = CA_BLOCK / 2;
    float most = 0.0f, peak = 0.0f, least = x[0], greatest = x[0];
    int finite = 1;

    for (int n = 0; n < CA_BLOCK && format->scale < 0; n++)
        codes[n] = (unsigned char)format->code_of(x[n]);
    if (format->scale < 0)
        return;

    for (int n = 0; n < CA_BLOCK; n++) {
        finite = finite && isfinite(x[n]);
        if (fabsf(x[n]) > most) {
            most = fabsf(x[n]);
            peak = x[n];
        }
        least = fminf(least, x[n]);
        greatest = fmaxf(greatest, x[n]);
    }
    const float range = fminf(greatest - least, FLT_MAX);
    float scale = format->scale_of(most, format->offset ? range : peak);
    const int zeros = !finite || fabsf(scale) < LEAST_SCALE;
    const float factor = zeros ? 0.0f : 1.0f / scale;
    if (format->fits && !zeros) {
        unsigned all[CA_BLOCK];
        for (int n = 0; n < CA_BLOCK; n++) {
            const float divided = x[n] * factor;
            all[n] = format->code_of(divided);
        }
        scale = fitted_scale(format, x, all);
    }
    store_half(block + format->scale, finite ? scale : NAN);
    if (format->offset) /* a zero has no sign */
        store_half(block + format->offset, finite && least != 0.0f ? least : 0.0f);
    for (int n = 0; n < CA_BLOCK; n++) {
        const float above = format->offset ? fminf(x[n] - least, FLT_MAX) : x[n];
        x[n] = zeros ? 0.0f : above * factor;
    }
    for (int n = 0; n < CA_BLOCK && format->bits == 8; n++)
        codes[n] = (unsigned char)format->code_of(x[n]);
    for (int n = 0; n < half && format->bits == 4; n++)
        codes[n] = (unsigned char)((format->code_of(x[n]) & 15u) |
                                   (format->code_of(x[n + half]) & 15u) << 4);
    for (int n = 0; n < CA_BLOCK && format->fifth; n++) {
        unsigned char *bits = &block[format->fifth + (size_t)n / 8];
        const unsigned others = n % 8 == 0 ? 0 : *bits;
        *bits = (unsigned char)(others | format->code_of(x[n]) >> 4 << n % 8);
    }
}

static void quantize_row(const clattn_quantization *q, const unsigned char *values, size_t from,
                         unsigned char *cache, size_t to)
{
    const struct ca_format *format = ca_format_of(q->to);

    for (size_t d = 0; d < q->size[3]; d += CA_BLOCK) {
        float x[CA_BLOCK];
        for (size_t n = 0; n < CA_BLOCK; n++)
            x[n] = (float)ca_value_load(values, q->from, from + (d + n) * q->values.stride[3]);
        make_block(x, format, cache + (to + d) / CA_BLOCK * format->bytes);
    }
}

clattn_status clattn_quantize_host(const clattn_quantization *what, const void *values, void *cache)
{
    char reason[CA_REASON_BYTES];
    size_t values_span, cache_span;
    clattn_quantization q;

    const clattn_status status = check(what, &q, &values_span, &cache_span, reason);
    if (status != CLATTN_SUCCESS)
        return ca_refuse(status, "%s", reason);
    if (values_span == 0)
        return CLATTN_SUCCESS;
    if (!values || !cache)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "values or cache is null");
    for (size_t b = 0; b < q.size[0]; b++)
        for (size_t h = 0; h < q.size[1]; h++)
            for (size_t s = 0; s < q.size[2]; s++)
                quantize_row(
                    &q, values,
                    b * q.values.stride[0] + h * q.values.stride[1] + s * q.values.stride[2], cache,
                    b * q.cache.stride[0] + h * q.cache.stride[1] + s * q.cache.stride[2]);
    return CLATTN_SUCCESS;
}

/* ---- on the device --------------------------------------------------------------------------- */

static cl_long4 four_of(const size_t x[4])
{
    return (cl_long4){{(cl_long)x[0], (cl_long)x[1], (cl_long)x[2], (cl_long)x[3]}};
}

static clattn_status enqueue(const clattn_context *ctx, cl_program program,
                             const clattn_quantization *q, cl_command_queue queue,
                             const clattn_buffer *values, const clattn_buffer *cache,
                             cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    const size_t blocks = q->size[0] * q->size[1] * q->size[2] * (q->size[3] / CA_BLOCK);
    const size_t most = ctx->device.max_work_group_size, local = most < 64 ? most : 64;
    const cl_long4 size = four_of(q->size), from_stride = four_of(q->values.stride);
    const cl_long4 to_stride = four_of(q->cache.stride);
    const cl_long from = (cl_long)values->offset, to = (cl_long)cache->offset;
    const cl_int dtype = (cl_int)q->from, format = (cl_int)q->to;
    const struct ca_value arguments[] = {
        {sizeof size, &size},
        {sizeof from_stride, &from_stride},
        {sizeof to_stride, &to_stride},
        {sizeof from, &from},
        {sizeof to, &to},
        {sizeof dtype, &dtype},
        {sizeof format, &format},
    };
    const clattn_buffer buffers[] = {*values, *cache};
    const struct ca_kernel_launch launch = {
        .kernel = quantize.name,
        .values = arguments,
        .num_values = sizeof arguments / sizeof *arguments,
        .buffers = buffers,
        .num_buffers = 2,
        .range = ca_groups((blocks + local - 1) / local, local),
    };

    return ca_launch_kernel(ctx, program, &launch, queue, num_wait, wait, done);
}

clattn_status clattn_quantize(clattn_context *context, const clattn_quantization *what,
                              cl_command_queue queue, const clattn_buffer *values,
                              const clattn_buffer *cache, cl_uint num_wait, const cl_event *wait,
                              cl_event *done)
{
    const struct ca_candidate candidate = {.family = &quantize};
    char reason[CA_REASON_BYTES];
    size_t values_span, cache_span;
    clattn_quantization q;
    cl_program program;
    int in_order;

    if (done)
        *done = NULL;
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    clattn_status status = check(what, &q, &values_span, &cache_span, reason);
    if (status != CLATTN_SUCCESS)
        return ca_fail(&context->log, status, "%s", reason);
    if (!values || !cache)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "%s is null",
                       values ? "cache" : "values");
    const struct ca_operand operands[] = {{.name = "values",
                                           .present = 1,
                                           .element_bytes = ca_dtype_bytes(q.from),
                                           .span = values_span,
                                           .sizes = {q.size[0], q.size[1], q.size[2], q.size[3]},
                                           .layout = q.values},
                                          {.name = "cache",
                                           .present = 1,
                                           .written = 1,
                                           .element_bytes = ca_cache_bytes(q.to, q.from),
                                           .span = cache_span,
                                           .sizes = {q.size[0], q.size[1], q.size[2], q.size[3]},
                                           .layout = q.cache,
                                           .cache = q.to}};
    const clattn_buffer given[] = {*values, *cache};
    if ((status = ca_check_queue(context, queue, &in_order)) != CLATTN_SUCCESS ||
        (status = ca_check_wait_list(context, num_wait, wait)) != CLATTN_SUCCESS ||
        (status = ca_check_buffers(context, "quantizing", operands, given, 2)) != CLATTN_SUCCESS)
        return status;
    if (values_span == 0)
        return ca_enqueue_marker(context, queue, num_wait, wait, done);
    status = ca_program_get(context, &candidate, NULL, check_program, &program);
    if (status != CLATTN_SUCCESS)
        return status;
    ca_program_keep(context, program);
    status = enqueue(context, program, &q, queue, values, cache, num_wait, wait, done);
    ca_program_put_back(context, program);
    return status;
}

/* ---- trust ----------------------------------------------------------------------------------- */

/* Rows with gaps, more blocks than a work-group has items, and no whole number of groups. */
enum { BATCH = 2, HEADS = 2, SEQ = 9, DIM = 64, STEP = 2, GAP = 3 };
enum { VALUES = BATCH * HEADS * SEQ * (DIM * STEP + GAP), GUARD = 1 };
enum {
    BLOCKS = BATCH * HEADS * SEQ * (DIM / CA_BLOCK + 1),
    CACHE_BYTES = CA_BLOCK_MOST_BYTES * (BLOCKS + 2)
};

/* Values of every magnitude, ties among them; some blocks are zeros, and some have a NaN or an
 * infinity. */
static void draw_values(clattn_dtype dtype, unsigned char bytes[4 * VALUES])
{
    unsigned state = 20240229u;

    for (size_t n = 0; n < VALUES; n++) {
        const size_t kind = n / 48 % 11;
        float x = ca_value_next(&state);
        if (kind % 3 == 1)
            x = nearbyintf(127.0f * x) * 0.5f;
        if (kind % 3 == 2)
            x *= ldexpf(1.0f, (int)(n / 48 % 25) - 12);
        if (kind == 10)
            x = n % 200 == 0 ? NAN : n % 200 == 100 ? INFINITY : 0.0f;
        ca_value_store(bytes, dtype, n, x);
    }
}

/* Quantizes on the device, into the middle of bytes[]. */
static clattn_status run(clattn_context *ctx, cl_program program, const clattn_quantization *q,
                         unsigned char values[4 * VALUES], unsigned char bytes[CACHE_BYTES])
{
    clattn_status status = CLATTN_SUCCESS;
    cl_int err;

    cl_command_queue queue = clCreateCommandQueue(ctx->cl, ctx->device.device, 0, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&ctx->log, err, "clCreateCommandQueue for a self-check");
    const clattn_buffer from = {.buffer =
                                    clCreateBuffer(ctx->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                                   4 * VALUES, values, &err)};
    if (err != CL_SUCCESS) {
        clReleaseCommandQueue(queue);
        return ca_fail_cl(&ctx->log, err, "clCreateBuffer for a self-check");
    }
    const clattn_buffer to = {.buffer =
                                  clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                                 CACHE_BYTES, bytes, &err),
                              .offset = GUARD * CA_BLOCK};
    if (err == CL_SUCCESS) {
        status = enqueue(ctx, program, q, queue, &from, &to, 0, NULL, NULL);
        if (status == CLATTN_SUCCESS)
            err = clEnqueueReadBuffer(queue, to.buffer, CL_TRUE, 0, CACHE_BYTES, bytes, 0, NULL,
                                      NULL);
        ca_finish(ctx, queue); /* after a failure too: the kernel may still use the buffers */
        clReleaseMemObject(to.buffer);
    }
    clReleaseMemObject(from.buffer);
    clReleaseCommandQueue(queue);
    return err == CL_SUCCESS ? status
                             : ca_fail_cl(&ctx->log, err, "moving the data of a self-check");
}

/* Compares each dtype and format with the host's. */
static clattn_status check_program(clattn_context *ctx, const struct ca_candidate *candidate,
                                   const struct ca_problem *none, cl_program program,
                                   double *launch_seconds, char why[CA_REASON_BYTES])
{
    (void)candidate;
    (void)none;
    (void)launch_seconds; /* too short to tell */
    unsigned char values[4 * VALUES], got[CACHE_BYTES], want[CACHE_BYTES];
    clattn_quantization q = {.struct_size = sizeof q, .size = {BATCH, HEADS, SEQ, DIM}};
    const size_t row = DIM * STEP + GAP, place = DIM + CA_BLOCK;

    q.values = (clattn_layout){{HEADS * SEQ * row, row, HEADS * row, STEP}};
    q.cache = (clattn_layout){{HEADS * SEQ * place, SEQ * place, place, 1}};
    for (int n = 0; n < CA_NUM_DTYPES * CA_NUM_BLOCK_FORMATS; n++) {
        q.from = (clattn_dtype)(n / CA_NUM_BLOCK_FORMATS);
        q.to = ca_block_caches[n % CA_NUM_BLOCK_FORMATS];
        draw_values(q.from, values);
        memset(got, 0xee, sizeof got);
        memset(want, 0xee, sizeof want);
        clattn_quantize_host(&q, values, want + GUARD * ca_cache_bytes(q.to, q.from));
        const clattn_status status = run(ctx, program, &q, values, got);
        if (status != CLATTN_SUCCESS)
            return status;
        if (memcmp(got, want, sizeof got) == 0)
            continue;
        return ca_status_with(CLATTN_MISCOMPILED, why, CA_REASON_BYTES, "its blocks are wrong");
    }
    return CLATTN_SUCCESS;
}
