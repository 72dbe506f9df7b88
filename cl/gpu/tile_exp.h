/* SPDX-License-Identifier: Apache-2.0 */
/* The exponential of kernels for GPUs, chosen by the tunable EXP. */
#pragma once

#include "common/multiply_add.h"

/* A row's maximum, or any finite number while the row has no score above -inf: all weights are then
 * 0. */
static inline float finite_maximum(const float maximum)
{
    return maximum == -INFINITY ? 0.0f : maximum;
}

/* The values of the tunable EXP; 2 is polynomial_exp2(). */
enum { EXP_BUILTIN = 0, EXP_NATIVE = 1, EXP_SHARED = 3 };

/* Computes 2^x to 2 ulp for x <= 0; 0 below -126.5; NaN for NaN. It has no branch: compilers made
 * one of a choice at the end. */
static inline float polynomial_exp2(const float x)
{
    const float least = x < -127.0f ? -127.0f : x;
    const float shifted =
        least + 12583039.0f; /* 1.5 * 2^23 + 127: the last bit is 1, the last eight an exponent */
    const float f = least - (shifted - 12583039.0f); /* -0.5 .. 0.5 */
    float y = 1.5403530e-4f;
    y = MULTIPLY_ADD(y, f, 1.3333558e-3f);
    y = MULTIPLY_ADD(y, f, 9.6181291e-3f);
    y = MULTIPLY_ADD(y, f, 5.5504109e-2f);
    y = MULTIPLY_ADD(y, f, 2.4022651e-1f);
    y = MULTIPLY_ADD(y, f, 6.9314718e-1f);
    y = MULTIPLY_ADD(y, f, 1.0f);
    return y * as_float(as_uint(shifted) << 23);
}

/* Computes 2^x by the GPU's special function unit. */
static inline float native_power(const float x)
{
#if HAS_PTX
    return approximate_exp2(x);
#else
    return native_exp2(x);
#endif
}

/* 2^x, as EXP says. */
static inline float power_of_two(const float x)
{
    if (EXP == EXP_BUILTIN)
        return exp2(x);
    if ((EXP == EXP_NATIVE) | (EXP == EXP_SHARED))
        return native_power(x);
    return polynomial_exp2(x);
}

/* Computes 2^x to 44 u (u = 2^-24) of its value, with a shorter polynomial than polynomial_exp2(). */
static inline float short_polynomial_exp2(const float x)
{
    const float least = x < -127.0f ? -127.0f : x; /* a NaN stays one */
    const float shifted = least + 12583039.0f;     /* as in polynomial_exp2() */
    const float f = least - (shifted - 12583039.0f);
    float y = 9.57010170e-3f;
    y = MULTIPLY_ADD(y, f, 5.59178603e-2f);
    y = MULTIPLY_ADD(y, f, 2.40247448e-1f);
    y = MULTIPLY_ADD(y, f, 6.93121815e-1f);
    y = MULTIPLY_ADD(y, f, 9.99999261e-1f);
    return y * as_float(as_uint(shifted) << 23);
}

/* Computes 2^x for weight n of a thread; n is constant. With EXP_SHARED every fourth weight comes from a polynomial instead of
 * the special function unit, as in FlashAttention-4. For all weights that unit would take as long as the tensor cores for
 * products of 64 dims. */
static inline float weight_power(const int n, const float x)
{
    return EXP == EXP_SHARED && n % 4 == 3 ? short_polynomial_exp2(x) : power_of_two(x);
}
