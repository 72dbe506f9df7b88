/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of e5m2, by functions that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is the
 * upper byte of a binary16, and there is no scale. */
#pragma once

static inline float e5m2_one(const uchar byte, const int shift, const uint fifth)
{
    const ushort bits = (ushort)(byte << 8);

    return vload_half(0, (const half *)&bits);
}

static inline float4 e5m2_four(const uchar4 bytes, const int shift, const uint fifth)
{
    const ushort4 bits = convert_ushort4(convert_int4(bytes) << 8);

    return vload_half4(0, (const half *)&bits);
}

static inline lanes e5m2_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    return lanes_of_halves(VECTOR(convert_ushort)(VECTOR(vload)(0, codes + n)) << (ushorts)(8));
}

/* ---- elements of matrix units ---------------------------------------------------------------- */

/* An f16, or the bits of a bf16 that is 2^112 times as small. */
static inline struct element_form e5m2_form(const bool f16)
{
    return f16 ? (struct element_form){0, 0x3c003c00u, 0, 0x3c003c00u, 0, 1.0f, 0x1p-8f}
               : (struct element_form){0, 0x77807780u, 0, 0x77807780u, 0, 0x1p112f, 0x1p-8f};
}

static inline uint e5m2_word(const bool f16, const uint word)
{
    return word;
}

static inline uint e5m2_spread(const bool f16, const uint word, const bool high, const uint fifth)
{
    return word & 0x00ff00ffu;
}

/* In bf16 an infinity is added to an infinity, and a NaN to a NaN. */
static inline uint2 e5m2_pair(const bool f16, const uint x, const uint less)
{
    const uint magnitude = x & 0x007f007fu, sign = (x & 0x00800080u) << 8;
    const uint odd = (magnitude + 0x00040004u) & 0x00800080u, ones = (odd << 8) - (odd >> 7);
    const uint bits = 0x7f807f80u | (magnitude & 0x00030003u) << 5;

    return f16 ? (uint2)((x & 0x00ff00ffu) << 8, 0)
               : (uint2)(sign | magnitude << 5, (sign & odd << 8) | (bits & ones));
}

/* ---- making blocks --------------------------------------------------------------------------- */

static inline bool e5m2_of_peak(void)
{
    return false;
}

static inline float e5m2_scale(const float most)
{
    return 1.0f;
}

static inline float4 e5m2_scales(const float4 most)
{
    return 1.0f;
}

/* Rounds to nearest even, and what lies beyond 57344 to an infinity, which is where 2^16 would be. The smallest numbers have a
 * spacing of 2^-16, as floats from 2^7 on have. Of larger ones the last 21 bits are rounded away, and the exponent's bias is
 * 112 less. */
static inline int e5m2_code(const float x)
{
    const float most = fabs(x) > 65536.0f ? 65536.0f : fabs(x);
    const uint u = as_uint(most);
    const uint small = as_uint(most + 0x1p7f) & 255;
    const uint large = ((u + 0xfffff + (u >> 21 & 1)) >> 21) - (112 << 2);

    return (int)((as_uint(x) >> 24 & 128) | (x != x ? 127 : most < 0x1p-14f ? small : large));
}

static inline ints e5m2_codes(const lanes x)
{
    const lanes most = fabs(x) > 65536.0f ? (lanes)(65536.0f) : fabs(x);
    const VECTOR(uint) u = VECTOR(as_uint)(most);
    const VECTOR(uint) small = VECTOR(as_uint)(most + 0x1p7f) & 255;
    const VECTOR(uint) large = ((u + 0xfffff + (u >> 21 & 1)) >> 21) - (112 << 2);
    const VECTOR(uint) number = most < 0x1p-14f ? small : large;

    return VECTOR(as_int)((VECTOR(as_uint)(x) >> 24 & 128) |
                          (x != x ? (VECTOR(uint))(127) : number));
}
