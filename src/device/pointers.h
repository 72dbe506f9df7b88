/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that kernels use by its address: shared virtual memory of OpenCL 2.0 (SVM), and Intel's unified
 * shared memory (USM, the extension cl_intel_unified_shared_memory). The library is built against
 * OpenCL 1.2: newer calls are looked up in the loader that it meets, which may have none. */
#ifndef CA_POINTERS_H
#define CA_POINTERS_H

#include <clattn/device.h>

/* The calls that give a device's kernels addresses; all zero where kernels take none. */
struct ca_pointers {
    cl_int(CL_API_CALL *set_svm)(cl_kernel, cl_uint, const void *);
    cl_int(CL_API_CALL *copy_svm)(cl_command_queue, cl_bool, void *, const void *, size_t, cl_uint,
                                  const cl_event *, cl_event *);
    cl_int(CL_API_CALL *set_usm)(cl_kernel, cl_uint, const void *);
    cl_int(CL_API_CALL *find_usm)(cl_context, const void *, cl_uint, size_t, void *, size_t *);
    cl_int(CL_API_CALL *copy_usm)(cl_command_queue, cl_bool, void *, const void *, size_t, cl_uint,
                                  const cl_event *, cl_event *);
};

/* Finds a device's pointers; a device that a profile stands in for has none. */
void ca_pointers_find(const clattn_device_info *dev, struct ca_pointers *pointers);

int ca_pointers_are_taken(const struct ca_pointers *pointers);

/* Sets a kernel's argument to an address. */
cl_int ca_pointers_set(const struct ca_pointers *pointers, cl_context context, cl_kernel kernel,
                       cl_uint index, const void *address);

/* Copies to host memory and waits. */
cl_int ca_pointers_read(const struct ca_pointers *pointers, cl_context context,
                        cl_command_queue queue, const void *address, size_t bytes, void *to);

#endif
