/* SPDX-License-Identifier: Apache-2.0 */
/* What an OpenCL layer answers when the loader asks who it is. */
#ifndef TEST_LAYER_INFO_H
#define TEST_LAYER_INFO_H

#include <CL/cl_layer.h>
#include <string.h>

/* Implements clGetLayerInfo() for a layer of this name. */
static inline cl_int layer_info(const char *name, cl_layer_info what, size_t bytes, void *value,
                                size_t *needed)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *const from = what == CL_LAYER_NAME ? (const void *)name : &version;
    const size_t size = what == CL_LAYER_NAME ? strlen(name) + 1 : sizeof version;

    if ((what != CL_LAYER_NAME && what != CL_LAYER_API_VERSION) || (value && bytes < size))
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, from, size);
    if (needed)
        *needed = size;
    return CL_SUCCESS;
}

#endif
