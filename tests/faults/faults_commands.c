/* Wrappers of OpenCL calls that enqueue commands: see faults.h. */
#include "tests/faults/faults.h"

#include <pthread.h>
#include <string.h>

/* The names are the linker's: --wrap=f calls __wrap_f() for f() and f() for __real_f(). */

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

cl_int __real_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint num_wait, const cl_event *wait,
                                     cl_event *done);
cl_int __real_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                       cl_kernel_work_group_info name, size_t size, void *value,
                                       size_t *needed);
cl_int __real_clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info name, size_t size,
                                    void *value, size_t *needed);

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
    const cl_int failure = faults_opencl("clEnqueueNDRangeKernel");

    if (failure != CL_SUCCESS)
        return failure;
    measure(queue, kernel, dims, local);
    return enqueued(__real_clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local,
                                                  num_wait, wait, done),
                    num_wait, wait, done);
}

cl_int __real_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                  size_t offset, size_t size, void *host, cl_uint num_wait,
                                  const cl_event *wait, cl_event *done);
cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                  size_t offset, size_t size, void *host, cl_uint num_wait,
                                  const cl_event *wait, cl_event *done)
{
    const cl_int failure = faults_opencl("clEnqueueReadBuffer");

    if (failure != CL_SUCCESS)
        return failure;
    const cl_int err = __real_clEnqueueReadBuffer(queue, buffer, blocking, offset, size, host,
                                                  num_wait, wait, done);
    if (err == CL_SUCCESS && blocking && faults_lie("clEnqueueReadBuffer"))
        memset(host, 0x3f, size); /* 0.747 in f32 and bf16, 1.81 in f16 */
    return enqueued(err, num_wait, wait, done);
}

cl_int __real_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                   size_t offset, size_t size, const void *host, cl_uint num_wait,
                                   const cl_event *wait, cl_event *done);
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                   size_t offset, size_t size, const void *host, cl_uint num_wait,
                                   const cl_event *wait, cl_event *done)
{
    const cl_int failure = faults_opencl("clEnqueueWriteBuffer");

    if (failure != CL_SUCCESS)
        return failure;
    return enqueued(__real_clEnqueueWriteBuffer(queue, buffer, blocking, offset, size, host,
                                                num_wait, wait, done),
                    num_wait, wait, done);
}

cl_int __real_clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void *pattern,
                                  size_t pattern_size, size_t offset, size_t size, cl_uint num_wait,
                                  const cl_event *wait, cl_event *done);
cl_int __wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void *pattern,
                                  size_t pattern_size, size_t offset, size_t size, cl_uint num_wait,
                                  const cl_event *wait, cl_event *done)
{
    const cl_int failure = faults_opencl("clEnqueueFillBuffer");

    if (failure != CL_SUCCESS)
        return failure;
    return enqueued(__real_clEnqueueFillBuffer(queue, buffer, pattern, pattern_size, offset, size,
                                               num_wait, wait, done),
                    num_wait, wait, done);
}

cl_int __real_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t size,
                                  cl_uint num_wait, const cl_event *wait, cl_event *done);
cl_int __wrap_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t size,
                                  cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    const cl_int failure = faults_opencl("clEnqueueCopyBuffer");

    if (failure != CL_SUCCESS)
        return failure;
    return enqueued(__real_clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size,
                                               num_wait, wait, done),
                    num_wait, wait, done);
}

cl_int __real_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *mapped,
                                      cl_uint num_wait, const cl_event *wait, cl_event *done);
cl_int __wrap_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *mapped,
                                      cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    const cl_int failure = faults_opencl("clEnqueueUnmapMemObject");

    if (failure != CL_SUCCESS)
        return failure;
    return enqueued(__real_clEnqueueUnmapMemObject(queue, buffer, mapped, num_wait, wait, done),
                    num_wait, wait, done);
}

cl_int __real_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint num_wait,
                                          const cl_event *wait, cl_event *done);
cl_int __wrap_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint num_wait,
                                          const cl_event *wait, cl_event *done)
{
    const cl_int failure = faults_opencl("clEnqueueMarkerWithWaitList");

    if (failure != CL_SUCCESS)
        return failure;
    return enqueued(__real_clEnqueueMarkerWithWaitList(queue, num_wait, wait, done), num_wait, wait,
                    done);
}

cl_int __real_clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint num_wait,
                                           const cl_event *wait, cl_event *done);
cl_int __wrap_clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint num_wait,
                                           const cl_event *wait, cl_event *done)
{
    const cl_int failure = faults_opencl("clEnqueueBarrierWithWaitList");

    if (failure != CL_SUCCESS)
        return failure;
    return enqueued(__real_clEnqueueBarrierWithWaitList(queue, num_wait, wait, done), num_wait,
                    wait, done);
}

void *__real_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                cl_map_flags flags, size_t offset, size_t size, cl_uint num_wait,
                                const cl_event *wait, cl_event *done, cl_int *error);
void *__wrap_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                cl_map_flags flags, size_t offset, size_t size, cl_uint num_wait,
                                const cl_event *wait, cl_event *done, cl_int *error)
{
    const cl_int failure = faults_opencl("clEnqueueMapBuffer");
    void *mapped = NULL;

    if (failure == CL_SUCCESS)
        mapped = __real_clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, num_wait,
                                           wait, done, error);
    else if (error)
        *error = failure;
    enqueued(mapped ? CL_SUCCESS : CL_MAP_FAILURE, num_wait, wait, done);
    return mapped;
}
