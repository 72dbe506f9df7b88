/* Wrappers of OpenCL calls that make, retain and release objects: see faults.h. */
#include "tests/faults/faults.h"

/* The names are the linker's: --wrap=f calls __wrap_f() for f() and f() for __real_f(). */

typedef void(CL_CALLBACK *context_notify)(const char *, const void *, size_t, void *);

cl_context __real_clCreateContext(const cl_context_properties *properties, cl_uint num_devices,
                                  const cl_device_id *devices, context_notify notify,
                                  void *user_data, cl_int *error);
cl_context __wrap_clCreateContext(const cl_context_properties *properties, cl_uint num_devices,
                                  const cl_device_id *devices, context_notify notify,
                                  void *user_data, cl_int *error)
{
    const cl_int failure = faults_opencl("clCreateContext");
    cl_context made = NULL;

    if (failure == CL_SUCCESS)
        made = __real_clCreateContext(properties, num_devices, devices, notify, user_data, error);
    else if (error)
        *error = failure;
    if (made)
        faults_object(OBJECT_CONTEXT, 1);
    return made;
}

cl_command_queue __real_clCreateCommandQueue(cl_context context, cl_device_id device,
                                             cl_command_queue_properties properties, cl_int *error);
cl_command_queue __wrap_clCreateCommandQueue(cl_context context, cl_device_id device,
                                             cl_command_queue_properties properties, cl_int *error)
{
    const cl_int failure = faults_opencl("clCreateCommandQueue");
    cl_command_queue made = NULL;

    if (failure == CL_SUCCESS)
        made = __real_clCreateCommandQueue(context, device, properties, error);
    else if (error)
        *error = failure;
    if (made)
        faults_object(OBJECT_QUEUE, 1);
    return made;
}

cl_mem __real_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                             cl_int *error);
cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                             cl_int *error)
{
    const cl_int failure = faults_opencl("clCreateBuffer");
    cl_mem made = NULL;

    if (failure == CL_SUCCESS)
        made = __real_clCreateBuffer(context, flags, size, host, error);
    else if (error)
        *error = failure;
    if (made)
        faults_object(OBJECT_BUFFER, 1);
    return made;
}

cl_mem __real_clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                                const void *info, cl_int *error);
cl_mem __wrap_clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                                const void *info, cl_int *error)
{
    const cl_int failure = faults_opencl("clCreateSubBuffer");
    cl_mem made = NULL;

    if (failure == CL_SUCCESS)
        made = __real_clCreateSubBuffer(buffer, flags, type, info, error);
    else if (error)
        *error = failure;
    if (made)
        faults_object(OBJECT_BUFFER, 1);
    return made;
}

cl_program __real_clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                            const size_t *lengths, cl_int *error);
cl_program __wrap_clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                            const size_t *lengths, cl_int *error)
{
    const cl_int failure = faults_opencl("clCreateProgramWithSource");
    cl_program made = NULL;

    if (failure == CL_SUCCESS)
        made = __real_clCreateProgramWithSource(context, count, strings, lengths, error);
    else if (error)
        *error = failure;
    if (made)
        faults_object(OBJECT_PROGRAM, 1);
    return made;
}

cl_program __real_clCreateProgramWithBinary(cl_context context, cl_uint count,
                                            const cl_device_id *devices, const size_t *lengths,
                                            const unsigned char **binaries, cl_int *binary_error,
                                            cl_int *error);
cl_program __wrap_clCreateProgramWithBinary(cl_context context, cl_uint count,
                                            const cl_device_id *devices, const size_t *lengths,
                                            const unsigned char **binaries, cl_int *binary_error,
                                            cl_int *error)
{
    const cl_int failure = faults_opencl("clCreateProgramWithBinary");
    cl_program made = NULL;

    if (failure == CL_SUCCESS)
        made = __real_clCreateProgramWithBinary(context, count, devices, lengths, binaries,
                                                binary_error, error);
    else if (error)
        *error = failure;
    if (made)
        faults_object(OBJECT_PROGRAM, 1);
    return made;
}

cl_kernel __real_clCreateKernel(cl_program program, const char *name, cl_int *error);
cl_kernel __wrap_clCreateKernel(cl_program program, const char *name, cl_int *error)
{
    const cl_int failure = faults_opencl("clCreateKernel");
    cl_kernel made = NULL;

    if (failure == CL_SUCCESS)
        made = __real_clCreateKernel(program, name, error);
    else if (error)
        *error = failure;
    if (made)
        faults_object(OBJECT_KERNEL, 1);
    return made;
}

cl_event __real_clCreateUserEvent(cl_context context, cl_int *error);
cl_event __wrap_clCreateUserEvent(cl_context context, cl_int *error)
{
    const cl_int failure = faults_opencl("clCreateUserEvent");
    cl_event made = NULL;

    if (failure == CL_SUCCESS)
        made = __real_clCreateUserEvent(context, error);
    else if (error)
        *error = failure;
    if (made)
        faults_object(OBJECT_EVENT, 1);
    return made;
}

cl_int __real_clRetainContext(cl_context object);
cl_int __wrap_clRetainContext(cl_context object)
{
    faults_object(OBJECT_CONTEXT, 1);
    return __real_clRetainContext(object);
}

cl_int __real_clReleaseContext(cl_context object);
cl_int __wrap_clReleaseContext(cl_context object)
{
    faults_object(OBJECT_CONTEXT, -1);
    return __real_clReleaseContext(object);
}

cl_int __real_clRetainCommandQueue(cl_command_queue object);
cl_int __wrap_clRetainCommandQueue(cl_command_queue object)
{
    faults_object(OBJECT_QUEUE, 1);
    return __real_clRetainCommandQueue(object);
}

cl_int __real_clReleaseCommandQueue(cl_command_queue object);
cl_int __wrap_clReleaseCommandQueue(cl_command_queue object)
{
    faults_object(OBJECT_QUEUE, -1);
    return __real_clReleaseCommandQueue(object);
}

cl_int __real_clRetainMemObject(cl_mem object);
cl_int __wrap_clRetainMemObject(cl_mem object)
{
    faults_object(OBJECT_BUFFER, 1);
    return __real_clRetainMemObject(object);
}

cl_int __real_clReleaseMemObject(cl_mem object);
cl_int __wrap_clReleaseMemObject(cl_mem object)
{
    faults_object(OBJECT_BUFFER, -1);
    return __real_clReleaseMemObject(object);
}

cl_int __real_clRetainProgram(cl_program object);
cl_int __wrap_clRetainProgram(cl_program object)
{
    faults_object(OBJECT_PROGRAM, 1);
    return __real_clRetainProgram(object);
}

cl_int __real_clReleaseProgram(cl_program object);
cl_int __wrap_clReleaseProgram(cl_program object)
{
    faults_object(OBJECT_PROGRAM, -1);
    return __real_clReleaseProgram(object);
}

cl_int __real_clRetainKernel(cl_kernel object);
cl_int __wrap_clRetainKernel(cl_kernel object)
{
    faults_object(OBJECT_KERNEL, 1);
    return __real_clRetainKernel(object);
}

cl_int __real_clReleaseKernel(cl_kernel object);
cl_int __wrap_clReleaseKernel(cl_kernel object)
{
    faults_object(OBJECT_KERNEL, -1);
    return __real_clReleaseKernel(object);
}

cl_int __real_clRetainEvent(cl_event object);
cl_int __wrap_clRetainEvent(cl_event object)
{
    faults_object(OBJECT_EVENT, 1);
    return __real_clRetainEvent(object);
}

cl_int __real_clReleaseEvent(cl_event object);
cl_int __wrap_clReleaseEvent(cl_event object)
{
    faults_object(OBJECT_EVENT, -1);
    return __real_clReleaseEvent(object);
}
