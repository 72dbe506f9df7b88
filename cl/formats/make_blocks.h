/* SPDX-License-Identifier: Apache-2.0 */
/* Making blocks of quantized values (clattn/quantize.h says how) in the formats of src/problem/formats.def. The bits
 * are the same on every device: no product and sum are contracted, and the two quotients, which devices may round as
 * they like, are corrected to the nearest.
 *
 * The file of a format, cl/formats/NAME.h, has these macros, which begin with its ID:
 *   OF_PEAK           1: the scale is made of the value of the largest magnitude, the first if there are several; 0: of
 *                     the magnitude alone
 *   SCALE(x), SCALES(x)   the scale of that, one, or four of a float4
 *   CODE(x)           the code of a value divided by the scale, as an int from 0 to 255 or 15
 *   CODES(x)          of lanes as ints (cpu/simd.h); bits beyond a code's eight are ignored */
#pragma once
#include "formats/blocks.h"

#pragma OPENCL FP_CONTRACT OFF

/* with smaller scales, remainders are subnormal and may be flushed to zero */
#define LEAST_SCALE 0x1p-100f

/* 1 / x rounded to nearest, for a normal x with a normal reciprocal. The device's quotient may be
 * off by 2.5 units in the last place, and the first Newton step leaves at most one. The second step
 * then rounds correctly for all significands but the one of only ones: its reciprocal is one unit
 * above a power of two (Markstein, "Computation of elementary functions on the IBM RISC System/6000
 * processor", 1990). */
#define DEFINE_RECIPROCAL(name, type, as_type, as_ints)                                            \
    static inline type name(const type x)                                                          \
    {                                                                                              \
        const type y = 1.0f / x;                                                                   \
        const type once = fma(fma(-x, y, (type)(1.0f)), y, y);                                     \
        const type twice = fma(fma(-x, once, (type)(1.0f)), once, once);                           \
                                                                                                   \
        return as_type(as_ints(twice) | (((as_ints(x) & 0x7fffff) == 0x7fffff) & 1));              \
    }

DEFINE_RECIPROCAL(reciprocal, float, as_float, as_int)
DEFINE_RECIPROCAL(reciprocals, float4, as_float4, as_int4)

/* Returns x / by rounded to nearest, for a normal quotient; y is 1 / by rounded to nearest. */
#define DEFINE_DIVIDE(name, type)                                                                  \
    static inline type name(const type x, const float by, const type y)                            \
    {                                                                                              \
        const type z = x * y;                                                                      \
                                                                                                   \
        return fma(fma((type)(-by), z, x), y, z);                                                  \
    }

DEFINE_DIVIDE(divide, float)
DEFINE_DIVIDE(divide_four, float4)

/* 1 if several blocks of the format may be made at once, from largest magnitudes and whole
 * bytes. */
#define TRAIT_OF_PEAK(ID, number, name, bits, scale, codes, bytes, largest, error, format)         \
    (format) == number ? ID##_OF_PEAK:
#define OF_PEAK(format) (CA_BLOCK_FORMATS(TRAIT_OF_PEAK, format) 0)
#define MADE_TOGETHER(format) (BITS_OF_CODES(format) == 8 && !OF_PEAK(format))

static inline float scale_of_block(const int format, const float x)
{
    CA_BLOCK_FORMATS(RETURN_OF, SCALE(x))
    return 0.0f;
}

static inline float4 scales_of_blocks(const int format, const float4 x)
{
    CA_BLOCK_FORMATS(RETURN_OF, SCALES(x))
    return 0.0f;
}

static inline int code_of_value(const int format, const float x)
{
    CA_BLOCK_FORMATS(RETURN_OF, CODE(x))
    return 0;
}
