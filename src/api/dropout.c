/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "context/in_flight.h"
#include "execute/buffers.h"
#include "execute/execute.h"
#include "families/candidate.h"
#include "problem/operations.h"
#include "problem/philox.h"
#include "problem/problem.h"
#include "program/program.h"
#include <clattn/dropout.h>

#include <string.h>

extern const char *const ca_source_dropout_mask[];

static ca_self_check check_program;

/* This family is none that plans choose from, but it is built, checked and kept like one. */
static const struct ca_family dropout_mask = {
    CA_FAMILY("dropout_mask"),
    .source = ca_source_dropout_mask,
};

static size_t count_rows(const clattn_problem *p)
{
    return p->batch * p->heads * p->seq_q; /* o has these layouts, and passed the check */
}

/* ---- on the host ----------------------------------------------------------------------------- */

static void fill_row(const clattn_problem *p, uint64_t seed, uint32_t offset, size_t row,
                     unsigned char *mask)
{
    const cl_uint key[2] = {(cl_uint)seed, (cl_uint)(seed >> 32)};
    const cl_uint i = (cl_uint)(row % p->seq_q), bh = (cl_uint)(row / p->seq_q);
    const cl_uint drop_below = ca_drop_below(p);

    for (size_t j = 0; j < p->seq_kv; j += 4) {
        const cl_uint counter[4] = {(cl_uint)(j / 4), i, bh, offset};
        cl_uint words[4];
        ca_philox(key, counter, words);
        for (size_t n = 0; n < 4 && j + n < p->seq_kv; n++)
            mask[j + n] = words[n] >= drop_below;
    }
}

clattn_status clattn_dropout_mask_host(const clattn_problem *problem, uint64_t seed,
                                       uint32_t offset, size_t first_row, size_t num_rows,
                                       unsigned char *mask)
{
    const clattn_status status = clattn_problem_check(problem, NULL, 0);

    if (status != CLATTN_SUCCESS)
        return status;
    if (!ca_is_attention(problem))
        return ca_refuse(CLATTN_UNSUPPORTED, "only attention has dropout");
    const size_t rows = count_rows(problem);
    if (first_row > rows || num_rows > rows - first_row)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "the mask has %zu rows, not %zu from row %zu on",
                         rows, num_rows, first_row);
    if (!mask && num_rows > 0 && problem->seq_kv > 0)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "mask is null");
    for (size_t n = 0; n < num_rows; n++)
        fill_row(problem, seed, offset, first_row + n, mask + n * problem->seq_kv);
    return CLATTN_SUCCESS;
}

/* ---- on the device --------------------------------------------------------------------------- */

static clattn_status enqueue(const clattn_context *ctx, cl_program program, const clattn_problem *p,
                             uint64_t seed, uint32_t offset, cl_command_queue queue,
                             const clattn_buffer *mask, cl_uint num_wait, const cl_event *wait,
                             cl_event *done)
{
    enum { KEYS = 64 }; /* keys per work-item, as in cl/elementwise/dropout_mask.cl */
    const cl_uint drop_below = ca_drop_below(p);
    const cl_long seq_kv = (cl_long)p->seq_kv, first = (cl_long)mask->offset;
    const struct ca_value arguments[] = {{sizeof seed, &seed},
                                         {sizeof offset, &offset},
                                         {sizeof drop_below, &drop_below},
                                         {sizeof seq_kv, &seq_kv},
                                         {sizeof first, &first}};
    const struct ca_kernel_launch launch = {
        .kernel = dropout_mask.name,
        .values = arguments,
        .num_values = sizeof arguments / sizeof *arguments,
        .buffers = mask,
        .num_buffers = 1,
        .range = ca_single_items((p->seq_kv + KEYS - 1) / KEYS, p->seq_q, p->batch * p->heads),
    };

    return ca_launch_kernel(ctx, program, &launch, queue, num_wait, wait, done);
}

clattn_status clattn_dropout_mask(clattn_context *context, const clattn_problem *problem,
                                  uint64_t seed, uint32_t offset, cl_command_queue queue,
                                  const clattn_buffer *mask, cl_uint num_wait, const cl_event *wait,
                                  cl_event *done)
{
    const struct ca_candidate candidate = {.family = &dropout_mask};
    char reason[CA_REASON_BYTES];
    cl_program program;
    int in_order;

    if (done)
        *done = NULL;
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    clattn_status status = clattn_problem_check(problem, reason, sizeof reason);
    if (status != CLATTN_SUCCESS)
        return ca_fail(&context->log, status, "%s", reason);
    if (!ca_is_attention(problem))
        return ca_fail(&context->log, CLATTN_UNSUPPORTED, "only attention has dropout");
    if (!mask)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "mask is null");
    const size_t rows = count_rows(problem);
    if (problem->seq_kv > 0 && rows > (size_t)CL_LONG_MAX / problem->seq_kv)
        return ca_fail(&context->log, CLATTN_BUFFER_TOO_SMALL, "the mask exceeds 2^63 bytes");
    const struct ca_operand operand = {.name = "mask",
                                       .present = 1,
                                       .written = 1,
                                       .element_bytes = 1,
                                       .span = rows * problem->seq_kv};
    if ((status = ca_check_queue(context, queue, &in_order)) != CLATTN_SUCCESS ||
        (status = ca_check_wait_list(context, num_wait, wait)) != CLATTN_SUCCESS ||
        (status = ca_check_buffers(context, "a mask of dropout", &operand, mask, 1)) !=
            CLATTN_SUCCESS)
        return status;
    if (operand.span == 0)
        return ca_enqueue_marker(context, queue, num_wait, wait, done);
    status = ca_program_get(context, &candidate, NULL, check_program, &program);
    if (status != CLATTN_SUCCESS)
        return status;
    ca_program_keep(context, program);
    status = enqueue(context, program, problem, seed, offset, queue, mask, num_wait, wait, done);
    ca_program_put_back(context, program);
    return status;
}

/* ---- trust ----------------------------------------------------------------------------------- */

/* Ragged: more than one block of keys, and no whole number of them. */
enum { HEADS = 3, SEQ_Q = 5, SEQ_KV = 150, GUARD = 64, BYTES = HEADS * SEQ_Q * SEQ_KV };

/* Computes the mask into the middle of bytes[]. */
static clattn_status run(clattn_context *ctx, cl_program program, const clattn_problem *p,
                         uint64_t seed, uint32_t offset, unsigned char bytes[BYTES + 2 * GUARD])
{
    clattn_status status;
    cl_int err;

    cl_command_queue queue = clCreateCommandQueue(ctx->cl, ctx->device.device, 0, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&ctx->log, err, "clCreateCommandQueue for a self-check");
    const clattn_buffer mask = {.buffer = clCreateBuffer(ctx->cl,
                                                         CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                                         BYTES + 2 * GUARD, bytes, &err),
                                .offset = GUARD};
    if (err != CL_SUCCESS) {
        clReleaseCommandQueue(queue);
        return ca_fail_cl(&ctx->log, err, "clCreateBuffer for a self-check");
    }
    status = enqueue(ctx, program, p, seed, offset, queue, &mask, 0, NULL, NULL);
    if (status == CLATTN_SUCCESS) {
        err = clEnqueueReadBuffer(queue, mask.buffer, CL_TRUE, 0, BYTES + 2 * GUARD, bytes, 0, NULL,
                                  NULL);
        if (err != CL_SUCCESS)
            status = ca_fail_cl(&ctx->log, err, "clEnqueueReadBuffer for a self-check");
    }
    ca_finish(ctx, queue); /* after a failure too: the kernel may still use the buffer */
    clReleaseMemObject(mask.buffer);
    clReleaseCommandQueue(queue);
    return status;
}

/* Compares the mask of a small problem with the host's. */
static clattn_status check_program(clattn_context *ctx, const struct ca_candidate *candidate,
                                   const struct ca_problem *none, cl_program program,
                                   double *launch_seconds, char why[CA_REASON_BYTES])
{
    (void)candidate;
    (void)none;
    (void)launch_seconds; /* too short to tell */
    const cl_ulong seed = 0xfedcba9876543210u;
    const cl_uint offset = 0x89abcdefu;
    unsigned char got[BYTES + 2 * GUARD], want[BYTES + 2 * GUARD];
    clattn_problem p;

    clattn_problem_init(&p);
    p.heads = p.kv_heads = HEADS;
    p.seq_q = SEQ_Q;
    p.seq_kv = SEQ_KV;
    p.dropout = 0.375f;
    memset(got, 0xff, sizeof got);
    memset(want, 0xff, sizeof want);
    clattn_dropout_mask_host(&p, seed, offset, 0, HEADS * SEQ_Q, want + GUARD);
    const clattn_status status = run(ctx, program, &p, seed, offset, got);
    if (status != CLATTN_SUCCESS || memcmp(got, want, sizeof got) == 0)
        return status;
    return ca_status_with(CLATTN_MISCOMPILED, why, CA_REASON_BYTES, "its mask is wrong");
}
