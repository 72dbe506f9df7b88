#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "mpi/device.h"

#include <stdlib.h>
#include <time.h>

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
    cl_mem buffer = clCreateBuffer(clattn_context_opencl(plan->context), CL_MEM_READ_WRITE, wanted,
                                   NULL, &error);
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
    *staging = (struct staging){malloc(wanted), wanted};
    if (!staging->bytes) {
        *staging = (struct staging){NULL, 0};
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
    device_finish(plan, NULL, 0);
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
    device_finish(plan, NULL, 0);
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

/* So that a device that computes on the host's cores has them. */
static void pause_briefly(void)
{
    const struct timespec pause = {0, 50000};

    nanosleep(&pause, NULL);
}

/* MPI moves large messages only while it is called: the queue's end is asked for in turns with it. */
void device_finish(clattn_mpi_plan *plan, MPI_Request *requests, const int count)
{
    const double begun = MPI_Wtime();
    MPI_Status statuses[MOST_REQUESTS];
    cl_event end = NULL;
    int done = count == 0;

    if (plan->dry || !fault_none(&plan->fault))
        return;
    if (count > 0 &&
        !fault_cl(&plan->fault, clEnqueueMarkerWithWaitList(plan->queue, 0, NULL, &end),
                  "clEnqueueMarkerWithWaitList"))
        return;
    if (count > 0)
        fault_cl(&plan->fault, clFlush(plan->queue), "clFlush");
    while (!done && fault_none(&plan->fault)) {
        cl_int state = CL_COMPLETE;
        MPI_Testall(count, requests, &done, statuses);
        if (!fault_cl(
                &plan->fault,
                clGetEventInfo(end, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
                "clGetEventInfo") ||
            state <= CL_COMPLETE)
            break;
        if (!done)
            pause_briefly();
    }
    if (end)
        clReleaseEvent(end);
    fault_cl(&plan->fault, clFinish(plan->queue), "clFinish");
    plan->times.computing += MPI_Wtime() - begun;
}
