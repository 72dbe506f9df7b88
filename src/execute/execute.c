/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/execute.h"
#include "context/in_flight.h"
#include "execute/bare.h"
#include "execute/buffers.h"
#include "execute/kept_marks.h"
#include "execute/launch.h"
#include "families/chosen_gradients/chosen_gradients.h"
#include "problem/operations.def"

#include <stddef.h>

/* The tensors with the alignment that kernels assume. */
static struct ca_tensors aligned(const clattn_plan *plan, const struct ca_tensors *tensors)
{
    struct ca_tensors to = *tensors;

    for (unsigned n = 0; n < CA_NUM_ARGUMENTS; n++)
        to.at[n] = ca_buffer_aligned(&plan->operands[n], to.at[n]);
    return to;
}

/* Sets a stage's arguments but for the shape, which the plan has set. */
static cl_int set_arguments(const clattn_plan *plan, size_t stage, cl_kernel kernel,
                            const struct ca_tensors *tensors)
{
    const uint64_t takes = plan->takes[stage];
    cl_long offsets[CA_MOST_OFFSETS];
    const size_t bytes = ca_offsets_of(&plan->problem.normal, takes, tensors, offsets);
    cl_uint index = 1;
    cl_int err = clSetKernelArg(kernel, index++, bytes, offsets);

    for (unsigned n = 0; err == CL_SUCCESS && n <= CA_WORKSPACE; n++)
        if (takes & CA_BIT(n))
            err = ca_buffer_set(plan->context, kernel, index++, &tensors->at[n]);
    return err;
}

/* Enqueues a stage, or the copy of what it would write. *event is wanted unless it is NULL. */
static clattn_status enqueue_stage(const clattn_plan *plan, size_t s, cl_kernel kernel,
                                   cl_command_queue queue, const struct ca_tensors *tensors,
                                   cl_uint num_wait, const cl_event *wait, cl_event *event)
{
    const struct ca_stage *stage = &plan->candidate.family->stages[s];
    const struct ca_ndrange *range = &plan->range[s];
    const int keeps = ca_marks_can_be_kept(plan->kept, stage, tensors);

    if (keeps && ca_kept_marks_copy(plan->kept, queue, tensors, num_wait, wait, event))
        return CLATTN_SUCCESS;
    cl_int err = set_arguments(plan, s, kernel, tensors);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&plan->context->log, err, "clSetKernelArg for %s", stage->kernel);
    err = ca_enqueue_kernel(plan->context, queue, kernel, range->global, range->local, num_wait,
                            wait, event);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&plan->context->log, err, "clEnqueueNDRangeKernel for %s", stage->kernel);
    if (keeps)
        ca_kept_marks_add(plan->kept, queue, tensors, event);
    return CLATTN_SUCCESS;
}

/* Enqueues stages `first` to `end` one after the other: by the queue's order, or by an event between two. One of them runs. */
static clattn_status enqueue_some_stages(const clattn_plan *plan, size_t first, size_t end,
                                         cl_command_queue queue, int in_order,
                                         const struct ca_tensors *tensors, cl_uint num_wait,
                                         const cl_event *wait, cl_event *done)
{
    const struct ca_tensors taken = aligned(plan, tensors);
    struct ca_kernels *kernels = ca_kernels_take(plan);
    clattn_status status = CLATTN_SUCCESS;
    cl_event previous = NULL;
    size_t last = end - 1;

    while (!plan->runs[last])
        last--;
    for (size_t s = first; s <= last && status == CLATTN_SUCCESS; s++) {
        cl_event event = NULL;
        cl_event *wanted = (s == last && done) || (s < last && !in_order) ? &event : NULL;
        if (!plan->runs[s])
            continue;
        status = enqueue_stage(plan, s, kernels->stage[s], queue, &taken, previous ? 1 : num_wait,
                               previous ? &previous : wait, wanted);
        if (status != CLATTN_SUCCESS)
            break;
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

static clattn_status enqueue_stages(const clattn_plan *plan, cl_command_queue queue, int in_order,
                                    const struct ca_tensors *tensors, cl_uint num_wait,
                                    const cl_event *wait, cl_event *done)
{
    return enqueue_some_stages(plan, 0, plan->candidate.family->num_stages, queue, in_order,
                               tensors, num_wait, wait, done);
}

/* The same without arguments, in a single thread, which always gets the first copy of the kernels. */
static cl_int enqueue_bare_stages(const clattn_plan *plan, size_t first, size_t end,
                                  cl_command_queue queue)
{
    cl_int err = CL_SUCCESS;

    for (size_t s = first; err == CL_SUCCESS && s < end; s++)
        if (plan->runs[s])
            err = ca_enqueue_kernel(plan->context, queue, plan->kernels[0].stage[s],
                                    plan->range[s].global, plan->range[s].local, 0, NULL, NULL);
    return err;
}

/* The end of the stages that follow execution n by copies. */
static size_t end_of_copies(const clattn_plan *plan, size_t n)
{
    return n == plan->chosen.executions - 1 ? plan->copies->candidate.family->num_stages
                                            : CA_CHOSEN_SINKS;
}

cl_int ca_enqueue_bare(const clattn_plan *plan, cl_command_queue queue)
{
    const size_t count = plan->lists ? plan->chosen.executions : 1;
    const clattn_plan *copies = plan->copies;
    cl_int err = plan->lists ? ca_enqueue_bare(plan->lists, queue) : CL_SUCCESS;

    for (size_t n = 0; n < count && err == CL_SUCCESS; n++) {
        if (copies)
            err = enqueue_bare_stages(copies, 0, CA_CHOSEN_COPIES, queue);
        if (err == CL_SUCCESS)
            err = enqueue_bare_stages(plan, 0, plan->candidate.family->num_stages, queue);
        if (err == CL_SUCCESS && copies)
            err = enqueue_bare_stages(copies, CA_CHOSEN_COPIES, end_of_copies(plan, n), queue);
    }
    return err == CL_SUCCESS && plan->then ? ca_enqueue_bare(plan->then, queue) : err;
}

clattn_status ca_launch_kernel(const clattn_context *context, cl_program program,
                               const struct ca_kernel_launch *launch, cl_command_queue queue,
                               cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    cl_uint index = 0;
    cl_int err;

    cl_kernel kernel = clCreateKernel(program, launch->kernel, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&context->log, err, "clCreateKernel(%s)", launch->kernel);
    for (cl_uint n = 0; err == CL_SUCCESS && n < launch->num_values; n++)
        err = clSetKernelArg(kernel, index++, launch->values[n].bytes, launch->values[n].value);
    for (cl_uint n = 0; err == CL_SUCCESS && n < launch->num_buffers; n++)
        err = ca_buffer_set(context, kernel, index++, &launch->buffers[n]);
    if (err == CL_SUCCESS)
        err = ca_enqueue_kernel(context, queue, kernel, launch->range.global, launch->range.local,
                                num_wait, wait, done);
    clReleaseKernel(kernel); /* the kernel lives until it has run */
    if (err == CL_SUCCESS)
        return CLATTN_SUCCESS;
    if (done)
        *done = NULL;
    return ca_fail_cl(&context->log, err, "enqueueing %s", launch->kernel);
}

clattn_status ca_enqueue_marker(const clattn_context *context, cl_command_queue queue,
                                cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    if (!done)
        return CLATTN_SUCCESS;
    const cl_int err = clEnqueueMarkerWithWaitList(queue, num_wait, wait, done);
    if (err == CL_SUCCESS)
        return CLATTN_SUCCESS;
    *done = NULL;
    return ca_fail_cl(&context->log, err, "clEnqueueMarkerWithWaitList");
}

/* Enqueues some of a plan's work, whose tensors have a workspace if the plan needs one. */
typedef clattn_status enqueue_work(const clattn_plan *plan, cl_command_queue queue, int in_order,
                                   const struct ca_tensors *tensors, cl_uint num_wait,
                                   const cl_event *wait, cl_event *done);

/* Enqueues it with a workspace of its own, unless the caller has given one. */
static clattn_status with_workspace(enqueue_work *enqueue, const clattn_plan *plan,
                                    cl_command_queue queue, int in_order,
                                    const struct ca_tensors *tensors, cl_uint num_wait,
                                    const cl_event *wait, cl_event *done)
{
    cl_int err;

    if (plan->empty)
        return ca_enqueue_marker(plan->context, queue, num_wait, wait, done);
    if (ca_buffer_is_given(&tensors->at[CA_WORKSPACE]) || plan->workspace_bytes == 0)
        return enqueue(plan, queue, in_order, tensors, num_wait, wait, done);

    struct ca_tensors given = *tensors;
    clattn_buffer *workspace = &given.at[CA_WORKSPACE];
    workspace->offset = 0;
    workspace->buffer =
        clCreateBuffer(plan->context->cl, CL_MEM_READ_WRITE, plan->workspace_bytes, NULL, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&plan->context->log, err, "clCreateBuffer for a workspace of %zu bytes",
                          plan->workspace_bytes);
    const clattn_status status = enqueue(plan, queue, in_order, &given, num_wait, wait, done);
    clReleaseMemObject(workspace->buffer); /* the buffer lives until the kernels are done */
    return status;
}

/* Enqueues the kernels of one plan: neither those of the plan that it needs before it nor of the one after it. */
static clattn_status enqueue_one(const clattn_plan *plan, cl_command_queue queue, int in_order,
                                 const struct ca_tensors *tensors, cl_uint num_wait,
                                 const cl_event *wait, cl_event *done)
{
    return with_workspace(enqueue_stages, plan, queue, in_order, tensors, num_wait, wait, done);
}

/* ---- lists of chosen keys ---------------------------------------------------------------------- */

static void move(clattn_buffer *to, const clattn_layout *layout, size_t batch, size_t head)
{
    to->offset += batch * layout->stride[0] + head * layout->stride[1];
}

/* The lists of execution n, by rows: tables and tensors from its batch and its kv head on. */
static void enter_rows(const clattn_plan *plan, size_t n, const clattn_buffer *made,
                       clattn_buffer *at)
{
    const clattn_problem *p = &plan->lists->problem.normal;
    const struct ca_chosen_keys *chosen = &plan->chosen;
    const struct made_lists places = ca_chosen_keys_made(chosen);
    const size_t b = n / chosen->kv_heads, g = n % chosen->kv_heads;
    const size_t head = g * (p->heads / p->kv_heads), list = n * chosen->problem.batch;
    /* Lists number the rows of pages and of packed keys for all batches. */
    const size_t keys_of = p->page_size || p->total_kv ? 0 : b;

    move(&at[CA_Q], &p->q, b, head);
    move(&at[CA_O], &p->o, b, head);
    move(&at[CA_K], &p->k, keys_of, g);
    move(&at[CA_V], &p->v, keys_of, g);
    if (p->k_scales)
        move(&at[CA_K_SCALES], &p->k_scales_layout, keys_of, g);
    if (p->v_scales)
        move(&at[CA_V_SCALES], &p->v_scales_layout, keys_of, g);
    at[CA_LSE].offset += (b * p->heads + head) * ca_query_rows(p);
    at[CA_SINKS].offset += head;
    at[CA_KV_LENGTHS] = at[CA_PAGE_TABLE] = at[CA_Q_STARTS] = *made;
    at[CA_KV_LENGTHS].offset += list;
    at[CA_PAGE_TABLE].offset += (size_t)places.table + list * chosen->width;
    at[CA_Q_STARTS].offset += (size_t)places.starts;
}

/* Sets the operands that are copies in the workspace, for an execution with chosen keys. */
static void enter_copies(const clattn_plan *plan, const clattn_buffer *made, clattn_buffer *at)
{
    const size_t begin = (size_t)ca_chosen_keys_made(&plan->chosen).end;
    const struct chosen_places places = chosen_places_of(plan->chosen.copies);
    const struct {
        unsigned argument;
        ca_long place;
    } copies[] = {
        {CA_Q, places.q},
        {CA_K, places.k},
        {CA_V, places.v},
        {CA_O, places.o},
        {CA_DO, places.d_o},
        {CA_LSE, places.lse},
        {CA_DLSE, places.dlse},
        {CA_DQ, places.dq},
        {CA_DK, places.dk},
        {CA_DV, places.dv},
        {CA_KV_LENGTHS, places.lengths},
    };

    for (size_t n = 0; n < sizeof copies / sizeof *copies; n++) {
        const unsigned argument = copies[n].argument;
        at[argument] = *made;
        at[argument].offset += begin + (size_t)copies[n].place;
        at[argument].offset *= sizeof(cl_float);
        at[argument].offset /= plan->operands[argument].element_bytes;
    }
}

/* The tensors of execution n of a problem that was derived from one with lists. */
static struct ca_tensors tensors_of_part(const clattn_plan *plan, const struct ca_tensors *given,
                                         size_t n)
{
    const clattn_buffer made = given->at[CA_WORKSPACE];
    struct ca_tensors to = *given;
    clattn_buffer *at = to.at;

    at[CA_WORKSPACE].offset += plan->lists->workspace_bytes / sizeof(cl_float);
    if (plan->chosen.way == CA_BY_ROWS)
        enter_rows(plan, n, &made, at);
    if (plan->chosen.way == CA_BY_MASK) {
        at[CA_MASK] = made;
        at[CA_MASK].offset *= sizeof(cl_float);
    }
    for (unsigned argument = 0; argument < CA_WORKSPACE; argument++)
        if (!plan->operands[argument].present)
            at[argument] = (clattn_buffer){0};
    if (plan->chosen.way == CA_BY_COPIES)
        enter_copies(plan, &made, at);
    return to;
}

/* Commands that follow each other: by the queue's order, or by an event between two. */
struct commands {
    cl_command_queue queue;
    int in_order;
    cl_uint num_wait;
    const cl_event *wait;
    cl_event previous;
};

/* Enqueues stages `first` to `end` of a plan behind the commands. done: not NULL for the last one, whose event it is. */
static clattn_status add_stages(struct commands *before, const clattn_plan *plan, size_t first,
                                size_t end, const struct ca_tensors *tensors, cl_event *done)
{
    cl_event event = NULL;
    const clattn_status status =
        enqueue_some_stages(plan, first, end, before->queue, before->in_order, tensors,
                            before->previous ? 1 : before->num_wait,
                            before->previous ? &before->previous : before->wait,
                            done               ? done
                            : before->in_order ? NULL
                                               : &event);

    if (before->previous)
        clReleaseEvent(before->previous);
    before->previous = event;
    before->num_wait = before->in_order ? 0 : before->num_wait;
    before->wait = before->in_order ? NULL : before->wait;
    return status;
}

static clattn_status add_plan(struct commands *before, const clattn_plan *plan,
                              const struct ca_tensors *tensors, cl_event *done)
{
    return add_stages(before, plan, 0, plan->candidate.family->num_stages, tensors, done);
}

/* Enqueues what reads the lists and then each execution of the derived problem: they share a workspace, and follow each
 * other. */
static clattn_status enqueue_parts(const clattn_plan *plan, cl_command_queue queue, int in_order,
                                   const struct ca_tensors *tensors, cl_uint num_wait,
                                   const cl_event *wait, cl_event *done)
{
    struct commands commands = {queue, in_order, num_wait, wait, NULL};
    const size_t count = plan->chosen.executions;
    const clattn_plan *copies = plan->copies;
    clattn_status status = CLATTN_SUCCESS;

    if (!plan->lists->empty)
        status = add_plan(&commands, plan->lists, tensors, NULL);
    for (size_t n = 0; n < count && status == CLATTN_SUCCESS; n++) {
        const struct ca_tensors part = tensors_of_part(plan, tensors, n);
        struct ca_tensors around = *tensors;
        cl_event *const end = n == count - 1 ? done : NULL;
        around.place.query = (cl_uint)(n * (size_t)plan->chosen.copies.lists);
        if (copies)
            status = add_stages(&commands, copies, 0, CA_CHOSEN_COPIES, &around, NULL);
        if (status == CLATTN_SUCCESS)
            status = add_plan(&commands, plan, &part, copies ? NULL : end);
        if (status == CLATTN_SUCCESS && copies)
            status = add_stages(&commands, copies, CA_CHOSEN_COPIES, end_of_copies(plan, n),
                                &around, end);
    }
    if (commands.previous)
        clReleaseEvent(commands.previous);
    return status;
}

/* ---- executions ------------------------------------------------------------------------------ */

clattn_status ca_enqueue(const clattn_plan *plan, cl_command_queue queue, int in_order,
                         const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                         cl_event *done)
{
    cl_event first = NULL;

    if (plan->lists)
        return with_workspace(enqueue_parts, plan, queue, in_order, tensors, num_wait, wait, done);
    if (!plan->then)
        return enqueue_one(plan, queue, in_order, tensors, num_wait, wait, done);
    clattn_status status =
        enqueue_one(plan, queue, in_order, tensors, num_wait, wait, in_order ? NULL : &first);
    if (status == CLATTN_SUCCESS)
        status = enqueue_one(plan->then, queue, in_order, tensors, first ? 1 : num_wait,
                             first ? &first : wait, done);
    if (first)
        clReleaseEvent(first);
    return status;
}

/* Returns whether the heads are among those of the whole attention, and the first key begins a
 * counter. */
static clattn_status check_place(const clattn_plan *plan, const clattn_dropout_place *place)
{
    if (plan->problem.normal.dropout > 0.0f && place->key % 4 != 0)
        return ca_fail(&plan->context->log, CLATTN_INVALID_ARGUMENT,
                       "dropout_place.key is %u, not a multiple of 4: four keys share a counter",
                       place->key);
    if (place->heads > 0 &&
        (place->head > place->heads || plan->problem.normal.heads > place->heads - place->head))
        return ca_fail(&plan->context->log, CLATTN_INVALID_ARGUMENT,
                       "dropout_place: %zu heads from head %u on are not among %u",
                       plan->problem.normal.heads, place->head, place->heads);
    return CLATTN_SUCCESS;
}

clattn_status ca_execute(const clattn_plan *plan, cl_command_queue queue,
                         const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                         cl_event *done)
{
    const clattn_context *context = plan->context;
    const clattn_plan *whole = ca_plan_whole(plan);
    clattn_status status;
    int in_order;

    if ((status = ca_check_queue(context, queue, &in_order)) != CLATTN_SUCCESS ||
        (status = ca_check_wait_list(context, num_wait, wait)) != CLATTN_SUCCESS ||
        (status = check_place(plan, &tensors->place)) != CLATTN_SUCCESS ||
        (status = ca_check_buffers(context, whole->problem_text, whole->operands, tensors->at,
                                   CA_NUM_ARGUMENTS)) != CLATTN_SUCCESS)
        return status;
    return ca_enqueue(plan, queue, in_order, tensors, num_wait, wait, done);
}

clattn_status ca_check_call(const clattn_plan *plan, clattn_operation operation,
                            const char *mistake, cl_event *done)
{
    static const char *const names[] = {
#define OPERATION(ID, name, word, noun, call, ...) [CLATTN_##ID] = call,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    if (done)
        *done = NULL;
    if (!plan)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "plan is null");
    if (mistake)
        return ca_fail(&plan->context->log, CLATTN_INVALID_ARGUMENT, "%s", mistake);
    if (plan->problem.normal.operation == operation)
        return CLATTN_SUCCESS;
    return ca_fail(&plan->context->log, CLATTN_INVALID_ARGUMENT, "the plan computes '%s', not %s",
                   plan->problem_text, names[operation]);
}
