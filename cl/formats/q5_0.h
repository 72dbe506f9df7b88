/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of q5_0, by functions that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is a
 * number from -16 to 15 with 16 added, the scale is the value of the largest magnitude divided by -16. */
#pragma once

static inline float q5_0_one(const uchar byte, const int shift, const uint fifth)
{
    return (float)((byte >> shift & 15) + 16 * (int)fifth - 16);
}

static inline float4 q5_0_four(const uchar4 bytes, const int shift, const uint fifth)
{
    const int4 low = convert_int4(bytes >> (uchar4)(shift) & (uchar4)(15));
    const int4 bit = (int4)((int)fifth) >> (int4)(0, 1, 2, 3) & 1;

    return convert_float4(low + 16 * bit) - 16.0f;
}

static inline lanes q5_0_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    return five_bit_numbers(codes, n, fifth, 16.0f);
}

/* ---- elements of matrix units ---------------------------------------------------------------- */

/* Codes of 5 bits in the significands of 1024 and of 128. 16 is subtracted, and what the significand is of. */
static inline struct element_form q5_0_form(const bool f16)
{
    return f16 ? (struct element_form){0x64646464u, 0x3c003c00u, 0xe410e410u, 0x3c003c00u,
                                       0xe410e410u, 1.0f,        0x1p-24f}
               : (struct element_form){0x43434343u, 0x3f803f80u, 0xc310c310u, 0x3f803f80u,
                                       0xc310c310u, 1.0f,        0x1p-24f};
}

static inline uint q5_0_word(const bool f16, const uint word)
{
    return word;
}

static inline uint q5_0_spread(const bool f16, const uint word, const bool high, const uint fifth)
{
    return ((high ? word >> 4 : word) & 0x000f000fu) | fifth << 4 |
           (f16 ? 0x64006400u : 0x43004300u);
}

static inline uint2 q5_0_pair(const bool f16, const uint x, const uint less)
{
    return (uint2)(x, less);
}

/* ---- making blocks --------------------------------------------------------------------------- */

static inline bool q5_0_of_peak(void)
{
    return true;
}

static inline float q5_0_scale(const float peak)
{
    return peak * -0.0625f;
}

static inline float4 q5_0_scales(const float4 peaks)
{
    return peaks * -0.0625f;
}

static inline int q5_0_code(const float x)
{
    return min((int)(x + 16.5f), 31);
}

/* min(vector, scalar) is wrong in Oclgrind 21.10. */
static inline ints q5_0_codes(const lanes x)
{
    return min(VECTOR(convert_int)(x + 16.5f), (ints)(31));
}
