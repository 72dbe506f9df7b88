/* Wrappers of OpenCL calls that neither make objects nor enqueue: see faults.h. */
#include "tests/faults/faults.h"

/* The names are the linker's: --wrap=f calls __wrap_f() for f() and f() for __real_f(). */

cl_int __real_clGetPlatformIDs(cl_uint capacity, cl_platform_id *platforms, cl_uint *count);
cl_int __wrap_clGetPlatformIDs(cl_uint capacity, cl_platform_id *platforms, cl_uint *count)
{
    const cl_int failure = faults_opencl("clGetPlatformIDs");

    return failure != CL_SUCCESS ? failure : __real_clGetPlatformIDs(capacity, platforms, count);
}

cl_int __real_clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t size,
                                void *value, size_t *needed);
cl_int __wrap_clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t size,
                                void *value, size_t *needed)
{
    const cl_int failure = faults_opencl("clGetPlatformInfo");

    if (failure == CL_SUCCESS && faults_pretended(name, size, value, needed))
        return CL_SUCCESS;
    return failure != CL_SUCCESS ? failure
                                 : __real_clGetPlatformInfo(platform, name, size, value, needed);
}

cl_int __real_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint capacity,
                             cl_device_id *devices, cl_uint *count);
cl_int __wrap_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint capacity,
                             cl_device_id *devices, cl_uint *count)
{
    const cl_int failure = faults_opencl("clGetDeviceIDs");

    return failure != CL_SUCCESS ? failure
                                 : __real_clGetDeviceIDs(platform, type, capacity, devices, count);
}

cl_int __real_clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t size, void *value,
                              size_t *needed);
cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t size, void *value,
                              size_t *needed)
{
    const cl_int failure = faults_opencl("clGetDeviceInfo");

    if (failure == CL_SUCCESS && faults_pretended(name, size, value, needed))
        return CL_SUCCESS;
    return failure != CL_SUCCESS ? failure
                                 : __real_clGetDeviceInfo(device, name, size, value, needed);
}

cl_int __real_clGetContextInfo(cl_context context, cl_context_info name, size_t size, void *value,
                               size_t *needed);
cl_int __wrap_clGetContextInfo(cl_context context, cl_context_info name, size_t size, void *value,
                               size_t *needed)
{
    const cl_int failure = faults_opencl("clGetContextInfo");

    return failure != CL_SUCCESS ? failure
                                 : __real_clGetContextInfo(context, name, size, value, needed);
}

cl_int __real_clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info name, size_t size,
                                    void *value, size_t *needed);
cl_int __wrap_clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info name, size_t size,
                                    void *value, size_t *needed)
{
    const cl_int failure = faults_opencl("clGetCommandQueueInfo");

    return failure != CL_SUCCESS ? failure
                                 : __real_clGetCommandQueueInfo(queue, name, size, value, needed);
}

cl_int __real_clGetMemObjectInfo(cl_mem buffer, cl_mem_info name, size_t size, void *value,
                                 size_t *needed);
cl_int __wrap_clGetMemObjectInfo(cl_mem buffer, cl_mem_info name, size_t size, void *value,
                                 size_t *needed)
{
    const cl_int failure = faults_opencl("clGetMemObjectInfo");

    return failure != CL_SUCCESS ? failure
                                 : __real_clGetMemObjectInfo(buffer, name, size, value, needed);
}

cl_int __real_clGetEventInfo(cl_event event, cl_event_info name, size_t size, void *value,
                             size_t *needed);
cl_int __wrap_clGetEventInfo(cl_event event, cl_event_info name, size_t size, void *value,
                             size_t *needed)
{
    const cl_int failure = faults_opencl("clGetEventInfo");

    return failure != CL_SUCCESS ? failure
                                 : __real_clGetEventInfo(event, name, size, value, needed);
}

cl_int __real_clGetProgramInfo(cl_program program, cl_program_info name, size_t size, void *value,
                               size_t *needed);
cl_int __wrap_clGetProgramInfo(cl_program program, cl_program_info name, size_t size, void *value,
                               size_t *needed)
{
    const cl_int failure = faults_opencl("clGetProgramInfo");

    return failure != CL_SUCCESS ? failure
                                 : __real_clGetProgramInfo(program, name, size, value, needed);
}

cl_int __real_clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                    cl_program_build_info name, size_t size, void *value,
                                    size_t *needed);
cl_int __wrap_clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                    cl_program_build_info name, size_t size, void *value,
                                    size_t *needed)
{
    const cl_int failure = faults_opencl("clGetProgramBuildInfo");

    return failure != CL_SUCCESS
               ? failure
               : __real_clGetProgramBuildInfo(program, device, name, size, value, needed);
}

cl_int __real_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                       cl_kernel_work_group_info name, size_t size, void *value,
                                       size_t *needed);
cl_int __wrap_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                       cl_kernel_work_group_info name, size_t size, void *value,
                                       size_t *needed)
{
    const cl_int failure = faults_opencl("clGetKernelWorkGroupInfo");

    return failure != CL_SUCCESS
               ? failure
               : __real_clGetKernelWorkGroupInfo(kernel, device, name, size, value, needed);
}

cl_int __real_clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices,
                             const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                             void *user_data);
cl_int __wrap_clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices,
                             const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                             void *user_data)
{
    cl_int failure = faults_opencl("clBuildProgram");

    if (failure == CL_SUCCESS)
        failure = faults_build();
    return failure != CL_SUCCESS
               ? failure
               : __real_clBuildProgram(program, num_devices, devices, options, notify, user_data);
}

cl_int __real_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value);
cl_int __wrap_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    const cl_int failure = faults_opencl("clSetKernelArg");

    faults_delay();
    return failure != CL_SUCCESS ? failure : __real_clSetKernelArg(kernel, index, size, value);
}

cl_int __real_clFlush(cl_command_queue queue);
cl_int __wrap_clFlush(cl_command_queue queue)
{
    const cl_int failure = faults_opencl("clFlush");

    return failure != CL_SUCCESS ? failure : __real_clFlush(queue);
}

cl_int __real_clFinish(cl_command_queue queue);
cl_int __wrap_clFinish(cl_command_queue queue)
{
    const cl_int failure = faults_opencl("clFinish");

    return failure != CL_SUCCESS ? failure : __real_clFinish(queue);
}

cl_int __real_clWaitForEvents(cl_uint count, const cl_event *events);
cl_int __wrap_clWaitForEvents(cl_uint count, const cl_event *events)
{
    const cl_int failure = faults_opencl("clWaitForEvents");

    return failure != CL_SUCCESS ? failure : __real_clWaitForEvents(count, events);
}
