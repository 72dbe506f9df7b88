/* SPDX-License-Identifier: Apache-2.0 */
#include "api/host_call.h"
#include "context/in_flight.h"
#include "execute/buffers.h"
#include "execute/execute.h"
#include "problem/problem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const void *pointer_of(const struct ca_transfer *transfer)
{
    return transfer->output ? transfer->output : transfer->input;
}

static clattn_status check(const clattn_plan *plan, struct ca_transfer transfers[CA_WORKSPACE])
{
    const struct ca_log *log = &plan->context->log;
    struct ca_places places[CA_WORKSPACE];

    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        const struct ca_operand *operand = &ca_plan_whole(plan)->operands[n];
        const void *pointer = pointer_of(&transfers[n]);
        if (!operand->present && pointer)
            return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s is given, but '%s' has none",
                           operand->name, ca_plan_whole(plan)->problem_text);
        if (!operand->present || operand->span == 0)
            continue;
        if (!pointer)
            return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s must not be null for '%s'",
                           operand->name, ca_plan_whole(plan)->problem_text);
        transfers[n].bytes =
            ca_elements_bytes(operand->span, operand->element_bytes, operand->cache);
        places[n] = ca_operand_places(operand, (uintptr_t)pointer);
    }
    for (size_t w = 0; w < CA_WORKSPACE; w++)
        for (size_t n = 0; n < CA_WORKSPACE; n++) {
            if (n == w || !ca_plan_whole(plan)->operands[w].written || !transfers[w].bytes ||
                !transfers[n].bytes)
                continue;
            const clattn_status status =
                ca_check_overlap(log, ca_plan_whole(plan)->operands, places, w, n);
            if (status != CLATTN_SUCCESS)
                return status;
        }
    return CLATTN_SUCCESS;
}

static clattn_status upload(const clattn_plan *plan, struct ca_transfer transfers[CA_WORKSPACE],
                            struct ca_tensors *device)
{
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        struct ca_transfer *t = &transfers[n];
        const int copies =
            !t->output || ca_plan_whole(plan)->operands[n].written == CA_UPDATED ||
            plan->problem.normal.total_q || /* rows of no sequence keep their values */
            plan->problem.normal.total_kv;
        cl_int err;
        if (t->bytes == 0)
            continue;
        t->buffer =
            clCreateBuffer(plan->context->cl,
                           (t->output ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY) |
                               (copies ? CL_MEM_COPY_HOST_PTR : 0),
                           t->bytes, copies ? (void *)(uintptr_t)pointer_of(t) : NULL, &err);
        if (err != CL_SUCCESS) {
            t->buffer = NULL;
            return ca_fail_cl(&plan->context->log, err, "clCreateBuffer for %s of %zu bytes",
                              ca_plan_whole(plan)->operands[n].name, t->bytes);
        }
        device->at[n].buffer = t->buffer;
    }
    return CLATTN_SUCCESS;
}

/* Copies elements, or blocks of a quantized tensor, alone: memory between them is the caller's,
 * perhaps another result. */
static void scatter(const struct ca_operand *operand, const unsigned char *from, unsigned char *to)
{
    const size_t *sizes = operand->sizes, *stride = operand->layout.stride;
    const size_t run = stride[3] == 1 ? sizes[3] : 1; /* elements that are neighbours */

    for (size_t b = 0; b < sizes[0]; b++)
        for (size_t h = 0; h < sizes[1]; h++)
            for (size_t s = 0; s < sizes[2]; s++)
                for (size_t d = 0; d < sizes[3]; d += run) {
                    const size_t at = ca_elements_bytes(b * stride[0] + h * stride[1] +
                                                            s * stride[2] + d * stride[3],
                                                        operand->element_bytes, operand->cache);
                    memcpy(to + at, from + at,
                           ca_elements_bytes(run, operand->element_bytes, operand->cache));
                }
}

static clattn_status download_one(const clattn_plan *plan, cl_command_queue queue,
                                  const struct ca_operand *operand, const struct ca_transfer *t)
{
    const size_t *sizes = operand->sizes;
    const int has_gaps = operand->span != sizes[0] * sizes[1] * sizes[2] * sizes[3];
    unsigned char *room = has_gaps ? malloc(t->bytes) : t->output;

    if (!room)
        return ca_fail(&plan->context->log, CLATTN_OUT_OF_MEMORY,
                       "no host memory for %s of %zu bytes", operand->name, t->bytes);
    const cl_int err =
        clEnqueueReadBuffer(queue, t->buffer, CL_TRUE, 0, t->bytes, room, 0, NULL, NULL);
    if (err == CL_SUCCESS && has_gaps)
        scatter(operand, room, t->output);
    if (has_gaps)
        free(room);
    return err == CL_SUCCESS
               ? CLATTN_SUCCESS
               : ca_fail_cl(&plan->context->log, err, "clEnqueueReadBuffer for %s", operand->name);
}

static clattn_status download(const clattn_plan *plan, cl_command_queue queue,
                              const struct ca_transfer transfers[CA_WORKSPACE])
{
    clattn_status status = CLATTN_SUCCESS;

    for (size_t n = 0; n < CA_WORKSPACE && status == CLATTN_SUCCESS; n++)
        if (transfers[n].buffer && transfers[n].output)
            status = download_one(plan, queue, &ca_plan_whole(plan)->operands[n], &transfers[n]);
    return status;
}

static clattn_status compute(const clattn_plan *plan, struct ca_transfer transfers[CA_WORKSPACE],
                             struct ca_tensors device)
{
    cl_int err;

    cl_command_queue queue =
        clCreateCommandQueue(plan->context->cl, plan->context->device.device, 0, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&plan->context->log, err, "clCreateCommandQueue");
    clattn_status status = upload(plan, transfers, &device);
    if (status == CLATTN_SUCCESS)
        status = ca_execute(plan, queue, &device, 0, NULL, NULL);
    if (status == CLATTN_SUCCESS)
        status = download(plan, queue, transfers);
    ca_finish(plan->context, queue); /* after a failure too: kernels may still use the buffers */
    for (size_t n = 0; n < CA_WORKSPACE; n++)
        if (transfers[n].buffer)
            clReleaseMemObject(transfers[n].buffer);
    clReleaseCommandQueue(queue);
    return status;
}

clattn_status ca_host_check(const clattn_context *context, const char *mistake)
{
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    return mistake ? ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "%s", mistake)
                   : CLATTN_SUCCESS;
}

clattn_status ca_host_call(clattn_context *context, const clattn_problem *problem,
                           const clattn_plan_options *options, clattn_operation operation,
                           struct ca_transfer transfers[CA_WORKSPACE],
                           const struct ca_tensors *with)
{
    const struct ca_tensors device = {.seed = with->seed,
                                      .stream = with->stream,
                                      .place = with->place,
                                      .function_values = with->function_values};
    clattn_plan *plan;

    clattn_status status = ca_context_need_device(context);
    if (status == CLATTN_SUCCESS)
        status = clattn_plan_create(context, problem, options, &plan);
    if (status != CLATTN_SUCCESS)
        return status;
    if (plan->problem.normal.operation != operation)
        status =
            ca_fail(&context->log, CLATTN_INVALID_ARGUMENT,
                    "'%s' is not the operation that is called", ca_plan_whole(plan)->problem_text);
    if (status == CLATTN_SUCCESS)
        status = check(plan, transfers);
    if (status == CLATTN_SUCCESS)
        status = compute(plan, transfers, device);
    clattn_plan_release(plan);
    return status;
}
