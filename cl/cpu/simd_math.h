/* SPDX-License-Identifier: Apache-2.0 */
/* Exponentials and hyperbolic tangents of vectors. Next to matrix products, exponentials are most
 * of what the kernels for CPUs compute. They rely on IEEE addition: never build them with fast-math
 * options. */
#pragma once
#include "cpu/simd.h"

/* exponential2(x) = 2^x for x <= 126, exactly 0 for x <= -127; a NaN stays one. The polynomials
 * suit f32: the relative error is 2e-7. */
#if SIMD_WIDTH == 16 && defined(__AVX512F__) && defined(__AVX512DQ__) &&                           \
    HAS_INTRINSIC(__builtin_ia32_reduceps512_mask) &&                                              \
    HAS_INTRINSIC(__builtin_ia32_cmpps512_mask) && HAS_INTRINSIC(__builtin_ia32_scalefps512_mask)
/* With AVX-512, x - floor(x) and the scaling by 2^floor(x) are an instruction each: 8 instead of 12
 * in all. Results that would be denormal, which processors are slow at, become 0. */
INLINE lanes exponential2(const lanes x)
{
    enum {
        ALL = 0xffff,
        DOWN = 9,
        NOT_LESS = 21,
        CURRENT = 4
    }; /* immediates of the instructions */
    const lanes zero = 0.0f, least = -126.0f;
    const lanes f = __builtin_ia32_reduceps512_mask(x, DOWN, zero, ALL, CURRENT);
    const ushort normal = __builtin_ia32_cmpps512_mask(x, least, NOT_LESS, ALL, CURRENT);
    lanes h = FMA(f, (lanes)(0.00186713017f), (lanes)(0.00901702978f));
    h = FMA(f, h, (lanes)(0.0557999127f));
    h = FMA(f, h, (lanes)(0.240164444f));
    h = FMA(f, h, (lanes)(0.693151295f));
    h = FMA(f, h, (lanes)(1.0f));
    return __builtin_ia32_scalefps512_mask(h, x, zero, normal, CURRENT);
}
#else
INLINE lanes exponential2(const lanes x)
{
    const float rounder =
        12582912.0f + 127.0f; /* a sum with it has round(x) + 127 in its low bits */
    const lanes y = (lanes)(-127.0f) > x ? (lanes)(-127.0f) : x;
    const lanes r = y + rounder;
    const lanes f = y - (r - rounder);
    const lanes t = VECTOR(as_float)(VECTOR(as_int)(r) << 23);
    lanes h = FMA(f, (lanes)(0.00133813021f), (lanes)(0.00966636837f));
    h = FMA(f, h, (lanes)(0.0555038117f));
    h = FMA(f, h, (lanes)(0.240223497f));
    h = FMA(f, h, (lanes)(0.693147182f));
    return FMA(t * f, h, t);
}
#endif

/* tanh(x) for |x| <= 1: at most 2 ulp off. */
INLINE lanes small_tanh(const lanes x)
{
    const lanes z = x * x;
    lanes p = FMA(z, (lanes)(1.05826405e-3f), (lanes)(-6.259338e-3f));
    p = FMA(z, p, (lanes)(2.03597583e-2f));
    p = FMA(z, p, (lanes)(-5.34987077e-2f));
    p = FMA(z, p, (lanes)(0.133264095f));
    p = FMA(z, p, (lanes)(-0.333329856f));
    return x * FMA(z, p, (lanes)(1.0f));
}

/* Defines a function of a vector or a float: tanh(x) as a quotient of polynomials, of which it returns the numerator. At most
 * 3 ulp off, and 1 from 8.7 on. A NaN stays one, but the denominator is always a positive number. */
#define DEFINE_TANH_QUOTIENT(name, type)                                                           \
    INLINE type name(const type x, type *denominator)                                              \
    {                                                                                              \
        const type low = (type)(-8.7f) > x ? (type)(-8.7f) : x;                                    \
        const type y = (type)(8.7f) < low ? (type)(8.7f) : low;                                    \
        const type square = y * y;                                                                 \
        const type z = square < (type)(75.7f) ? square : (type)(75.7f);                            \
        type p = FMA(z, (type)(1.39620777e-8f), (type)(2.10437593e-5f));                           \
        type q = FMA(z, (type)(8.02389309e-7f), (type)(3.32875672e-4f));                           \
        p = FMA(z, p, (type)(3.52193858e-3f));                                                     \
        q = FMA(z, q, (type)(2.59772241e-2f));                                                     \
        p = FMA(z, p, (type)(0.134032145f));                                                       \
        q = FMA(z, q, (type)(0.467365384f));                                                       \
        p = FMA(z, p, (type)(1.0f));                                                               \
        *denominator = FMA(z, q, (type)(1.0f));                                                    \
        return y * p;                                                                              \
    }
DEFINE_TANH_QUOTIENT(tanh_quotient, lanes)

INLINE lanes simd_tanh(const lanes x)
{
    lanes denominator;
    const lanes numerator = tanh_quotient(x, &denominator);

    return numerator / denominator;
}

/* Replaces x and *y by their tanh times factor, with one division for both: a division takes as
 * long as all other steps. */
INLINE void simd_tanh_of_two(lanes *x, lanes *y, const float factor)
{
    lanes denominator_x, denominator_y;
    const lanes numerator_x = tanh_quotient(*x, &denominator_x);
    const lanes numerator_y = tanh_quotient(*y, &denominator_y);
    const lanes r = (lanes)(factor) / (denominator_x * denominator_y);

    *x = numerator_x * (denominator_y * r);
    *y = numerator_y * (denominator_x * r);
}

#if HAS_SCORE_FUNCTION || HAS_MASK_FUNCTION
/* What functions of the caller's have for tanh(), which the host declares before their sources: without a branch, so that loops
 * over lanes become vectors. */
DEFINE_TANH_QUOTIENT(function_tanh_quotient, float)
INLINE float __attribute__((overloadable)) function_tanh(const float x)
{
    float denominator;
    const float numerator = function_tanh_quotient(x, &denominator);

    return numerator / denominator;
}
#endif
