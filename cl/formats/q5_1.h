/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of q5_1, by functions that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is a
 * number from 0 to 31, the offset is the least value, and the scale is the largest less the least, divided by 31. */
#pragma once
#include "formats/q5_0.h"

static inline float q5_1_one(const uchar byte, const int shift, const uint fifth)
{
    return (float)((byte >> shift & 15) + 16 * (int)fifth);
}

static inline float4 q5_1_four(const uchar4 bytes, const int shift, const uint fifth)
{
    const int4 low = convert_int4(bytes >> (uchar4)(shift) & (uchar4)(15));
    const int4 bit = (int4)((int)fifth) >> (int4)(0, 1, 2, 3) & 1;

    return convert_float4(low + 16 * bit);
}

static inline lanes q5_1_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    return five_bit_numbers(codes, n, fifth, 0.0f);
}

/* ---- elements of matrix units: q5_0's, but nothing is subtracted from codes ------------------- */

static inline struct element_form q5_1_form(const bool f16)
{
    return f16 ? (struct element_form){0x64646464u, 0x3c003c00u, 0xe400e400u, 0x3c003c00u,
                                       0xe400e400u, 1.0f,        0x1p-24f}
               : (struct element_form){0x43434343u, 0x3f803f80u, 0xc300c300u, 0x3f803f80u,
                                       0xc300c300u, 1.0f,        0x1p-24f};
}

static inline uint q5_1_word(const bool f16, const uint word)
{
    return word;
}

static inline uint q5_1_spread(const bool f16, const uint word, const bool high, const uint fifth)
{
    return q5_0_spread(f16, word, high, fifth);
}

static inline uint2 q5_1_pair(const bool f16, const uint x, const uint less)
{
    return (uint2)(x, less);
}

/* ---- making blocks --------------------------------------------------------------------------- */

static inline bool q5_1_of_peak(void)
{
    return false;
}

static inline float q5_1_scale(const float range)
{
    return divide(range, 31.0f, 0x1.084210p-5f);
}

static inline float4 q5_1_scales(const float4 ranges)
{
    return divide_four(ranges, 31.0f, 0x1.084210p-5f);
}

static inline int q5_1_code(const float x)
{
    return min((int)(x + 0.5f), 31);
}

/* min(vector, scalar) is wrong in Oclgrind 21.10. */
static inline ints q5_1_codes(const lanes x)
{
    return min(VECTOR(convert_int)(x + 0.5f), (ints)(31));
}
