/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of q4_0, by functions that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is a
 * number from -8 to 7 with 8 added, the scale is the value of the largest magnitude divided by -8. */
#pragma once

static inline float q4_0_one(const uchar byte, const int shift, const uint fifth)
{
    return (float)((byte >> shift & 15) - 8);
}

static inline float4 q4_0_four(const uchar4 bytes, const int shift, const uint fifth)
{
    return convert_float4(bytes >> (uchar4)(shift) & (uchar4)(15)) - 8.0f;
}

static inline lanes q4_0_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    return four_bit_numbers(codes, n, 8.0f);
}

/* ---- elements of matrix units ---------------------------------------------------------------- */

/* Codes in high halves count 16 times as much, if a significand has room for that, as in f16. 8 is subtracted, and
 * what the significand is of: 1024, 64 for high halves, and 128 in bf16. */
static inline struct element_form q4_0_form(const bool f16)
{
    return f16 ? (struct element_form){0x64646464u, 0x3c003c00u, 0xe408e408u, 0x2c002c00u,
                                       0xd480d480u, 1.0f,        0x1p-24f}
               : (struct element_form){0x43434343u, 0x3f803f80u, 0xc308c308u, 0x3f803f80u,
                                       0xc308c308u, 1.0f,        0x1p-24f};
}

static inline uint q4_0_word(const bool f16, const uint word)
{
    return word;
}

static inline uint q4_0_spread(const bool f16, const uint word, const bool high, const uint fifth)
{
    if (!f16)
        return ((high ? word >> 4 : word) & 0x000f000fu) | 0x43004300u;
    return (word & (high ? 0x00f000f0u : 0x000f000fu)) | 0x64006400u;
}

static inline uint2 q4_0_pair(const bool f16, const uint x, const uint less)
{
    return (uint2)(x, less);
}

/* ---- making blocks --------------------------------------------------------------------------- */

static inline bool q4_0_of_peak(void)
{
    return true;
}

static inline float q4_0_scale(const float peak)
{
    return peak * -0.125f;
}

static inline float4 q4_0_scales(const float4 peaks)
{
    return peaks * -0.125f;
}

static inline int q4_0_code(const float x)
{
    return min((int)(x + 8.5f), 15);
}

/* min(vector, scalar) is wrong in Oclgrind 21.10. */
static inline ints q4_0_codes(const lanes x)
{
    return min(VECTOR(convert_int)(x + 8.5f), (ints)(15));
}
