/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of a row, 32 columns in vectors, become blocks of quantized values (clattn/quantize.h). */
#pragma once
#include "cpu/simd_storage.h"
#include "families/append_tokens/append_tokens_sizes.h"
#include "formats/make_blocks.h"

#define VECTORS (CHUNK / SIMD_WIDTH) /* of a chunk */

/* Stores bytes at any alignment: PoCL's vstore() stores them one by one. */
struct __attribute__((packed)) unaligned_bytes {
    VECTOR(uchar) x;
};

INLINE void store_bytes(const ints x, __global uchar *p)
{
    ((__global struct unaligned_bytes *)p)->x = VECTOR(convert_uchar)(x & 255);
}

/* The scale of a block. PoCL rounds vectors by one instruction, but single values by a function
 * call. */
INLINE void store_scale(const bool finite, const float scale, __global ushort *to)
{
#if SIMD_WIDTH >= 8
    ushorts y;

    VECTOR_RTE(vstore_half)((lanes)(scale), 0, (half *)&y);
    *to = finite ? y.s0 : (ushort)0x7e00;
#else
    if (finite)
        vstore_half_rte(scale, 0, (__global half *)to);
    else
        *to = 0x7e00;
#endif
}

/* The largest value of a chunk; *finite: whether all its values are finite. */
INLINE float most_of_chunk(const lanes *x, bool *finite)
{
    lanes most = fabs(x[0]);
    ints odd = x[0] - x[0] != 0.0f;

    UNROLL
    for (int v = 1; v < VECTORS; v++) {
        const lanes y = fabs(x[v]);
        most = y > most ? y : most;
        odd |= x[v] - x[v] != 0.0f;
    }
    *finite = !any_lane(odd);
    return max_lanes(most, 0.0f);
}

INLINE struct range range_of_chunk(const lanes *x)
{
    lanes least = x[0], greatest = x[0];

    UNROLL
    for (int v = 1; v < VECTORS; v++) {
        least = x[v] < least ? x[v] : least;
        greatest = x[v] > greatest ? x[v] : greatest;
    }
    return range_of(-max_lanes(-least, -INFINITY), max_lanes(greatest, -INFINITY));
}

/* less_offset() of lanes. */
INLINE lanes lanes_less_offset(const struct block_layout layout, const lanes x,
                               const struct range range)
{
    const lanes above = x - range.least, most = (lanes)(FLT_MAX);

    if (!layout.offset)
        return x;
    return above < most ? above : most;
}

/* The first of the values with this magnitude; 0 if there is none. */
INLINE float peak_of_chunk(const lanes *x, const float *values, const float most)
{
    lanes first = (lanes)(-CHUNK);

    UNROLL
    for (int v = VECTORS - 1; v >= 0; v--)
        first = fabs(x[v]) == most ? -(COUNT_UP + (float)(v * SIMD_WIDTH)) : first;
    const int n = -(int)max_lanes(first, -CHUNK);
    return n < CHUNK ? values[n] : 0.0f;
}

/* The fifth bits of the lanes' codes, that of lane n in bit n. */
#if SIMD_WIDTH == 16 && HAS_INTRINSIC(__builtin_ia32_cmpd512_mask) && defined(__AVX512F__)
INLINE uint fifth_of_lanes(const ints codes)
{
    enum { NOT_EQUAL = 4, ALL = 0xffff }; /* immediates of the instruction */

    return (ushort)__builtin_ia32_cmpd512_mask(codes & 16, (ints)(0), NOT_EQUAL, ALL);
}
#elif HAS_AVX2_LANES
INLINE uint fifth_of_lanes(const ints codes)
{
    return (uint)__builtin_ia32_movmskps256(as_float8(codes << 27));
}
#else
INLINE uint fifth_of_lanes(const ints codes)
{
    int bits[SIMD_WIDTH];
    int all = 0;

    VECTOR(vstore)((codes >> 4 & 1) << VECTOR(convert_int)(COUNT_UP), 0, bits);
    UNROLL
    for (int n = 0; n < SIMD_WIDTH; n++)
        all |= bits[n];
    return (uint)all;
}
#endif

/* The scale that is fitted to values and to the codes that are stored, which have no fifth bits. */
INLINE float scale_of_codes(const int format, const float *values, const __global uchar *codes,
                            const float most)
{
    struct fit fit = begin_fit(most);
    float numbers[CHUNK];

    UNROLL
    for (int v = 0; v < VECTORS; v++) {
        const lanes number =
            numbers_of_vector(format, codes, v * SIMD_WIDTH, 0) * unit_of_lanes(format);
        VECTOR(vstore)(number, v, numbers);
    }
    UNROLL
    for (int n = 0; n < CHUNK; n++)
        add_to_fit(&fit, values[n] * fit.down, numbers[n]);
    return fitted_scale(fit);
}

/* Stores the codes of values that are divided by the scale. */
INLINE void store_codes(const int format, const lanes *x, __global uchar *block)
{
    __global uchar *const codes = block + codes_at(format);
    uint fifth = 0;

    UNROLL
    for (int v = 0; v < (bits_of_codes(format) == 8 ? VECTORS : 0); v++)
        store_bytes(codes_of_values(format, x[v]), codes + v * SIMD_WIDTH);
    UNROLL
    for (int v = 0; v < (bits_of_codes(format) == 8 ? 0 : VECTORS / 2); v++) {
        const ints low = codes_of_values(format, x[v]);
        const ints high = codes_of_values(format, x[v + VECTORS / 2]);
        store_bytes((low & 15) | high << 4, codes + v * SIMD_WIDTH);
        if (layout_of(format).fifth)
            fifth |= fifth_of_lanes(low) << v * SIMD_WIDTH | fifth_of_lanes(high)
                                                                 << (CHUNK / 2 + v * SIMD_WIDTH);
    }
    store_fifth_bits(format, fifth, block);
}

/* Makes a format block of a chunk (clattn/quantize.h). */
INLINE void store_block(const int format, lanes *x, __global uchar *block)
{
    const struct block_layout layout = layout_of(format);
    if (layout.scale < 0) {
        store_codes(format, x, block);
        return;
    }
    bool finite;
    const float most = most_of_chunk(x, &finite);
    const struct range range = layout.offset ? range_of_chunk(x) : (struct range){0.0f, 0.0f};
    float peak = 0.0f, all[CHUNK];
    if (made_of_peak(format)) {
        UNROLL
        for (int v = 0; v < VECTORS; v++)
            VECTOR(vstore)(x[v], v, all);
        peak = peak_of_chunk(x, all, most);
    }
    float scale = scale_of_block(format, layout.offset          ? range.above
                                         : made_of_peak(format) ? peak
                                                                : most);
    const bool zeros = !finite || fabs(scale) < LEAST_SCALE;
    const float factor = zeros ? 0.0f : reciprocal(scale);
    UNROLL
    for (int v = 0; v < VECTORS; v++)
        x[v] = zeros ? (lanes)(0.0f) : lanes_less_offset(layout, x[v], range) * factor;
    store_codes(format, x, block);
    if (layout.fits && !zeros) /* made of the peak: `all` holds the values */
        scale = scale_of_codes(format, all, block + codes_at(format), most);
    store_scale(finite, scale, (__global ushort *)(block + layout.scale));
    if (layout.offset)
        store_scale(true, finite ? range.least : 0.0f, (__global ushort *)(block + layout.offset));
}

/* Blocks are made together (MADE_TOGETHER) so that their maxima and reciprocals form one vector;
 * one after the other, each would wait for a division. */
#define TOGETHER 4

/* Makes TOGETHER blocks of as many chunks. */
INLINE void store_blocks_together(const int format, const lanes *x, __global uchar *const *blocks)
{
    bool finite[TOGETHER];
    float most[TOGETHER], scale[TOGETHER], factor[TOGETHER];

    UNROLL
    for (int n = 0; n < TOGETHER; n++)
        most[n] = most_of_chunk(x + n * VECTORS, &finite[n]);
    const float4 scales = scales_of_blocks(format, (float4)(most[0], most[1], most[2], most[3]));
    const float4 factors = scales < LEAST_SCALE ? (float4)(0.0f) : reciprocals(scales);
    vstore4(scales, 0, scale);
    vstore4(factors, 0, factor);
    UNROLL
    for (int n = 0; n < TOGETHER; n++) {
        store_scale(finite[n], scale[n], (__global ushort *)(blocks[n] + layout_of(format).scale));
        UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const lanes y = finite[n] ? x[n * VECTORS + v] * factor[n] : (lanes)(0.0f);
            store_bytes(codes_of_values(format, y), blocks[n] + codes_at(format) + v * SIMD_WIDTH);
        }
    }
}
