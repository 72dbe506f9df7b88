/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of q8_0, by functions that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is a
 * signed byte, the scale is the largest magnitude divided by 127. */
#pragma once

static inline float q8_0_one(const uchar byte, const int shift, const uint fifth)
{
    return (float)as_char(byte);
}

static inline float4 q8_0_four(const uchar4 bytes, const int shift, const uint fifth)
{
    return convert_float4(as_char4(bytes));
}

static inline lanes q8_0_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    return VECTOR(convert_float)(VECTOR(as_char)(VECTOR(vload)(0, codes + n)));
}

/* ---- elements of matrix units ---------------------------------------------------------------- */

/* In the significand of 2^10 (f16) a byte has 128 added. That of 2^7 (bf16) has room for seven
 * bits; the eighth, the sign, decides whether 128 or 256 is subtracted. */
static inline struct element_form q8_0_form(const bool f16)
{
    const uint one = f16 ? 0x3c003c00u : 0x3f803f80u, less = 0xe480e480u; /* -1152 in f16 */

    return (struct element_form){
        f16 ? 0x64646464u : 0x43434343u, one, less, one, less, 1.0f, 0x1p-24f};
}

static inline uint q8_0_word(const bool f16, const uint word)
{
    return f16 ? word ^ 0x80808080u : word;
}

static inline uint q8_0_spread(const bool f16, const uint word, const bool high, const uint fifth)
{
    return f16 ? (word & 0x00ff00ffu) ^ 0x64806480u : (word & 0x00ff00ffu) | 0x43004300u;
}

static inline uint2 q8_0_pair(const bool f16, const uint x, const uint less)
{
    return f16 ? (uint2)(x, less) : (uint2)(x & 0xff7fff7fu, (x & 0xff80ff80u) ^ 0x80008000u);
}

/* ---- making blocks --------------------------------------------------------------------------- */

static inline bool q8_0_of_peak(void)
{
    return false;
}

static inline float q8_0_scale(const float most)
{
    return fabs(divide(most, 127.0f, 0x1.020408p-7f));
}

static inline float4 q8_0_scales(const float4 most)
{
    return fabs(divide_four(most, 127.0f, 0x1.020408p-7f));
}

static inline int q8_0_code(const float x)
{
    return (int)round(x) & 255;
}

static inline ints q8_0_codes(const lanes x)
{
    return round_away(x);
}
