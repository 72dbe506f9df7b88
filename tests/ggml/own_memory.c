/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded, it makes the OpenCL device one that has memory of its own: it says so, and has no buffers
 * over the host's memory. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <string.h>

/* The loader's function: the backend's library is in no scope that RTLD_NEXT would look into. */
static void find(const char *name, void *function, size_t bytes)
{
    void *found = dlsym(dlopen("libOpenCL.so.1", RTLD_NOW), name);

    memcpy(function, &found, bytes); /* C has no conversion from an object's address */
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *value,
                       size_t *needed)
{
    cl_int (*call)(cl_device_id, cl_device_info, size_t, void *, size_t *);

    find("clGetDeviceInfo", &call, sizeof call);
    const cl_int error = call(device, what, bytes, value, needed);
    if (what == CL_DEVICE_HOST_UNIFIED_MEMORY && error == CL_SUCCESS && value != NULL)
        *(cl_bool *)value = CL_FALSE;
    return error;
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                      cl_int *error)
{
    cl_mem (*call)(cl_context, cl_mem_flags, size_t, void *, cl_int *);

    find("clCreateBuffer", &call, sizeof call);
    if ((flags & CL_MEM_USE_HOST_PTR) == 0)
        return call(context, flags, bytes, host, error);
    if (error != NULL)
        *error = CL_INVALID_VALUE;
    return NULL;
}
