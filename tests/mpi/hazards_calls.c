/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of OpenCL and MPI that hazards.h learns of. They stand before those of the libraries, as a program's own functions
 * do. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "tests/mpi/hazards.h"

#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The function of that name in the library. */
#define NEXT(name)                                                                                 \
    static __typeof__(name) *next;                                                                 \
    if (!next)                                                                                     \
    memcpy(&next, (void *[]){dlsym(RTLD_NEXT, #name)}, sizeof next)

/* ---- buffers and kernels ------------------------------------------------------------------------ */

/* Arguments that are buffers, as kernels have them. */
struct argument {
    cl_kernel kernel;
    cl_uint index;
    cl_mem buffer;
    bool writes;
};

enum { MOST_BUFFERS = 4096, MOST_ARGUMENTS = 16384 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cl_mem buffers[MOST_BUFFERS];
static size_t num_buffers;
static struct argument arguments[MOST_ARGUMENTS];
static size_t num_arguments;

static bool is_buffer(const cl_mem buffer)
{
    for (size_t n = 0; n < num_buffers; n++)
        if (buffers[n] == buffer)
            return true;
    return false;
}

/* Memory that nobody has written holds NaN, where drivers give zeros. */
cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                                  cl_int *error)
{
    NEXT(clCreateBuffer);
    const bool poison = !(flags & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR)) && bytes > 0;
    void *nan = poison ? malloc(bytes) : NULL;
    if (nan)
        memset(nan, 0xff, bytes);
    const cl_mem buffer =
        next(context, nan ? flags | CL_MEM_COPY_HOST_PTR : flags, bytes, nan ? nan : host, error);
    free(nan);
    pthread_mutex_lock(&lock);
    if (buffer && !is_buffer(buffer) && num_buffers < MOST_BUFFERS)
        buffers[num_buffers++] = buffer;
    pthread_mutex_unlock(&lock);
    return buffer;
}

/* Retained objects are followed no further than this. A buffer or a kernel ends with its first
 * release, and may be anybody's memory from then on. Drivers retain them too, for as long as
 * they keep a command, so that reference counts do not tell. */
cl_int CL_API_CALL clReleaseMemObject(cl_mem buffer)
{
    NEXT(clReleaseMemObject);
    hazard_forget(buffer);
    pthread_mutex_lock(&lock);
    for (size_t n = 0; n < num_buffers; n++)
        if (buffers[n] == buffer)
            buffers[n] = buffers[--num_buffers];
    pthread_mutex_unlock(&lock);
    return next(buffer);
}

cl_int CL_API_CALL clRetainMemObject(cl_mem buffer)
{
    NEXT(clRetainMemObject);
    hazard_complain(__func__, "is not followed");
    return next(buffer);
}

cl_int CL_API_CALL clRetainKernel(cl_kernel kernel)
{
    NEXT(clRetainKernel);
    hazard_complain(__func__, "is not followed");
    return next(kernel);
}

/* So that kernels can say which of their arguments are const. */
cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                  const char *options,
                                  void(CL_CALLBACK *notify)(cl_program, void *), void *user_data)
{
    NEXT(clBuildProgram);
    char more[4096];

    snprintf(more, sizeof more, "%s -cl-kernel-arg-info", options ? options : "");
    return next(program, count, devices, more, notify, user_data);
}

/* Returns whether the kernel may write what the argument points to. Where the driver does not know,
 * it is taken to read. */
static bool may_write(const cl_kernel kernel, const cl_uint index)
{
    cl_kernel_arg_type_qualifier qualifier = 0;

    return clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifier,
                              &qualifier, NULL) == CL_SUCCESS &&
           !(qualifier & CL_KERNEL_ARG_TYPE_CONST);
}

cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void *value)
{
    NEXT(clSetKernelArg);
    cl_mem buffer = NULL;

    if (value && bytes == sizeof buffer)
        memcpy(&buffer, value, sizeof buffer);
    pthread_mutex_lock(&lock);
    size_t n = 0;
    while (n < num_arguments && (arguments[n].kernel != kernel || arguments[n].index != index))
        n++;
    if (n < num_arguments)
        arguments[n].buffer = is_buffer(buffer) ? buffer : NULL;
    else if (buffer && is_buffer(buffer) && num_arguments < MOST_ARGUMENTS)
        arguments[num_arguments++] =
            (struct argument){kernel, index, buffer, may_write(kernel, index)};
    pthread_mutex_unlock(&lock);
    return next(kernel, index, bytes, value);
}

cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel)
{
    NEXT(clReleaseKernel);
    size_t kept = 0;

    pthread_mutex_lock(&lock);
    for (size_t n = 0; n < num_arguments; n++)
        if (arguments[n].kernel != kernel)
            arguments[kept++] = arguments[n];
    num_arguments = kept;
    pthread_mutex_unlock(&lock);
    return next(kernel);
}

/* ---- commands ----------------------------------------------------------------------------------- */

static struct hazard_range of_buffer(const cl_mem buffer, const size_t first, const size_t bytes)
{
    return (struct hazard_range){.buffer = buffer, .first = first, .bytes = bytes};
}

static struct hazard_range of_host(const void *bytes, const size_t count)
{
    return (struct hazard_range){.host = bytes, .bytes = count};
}

cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                          const size_t *offset, const size_t *global,
                                          const size_t *local, cl_uint num_wait,
                                          const cl_event *wait, cl_event *done)
{
    NEXT(clEnqueueNDRangeKernel);
    hazard_launch();
    pthread_mutex_lock(&lock);
    for (size_t n = 0; n < num_arguments; n++)
        if (arguments[n].kernel == kernel && arguments[n].buffer)
            hazard_access(AGENT_QUEUE, queue, of_buffer(arguments[n].buffer, 0, SIZE_MAX / 2),
                          arguments[n].writes, false, "clEnqueueNDRangeKernel");
    pthread_mutex_unlock(&lock);
    return next(queue, kernel, dims, offset, global, local, num_wait, wait, done);
}

cl_int CL_API_CALL clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void *pattern,
                                       size_t pattern_bytes, size_t first, size_t bytes,
                                       cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    NEXT(clEnqueueFillBuffer);
    hazard_access(AGENT_QUEUE, queue, of_buffer(buffer, first, bytes), true, false, __func__);
    return next(queue, buffer, pattern, pattern_bytes, first, bytes, num_wait, wait, done);
}

/* A copy between the host's memory and a buffer; a blocking one ends all of its queue. */
static void copies(const cl_command_queue queue, const struct hazard_range buffer,
                   const struct hazard_range host, const bool to_host, const cl_bool blocking,
                   const char *call)
{
    if (buffer.bytes == 0)
        hazard_complain(call, "copies nothing, which OpenCL 1.2 calls an invalid value");
    hazard_access(AGENT_QUEUE, queue, buffer, !to_host, false, call);
    hazard_access(AGENT_QUEUE, queue, host, to_host, false, call);
    if (blocking)
        hazard_end(AGENT_QUEUE, queue);
}

cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                       size_t first, size_t bytes, void *to, cl_uint num_wait,
                                       const cl_event *wait, cl_event *done)
{
    NEXT(clEnqueueReadBuffer);
    copies(queue, of_buffer(buffer, first, bytes), of_host(to, bytes), true, blocking, __func__);
    return next(queue, buffer, blocking, first, bytes, to, num_wait, wait, done);
}

cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                        size_t first, size_t bytes, const void *from,
                                        cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    NEXT(clEnqueueWriteBuffer);
    copies(queue, of_buffer(buffer, first, bytes), of_host(from, bytes), false, blocking, __func__);
    return next(queue, buffer, blocking, first, bytes, from, num_wait, wait, done);
}

void *CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                     cl_map_flags flags, size_t first, size_t bytes,
                                     cl_uint num_wait, const cl_event *wait, cl_event *done,
                                     cl_int *error)
{
    NEXT(clEnqueueMapBuffer);
    void *mapped = next(queue, buffer, blocking, flags, first, bytes, num_wait, wait, done, error);
    if (blocking)
        hazard_end(AGENT_QUEUE, queue);
    if (mapped)
        hazard_map(buffer, first, bytes, mapped, flags != CL_MAP_READ);
    return mapped;
}

cl_int CL_API_CALL clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *mapped,
                                           cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    NEXT(clEnqueueUnmapMemObject);
    hazard_unmap(queue, mapped);
    return next(queue, buffer, mapped, num_wait, wait, done);
}

cl_int CL_API_CALL clFinish(cl_command_queue queue)
{
    NEXT(clFinish);
    const cl_int error = next(queue);
    hazard_end(AGENT_QUEUE, queue);
    return error;
}

/* ---- messages ----------------------------------------------------------------------------------- */

static size_t bytes_of(const MPI_Datatype type)
{
    int bytes = 0;

    PMPI_Type_size(type, &bytes);
    return (size_t)bytes;
}

/* A request as a name for who works on bytes. */
static const void *name_of(const MPI_Request request)
{
    uintptr_t name = 0;

    memcpy(&name, &request, sizeof request < sizeof name ? sizeof request : sizeof name);
    return (const void *)name;
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    const int error = PMPI_Isend(from, count, type, to, tag, comm, request);

    hazard_message(name_of(*request), from, (size_t)count * bytes_of(type), false, false, __func__);
    return error;
}

int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    const int error = PMPI_Irecv(to, count, type, from, tag, comm, request);

    hazard_message(name_of(*request), to, (size_t)count * bytes_of(type), true, false, __func__);
    return error;
}

/* The parts of a message of all ranks: those that come, or those that leave. */
static void each_part(const MPI_Comm comm, const void *bytes, const int counts[],
                      const int places[], const MPI_Datatype type, const bool come,
                      const char *call)
{
    const size_t unit = bytes_of(type);
    int ranks = 0;

    PMPI_Comm_size(comm, &ranks);
    for (int n = 0; n < ranks; n++)
        hazard_message(NULL, (const char *)bytes + (size_t)places[n] * unit,
                       (size_t)counts[n] * unit, come, true, call);
}

int MPI_Alltoallv(const void *from, const int out[], const int from_places[], MPI_Datatype out_type,
                  void *to, const int back[], const int to_places[], MPI_Datatype back_type,
                  MPI_Comm comm)
{
    each_part(comm, from, out, from_places, out_type, false, __func__);
    each_part(comm, to, back, to_places, back_type, true, __func__);
    return PMPI_Alltoallv(from, out, from_places, out_type, to, back, to_places, back_type, comm);
}

/* Requests that have been asked for once. */
enum { MOST_ASKED = 64 };
static const void *asked[MOST_ASKED];

static size_t place_in_asked(const void *name)
{
    size_t n = 0;

    while (n < MOST_ASKED && asked[n] != name)
        n++;
    return n;
}

/* A message that is there at once is not seen before it is asked for again, as one that takes longer would be. */
int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    const void *name = name_of(*request);
    const size_t known = place_in_asked(name), room = place_in_asked(NULL);

    *done = 0;
    if (known == MOST_ASKED && room < MOST_ASKED) {
        asked[room] = name;
        return MPI_SUCCESS;
    }
    const int error = PMPI_Test(request, done, status);
    if (*done) {
        hazard_end(AGENT_MESSAGE, name);
        if (known < MOST_ASKED)
            asked[known] = NULL;
    }
    return error;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    enum { MOST = 64 };
    const void *names[MOST];
    int known = 0;

    for (; known < count && known < MOST; known++)
        names[known] = name_of(requests[known]);
    const int error = PMPI_Waitall(count, requests, statuses);
    while (known > 0) {
        hazard_end(AGENT_MESSAGE, names[--known]);
        const size_t n = place_in_asked(names[known]);
        if (n < MOST_ASKED)
            asked[n] = NULL;
    }
    return error;
}
