/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of SIMD_WIDTH (4, 8 or 16) elements that kernels for CPUs compute with; cpu/simd.h shuffles and sums
 * them. */
#pragma once

#if SIMD_WIDTH == 16
#define VECTOR(name) name##16
#define VECTOR_RTE(name) name##16_rte
#define COUNT_UP (float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#elif SIMD_WIDTH == 8
#define VECTOR(name) name##8
#define VECTOR_RTE(name) name##8_rte
#define COUNT_UP (float8)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define VECTOR(name) name##4
#define VECTOR_RTE(name) name##4_rte
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

/* Halves as floats, by an instruction of the processor where clang names one (CONVERTS_HALVES). */
#if SIMD_WIDTH == 16 && HAS_INTRINSIC(__builtin_ia32_vcvtph2ps512_mask) && defined(__AVX512F__)
#define CONVERTS_HALVES 1
static inline lanes lanes_of_halves(const ushorts halves)
{
    enum { ALL = 0xffff, CURRENT = 4 }; /* immediates of the instruction */

    return __builtin_ia32_vcvtph2ps512_mask(as_short16(halves), (lanes)(0.0f), ALL, CURRENT);
}
#elif SIMD_WIDTH >= 8 && HAS_INTRINSIC(__builtin_ia32_vcvtph2ps256) && defined(__F16C__)
#define CONVERTS_HALVES 1
static inline lanes lanes_of_halves(const ushorts halves)
{
#if SIMD_WIDTH == 16
    return (lanes)(__builtin_ia32_vcvtph2ps256(as_short8(halves.lo)),
                   __builtin_ia32_vcvtph2ps256(as_short8(halves.hi)));
#else
    return __builtin_ia32_vcvtph2ps256(as_short8(halves));
#endif
}
#else
#define CONVERTS_HALVES 0
static inline lanes lanes_of_halves(const ushorts halves)
{
    return VECTOR(vload_half)(0, (const half *)&halves);
}
#endif
