/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of int8, by functions that cl/formats/blocks.h and cl/formats/make_blocks.h choose by the format: a code is a
 * signed byte as in q8_0, and there is no scale. */
#pragma once
#include "formats/q8_0.h"

static inline float int8_one(const uchar byte, const int shift, const uint fifth)
{
    return q8_0_one(byte, shift, fifth);
}

static inline float4 int8_four(const uchar4 bytes, const int shift, const uint fifth)
{
    return q8_0_four(bytes, shift, fifth);
}

static inline lanes int8_lanes(const __global uchar *codes, const int n, const uint fifth)
{
    return q8_0_lanes(codes, n, fifth);
}

/* ---- elements of matrix units: q8_0's ---------------------------------------------------------- */

static inline struct element_form int8_form(const bool f16)
{
    return q8_0_form(f16);
}

static inline uint int8_word(const bool f16, const uint word)
{
    return q8_0_word(f16, word);
}

static inline uint int8_spread(const bool f16, const uint word, const bool high, const uint fifth)
{
    return q8_0_spread(f16, word, high, fifth);
}

static inline uint2 int8_pair(const bool f16, const uint x, const uint less)
{
    return q8_0_pair(f16, x, less);
}

/* ---- making blocks --------------------------------------------------------------------------- */

static inline bool int8_of_peak(void)
{
    return false;
}

static inline float int8_scale(const float most)
{
    return 1.0f;
}

static inline float4 int8_scales(const float4 most)
{
    return 1.0f;
}

/* Rounds to nearest even: so does the addend, whose last byte is 0. A NaN becomes 0. */
static inline int int8_code(const float x)
{
    const float within = x > 127.0f ? 127.0f : x < -128.0f ? -128.0f : x;

    return x != x ? 0 : as_int(within + 0x1.8p23f) & 255;
}

static inline ints int8_codes(const lanes x)
{
    const lanes below = x > 127.0f ? (lanes)(127.0f) : x;
    const lanes within = below < -128.0f ? (lanes)(-128.0f) : below;

    return VECTOR(as_int)(x != x ? (lanes)(0.0f) : within + 0x1.8p23f);
}
