/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of iq4_nl, by functions that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is
 * the index of one of 16 numbers, which are close near 0 and far apart beyond. The scale is first the value of the
 * largest magnitude divided by -127, then fitted to the codes. */
#pragma once
#include "formats/q8_0.h"

__constant char iq4_nl_numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

static inline float iq4_nl_one(const uchar byte, const int shift, const uint fifth)
{
    return (float)iq4_nl_numbers[byte >> shift & 15];
}

static inline float4 iq4_nl_four(const uchar4 bytes, const int shift, const uint fifth)
{
    const uchar4 at = bytes >> (uchar4)(shift) & (uchar4)(15);

    return (float4)(iq4_nl_numbers[at.x], iq4_nl_numbers[at.y], iq4_nl_numbers[at.z],
                    iq4_nl_numbers[at.w]);
}

#if SIMD_WIDTH >= 8 && HAS_INTRINSIC(__builtin_ia32_pshufb128) && defined(__SSSE3__)
/* One instruction chooses 16 bytes of a table. */
static inline char16 iq4_nl_chosen(const uchar16 codes)
{
    const char16 numbers = {-127, -104, -83, -65, -49, -35, -22, -10,
                            1,    13,   25,  38,  53,  69,  89,  113};

    return __builtin_ia32_pshufb128(numbers, as_char16(codes));
}

static inline lanes iq4_nl_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    const VECTOR(uchar) both = VECTOR(vload)(0, codes + n % 16);
    const VECTOR(uchar) at = n < 16 ? both & (VECTOR(uchar))(15) : both >> (VECTOR(uchar))(4);

#if SIMD_WIDTH == 16
    return convert_float16(iq4_nl_chosen(at));
#else
    return convert_float8(iq4_nl_chosen((uchar16)(at, at)).lo);
#endif
}
#else
static inline lanes iq4_nl_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    enum { COUNT = sizeof(lanes) / sizeof(float) };
    float numbers[COUNT];

    for (int c = 0; c < COUNT; c++)
        numbers[c] = iq4_nl_one(codes[n % 16 + c], n < 16 ? 0 : 4, 0);
    return VECTOR(vload)(0, numbers);
}
#endif

/* ---- elements of matrix units: q8_0's, of the numbers as bytes --------------------------------- */

static inline struct element_form iq4_nl_form(const bool f16)
{
    return q8_0_form(f16);
}

static inline uint iq4_nl_word(const bool f16, const uint word)
{
    uint numbers = 0;

    for (int n = 0; n < 32; n += 8)
        numbers |= (uint)(uchar)iq4_nl_numbers[word >> n & 15] << n;
    return q8_0_word(f16, numbers);
}

static inline uint iq4_nl_spread(const bool f16, const uint word, const bool high, const uint fifth)
{
    const uint codes = high ? word >> 4 : word;
    const uint numbers = (uint)(uchar)iq4_nl_numbers[codes & 15] |
                         (uint)(uchar)iq4_nl_numbers[codes >> 16 & 15] << 16;

    return q8_0_spread(f16, numbers, false, 0);
}

static inline uint2 iq4_nl_pair(const bool f16, const uint x, const uint less)
{
    return q8_0_pair(f16, x, less);
}

/* ---- making blocks --------------------------------------------------------------------------- */

/* Where the nearest number changes: halfway between numbers n and n + 1, and there to the greater one. */
static inline float iq4_nl_bound(const int n)
{
    return 0.5f * (float)(iq4_nl_numbers[n] + iq4_nl_numbers[n + 1]);
}

static inline bool iq4_nl_of_peak(void)
{
    return true;
}

static inline float iq4_nl_scale(const float peak)
{
    return divide(peak, -127.0f, -0x1.020408p-7f);
}

static inline float4 iq4_nl_scales(const float4 peaks)
{
    return divide_four(peaks, -127.0f, -0x1.020408p-7f);
}

static inline int iq4_nl_code(const float x)
{
    int code = 0;

    for (int n = 0; n < 15; n++)
        code += x >= iq4_nl_bound(n);
    return code;
}

static inline ints iq4_nl_codes(const lanes x)
{
    ints code = 0;

    for (int n = 0; n < 15; n++)
        code -= x >= (lanes)(iq4_nl_bound(n)); /* a vector's truth is -1 */
    return code;
}
