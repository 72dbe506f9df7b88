/* SPDX-License-Identifier: Apache-2.0 */
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

/* ---- memory ---------------------------------------------------------------------------------- */

int ca_buffer_is_given(const clattn_buffer *buffer)
{
    return buffer->buffer != NULL || buffer->pointer != NULL;
}

cl_int ca_buffer_set(const clattn_context *context, cl_kernel kernel, cl_uint index,
                     const clattn_buffer *buffer)
{
    return buffer->pointer
               ? ca_pointers_set(&context->pointers, context->cl, kernel, index, buffer->pointer)
               : clSetKernelArg(kernel, index, sizeof buffer->buffer, &buffer->buffer);
}

cl_int ca_buffer_read(const clattn_context *context, cl_command_queue queue,
                      const clattn_buffer *buffer, size_t begin, size_t bytes, void *to)
{
    return buffer->pointer
               ? ca_pointers_read(&context->pointers, context->cl, queue,
                                  (const unsigned char *)buffer->pointer + begin, bytes, to)
               : clEnqueueReadBuffer(queue, buffer->buffer, CL_TRUE, begin, bytes, to, 0, NULL,
                                     NULL);
}

clattn_buffer ca_buffer_aligned(const struct ca_operand *operand, clattn_buffer buffer)
{
    /* bytes: the alignment of OpenCL's largest type and of each allocation */
    enum { ALIGNMENT = 128 };

    if (buffer.pointer && operand->cache == CLATTN_CACHE_PLAIN) {
        const size_t beyond = (uintptr_t)buffer.pointer % ALIGNMENT;
        buffer.pointer = (unsigned char *)buffer.pointer - beyond;
        buffer.offset += beyond / operand->element_bytes;
    }
    return buffer;
}

/* ---- each ------------------------------------------------------------------------------------ */

/* The memory of an operand: from byte `begin` of a buffer that is not part of another, or of the
 * host's addresses, for which `memory` is a name. */
struct room {
    const void *memory;
    uint64_t begin;
    size_t bytes;
};

static const char addresses; /* the common name of all host memory */

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

/* Returns the host memory that a buffer was made over; that of a part is its parent's, from which
 * `origin` counts. Intel's runtime for CPUs names an invalid parent if the memory is shared virtual
 * memory; the buffer then knows its own address. */
static cl_int locate_host(cl_mem buffer, cl_mem parent, void **host, size_t *origin)
{
    const cl_int err =
        clGetMemObjectInfo(parent ? parent : buffer, CL_MEM_HOST_PTR, sizeof *host, host, NULL);

    if (err != CL_INVALID_MEM_OBJECT || !parent)
        return err;
    *host = NULL;
    const cl_int own = clGetMemObjectInfo(buffer, CL_MEM_HOST_PTR, sizeof *host, host, NULL);
    if (*host)
        *origin = 0;
    return own;
}

static clattn_status check_buffer(const clattn_context *owner, const struct ca_operand *operand,
                                  const clattn_buffer *given, struct room *room)
{
    const struct ca_log *log = &owner->log;
    const char *name = operand->name;
    cl_mem_object_type type = 0;
    cl_mem_flags flags = 0;
    cl_context context = NULL;
    size_t origin = 0;
    cl_mem parent = NULL;
    void *host = NULL;

    cl_int err = locate(given->buffer, &type, &flags, &context, &room->bytes, &parent, &origin);
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
    if (flags & CL_MEM_USE_HOST_PTR)
        err = locate_host(given->buffer, parent, &host, &origin);
    if (err != CL_SUCCESS)
        return ca_fail_cl(log, err, "clGetMemObjectInfo for %s", name);
    room->memory =
        host ? (const void *)&addresses : (const void *)(parent ? parent : given->buffer);
    room->begin = (uintptr_t)host + origin;
    return CLATTN_SUCCESS;
}

static clattn_status check_pointer(const clattn_context *owner, const struct ca_operand *operand,
                                   const clattn_buffer *given, struct room *room)
{
    const struct ca_log *log = &owner->log;
    const size_t alignment =
        operand->cache == CLATTN_CACHE_PLAIN ? operand->element_bytes : sizeof(cl_half);

    if (!ca_pointers_are_taken(&owner->pointers))
        return ca_fail(log, CLATTN_UNSUPPORTED,
                       "%s is a pointer, but device '%s' has neither shared virtual memory nor "
                       "cl_intel_unified_shared_memory",
                       operand->name, owner->device.name);
    if ((uintptr_t)given->pointer % alignment != 0)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                       "%s is a pointer that is not aligned to %zu bytes", operand->name,
                       alignment);
    if (given->bytes > UINTPTR_MAX - (uintptr_t)given->pointer)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                       "%s is a pointer to %zu bytes, which are more than there are addresses",
                       operand->name, given->bytes);
    *room = (struct room){&addresses, (uintptr_t)given->pointer, given->bytes};
    return CLATTN_SUCCESS;
}

/* *memory stays NULL if the operand has no elements. */
static clattn_status check_one(const clattn_context *owner, const struct ca_operand *operand,
                               const clattn_buffer *given, const void **memory,
                               struct ca_places *places)
{
    const struct ca_log *log = &owner->log;
    const char *name = operand->name;
    struct room room = {NULL, 0, 0};

    const clattn_status status = given->pointer ? check_pointer(owner, operand, given, &room)
                                                : check_buffer(owner, operand, given, &room);
    if (status != CLATTN_SUCCESS || operand->span == 0)
        return status;
    const size_t block = operand->cache == CLATTN_CACHE_PLAIN ? 1 : CA_BLOCK;
    const size_t elements = room.bytes / operand->element_bytes * block;
    if (given->offset % block != 0)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                       "%s is quantized: its offset, %zu, must be a multiple of %zu", name,
                       given->offset, block);
    if (elements < operand->span || given->offset > elements - operand->span)
        return ca_fail(log, CLATTN_BUFFER_TOO_SMALL,
                       "%s reaches over %zu elements from %zu on, but its %s holds %zu", name,
                       operand->span, given->offset, given->pointer ? "memory" : "buffer",
                       elements);
    *memory = room.memory;
    *places =
        ca_operand_places(operand, room.begin + given->offset / block * operand->element_bytes);
    return CLATTN_SUCCESS;
}

/* Checks that an operand that needs memory has exactly one kind of memory. */
static clattn_status check_presence(const struct ca_log *log, const char *what,
                                    const struct ca_operand *operand, const clattn_buffer *given)
{
    const char *name = operand->name;

    if (given->buffer && given->pointer)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s is given as a buffer and as a pointer",
                       name);
    if (!given->pointer && given->bytes != 0)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s has %zu bytes, but its pointer is null",
                       name, given->bytes);
    if (!ca_buffer_is_given(given) && given->offset != 0)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT,
                       "%s has an offset, %zu, but its buffer is null", name, given->offset);
    if (!ca_buffer_is_given(given) && operand->present && operand->span > 0 && !operand->optional)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s must not be null for '%s'", name, what);
    if (ca_buffer_is_given(given) && !operand->present)
        return ca_fail(log, CLATTN_INVALID_ARGUMENT, "%s is given, but '%s' has none", name, what);
    return CLATTN_SUCCESS;
}

/* Refuses a written operand that overlaps another one. memories[n]: the memory of operand n; NULL if it has no elements. */
static clattn_status check_overlaps(const struct ca_log *log, const struct ca_operand *operands,
                                    const void *const *memories, const struct ca_places *places,
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
    const void *memories[CA_MAX_OPERANDS] = {NULL};

    for (size_t n = 0; n < count; n++) {
        clattn_status status = check_presence(&context->log, what, &operands[n], &given[n]);
        if (status == CLATTN_SUCCESS && ca_buffer_is_given(&given[n]))
            status = check_one(context, &operands[n], &given[n], &memories[n], &places[n]);
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
