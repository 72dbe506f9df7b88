/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of SIMD_WIDTH (4, 8 or 16) elements that kernels for CPUs compute with; cpu/simd.h shuffles and sums
 * them. */
#pragma once

#if SIMD_WIDTH == 16
#define VECTOR(name) name##16
#define COUNT_UP (float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#elif SIMD_WIDTH == 8
#define VECTOR(name) name##8
#define COUNT_UP (float8)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define VECTOR(name) name##4
#define COUNT_UP (float4)(0, 1, 2, 3)
#endif
/* 1 if clang has this intrinsic of the processor that it compiles for. */
#if defined(__has_builtin) && !defined(__SPIR__)
#define HAS_INTRINSIC(name) __has_builtin(name)
#else
#define HAS_INTRINSIC(name) 0
#endif

typedef VECTOR(float) lanes;
typedef VECTOR(int) ints;
typedef VECTOR(ushort) ushorts;
