#include "execute/buffers.h"
#include "problem/problem.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

struct ca_places ca_operand_places(const struct ca_operand *operand, uint64_t begin)
{
    struct ca_places places = {.begin = begin,
                               .element_bytes = operand->element_bytes,
                               .layout = operand->layout,
                               .cache = operand->cache};

    memcpy(places.sizes, operand->sizes, sizeof places.sizes);
    if (operand->sizes[3] == 0) {
        places.layout = (clattn_layout){{0, 0, 0, 1}};
        for (int n = 0; n < 4; n++)
            places.sizes[n] = n < 3 ? 1 : operand->span;
    }
    return places;
}

clattn_status ca_check_overlap(const struct ca_log *log, const struct ca_operand *operands,
                               const struct ca_places *places, size_t n, size_t m)
{
    switch (ca_places_overlap(&places[n], &places[m])) {
    case CA_APART:
        return CLATTN_SUCCESS;
    case CA_SHARED:
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s, which is written, overlaps %s",
                       operands[n].name, operands[m].name);
    default:
        return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                       "%s, which is written, may overlap %s: their strides have too little in "
                       "common to tell whether they share an element",
                       operands[n].name, operands[m].name);
    }
}

/* ---- each ------------------------------------------------------------------------------------ */

static cl_int locate(cl_mem buffer, cl_mem_object_type *type, cl_mem_flags *flags,
                     cl_context *context, size_t *bytes, cl_mem *parent, size_t *origin)
{
    const struct {
        cl_mem_info what;
        size_t bytes;
        void *value;
    } facts[] = {
        {CL_MEM_TYPE, sizeof *type, type},
        {CL_MEM_FLAGS, sizeof *flags, flags},
        {CL_MEM_CONTEXT, sizeof *context, context},
        {CL_MEM_SIZE, sizeof *bytes, bytes},
        {CL_MEM_ASSOCIATED_MEMOBJECT, sizeof *parent, parent},
        {CL_MEM_OFFSET, sizeof *origin, origin},
    };

    for (size_t n = 0; n < sizeof facts / sizeof *facts; n++) {
        const cl_int err =
            clGetMemObjectInfo(buffer, facts[n].what, facts[n].bytes, facts[n].value, NULL);
        if (err != CL_SUCCESS)
            return err;
    }
    return CL_SUCCESS;
}

static clattn_status check_one(const clattn_context *owner, const struct ca_operand *operand,
                               const clattn_buffer *given, cl_mem *memory, struct ca_places *places)
{
    const struct ca_log *log = &owner->log;
    const char *name = operand->name;
    cl_mem_object_type type = 0;
    cl_mem_flags flags = 0;
    cl_context context = NULL;
    size_t bytes = 0, origin = 0;
    cl_mem parent = NULL;

    const cl_int err = locate(given->buffer, &type, &flags, &context, &bytes, &parent, &origin);
    if (err != CL_SUCCESS && err != CL_INVALID_MEM_OBJECT)
        return ca_fail_cl(log, err, "clGetMemObjectInfo for %s", name);
    if (err != CL_SUCCESS || type != CL_MEM_OBJECT_BUFFER)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s is not an OpenCL buffer", name);
    if (context != owner->cl)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s is a buffer of another OpenCL context",
                       name);
    if (operand->span == 0)
        return CLATTN_SUCCESS;
    if (operand->written && flags & CL_MEM_READ_ONLY)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                       "%s is written by kernels, but its buffer is CL_MEM_READ_ONLY", name);
    if (operand->written != 1 && flags & CL_MEM_WRITE_ONLY)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                       "%s is read by kernels, but its buffer is CL_MEM_WRITE_ONLY", name);
    const size_t block = operand->cache == CLATTN_CACHE_PLAIN ? 1 : CA_BLOCK;
    const size_t elements = bytes / operand->element_bytes * block;
    if (given->offset % block != 0)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                       "%s is quantized: its offset, %zu, must be a multiple of %zu", name,
                       given->offset, block);
    if (elements < operand->span || given->offset > elements - operand->span)
        return ca_fail(log, CLATTN_BUFFER_TOO_SMALL,
                       "%s reaches over %zu elements from %zu on, but its buffer holds %zu", name,
                       operand->span, given->offset, elements);
    *memory = parent ? parent : given->buffer;
    *places = ca_operand_places(operand, origin + given->offset / block * operand->element_bytes);
    return CLATTN_SUCCESS;
}

/* memories[n]: the outermost buffer of operand n, NULL if it has no elements. */
static clattn_status check_overlaps(const struct ca_log *log, const struct ca_operand *operands,
                                    const cl_mem *memories, const struct ca_places *places,
                                    size_t count)
{
    for (size_t w = 0; w < count; w++) {
        if (!operands[w].written || !memories[w])
            continue;
        for (size_t n = 0; n < count; n++) {
            if (n == w || memories[n] != memories[w])
                continue;
            const clattn_status status = ca_check_overlap(log, operands, places, w, n);
            if (status != CLATTN_SUCCESS)
                return status;
        }
    }
    return CLATTN_SUCCESS;
}

clattn_status ca_check_buffers(const clattn_context *context, const char *what,
                               const struct ca_operand *operands, const clattn_buffer *given,
                               size_t count)
{
    struct ca_places places[CA_MAX_OPERANDS];
    cl_mem memories[CA_MAX_OPERANDS] = {NULL};

    for (size_t n = 0; n < count; n++) {
        const struct ca_operand *operand = &operands[n];
        if (!given[n].buffer) {
            if (given[n].offset != 0)
                return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT,
                               "%s has an offset, %zu, but its buffer is null", operand->name,
                               given[n].offset);
            if (operand->present && operand->span > 0 && !operand->optional)
                return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT,
                               "%s must not be null for '%s'", operand->name, what);
            continue;
        }
        if (!operand->present)
            return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "%s is given, but '%s' has none",
                           operand->name, what);
        const clattn_status status =
            check_one(context, operand, &given[n], &memories[n], &places[n]);
        if (status != CLATTN_SUCCESS)
            return status;
    }
    return check_overlaps(&context->log, operands, memories, places, count);
}

/* ---- queue and events ------------------------------------------------------------------------ */

clattn_status ca_check_queue(const clattn_context *owner, cl_command_queue queue, int *in_order)
{
    const struct ca_log *log = &owner->log;
    cl_command_queue_properties properties = 0;
    cl_context context = NULL;
    cl_device_id device = NULL;

    const clattn_status status = ca_context_need_device(owner);
    if (status != CLATTN_SUCCESS)
        return status;
    if (!queue)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "queue is null");
    cl_int err = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (err == CL_SUCCESS)
        err = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (err == CL_SUCCESS)
        err =
            clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (err == CL_INVALID_COMMAND_QUEUE)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "queue is not a command queue");
    if (err != CL_SUCCESS)
        return ca_fail_cl(log, err, "clGetCommandQueueInfo");
    if (context != owner->cl)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "queue belongs to another OpenCL context");
    if (device != owner->device.device)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "queue is on another device than the plan");
    *in_order = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    return CLATTN_SUCCESS;
}

clattn_status ca_check_wait_list(const clattn_context *owner, cl_uint num_wait,
                                 const cl_event *wait)
{
    const struct ca_log *log = &owner->log;

    if ((num_wait == 0) != (wait == NULL))
        return ca_fail(
            log, CLATTN_INVALID_ARGUMENT,
            "num_wait is %u, but wait is %s: it must be null if and only if num_wait is 0",
            num_wait, wait ? "not null" : "null");
    for (cl_uint n = 0; n < num_wait; n++) {
        cl_context context = NULL;
        cl_int state = CL_QUEUED;
        cl_int err = wait[n]
                         ? clGetEventInfo(wait[n], CL_EVENT_CONTEXT, sizeof context, &context, NULL)
                         : CL_INVALID_EVENT;
        if (err == CL_SUCCESS)
            err = clGetEventInfo(wait[n], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                                 NULL);
        if (err == CL_INVALID_EVENT)
            return ca_fail(log, CLATTN_INVALID_ARGUMENT, "wait[%u] is not an event", n);
        if (err != CL_SUCCESS)
            return ca_fail_cl(log, err, "clGetEventInfo for wait[%u]", n);
        if (context != owner->cl)
            return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                           "wait[%u] is an event of another OpenCL context", n);
        if (state < 0)
            return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                           "wait[%u] is an event that has failed with %d", n, state);
    }
    return CLATTN_SUCCESS;
}
