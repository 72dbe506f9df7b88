/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of e4m3, by functions that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is a
 * float with a sign, four bits of exponent and three of significand, 127 and 255 are NaNs, and there is no scale. The
 * bits of a magnitude, 7 places to the left, are those of a binary16 that is 2^8 times as small. */
#pragma once

/* A NaN's bits are 1.875 as such a binary16, and all others are at most 1.75. */
static inline float4 e4m3_of_halves(const float4 x)
{
    return fabs(x) == 1.875f ? (float4)(NAN) : x * 256.0f;
}

static inline float e4m3_one(const uchar byte, const int shift, const uint fifth)
{
    const ushort bits = (ushort)((byte & 128) << 8 | (byte & 127) << 7);

    return e4m3_of_halves((float4)(vload_half(0, (const half *)&bits))).x;
}

static inline float4 e4m3_four(const uchar4 bytes, const int shift, const uint fifth)
{
    const int4 x = convert_int4(bytes);
    const ushort4 bits = convert_ushort4((x & 128) << 8 | (x & 127) << 7);

    return e4m3_of_halves(vload_half4(0, (const half *)&bits));
}

/* Signs are in the two highest bits of x. The lower of them becomes 1 if the sum carries into it, which happens where a
 * magnitude's bits are all 1: then all bits of the exponent are 1, as those of a NaN are. */
static inline lanes e4m3_lanes(const __global uchar *codes, const int n, const uint fifth)
{
#if HAS_WIDE_WORDS
    const int at = n % (2 * SIMD_WIDTH);
    const wide_ushorts x = wide_words(codes + n - at);
    const wide_ushorts y = wide_where(x, x + (wide_ushorts)(0x80), 0x4000);

    return lanes_of_halves(at ? y.hi : y.lo);
#else
    const ushorts x = VECTOR(convert_ushort)(VECTOR(as_char)(VECTOR(vload)(0, codes + n)))
                      << (ushorts)(7);

    return lanes_of_halves(x ^ ((x + (ushorts)(0x80)) & (ushorts)(0x4000)));
#endif
}

/* ---- elements of matrix units ---------------------------------------------------------------- */

/* The bits of an f16 that is 2^8 times as small, or of a bf16 that is 2^120 times as small. */
static inline struct element_form e4m3_form(const bool f16)
{
    return f16 ? (struct element_form){0, 0x5c005c00u, 0, 0x5c005c00u, 0, 256.0f, 0x1p-15f}
               : (struct element_form){0, 0x7b807b80u, 0, 0x7b807b80u, 0, 0x1p120f, 0x1p-15f};
}

static inline uint e4m3_word(const bool f16, const uint word)
{
    return word;
}

static inline uint e4m3_spread(const bool f16, const uint word, const bool high, const uint fifth)
{
    return word & 0x00ff00ffu;
}

/* The sign is added to itself once, or in bf16 15 times, so that it goes to the highest bit. Where a magnitude's bits are
 * all 1 the exponent's other bits become 1 as well, as those of a NaN are. */
static inline uint2 e4m3_pair(const bool f16, const uint x, const uint less)
{
    if (f16) {
        const uint y = (x << 7) + (x << 7 & 0x40004000u);
        return (uint2)(y | ((y + 0x00800080u) & 0x40004000u), 0);
    }
    const uint y = (x << 4) + (x << 4 & 0x08000800u) * 15;
    return (uint2)(y + ((y + 0x00100010u) & 0x08000800u) * 15, 0);
}

/* ---- making blocks --------------------------------------------------------------------------- */

static inline bool e4m3_of_peak(void)
{
    return false;
}

static inline float e4m3_scale(const float most)
{
    return 1.0f;
}

static inline float4 e4m3_scales(const float4 most)
{
    return 1.0f;
}

/* Rounds to nearest even. The smallest numbers have a spacing of 2^-9, as floats from 2^14 on have; of larger ones the
 * last 20 bits are rounded away, and the exponent's bias is 120 less. */
static inline int e4m3_code(const float x)
{
    const float most = fabs(x) > 448.0f ? 448.0f : fabs(x);
    const uint u = as_uint(most);
    const uint small = as_uint(most + 0x1p14f) & 255;
    const uint large = ((u + 0x7ffff + (u >> 20 & 1)) >> 20) - (120 << 3);

    return (int)((as_uint(x) >> 24 & 128) | (x != x ? 127 : most < 0x1p-6f ? small : large));
}

static inline ints e4m3_codes(const lanes x)
{
    const lanes most = fabs(x) > 448.0f ? (lanes)(448.0f) : fabs(x);
    const VECTOR(uint) u = VECTOR(as_uint)(most);
    const VECTOR(uint) small = VECTOR(as_uint)(most + 0x1p14f) & 255;
    const VECTOR(uint) large = ((u + 0x7ffff + (u >> 20 & 1)) >> 20) - (120 << 3);
    const VECTOR(uint) number = most < 0x1p-6f ? small : large;

    return VECTOR(as_int)((VECTOR(as_uint)(x) >> 24 & 128) |
                          (x != x ? (VECTOR(uint))(127) : number));
}
