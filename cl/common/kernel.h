/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that kernels of all operations share. */
#pragma once
#include "common/multiply_add.h"
#include "common/storage.h"

#define INLINE static inline __attribute__((always_inline))

/* The offset of row i of head h of batch b in a tensor with these strides; and of the head's first
 * row. */
INLINE long row_offset(const long *stride, const long b, const long h, const long i)
{
    return b * stride[0] + h * stride[1] + i * stride[2];
}

INLINE long head_offset(const long *stride, const long b, const long h)
{
    return b * stride[0] + h * stride[1];
}

/* Returns the larger value, or a NaN if one of them is NaN. */
static inline float larger(const float x, const float y)
{
    return y > x || y != y ? y : x;
}

/* Keys and values, or bytes of quantized ones (cl/common/quantized.h). */
#if K_CACHE
typedef uchar k_storage;
#else
typedef STORAGE_OF(K_DTYPE) k_storage;
#endif
#if V_CACHE
typedef uchar v_storage;
#else
typedef STORAGE_OF(V_DTYPE) v_storage;
#endif
