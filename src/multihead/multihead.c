/* SPDX-License-Identifier: Apache-2.0 */
#include "multihead/multihead.h"
#include "base/structs.h"
#include "execute/buffers.h"
#include "execute/execute.h"

/* The tensors that an execution is given, by place, and its state. */
struct run {
    const clattn_multihead_plan *plan;
    clattn_buffer at[CA_NUM_LAYER_TENSORS];
    cl_ulong seed, function_version;
    cl_uint stream;
    const clattn_function_values *function_values;
};

/* ---- steps ----------------------------------------------------------------------------------- */

/* The steps that an output tensor needs: bit n for step n. */
static unsigned needed_steps(const struct run *run)
{
    const clattn_multihead_plan *plan = run->plan;
    unsigned needed = 0;
    uint64_t wanted = 0;

    for (unsigned place = 0; place < CA_NUM_PLACES; place++) {
        const int of_caller = place < CA_NUM_LAYER_TENSORS;
        if (of_caller ? plan->operands[place].written && ca_buffer_is_given(&run->at[place])
                      : plan->regions[place].inside == CA_AT_RESERVE)
            wanted |= CA_PLACE(place);
    }
    for (size_t n = plan->num_steps; n-- > 0;) {
        if (!(plan->steps[n].writes & wanted))
            continue;
        needed |= 1u << n;
        wanted |= plan->steps[n].reads;
    }
    return needed;
}

static clattn_buffer locate(const struct run *run, struct ca_located located, size_t element_bytes)
{
    const clattn_multihead_plan *plan = run->plan;
    clattn_buffer buffer = {.buffer = plan->constants};

    if (located.place < CA_NUM_LAYER_TENSORS) {
        buffer = run->at[located.place];
    } else if (located.place != CA_AT_CONSTANTS) {
        const struct ca_region *region = &plan->regions[located.place];
        buffer = run->at[region->inside];
        buffer.offset = (buffer.offset * sizeof(cl_float) + region->offset) / element_bytes;
    }
    buffer.offset += located.offset;
    return buffer;
}

static struct ca_tensors tensors_of(const struct run *run, const struct ca_ready_step *ready)
{
    struct ca_tensors tensors = {.seed = run->seed,
                                 .stream = run->stream,
                                 .function_values = run->function_values,
                                 .function_version = run->function_version};

    for (size_t n = 0; n < CA_WORKSPACE; n++)
        if (ready->plan->operands[n].present)
            tensors.at[n] = locate(run, ready->step.at[n], ready->plan->operands[n].element_bytes);
    tensors.at[CA_WORKSPACE] = run->at[CA_AT_WORKSPACE];
    tensors.at[CA_WORKSPACE].offset += ready->workspace / sizeof(cl_float);
    return tensors;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* The events that a step waits for: those of the steps whose results it reads, if there are any. */
static cl_uint events_before(unsigned steps, cl_event *const events, cl_event *list)
{
    cl_uint count = 0;

    for (unsigned n = 0; n < CA_MAX_STEPS; n++)
        if (steps & 1u << n)
            list[count++] = events[n];
    return count;
}

/* Out of order each step has an event, and those that depend on no other may run side by side. */
static clattn_status enqueue_out_of_order(const struct run *run, cl_command_queue queue,
                                          unsigned needed, cl_uint num_wait, const cl_event *wait,
                                          cl_event *done)
{
    cl_event events[CA_MAX_STEPS] = {NULL}, list[CA_MAX_STEPS];
    clattn_status status = CLATTN_SUCCESS;

    for (size_t n = 0; n < run->plan->num_steps && status == CLATTN_SUCCESS; n++) {
        const struct ca_ready_step *ready = &run->plan->steps[n];
        const struct ca_tensors tensors = tensors_of(run, ready);
        const cl_uint before = events_before(ready->after & needed, events, list);
        if (needed & 1u << n)
            status = ca_enqueue(ready->plan, queue, 0, &tensors, before ? before : num_wait,
                                before ? list : wait, &events[n]);
    }
    if (status == CLATTN_SUCCESS)
        status = ca_enqueue_marker(run->plan->context, queue, events_before(needed, events, list),
                                   list, done);
    for (size_t n = 0; n < CA_MAX_STEPS; n++)
        if (events[n])
            clReleaseEvent(events[n]);
    return status;
}

static clattn_status enqueue_in_order(const struct run *run, cl_command_queue queue,
                                      unsigned needed, cl_uint num_wait, const cl_event *wait,
                                      cl_event *done)
{
    clattn_status status = CLATTN_SUCCESS;

    for (size_t n = 0; needed && status == CLATTN_SUCCESS; n++) {
        const struct ca_ready_step *ready = &run->plan->steps[n];
        if (!(needed & 1u << n))
            continue;
        const struct ca_tensors tensors = tensors_of(run, ready);
        needed &= ~(1u << n);
        status = ca_enqueue(ready->plan, queue, 1, &tensors, num_wait, wait, needed ? NULL : done);
        num_wait = 0; /* the first step has waited */
        wait = NULL;
    }
    return status;
}

static clattn_status enqueue(const struct run *run, cl_command_queue queue, int in_order,
                             cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    const unsigned needed = needed_steps(run);

    if (!needed)
        return ca_enqueue_marker(run->plan->context, queue, num_wait, wait, done);
    return in_order ? enqueue_in_order(run, queue, needed, num_wait, wait, done)
                    : enqueue_out_of_order(run, queue, needed, num_wait, wait, done);
}

/* Checks everything and enqueues. */
static clattn_status execute(struct run *run, cl_command_queue queue, cl_uint num_wait,
                             const cl_event *wait, cl_event *done)
{
    const clattn_multihead_plan *plan = run->plan;
    const clattn_context *context = plan->context;
    clattn_buffer *workspace = &run->at[CA_AT_WORKSPACE];
    clattn_status status;
    int in_order;
    cl_int err;

    if ((status = ca_check_queue(context, queue, &in_order)) != CLATTN_SUCCESS ||
        (status = ca_check_wait_list(context, num_wait, wait)) != CLATTN_SUCCESS ||
        (status = ca_check_buffers(context, plan->layer_text, plan->operands, run->at,
                                   CA_NUM_LAYER_TENSORS)) != CLATTN_SUCCESS)
        return status;
    if (ca_buffer_is_given(workspace) || plan->workspace_bytes == 0)
        return enqueue(run, queue, in_order, num_wait, wait, done);
    *workspace = (clattn_buffer){.buffer = clCreateBuffer(context->cl, CL_MEM_READ_WRITE,
                                                          plan->workspace_bytes, NULL, &err)};
    if (err != CL_SUCCESS)
        return ca_fail_cl(&context->log, err, "clCreateBuffer for a workspace of %zu bytes",
                          plan->workspace_bytes);
    status = enqueue(run, queue, in_order, num_wait, wait, done);
    clReleaseMemObject(workspace->buffer); /* the buffer lives until the kernels are done */
    return status;
}

/* ---- what the caller gives ------------------------------------------------------------------- */

static void take_inputs(struct run *run, const clattn_multihead_inputs *in)
{
    run->at[CA_AT_X] = in->x;
    run->at[CA_AT_CONTEXT] = in->context;
    run->at[CA_AT_VALUES] = in->values;
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, ...)                                             \
    CA_IF_INPUT(LAYER, run->at[CA_AT_##ID] = in->member;)
    CA_OPERANDS(OPERAND)
#undef OPERAND
    run->seed = in->dropout_seed;
    run->stream = in->dropout_offset;
}

/* What both structs of tensors have of functions. */
#define TAKE_FUNCTIONS(run, tensors)                                                               \
    do {                                                                                           \
        CA_OPERANDS(TAKE_OPERAND)                                                                  \
        (run)->function_values = (tensors)->function_values;                                       \
        (run)->function_version = (tensors)->function_version;                                     \
    } while (0)
#define TAKE_OPERAND(ID, member, GIVEN, WRITER, LAYER, ...)                                        \
    CA_IF_LAST(LAYER, run.at[CA_AT_##ID] = tensors->member;)

/* Copies the parameters to consecutive buffers from `at` on. */
static void take_parameters(clattn_buffer *at, const clattn_multihead_parameters *parameters)
{
    at[CA_AT_W_Q - CA_AT_W_Q] = parameters->w_q;
    at[CA_AT_W_K - CA_AT_W_Q] = parameters->w_k;
    at[CA_AT_W_V - CA_AT_W_Q] = parameters->w_v;
    at[CA_AT_W_O - CA_AT_W_Q] = parameters->w_o;
    at[CA_AT_B_Q - CA_AT_W_Q] = parameters->b_q;
    at[CA_AT_B_K - CA_AT_W_Q] = parameters->b_k;
    at[CA_AT_B_V - CA_AT_W_Q] = parameters->b_v;
    at[CA_AT_B_O - CA_AT_W_Q] = parameters->b_o;
}

static clattn_status check_call(const clattn_multihead_plan *plan, const char *mistake,
                                clattn_operation operation)
{
    const struct ca_log *log = &plan->context->log;

    if (mistake)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s", mistake);
    if (plan->layer.attention.operation != operation)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "the plan computes '%s', not its %s",
                       plan->layer_text,
                       operation == CLATTN_FORWARD ? "forward direction" : "gradients");
    return CLATTN_SUCCESS;
}

clattn_status clattn_multihead_forward(const clattn_multihead_plan *plan, cl_command_queue queue,
                                       const clattn_multihead_forward_tensors *tensors,
                                       cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    struct run run = {.plan = plan};

    if (done)
        *done = NULL;
    if (!plan)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "plan is null");
    clattn_multihead_forward_tensors own;
    char why[CA_REASON_BYTES];
    tensors = CA_READ(clattn_multihead_forward_tensors, "tensors", tensors, &own, why);
    const clattn_status status = check_call(plan, tensors ? NULL : why, CLATTN_FORWARD);
    if (status != CLATTN_SUCCESS)
        return status;
    take_inputs(&run, &tensors->in);
    take_parameters(&run.at[CA_AT_W_Q], &tensors->parameters);
    TAKE_FUNCTIONS(&run, tensors);
    run.at[CA_AT_Y] = tensors->y;
    run.at[CA_AT_WEIGHTS] = tensors->weights;
    run.at[CA_AT_RESERVE] = tensors->reserve;
    run.at[CA_AT_WORKSPACE] = tensors->workspace;
    return execute(&run, queue, num_wait, wait, done);
}

clattn_status clattn_multihead_backward(const clattn_multihead_plan *plan, cl_command_queue queue,
                                        const clattn_multihead_backward_tensors *tensors,
                                        cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    struct run run = {.plan = plan};

    if (done)
        *done = NULL;
    if (!plan)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "plan is null");
    clattn_multihead_backward_tensors own;
    char why[CA_REASON_BYTES];
    tensors = CA_READ(clattn_multihead_backward_tensors, "tensors", tensors, &own, why);
    const clattn_status status = check_call(plan, tensors ? NULL : why, CLATTN_BACKWARD);
    if (status != CLATTN_SUCCESS)
        return status;
    take_inputs(&run, &tensors->in);
    take_parameters(&run.at[CA_AT_W_Q], &tensors->parameters);
    take_parameters(&run.at[CA_AT_DW_Q], &tensors->gradients);
    TAKE_FUNCTIONS(&run, tensors);
    run.at[CA_AT_RESERVE] = tensors->reserve;
    run.at[CA_AT_DY] = tensors->dy;
    run.at[CA_AT_DX] = tensors->dx;
    run.at[CA_AT_DCONTEXT] = tensors->dcontext;
    run.at[CA_AT_DVALUES] = tensors->dvalues;
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, ...)                                             \
    CA_IF_GRADIENT(LAYER, run.at[CA_AT_##ID] = tensors->member;)
    CA_OPERANDS(OPERAND)
#undef OPERAND
    run.at[CA_AT_WORKSPACE] = tensors->workspace;
    return execute(&run, queue, num_wait, wait, done);
}
