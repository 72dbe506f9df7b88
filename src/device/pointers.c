/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pointers.h"
#include "device/facts.h"

#include <string.h>

#define DEVICE_SVM_CAPABILITIES 0x1053 /* CL_DEVICE_SVM_CAPABILITIES, of OpenCL 2.0 */
#define ALLOCATION_TYPE 0x419A         /* CL_MEM_ALLOC_TYPE_INTEL */
#define NO_ALLOCATION 0x4196           /* CL_MEM_TYPE_UNKNOWN_INTEL */

/* These are null where the loader has no such call. */
#if defined(__GNUC__) && !defined(_WIN32)
extern CL_API_ENTRY cl_int CL_API_CALL clSetKernelArgSVMPointer(cl_kernel, cl_uint, const void *)
    __attribute__((weak));
extern CL_API_ENTRY cl_int CL_API_CALL clEnqueueSVMMemcpy(cl_command_queue, cl_bool, void *,
                                                          const void *, size_t, cl_uint,
                                                          const cl_event *, cl_event *)
    __attribute__((weak));
#else
extern CL_API_ENTRY cl_int CL_API_CALL clSetKernelArgSVMPointer(cl_kernel, cl_uint, const void *);
extern CL_API_ENTRY cl_int CL_API_CALL clEnqueueSVMMemcpy(cl_command_queue, cl_bool, void *,
                                                          const void *, size_t, cl_uint,
                                                          const cl_event *, cl_event *);
#endif

static int has_svm(const clattn_device_info *dev)
{
    cl_bitfield capabilities = 0;

    return clSetKernelArgSVMPointer != NULL && clEnqueueSVMMemcpy != NULL &&
           clGetDeviceInfo(dev->device, DEVICE_SVM_CAPABILITIES, sizeof capabilities, &capabilities,
                           NULL) == CL_SUCCESS &&
           capabilities != 0;
}

/* Copies the bits of an extension's call: C has no cast from a data pointer to a function pointer.
 * */
static void find_call(const clattn_device_info *dev, const char *name, void *call)
{
    void *address = clGetExtensionFunctionAddressForPlatform(dev->platform, name);

    memcpy(call, &address, sizeof address);
}

void ca_pointers_find(const clattn_device_info *dev, struct ca_pointers *pointers)
{
    memset(pointers, 0, sizeof *pointers);
    if (!dev->device)
        return;
    pointers->svm = dev->opencl_version >= 20 && has_svm(dev);
    if (!ca_facts_have(dev, "cl_intel_unified_shared_memory"))
        return;
    find_call(dev, "clSetKernelArgMemPointerINTEL", &pointers->set_usm);
    find_call(dev, "clGetMemAllocInfoINTEL", &pointers->find_usm);
    find_call(dev, "clEnqueueMemcpyINTEL", &pointers->copy_usm);
    if (!pointers->set_usm || !pointers->find_usm || !pointers->copy_usm)
        pointers->set_usm = NULL;
}

int ca_pointers_are_taken(const struct ca_pointers *pointers)
{
    return pointers->svm || pointers->set_usm != NULL;
}

static int is_usm(const struct ca_pointers *pointers, cl_context context, const void *address)
{
    cl_uint type = NO_ALLOCATION;

    if (!pointers->set_usm)
        return 0;
    return !pointers->svm || (pointers->find_usm(context, address, ALLOCATION_TYPE, sizeof type,
                                                 &type, NULL) == CL_SUCCESS &&
                              type != NO_ALLOCATION);
}

cl_int ca_pointers_set(const struct ca_pointers *pointers, cl_context context, cl_kernel kernel,
                       cl_uint index, const void *address)
{
    return is_usm(pointers, context, address) ? pointers->set_usm(kernel, index, address)
                                              : clSetKernelArgSVMPointer(kernel, index, address);
}

cl_int ca_pointers_read(const struct ca_pointers *pointers, cl_context context,
                        cl_command_queue queue, const void *address, size_t bytes, void *to)
{
    return is_usm(pointers, context, address)
               ? pointers->copy_usm(queue, CL_TRUE, to, address, bytes, 0, NULL, NULL)
               : clEnqueueSVMMemcpy(queue, CL_TRUE, to, address, bytes, 0, NULL, NULL);
}
