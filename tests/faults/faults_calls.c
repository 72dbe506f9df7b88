/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers of the OpenCL calls, made from calls.def: see faults.h. */
#include "tests/faults/faults.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The names are the linker's: --wrap=f calls __wrap_f() for f() and f() for __real_f(). */
#define CALL(name, code, parameters, arguments) cl_int __real_##name parameters;
#define MAKE(type, name, code, parameters, arguments) type __real_##name parameters;
#include "tests/faults/calls.def"

#define KIND_OF(object)                                                                            \
    _Generic((object), cl_context                                                                  \
             : OBJECT_CONTEXT, cl_command_queue                                                    \
             : OBJECT_QUEUE, cl_mem                                                                \
             : OBJECT_BUFFER, cl_program                                                           \
             : OBJECT_PROGRAM, cl_kernel                                                           \
             : OBJECT_KERNEL, cl_event                                                             \
             : OBJECT_EVENT)

/* A command that was taken, with the event that it made, if any. */
static cl_int enqueued(const cl_int err, const cl_uint num_wait, const cl_event *wait,
                       const cl_event *done)
{
    if (err == CL_SUCCESS)
        faults_command(num_wait, wait, done ? *done : NULL);
    if (err == CL_SUCCESS && done)
        faults_object(OBJECT_EVENT, 1);
    return err;
}

/* These do more, below. */
#define __wrap_clEnqueueNDRangeKernel counted_clEnqueueNDRangeKernel
#define __wrap_clGetProgramInfo counted_clGetProgramInfo
#define __wrap_clCreateProgramWithBinary counted_clCreateProgramWithBinary
#define __wrap_clEnqueueReadBuffer counted_clEnqueueReadBuffer

#define CALL(name, code, parameters, arguments)                                                    \
    cl_int __wrap_##name parameters                                                                \
    {                                                                                              \
        const cl_int failure = faults_opencl(#name);                                               \
        return failure != CL_SUCCESS ? failure : __real_##name arguments;                          \
    }
#define QUERY(name, code, parameters, arguments)                                                   \
    cl_int __wrap_##name parameters                                                                \
    {                                                                                              \
        const cl_int failure = faults_opencl(#name);                                               \
        if (failure == CL_SUCCESS && faults_pretended(what, bytes, value, needed))                 \
            return CL_SUCCESS;                                                                     \
        return failure != CL_SUCCESS ? failure : __real_##name arguments;                          \
    }
#define HOLD(change, name, code, parameters, arguments)                                            \
    cl_int __wrap_##name parameters                                                                \
    {                                                                                              \
        faults_object(KIND_OF arguments, change);                                                  \
        return __real_##name arguments;                                                            \
    }
#define ENQUEUE(name, code, parameters, arguments)                                                 \
    cl_int __wrap_##name parameters                                                                \
    {                                                                                              \
        const cl_int failure = faults_opencl(#name);                                               \
        if (failure != CL_SUCCESS)                                                                 \
            return failure;                                                                        \
        return enqueued(__real_##name arguments, num_wait, wait, done);                            \
    }
/* As strict as a driver of OpenCL 1.2 may be, whatever the one at hand lets pass. */
#define COPY(name, code, parameters, arguments)                                                    \
    cl_int __wrap_##name parameters                                                                \
    {                                                                                              \
        const cl_int failure = faults_opencl(#name);                                               \
        if (failure != CL_SUCCESS || bytes == 0)                                                   \
            return failure != CL_SUCCESS ? failure : CL_INVALID_VALUE;                             \
        return enqueued(__real_##name arguments, num_wait, wait, done);                            \
    }
#define MADE(type, name, parameters, arguments, count)                                             \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        const cl_int failure = faults_opencl(#name);                                               \
        type made = failure == CL_SUCCESS ? __real_##name arguments : NULL;                        \
        if (failure != CL_SUCCESS && error)                                                        \
            *error = failure;                                                                      \
        if (made)                                                                                  \
            count;                                                                                 \
        return made;                                                                               \
    }
#define MAKE(type, name, code, parameters, arguments)                                              \
    MADE(type, name, parameters, arguments, faults_object(KIND_OF(made), 1))
#define MAP(name, code, parameters, arguments)                                                     \
    MADE(void *, name, parameters, arguments, enqueued(CL_SUCCESS, num_wait, wait, done))
#include "tests/faults/calls.def"
#undef __wrap_clEnqueueNDRangeKernel
#undef __wrap_clGetProgramInfo
#undef __wrap_clCreateProgramWithBinary
#undef __wrap_clEnqueueReadBuffer

static pthread_mutex_t largest_lock = PTHREAD_MUTEX_INITIALIZER;
static struct faults_largest largest;

struct faults_largest faults_largest(void)
{
    pthread_mutex_lock(&largest_lock);
    const struct faults_largest taken = largest;
    largest = (struct faults_largest){0, 0};
    pthread_mutex_unlock(&largest_lock);
    return taken;
}

/* Keeps the largest. A work-group whose size is the driver's to choose counts as none. */
static void measure(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *local)
{
    cl_device_id device = NULL;
    cl_ulong local_bytes = 0;
    size_t items = local ? 1 : 0;

    for (cl_uint n = 0; local && n < dims; n++)
        items *= local[n];
    __real_clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    __real_clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local_bytes,
                                    &local_bytes, NULL);
    pthread_mutex_lock(&largest_lock);
    if (items > largest.work_group)
        largest.work_group = items;
    if (local_bytes > largest.local_bytes)
        largest.local_bytes = local_bytes;
    pthread_mutex_unlock(&largest_lock);
}

cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint num_wait, const cl_event *wait,
                                     cl_event *done)
{
    for (cl_uint n = 0; n < dims; n++)
        if (global[n] == 0)
            return CL_INVALID_GLOBAL_WORK_SIZE;
    const cl_int err = counted_clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local,
                                                      num_wait, wait, done);

    if (err == CL_SUCCESS)
        measure(queue, kernel, dims, local);
    return err;
}

cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                  size_t offset, size_t size, void *host, cl_uint num_wait,
                                  const cl_event *wait, cl_event *done)
{
    const cl_int err = counted_clEnqueueReadBuffer(queue, buffer, blocking, offset, size, host,
                                                   num_wait, wait, done);

    if (err == CL_SUCCESS && blocking && faults_lie("clEnqueueReadBuffer"))
        memset(host, 0x3f, size); /* 0.747 in f32 and bf16, 1.81 in f16 */
    return err;
}

/* ---- a driver that hands out PTX ----------------------------------------------------------- */

static struct faults_ptx *ptx_driver; /* of tests with one thread */

void faults_pretend_ptx(struct faults_ptx *driver)
{
    ptx_driver = driver;
}

cl_int __wrap_clGetProgramInfo(cl_program program, cl_program_info what, size_t bytes, void *value,
                               size_t *needed)
{
    if (!ptx_driver || (what != CL_PROGRAM_BINARY_SIZES && what != CL_PROGRAM_BINARIES))
        return counted_clGetProgramInfo(program, what, bytes, value, needed);
    if (what == CL_PROGRAM_BINARY_SIZES)
        *(size_t *)value = strlen(ptx_driver->ptx);
    else
        memcpy(*(unsigned char **)value, ptx_driver->ptx, strlen(ptx_driver->ptx));
    return CL_SUCCESS;
}

cl_program __wrap_clCreateProgramWithBinary(cl_context context, cl_uint count,
                                            const cl_device_id *devices, const size_t *lengths,
                                            const unsigned char **binaries, cl_int *status,
                                            cl_int *error)
{
    if (!ptx_driver)
        return counted_clCreateProgramWithBinary(context, count, devices, lengths, binaries, status,
                                                 error);
    snprintf(ptx_driver->taken, sizeof ptx_driver->taken, "%.*s", (int)lengths[0],
             (const char *)binaries[0]);
    *status = CL_SUCCESS;
    return __wrap_clCreateProgramWithSource(context, 1, &ptx_driver->source, NULL, error);
}
