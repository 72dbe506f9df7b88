/* SPDX-License-Identifier: Apache-2.0 */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 200
#include "tests/support/shared_memory.h"

#include <criterion/criterion.h>
#include <string.h>

bool shared_memory_is_there(const struct fixture *f)
{
    cl_device_svm_capabilities capabilities = 0;

    return clGetDeviceInfo(f->device, CL_DEVICE_SVM_CAPABILITIES, sizeof capabilities,
                           &capabilities, NULL) == CL_SUCCESS &&
           capabilities != 0;
}

/* Coarse-grained memory is the host's only while it is mapped. */
static void copy(struct fixture *f, void *memory, size_t bytes, cl_map_flags flags, void *to,
                 const void *from)
{
    cr_assert(clEnqueueSVMMap(f->queue, CL_TRUE, flags, memory, bytes, 0, NULL, NULL) ==
              CL_SUCCESS);
    memcpy(to, from, bytes);
    cr_assert(clEnqueueSVMUnmap(f->queue, memory, 0, NULL, NULL) == CL_SUCCESS);
    clFinish(f->queue);
}

void *shared_memory_new(struct fixture *f, size_t bytes, const void *image)
{
    void *memory = clSVMAlloc(f->opencl, CL_MEM_READ_WRITE, bytes, 0);

    cr_assert(memory != NULL, "clSVMAlloc of %zu bytes", bytes);
    copy(f, memory, bytes, CL_MAP_WRITE, memory, image);
    return memory;
}

void shared_memory_read(struct fixture *f, void *memory, size_t bytes, void *to)
{
    copy(f, memory, bytes, CL_MAP_READ, to, memory);
}

void shared_memory_free(struct fixture *f, void *memory)
{
    clSVMFree(f->opencl, memory);
}
