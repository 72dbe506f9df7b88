/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pointers.h"
#include "device/facts.h"
#include "os/environment.h"

#include <string.h>

#define DEVICE_SVM_CAPABILITIES 0x1053 /* CL_DEVICE_SVM_CAPABILITIES, of OpenCL 2.0 */
#define ALLOCATION_TYPE 0x419A         /* CL_MEM_ALLOC_TYPE_INTEL */
#define NO_ALLOCATION 0x4196           /* CL_MEM_TYPE_UNKNOWN_INTEL */

/* Copies the bits of a call's address: C has no cast from a data pointer to a function pointer. */
static void set_call(void *address, void *call)
{
    memcpy(call, &address, sizeof address);
}

static void find_svm(const clattn_device_info *dev, struct ca_pointers *pointers)
{
    cl_bitfield capabilities = 0;

    if (clGetDeviceInfo(dev->device, DEVICE_SVM_CAPABILITIES, sizeof capabilities, &capabilities,
                        NULL) != CL_SUCCESS ||
        capabilities == 0)
        return;
    set_call(ca_opencl_symbol("clSetKernelArgSVMPointer"), &pointers->set_svm);
    set_call(ca_opencl_symbol("clEnqueueSVMMemcpy"), &pointers->copy_svm);
    if (!pointers->set_svm || !pointers->copy_svm)
        pointers->set_svm = NULL;
}

static void find_call(const clattn_device_info *dev, const char *name, void *call)
{
    set_call(clGetExtensionFunctionAddressForPlatform(dev->platform, name), call);
}

void ca_pointers_find(const clattn_device_info *dev, struct ca_pointers *pointers)
{
    memset(pointers, 0, sizeof *pointers);
    if (!dev->device)
        return;
    if (dev->opencl_version >= 20)
        find_svm(dev, pointers);
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
    return pointers->set_svm != NULL || pointers->set_usm != NULL;
}

static int is_usm(const struct ca_pointers *pointers, cl_context context, const void *address)
{
    cl_uint type = NO_ALLOCATION;

    if (!pointers->set_usm)
        return 0;
    return !pointers->set_svm || (pointers->find_usm(context, address, ALLOCATION_TYPE, sizeof type,
                                                     &type, NULL) == CL_SUCCESS &&
                                  type != NO_ALLOCATION);
}

cl_int ca_pointers_set(const struct ca_pointers *pointers, cl_context context, cl_kernel kernel,
                       cl_uint index, const void *address)
{
    return is_usm(pointers, context, address) ? pointers->set_usm(kernel, index, address)
                                              : pointers->set_svm(kernel, index, address);
}

cl_int ca_pointers_read(const struct ca_pointers *pointers, cl_context context,
                        cl_command_queue queue, const void *address, size_t bytes, void *to)
{
    return is_usm(pointers, context, address)
               ? pointers->copy_usm(queue, CL_TRUE, to, address, bytes, 0, NULL, NULL)
               : pointers->copy_svm(queue, CL_TRUE, to, address, bytes, 0, NULL, NULL);
}
