/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/device.h"
#include "os/clock.h"

#include <stdlib.h>

size_t element_bytes(const clattn_mpi_plan *plan)
{
    return plan->whole.dtype == CLATTN_F32 ? 4 : 2;
}

void device_wait_for(clattn_mpi_plan *plan, const cl_command_queue queue)
{
    if (fault_none(&plan->fault))
        fault_cl(&plan->fault, clFinish(queue), "clFinish");
}

void buffer_check(clattn_mpi_plan *plan, const char *name, const clattn_buffer *buffer,
                  const size_t elements, const size_t element_bytes)
{
    size_t size = 0;

    if (buffer->pointer)
        fault_set(&plan->fault, CLATTN_INVALID_ARGUMENT, "%s is a pointer, not a buffer", name);
    else if (!buffer->buffer)
        fault_set(&plan->fault, CLATTN_INVALID_ARGUMENT, "%s is not given", name);
    else if (fault_cl(&plan->fault,
                      clGetMemObjectInfo(buffer->buffer, CL_MEM_SIZE, sizeof size, &size, NULL),
                      "clGetMemObjectInfo") &&
             elements > size / element_bytes)
        fault_set(&plan->fault, CLATTN_BUFFER_TOO_SMALL,
                  "%s takes %zu elements from its buffer's begin, which holds %zu", name, elements,
                  size / element_bytes);
}

cl_mem pool_take(clattn_mpi_plan *plan, const enum pool_id id, const size_t bytes)
{
    struct pool *pool = &plan->pools[id];
    const size_t wanted = bytes ? bytes : 1;
    cl_int error;

    if (!fault_none(&plan->fault))
        return NULL;
    if (pool->bytes >= wanted)
        return pool->buffer;
    if (pool->buffer)
        clReleaseMemObject(pool->buffer);
    *pool = (struct pool){NULL, 0};
    const cl_mem_flags flags =
        CL_MEM_READ_WRITE | (plan->shares_memory ? CL_MEM_ALLOC_HOST_PTR : 0);
    cl_mem buffer =
        clCreateBuffer(clattn_context_opencl(plan->context), flags, wanted, NULL, &error);
    if (!fault_cl(&plan->fault, error, "clCreateBuffer"))
        return NULL;
    *pool = (struct pool){buffer, wanted};
    return buffer;
}

unsigned char *staging_take(clattn_mpi_plan *plan, const enum staging_id id, const size_t bytes)
{
    struct staging *staging = &plan->stagings[id];
    const size_t wanted = bytes ? bytes : 1;

    if (staging->size >= wanted)
        return staging->bytes;
    free(staging->bytes);
    *staging = (struct staging){.bytes = malloc(wanted), .size = wanted};
    if (!staging->bytes) {
        *staging = (struct staging){.bytes = NULL};
        fault_set(&plan->fault, CLATTN_OUT_OF_MEMORY, "no host memory for %zu bytes", wanted);
    }
    return staging->bytes;
}

struct tensor tensor_packed_at(const cl_mem buffer, const size_t offset, const size_t heads,
                               const size_t rows, const size_t dim)
{
    return (struct tensor){buffer, offset, {heads * rows * dim, rows * dim, dim}};
}

struct tensor tensor_rows(struct tensor tensor, const size_t row)
{
    tensor.offset += row * tensor.stride[2];
    return tensor;
}

struct tensor tensor_heads(struct tensor tensor, const size_t head)
{
    tensor.offset += head * tensor.stride[1];
    return tensor;
}

struct tensor tensor_batches(struct tensor tensor, const size_t batch)
{
    tensor.offset += batch * tensor.stride[0];
    return tensor;
}

clattn_buffer buffer_of(const struct tensor tensor)
{
    return (clattn_buffer){.buffer = tensor.buffer, .offset = tensor.buffer ? tensor.offset : 0};
}

/* ---- the host --------------------------------------------------------------------------------- */

void device_read(clattn_mpi_plan *plan, const cl_mem from, const size_t first_byte, void *to,
                 const size_t bytes)
{
    if (plan->dry || !fault_none(&plan->fault) || bytes == 0)
        return;
    device_finish(plan, NULL);
    const double begun = MPI_Wtime();
    fault_cl(&plan->fault,
             clEnqueueReadBuffer(plan->queue, from, CL_TRUE, first_byte, bytes, to, 0, NULL, NULL),
             "clEnqueueReadBuffer");
    plan->times.staging += MPI_Wtime() - begun;
}

void device_write(clattn_mpi_plan *plan, const cl_mem to, const size_t first_byte, const void *from,
                  const size_t bytes)
{
    if (plan->dry || !fault_none(&plan->fault) || bytes == 0)
        return;
    device_finish(plan, NULL);
    const double begun = MPI_Wtime();
    fault_cl(&plan->fault,
             clEnqueueWriteBuffer(plan->queue, to, CL_TRUE, first_byte, bytes, from, 0, NULL, NULL),
             "clEnqueueWriteBuffer");
    plan->times.staging += MPI_Wtime() - begun;
}

void device_fill(clattn_mpi_plan *plan, const cl_mem buffer, const size_t floats, const float value)
{
    if (!plan->dry && fault_none(&plan->fault) && floats > 0)
        fault_cl(&plan->fault,
                 clEnqueueFillBuffer(plan->queue, buffer, &value, sizeof value, 0,
                                     floats * sizeof value, 0, NULL, NULL),
                 "clEnqueueFillBuffer");
}

/* ---- waiting ---------------------------------------------------------------------------------- */

/* Pause between polls, which leaves the host's cores to a device that computes on them. */
#define PAUSE_SECONDS 50e-6

struct messages no_messages(void)
{
    struct messages messages;

    for (int n = 0; n < MOST_REQUESTS; n++) {
        messages.request[n] = MPI_REQUEST_NULL;
        messages.to[n] = NO_STAGING;
    }
    return messages;
}

/* Begins to write the copy to the device, once its message has arrived. */
static void staging_arrived(clattn_mpi_plan *plan, const enum staging_id id)
{
    struct staging *staging = &plan->stagings[id];

    if (!staging->at || staging->mapped || staging->written || staging->count == 0 ||
        !fault_none(&plan->fault))
        return;
    staging->written = fault_cl(&plan->fault,
                                clEnqueueWriteBuffer(plan->copies, staging->buffer, CL_FALSE, 0,
                                                     staging->count, staging->at, 0, NULL, NULL),
                                "clEnqueueWriteBuffer") &&
                       fault_cl(&plan->fault, clFlush(plan->copies), "clFlush");
}

/* Lets messages make progress; returns whether all have arrived. */
static bool progress(clattn_mpi_plan *plan, struct messages *messages)
{
    bool done = true;

    for (int n = 0; n < MOST_REQUESTS; n++) {
        int there = 1;
        if (messages->request[n] == MPI_REQUEST_NULL)
            continue;
        MPI_Test(&messages->request[n], &there, MPI_STATUS_IGNORE);
        if (there && messages->to[n] != NO_STAGING)
            staging_arrived(plan, messages->to[n]);
        done = done && there;
    }
    return done;
}

/* MPI makes progress with large messages only while it is called. So MPI_Test() and a query of the queue's last event take
 * turns. */
void device_finish(clattn_mpi_plan *plan, struct messages *messages)
{
    const double begun = MPI_Wtime();
    cl_event end = NULL;

    if (plan->dry || !fault_none(&plan->fault))
        return;
    if (messages && !progress(plan, messages) &&
        fault_cl(&plan->fault, clEnqueueMarkerWithWaitList(plan->queue, 0, NULL, &end),
                 "clEnqueueMarkerWithWaitList"))
        fault_cl(&plan->fault, clFlush(plan->queue), "clFlush");
    while (end && fault_none(&plan->fault)) {
        cl_int state = CL_COMPLETE;
        if (!fault_cl(
                &plan->fault,
                clGetEventInfo(end, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
                "clGetEventInfo") ||
            state <= CL_COMPLETE || progress(plan, messages))
            break;
        ca_nap(PAUSE_SECONDS);
    }
    if (end)
        clReleaseEvent(end);
    fault_cl(&plan->fault, clFinish(plan->queue), "clFinish");
    plan->times.computing += MPI_Wtime() - begun;
}

/* ---- memory of messages ------------------------------------------------------------------------- */

/* Host memory is allocated in any case, but not used where device memory is mapped. */
unsigned char *staging_open(clattn_mpi_plan *plan, const enum staging_id id, const cl_mem buffer,
                            const size_t bytes, const cl_map_flags flags)
{
    unsigned char *copy = staging_take(plan, id, bytes);
    struct staging *staging = &plan->stagings[id];
    cl_int error;

    staging->at = copy;
    staging->buffer = buffer;
    staging->count = bytes;
    staging->flags = flags;
    staging->written = false;
    if (plan->dry || !plan->shares_memory || !fault_none(&plan->fault) || bytes == 0)
        return copy;
    device_finish(plan, NULL);
    const double begun = MPI_Wtime();
    void *mapped =
        clEnqueueMapBuffer(plan->queue, buffer, CL_TRUE, flags, 0, bytes, 0, NULL, NULL, &error);
    if (fault_cl(&plan->fault, error, "clEnqueueMapBuffer")) {
        staging->mapped = mapped;
        staging->at = mapped;
    }
    plan->times.staging += MPI_Wtime() - begun;
    return staging->at;
}

void staging_fetch(clattn_mpi_plan *plan, const enum staging_id id)
{
    const struct staging *staging = &plan->stagings[id];

    if (staging->at && !staging->mapped)
        device_read(plan, staging->buffer, 0, staging->at, staging->count);
}

void staging_close(clattn_mpi_plan *plan, const enum staging_id id, const bool keep)
{
    struct staging *staging = &plan->stagings[id];
    const double begun = MPI_Wtime();

    if (!staging->at)
        return;
    if (staging->mapped) /* unmapped even after a fault */
        fault_cl(
            &plan->fault,
            clEnqueueUnmapMemObject(plan->queue, staging->buffer, staging->mapped, 0, NULL, NULL),
            "clEnqueueUnmapMemObject");
    else if (staging->written)
        fault_cl(&plan->fault, clFinish(plan->copies), "clFinish");
    plan->times.staging += MPI_Wtime() - begun;
    if (keep && !staging->mapped && !staging->written && staging->flags != CL_MAP_READ)
        device_write(plan, staging->buffer, 0, staging->at, staging->count);
    staging->at = NULL;
    staging->mapped = NULL;
}
