/* SPDX-License-Identifier: Apache-2.0 */
/* Making blocks of quantized values (clattn/quantize.h says how) in the formats of src/problem/formats.def.
 *
 * The file of a format, cl/formats/NAME.h, has these functions, which begin with its name:
 *   of_peak()         true: the scale is made of the value of the largest magnitude, the first if there are several;
 *                     false: of the magnitude alone or, in a format with an offset, of the largest value less the
 *                     least, which is the offset (struct range)
 *   scale(x), scales(x)   the scale of that, one, or four of a float4
 *   code(x)           the code of a value, less the offset, divided by the scale, as an int from 0 to 255, 31 or 15
 *   codes(x)          of lanes as ints (cpu/lanes.h); bits beyond a code's eight are ignored */
#pragma once

/* The bits are the same on every device: no product and sum are contracted. */
#pragma OPENCL FP_CONTRACT OFF

#include "formats/blocks.h"

/* with smaller scales, remainders are subnormal and may be flushed to zero */
#define LEAST_SCALE 0x1p-100f

static inline bool made_of_peak(const int format)
{
    CA_BLOCK_FORMATS(RETURN_OF, of_peak())
    return false;
}

/* Whether several blocks of the format may be made at once, from largest magnitudes and whole bytes. */
static inline bool made_together(const int format)
{
    return bits_of_codes(format) == 8 && !made_of_peak(format) && layout_of(format).scale >= 0;
}

static inline float scale_of_block(const int format, const float x)
{
    CA_BLOCK_FORMATS(RETURN_OF, scale(x))
    return 0.0f;
}

static inline float4 scales_of_blocks(const int format, const float4 x)
{
    CA_BLOCK_FORMATS(RETURN_OF, scales(x))
    return 0.0f;
}

static inline int code_of_value(const int format, const float x)
{
    CA_BLOCK_FORMATS(RETURN_OF, code(x))
    return 0;
}

/* The least value of a block, and how far the largest lies above it. A zero has no sign, and an overflow counts as the
 * largest float. */
struct range {
    float least, above;
};

static inline struct range range_of(const float least, const float greatest)
{
    return (struct range){least == 0.0f ? 0.0f : least, fmin(greatest - least, FLT_MAX)};
}

/* A value without the offset of its block, if the format has one. */
static inline float less_offset(const struct block_layout layout, const float x,
                                const struct range range)
{
    return layout.offset ? fmin(x - range.least, FLT_MAX) : x;
}

/* The scale with the least sum of squared errors, each times the squared value, for given values and codes. Values are scaled
 * by a power of two, `down`, so that no sum is too large or small. The sums begin with the first value, as ggml's do. */
struct fit {
    float down, up, products, squares;
};

/* most: the largest magnitude. */
static inline struct fit begin_fit(const float most)
{
    const int exponent = min(as_int(most) >> 23, 253);

    return (struct fit){as_float((254 - exponent) << 23), as_float(exponent << 23), 0.0f, 0.0f};
}

/* Adds a value times `down` and the number of its code. */
static inline void add_to_fit(struct fit *fit, const float x, const float number)
{
    const float weighted = x * x * number;

    fit->products += weighted * x;
    fit->squares += weighted * number;
}

static inline float fitted_scale(const struct fit fit)
{
    return divide(fit.products, fit.squares, reciprocal(fit.squares)) * fit.up;
}

/* Stores the fifth bits of a block's codes where its format has them. */
static inline void store_fifth_bits(const int format, const uint fifth, __global uchar *block)
{
    const int at = layout_of(format).fifth;
    __global ushort *const words = (__global ushort *)(block + at);

    if (at) {
        words[0] = (ushort)fifth;
        words[1] = (ushort)(fifth >> 16);
    }
}

static inline ints codes_of_values(const int format, const lanes x)
{
    CA_BLOCK_FORMATS(RETURN_OF, codes(x))
    return 0;
}
