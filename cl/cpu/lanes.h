/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of SIMD_WIDTH (4, 8 or 16) elements that kernels for CPUs compute with; cpu/simd.h shuffles and sums
 * them. */
#pragma once

#if SIMD_WIDTH == 16
#define VECTOR(name) name##16
#elif SIMD_WIDTH == 8
#define VECTOR(name) name##8
#else
#define VECTOR(name) name##4
#endif
typedef VECTOR(float) lanes;
typedef VECTOR(int) ints;
typedef VECTOR(ushort) ushorts;
