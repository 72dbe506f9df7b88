#include "buffers.h"
#include "plan.h"

#include <stddef.h>

static struct attention_offsets offsets_of(const clattn_forward *tensors)
{
    return (struct attention_offsets){
        .q = (cl_long)tensors->q.offset,
        .k = (cl_long)tensors->k.offset,
        .v = (cl_long)tensors->v.offset,
        .o = (cl_long)tensors->o.offset,
        .bias = (cl_long)tensors->bias.offset,
        .mask = (cl_long)tensors->mask.offset,
        .slopes = (cl_long)tensors->slopes.offset,
        .sinks = (cl_long)tensors->sinks.offset,
        .q_lengths = (cl_long)tensors->q_lengths.offset,
        .kv_lengths = (cl_long)tensors->kv_lengths.offset,
        .lse = (cl_long)tensors->lse.offset,
        .scores = (cl_long)tensors->scores.offset,
        .workspace = (cl_long)tensors->workspace.offset,
    };
}

/* Sets a stage's arguments but for the shape, which the plan has set. */
static cl_int set_arguments(const clattn_plan *plan, size_t stage, cl_kernel kernel,
                            const struct attention_offsets *offsets, const clattn_forward *tensors)
{
    const unsigned arguments = plan->candidate.family->stages[stage].arguments;
    cl_uint index = 1;
    cl_int err = clSetKernelArg(kernel, index++, sizeof *offsets, offsets);

    for (unsigned n = 0; err == CL_SUCCESS && n < CA_NUM_ARGUMENTS; n++) {
        if (!(arguments & CA_BIT(n)) || !(plan->operands[n].present || n == CA_WORKSPACE))
            continue;
        const cl_mem buffer = ca_buffer_at(tensors, (enum ca_argument)n)->buffer;
        err = clSetKernelArg(kernel, index++, sizeof buffer, &buffer);
    }
    return err;
}

/* Enqueues the stages one after the other: by the queue's order, or by an event between two. */
static clattn_status enqueue_stages(const clattn_plan *plan, cl_command_queue queue, int in_order,
                                    const clattn_forward *tensors, cl_uint num_wait,
                                    const cl_event *wait, cl_event *done)
{
    const struct ca_family *family = plan->candidate.family;
    const struct attention_offsets offsets = offsets_of(tensors);
    struct ca_kernels *kernels = ca_kernels_take(plan);
    clattn_status status = CLATTN_SUCCESS;
    cl_event previous = NULL;
    size_t last = family->num_stages - 1; /* the last stage always runs: it writes o */

    for (size_t s = 0; s <= last && status == CLATTN_SUCCESS; s++) {
        const char *name = family->stages[s].kernel;
        const struct ca_ndrange *range = &plan->range[s];
        cl_event event = NULL;
        cl_event *wanted = (s == last && done) || (s < last && !in_order) ? &event : NULL;
        if (!plan->runs[s])
            continue;
        cl_int err = set_arguments(plan, s, kernels->stage[s], &offsets, tensors);
        if (err != CL_SUCCESS) {
            status = ca_fail_cl(&plan->context->log, err, "clSetKernelArg for %s", name);
            break;
        }
        err = clEnqueueNDRangeKernel(queue, kernels->stage[s], 3, NULL, range->global, range->local,
                                     previous ? 1 : num_wait, previous ? &previous : wait, wanted);
        if (err != CL_SUCCESS) {
            status = ca_fail_cl(&plan->context->log, err, "clEnqueueNDRangeKernel for %s", name);
            break;
        }
        if (in_order) {
            num_wait = 0; /* the first stage has waited */
            wait = NULL;
        }
        if (previous)
            clReleaseEvent(previous);
        previous = event;
    }
    ca_kernels_give_back(kernels);
    if (status == CLATTN_SUCCESS && done)
        *done = previous;
    else if (previous)
        clReleaseEvent(previous);
    return status;
}

/* Nothing to compute: the event still stands for the wait list. */
static clattn_status enqueue_nothing(const clattn_plan *plan, cl_command_queue queue,
                                     cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    if (!done)
        return CLATTN_SUCCESS;
    const cl_int err = clEnqueueMarkerWithWaitList(queue, num_wait, wait, done);
    if (err == CL_SUCCESS)
        return CLATTN_SUCCESS;
    *done = NULL;
    return ca_fail_cl(&plan->context->log, err, "clEnqueueMarkerWithWaitList");
}

clattn_status clattn_attention_forward(const clattn_plan *plan, cl_command_queue queue,
                                       const clattn_forward *tensors, cl_uint num_wait,
                                       const cl_event *wait, cl_event *done)
{
    clattn_status status;
    int in_order;
    cl_int err;

    if (done)
        *done = NULL;
    if (!plan)
        return CLATTN_INVALID_ARGUMENT;
    const struct ca_log *log = &plan->context->log;
    if (!queue || !tensors || tensors->struct_size != sizeof *tensors)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                       "queue or tensors is null, or struct_size is not that of this library");
    if ((status = ca_check_queue(plan, queue, &in_order)) != CLATTN_SUCCESS ||
        (status = ca_check_wait_list(plan, num_wait, wait)) != CLATTN_SUCCESS ||
        (status = ca_check_buffers(plan, tensors)) != CLATTN_SUCCESS)
        return status;
    if (ca_problem_empty(&plan->problem))
        return enqueue_nothing(plan, queue, num_wait, wait, done);
    if (tensors->workspace.buffer || plan->workspace_bytes == 0)
        return enqueue_stages(plan, queue, in_order, tensors, num_wait, wait, done);

    clattn_forward with_workspace = *tensors;
    with_workspace.workspace.offset = 0;
    with_workspace.workspace.buffer =
        clCreateBuffer(plan->context->cl, CL_MEM_READ_WRITE, plan->workspace_bytes, NULL, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(log, err, "clCreateBuffer for a workspace of %zu bytes",
                          plan->workspace_bytes);
    status = enqueue_stages(plan, queue, in_order, &with_workspace, num_wait, wait, done);
    clReleaseMemObject(with_workspace.workspace.buffer); /* lives until the kernels are done */
    return status;
}
