/* SPDX-License-Identifier: Apache-2.0 */
/* Quotients and roundings for blocks of quantized values. The bits are the same on every device: the two quotients,
 * which devices may round as they like, are corrected to the nearest. */
#pragma once
#include "cpu/lanes.h"

/* 1 / x rounded to nearest, for a normal x with a normal reciprocal. The device's quotient may be
 * off by 2.5 units in the last place, and the first Newton step leaves at most one. The second step
 * then rounds correctly for all significands but the one of only ones: its reciprocal is one unit
 * above a power of two (Markstein, "Computation of elementary functions on the IBM RISC System/6000
 * processor", 1990). */
static inline float reciprocal(const float x)
{
    const float y = 1.0f / x;
    const float once = fma(fma(-x, y, 1.0f), y, y);
    const float twice = fma(fma(-x, once, 1.0f), once, once);

    return as_float(as_int(twice) | (((as_int(x) & 0x7fffff) == 0x7fffff) & 1));
}

static inline float4 reciprocals(const float4 x)
{
    const float4 y = 1.0f / x;
    const float4 once = fma(fma(-x, y, (float4)(1.0f)), y, y);
    const float4 twice = fma(fma(-x, once, (float4)(1.0f)), once, once);

    return as_float4(as_int4(twice) | (((as_int4(x) & 0x7fffff) == 0x7fffff) & 1));
}

/* Returns x / by rounded to nearest, for a normal quotient; y is 1 / by rounded to nearest. */
static inline float divide(const float x, const float by, const float y)
{
    const float z = x * y;

    return fma(fma(-by, z, x), y, z);
}

static inline float4 divide_four(const float4 x, const float by, const float y)
{
    const float4 z = x * y;

    return fma(fma((float4)(-by), z, x), (float4)(y), z);
}

static inline lanes divide_lanes(const lanes x, const float by, const float y)
{
    const lanes z = x * y;

    return fma(fma((lanes)(-by), z, x), (lanes)(y), z);
}

/* Rounds to the nearest integer, away from zero at ties, for |x| below 2^22. The addend is the
 * greatest float below a half, so that only ties and above reach the next integer. */
static inline ints round_away(const lanes x)
{
    const ints sign = VECTOR(as_int)(x) & (int)0x80000000;

    return VECTOR(convert_int)(x + VECTOR(as_float)(sign | as_int(0x1.fffffep-2f)));
}
