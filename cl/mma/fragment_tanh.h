/* SPDX-License-Identifier: Apache-2.0 */
/* tanh of the scores of a fragment, by NVIDIA's instructions where they are there. */
#pragma once
#include "mma/instruction.h"
#include "score/tanh.h"

/* The instruction that native_recip compiles to, accurate to 1 ulp. */
INLINE float approximate_reciprocal(const float x)
{
#if HAS_PTX
    float y;

    __asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1.0f / x;
#endif
}

/* x is limited to -most .. most, and a NaN stays. */
INLINE float within_or_nan(const float x, const float most)
{
#if HAS_PTX
    float y;

    __asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(most));
    __asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(y), "f"(-most));
    return y;
#else
    return x > most ? most : x < -most ? -most : x;
#endif
}

INLINE float fragment_tanh(const float x)
{
    float denominator;
    const float numerator =
        score_tanh_quotient(within_or_nan(x, MOST_OF_TANH_QUOTIENT), &denominator);

    return numerator * approximate_reciprocal(denominator);
}
