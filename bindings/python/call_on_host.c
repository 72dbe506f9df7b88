/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's execution on host memory in one call of ctypes, which takes as long for a function as all of this does: buffers
 * over the tensors, the execution, and results mapped so that the host sees them. The functions come as pointers: this is
 * linked to no OpenCL, nor to clattn. clattn/_torch_execute.py has the structs once more. */
#include <clattn/export.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MOST_OPERANDS = 16, MOST_WORDS = 256 };

/* Failures that are no clattn_status; the operand is added to 0x100 * one of them. */
enum { OF_CREATE = -1, OF_DISTANCE = -2, OF_MAP = -3, OF_UNMAP = -4, OF_FINISH = -5, OF_SIZE = -6 };

struct operand {
    uint64_t reach;    /* bytes from its first element to behind its last; 0: none */
    uint64_t itemsize; /* of an element, in bytes */
    uint64_t word;     /* of its clattn_buffer in the struct of tensors */
};

struct call {
    cl_mem(CL_API_CALL *create)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    cl_int(CL_API_CALL *release)(cl_mem);
    void *(CL_API_CALL *map)(cl_command_queue, cl_mem, cl_bool, cl_map_flags, size_t, size_t,
                             cl_uint, const cl_event *, cl_event *, cl_int *);
    cl_int(CL_API_CALL *unmap)(cl_command_queue, cl_mem, void *, cl_uint, const cl_event *,
                               cl_event *);
    cl_int(CL_API_CALL *finish)(cl_command_queue);
    int (*execute)(const void *plan, cl_command_queue queue, const void *tensors, cl_uint num_wait,
                   const cl_event *wait, cl_event *done);
    cl_context opencl;
    const uint64_t *blank; /* the struct of tensors without any */
    uint64_t words, seed_word;
    uint64_t read, written; /* operands that are read, followed by those that are written */
    const struct operand *operands;
};

/* The operands that are read and have elements, by address. */
static size_t sort(const struct call *call, const uint64_t *addresses, size_t *order)
{
    size_t count = 0;

    for (size_t n = 0; n < call->read; n++) {
        size_t at = count;
        if (!call->operands[n].reach)
            continue;
        for (; at > 0 && addresses[order[at - 1]] > addresses[n]; at--)
            order[at] = order[at - 1];
        order[at] = n;
        count++;
    }
    return count;
}

/* Buffers over what is read; tensors that share memory get one, as OpenCL wants it. */
static int lay(const struct call *call, const uint64_t *addresses, uint64_t *tensors,
               cl_mem *buffers, size_t *made, cl_int *error)
{
    size_t order[MOST_OPERANDS];
    const size_t count = sort(call, addresses, order);

    for (size_t first = 0, last; first < count; first = last) {
        const uint64_t begin = addresses[order[first]];
        uint64_t end = begin + call->operands[order[first]].reach;
        for (last = first + 1; last < count && addresses[order[last]] < end; last++)
            if (end < addresses[order[last]] + call->operands[order[last]].reach)
                end = addresses[order[last]] + call->operands[order[last]].reach;
        cl_mem buffer = call->create(call->opencl, CL_MEM_USE_HOST_PTR | CL_MEM_READ_ONLY,
                                     (size_t)(end - begin), (void *)(uintptr_t)begin, error);
        if (!buffer)
            return 0x100 * OF_CREATE - (int)order[first];
        buffers[(*made)++] = buffer;
        for (size_t n = first; n < last; n++) {
            const struct operand *one = &call->operands[order[n]];
            const uint64_t distance = addresses[order[n]] - begin;
            if (distance % one->itemsize)
                return 0x100 * OF_DISTANCE - (int)order[n];
            tensors[one->word] = (uintptr_t)buffer;
            tensors[one->word + 1] = distance / one->itemsize;
        }
    }
    return 0;
}

static int run(const struct call *call, const void *plan, cl_command_queue queue,
               const uint64_t *addresses, uint64_t *tensors, cl_mem *buffers, size_t *made,
               cl_int *error)
{
    int status = lay(call, addresses, tensors, buffers, made, error);
    const size_t inputs = *made;

    for (size_t n = call->read; n < call->read + call->written && status == 0; n++) {
        const struct operand *one = &call->operands[n];
        if (!one->reach)
            continue;
        cl_mem buffer = call->create(call->opencl, CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE,
                                     (size_t)one->reach, (void *)(uintptr_t)addresses[n], error);
        if (!buffer)
            return 0x100 * OF_CREATE - (int)n;
        buffers[(*made)++] = buffer;
        tensors[one->word] = (uintptr_t)buffer;
    }
    if (status == 0)
        status = call->execute(plan, queue, tensors, 0, NULL, NULL);
    for (size_t n = call->read, at = inputs; n < call->read + call->written && status == 0; n++) {
        if (!call->operands[n].reach)
            continue;
        void *mapped = call->map(queue, buffers[at], CL_FALSE, CL_MAP_READ, 0,
                                 (size_t)call->operands[n].reach, 0, NULL, NULL, error);
        if (!mapped)
            return 0x100 * OF_MAP - (int)n;
        *error = call->unmap(queue, buffers[at++], mapped, 0, NULL, NULL);
        if (*error != CL_SUCCESS)
            return 0x100 * OF_UNMAP - (int)n;
    }
    return status;
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
/* 0 when the results are there; else a clattn_status, or 0x100 times a failure of above minus the operand that it
 * concerns, with OpenCL's error in @p error. */
int clattn_call_on_host(const struct call *call, const void *plan, cl_command_queue queue, uint64_t seed,
                        const uint64_t *addresses, cl_int *error)
{
    uint64_t tensors[MOST_WORDS];
    cl_mem buffers[MOST_OPERANDS];
    size_t made = 0;

    if (call->words > MOST_WORDS || call->read + call->written > MOST_OPERANDS)
        return 0x100 * OF_SIZE;
    memcpy(tensors, call->blank, (size_t)call->words * sizeof *tensors);
    tensors[call->seed_word] = seed;
    int status = run(call, plan, queue, addresses, tensors, buffers, &made, error);
    const cl_int finished =
        call->finish(queue); /* before memory is let go, also where something failed */
    for (size_t n = 0; n < made; n++)
        call->release(buffers[n]);
    if (status == 0 && finished != CL_SUCCESS) {
        *error = finished;
        status = 0x100 * OF_FINISH;
    }
    return status;
}
