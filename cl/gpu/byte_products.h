/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction of work-items that adds four products of signed bytes to a sum of 32 bits. NVIDIA has dp4a (PTX ISA), AMD
 * v_dot4_i32 (LLVM, builtins of AMDGPU); others state cl_khr_integer_dot_product, or Arm's extension before that. With
 * EMULATE it is computed in plain C, to the bit. */
#pragma once
#include "common/kernel.h"

#if EMULATE
INLINE int dot_words(const int x, const int y, int sum)
{
#pragma unroll
    for (int shift = 0; shift < 32; shift += 8)
        sum += (x << (24 - shift) >> 24) * (y << (24 - shift) >> 24);
    return sum;
}
#elif defined(__NV_CL_C_VERSION) || defined(__NVPTX__)
INLINE int dot_words(const int x, const int y, const int sum)
{
    int total;

    __asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(total) : "r"(x), "r"(y), "r"(sum));
    return total;
}
#elif defined(__GFX11__) || defined(__GFX12__)
#define dot_words(x, y, sum) __builtin_amdgcn_sudot4(true, x, true, y, sum, false)
#elif defined(__AMDGCN__)
#define dot_words(x, y, sum) __builtin_amdgcn_sdot4(x, y, sum, false)
#elif defined(cl_arm_integer_dot_product_accumulate_int8)
#pragma OPENCL EXTENSION cl_arm_integer_dot_product_accumulate_int8 : enable
#define dot_words(x, y, sum) arm_dot_acc(as_char4(x), as_char4(y), sum)
#else
#define dot_words(x, y, sum) (dot_4x8packed_ss_int(as_uint(x), as_uint(y)) + (sum))
#endif
