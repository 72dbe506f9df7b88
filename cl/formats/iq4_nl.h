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

#if HAS_AVX2_LANES
/* One instruction chooses bytes of a table in each 128 bits. Looked up are the two upper bytes of a number as a float. The
 * eight codes' low halves and their high ones are in all 128 bits, so that another instruction places a vector's bytes. */
static inline lanes iq4_nl_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    const ulong4 both = as_ulong(vload8(0, codes + (n & 15)));
    const char32 at =
        __builtin_astype(both >> (ulong4)(0, 4, 0, 4) & (ulong4)(0x0f0f0f0f0f0f0f0f), char32);
    const ulong4 upper = {0xc1c1c2c2c2c2c2c2, 0x424242424241413f, 0xc1c1c2c2c2c2c2c2,
                          0x424242424241413f};
    const ulong4 lower = {0x20b00c4482a6d0fe, 0xe2b28a5418c85080, 0x20b00c4482a6d0fe,
                          0xe2b28a5418c85080};
    const ulong4 place = {0x0302808001008080, 0x0706808005048080, 0x0b0a808009088080,
                          0x0f0e80800d0c8080};
    const char32 x = __builtin_ia32_pshufb256(__builtin_astype(lower, char32), at);
    const char32 y = __builtin_ia32_pshufb256(__builtin_astype(upper, char32), at);
    /* those of the low halves or of the high ones, the lower byte of each first */
    const char32 words = n < 16
                             ? __builtin_shufflevector(x, y, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5,
                                                       37, 6, 38, 7, 39, 16, 48, 17, 49, 18, 50, 19,
                                                       51, 20, 52, 21, 53, 22, 54, 23, 55)
                             : __builtin_shufflevector(x, y, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44,
                                                       13, 45, 14, 46, 15, 47, 24, 56, 25, 57, 26,
                                                       58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);

    return as_float8(
        __builtin_astype(__builtin_ia32_pshufb256(words, __builtin_astype(place, char32)), int8));
}
#else
static inline lanes iq4_nl_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    const float16 numbers = {-127, -104, -83, -65, -49, -35, -22, -10,
                             1,    13,   25,  38,  53,  69,  89,  113};

    return look_up_half_bytes(numbers, codes, n);
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

#pragma unroll
    for (int n = 0; n < 15; n++)
        code -= x >= (lanes)(iq4_nl_bound(n)); /* a vector's truth is -1 */
    return code;
}
