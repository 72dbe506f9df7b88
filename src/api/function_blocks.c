/* SPDX-License-Identifier: Apache-2.0 */
/* Block lists of a mask function, which the device evaluates. */
#include "api/host_call.h"
#include "base/structs.h"
#include "context/in_flight.h"
#include "execute/execute.h"
#include "execute/launch.h"
#include "families/candidate.h"
#include "problem/function.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "program/program.h"

#include <clattn/blocks.h>
#include <stdlib.h>
#include <string.h>

extern const char *const ca_source_function_blocks[];

/* Like the families that plans choose from, but for one kernel that is not checked itself. */
static const struct ca_family function_blocks = {
    CA_FAMILY("function_blocks"),
    .source = ca_source_function_blocks,
    CA_STAGES({.kernel = "function_blocks",
               .arguments = CA_FUNCTION_BITS | CA_BIT(CA_Q_LENGTHS) | CA_BIT(CA_KV_LENGTHS) |
                            CA_BIT(CA_WORKSPACE)}),
};

/* The functions and the lengths of a problem alone, so that problems of other sizes and dims share the program. */
static struct ca_problem of_program(const clattn_problem *p)
{
    clattn_problem small;

    clattn_problem_init(&small);
    small.mask_function = p->mask_function;
    small.q_lengths = p->q_lengths;
    small.kv_lengths = p->kv_lengths;
    return ca_problem_own(&small);
}

/* The buffers of the operands and lengths, and that of the results. */
struct buffers {
    cl_mem of[CA_NUM_ARGUMENTS];
};

static cl_int upload(const clattn_context *ctx, const clattn_problem *p, const void *const *host,
                     size_t bytes, struct buffers *buffers)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    cl_int err = CL_SUCCESS;

    ca_problem_tensors(p, tensors);
    for (unsigned n = 0; n < CA_WORKSPACE && err == CL_SUCCESS; n++) {
        const size_t size = tensors[n].sizes[3] * tensors[n].element_bytes;
        if ((function_blocks.stages[0].arguments & CA_BIT(n)) && tensors[n].present && size)
            buffers->of[n] = clCreateBuffer(ctx->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size,
                                            (void *)(uintptr_t)host[n], &err);
    }
    if (err == CL_SUCCESS)
        buffers->of[CA_WORKSPACE] = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE, bytes, NULL, &err);
    return err;
}

static cl_int launch(const clattn_context *ctx, const clattn_problem *p,
                     const struct ca_problem *small, cl_program program,
                     const clattn_function_values *values, const struct buffers *buffers,
                     const size_t global[3], unsigned char *seen)
{
    const int spreads =
        ca_function_asks_for(p->mask_function, 0) || ca_function_asks_for(p->mask_function, 1);
    const cl_long sizes[4] = {(cl_long)p->block_q, (cl_long)p->block_kv,
                              spreads ? (cl_long)p->batch : 1, spreads ? (cl_long)p->heads : 1};
    const struct ca_tensors tensors = {.function_values = values};
    struct ca_tensor operands[CA_WORKSPACE];
    union ca_shape shape;
    cl_long offsets[CA_MOST_OFFSETS];

    ca_problem_tensors(&small->normal, operands);
    const uint64_t taken = ca_stage_takes(&function_blocks.stages[0], small, operands);
    const size_t shape_bytes = ca_shape_of(p, &small->normal, &shape);
    const size_t offset_bytes = ca_offsets_of(p, taken, &tensors, offsets);
    cl_kernel kernel = NULL;
    cl_uint index = 0;
    cl_int err;

    cl_command_queue queue = clCreateCommandQueue(ctx->cl, ctx->device.device, 0, &err);
    if (err == CL_SUCCESS)
        kernel = clCreateKernel(program, "function_blocks", &err);
    if (err == CL_SUCCESS)
        err = clSetKernelArg(kernel, index++, shape_bytes, &shape);
    if (err == CL_SUCCESS)
        err = clSetKernelArg(kernel, index++, offset_bytes, offsets);
    for (unsigned n = 0; err == CL_SUCCESS && n < CA_NUM_ARGUMENTS; n++)
        if (buffers->of[n])
            err = clSetKernelArg(kernel, index++, sizeof(cl_mem), &buffers->of[n]);
    for (size_t n = 0; err == CL_SUCCESS && n < 4; n++)
        err = clSetKernelArg(kernel, index++, sizeof sizes[n], &sizes[n]);
    if (err == CL_SUCCESS)
        err = ca_enqueue_kernel(ctx, queue, kernel, global, NULL, 0, NULL, NULL);
    if (err == CL_SUCCESS)
        err = clEnqueueReadBuffer(queue, buffers->of[CA_WORKSPACE], CL_TRUE, 0,
                                  global[0] * global[1] * global[2], seen, 0, NULL, NULL);
    if (queue)
        ca_finish(ctx, queue); /* after a failure too: the kernel may still use the buffers */
    if (kernel)
        clReleaseKernel(kernel);
    if (queue)
        clReleaseCommandQueue(queue);
    return err;
}

/* Evaluates the blocks of all lists into seen[]. */
static clattn_status evaluate(clattn_context *ctx, const clattn_problem *p, const void *const *host,
                              const clattn_function_values *values, const size_t global[3],
                              unsigned char *seen)
{
    const struct ca_candidate candidate = {.family = &function_blocks};
    const struct ca_problem small = of_program(p);
    struct buffers buffers = {{NULL}};
    cl_program program;

    const clattn_status status =
        ca_program_get(ctx, &candidate, &small, ca_program_unchecked, &program);
    if (status != CLATTN_SUCCESS)
        return status;
    cl_int err = upload(ctx, p, host, global[0] * global[1] * global[2], &buffers);
    if (err == CL_SUCCESS)
        err = launch(ctx, p, &small, program, values, &buffers, global, seen);
    for (unsigned n = 0; n < CA_NUM_ARGUMENTS; n++)
        if (buffers.of[n])
            clReleaseMemObject(buffers.of[n]);
    ca_program_put_back(ctx, program);
    return err == CL_SUCCESS ? CLATTN_SUCCESS
                             : ca_fail_cl(&ctx->log, err, "evaluating a mask function in blocks");
}

/* Writes list number `list`; returns how many entries it has, or would have. */
static size_t write_list(const clattn_problem *p, const unsigned char *seen, const size_t global[3],
                         size_t list, int32_t *offsets, int32_t *entries)
{
    const size_t columns = global[0], rows = global[1];
    size_t count = 0;

    for (size_t row = 0; row < rows; row++) {
        const unsigned char *of_row = seen + (list * rows + row) * columns;
        if (offsets)
            offsets[list * (rows + 1) + row] =
                (int32_t)(count < p->max_blocks ? count : p->max_blocks);
        for (size_t c = 0; c < columns; c++) {
            if (!of_row[c])
                continue;
            if (entries && count < p->max_blocks)
                entries[list * p->max_blocks + count] =
                    (int32_t)c | (of_row[c] == 2 ? CLATTN_BLOCK_FULL : 0);
            count++;
        }
    }
    if (offsets)
        offsets[list * (rows + 1) + rows] =
            (int32_t)(count < p->max_blocks ? count : p->max_blocks);
    return count;
}

/* NULL if the call makes sense, else what is wrong with it. */
static const char *mistake_of(const clattn_problem *p, const struct ca_problem *made,
                              const void *const *host, const int32_t *offsets,
                              const int32_t *entries)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    if (!ca_is_attention(p) || !p->mask_function)
        return "the problem has no mask_function";
    if (!p->block_q)
        return "the problem has no block lists (block_q is 0)";
    if (!offsets != !entries)
        return "only one of offsets and entries is null";
    ca_problem_tensors(&made->normal, tensors);
    for (unsigned n = 0; n < CA_WORKSPACE; n++)
        if ((function_blocks.stages[0].arguments & CA_BIT(n)) && tensors[n].present && !host[n])
            return "an operand of the mask function, or a tensor of lengths, is null";
    return NULL;
}

/* The problem with its mask function alone, whose operands are the first ones then. */
static clattn_problem of_mask(const clattn_problem *p, const void **host)
{
    const size_t before = p->score_function ? p->score_function->num_operands : 0;
    clattn_problem masked = *p;

    for (size_t n = 0; n < CLATTN_FUNCTION_OPERANDS; n++)
        host[CA_FUNCTION_0 + n] =
            n + before < CLATTN_FUNCTION_OPERANDS ? host[CA_FUNCTION_0 + n + before] : NULL;
    masked.score_function = NULL;
    return masked;
}

static clattn_status make_lists(clattn_context *ctx, const clattn_problem *p,
                                const void *const *host, const clattn_function_values *values,
                                int32_t *offsets, int32_t *entries, size_t *needed)
{
    const size_t lists = (p->block_batches ? p->batch : 1) * (p->block_heads ? p->heads : 1);
    const size_t global[3] = {ca_block_columns(p), ca_block_rows(p), lists};
    const size_t blocks = global[0] * global[1] * lists;
    clattn_status status = CLATTN_SUCCESS;

    unsigned char *seen = calloc(blocks + 1, 1);
    if (!seen)
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for %zu blocks", blocks);
    if (blocks > 0)
        status = evaluate(ctx, p, host, values, global, seen);
    for (size_t list = 0; status == CLATTN_SUCCESS && list < lists; list++) {
        const size_t count = write_list(p, seen, global, list, offsets, entries);
        *needed = count > *needed ? count : *needed;
    }
    free(seen);
    if (status == CLATTN_SUCCESS && offsets && *needed > p->max_blocks)
        return ca_fail(&ctx->log, CLATTN_BUFFER_TOO_SMALL,
                       "a list has %zu entries, but max_blocks is %zu", *needed, p->max_blocks);
    return status;
}

clattn_status clattn_function_blocks(clattn_context *context, const clattn_problem *problem,
                                     const clattn_host_forward_tensors *tensors, int32_t *offsets,
                                     int32_t *entries, size_t *needed)
{
    clattn_host_forward_tensors own;
    char why[CA_REASON_BYTES];
    struct ca_problem made;
    size_t count = 0;
    const clattn_host_forward_tensors *t =
        CA_READ(clattn_host_forward_tensors, "tensors", tensors, &own, why);
    clattn_status status = ca_host_check(context, t ? NULL : why);

    if (status == CLATTN_SUCCESS)
        status = ca_context_need_device(context);
    if (status != CLATTN_SUCCESS)
        return status;
    if ((status = ca_problem_make(problem, &made, why, sizeof why)) != CLATTN_SUCCESS)
        return ca_fail(&context->log, status, "%s", why);
    const void *host[CA_WORKSPACE] = {
#define OPERAND(ID, member, GIVEN, ...) CA_OF_FORWARD(GIVEN, [CA_##ID] = t->member, )
        CA_OPERANDS(OPERAND)
#undef OPERAND
    };
    const char *mistake = mistake_of(problem, &made, host, offsets, entries);
    if (mistake)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "%s", mistake);
    const clattn_function_values values = ca_mask_function_values(problem, t->function_values);
    const clattn_problem masked = of_mask(&made.normal, host);
    status = make_lists(context, &masked, host, &values, offsets, entries, &count);
    if (needed) /* it may be the problem's own max_blocks */
        *needed = count;
    return status;
}
