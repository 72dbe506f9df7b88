/* SPDX-License-Identifier: Apache-2.0 */
/* tanh of scores on GPUs, without a branch: the built-in one takes more time than the products of a score. */
#pragma once
#include "common/common.h"
#include "common/multiply_add.h"

/* tanh(y) as a quotient of polynomials, those of cl/cpu/simd_math.h, of which it returns the numerator; y is within
 * MOST_OF_TANH_QUOTIENT, where tanh is 1, or a NaN. To 10 u (u = 2^-24). */
#define MOST_OF_TANH_QUOTIENT 8.7f
INLINE float score_tanh_quotient(const float y, float *denominator)
{
    const float z = fmin(y * y, MOST_OF_TANH_QUOTIENT * MOST_OF_TANH_QUOTIENT);
    float p = MULTIPLY_ADD(z, 1.39620777e-8f, 2.10437593e-5f);
    float q = MULTIPLY_ADD(z, 8.02389309e-7f, 3.32875672e-4f);

    p = MULTIPLY_ADD(z, p, 3.52193858e-3f);
    q = MULTIPLY_ADD(z, q, 2.59772241e-2f);
    p = MULTIPLY_ADD(z, p, 0.134032145f);
    q = MULTIPLY_ADD(z, q, 0.467365384f);
    p = MULTIPLY_ADD(z, p, 1.0f);
    *denominator = MULTIPLY_ADD(z, q, 1.0f);
    return y * p;
}

INLINE float score_tanh(const float x)
{
    const float most = MOST_OF_TANH_QUOTIENT;
    float denominator;
    const float numerator = score_tanh_quotient(x > most    ? most
                                                : x < -most ? -most
                                                            : x,
                                                &denominator);

    return numerator / denominator;
}

/* Up to here a polynomial of degree 3 in x^2 is tanh(x) to 10 u. */
#define MOST_OF_SMALL_TANH 0.5f

/* Returns factor * tanh(x) for |x| <= MOST_OF_SMALL_TANH. */
INLINE float small_score_tanh(const float factor, const float x)
{
    const float z = x * x;
    const float p = fma(fma(fma(-4.440235449e-02f * factor, z, 1.319030223e-01f * factor), z,
                            -3.332631864e-01f * factor),
                        z, 9.999994560e-01f * factor);

    return x * p;
}
