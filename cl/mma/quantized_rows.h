/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of elements from quantized keys and values: codes become elements of 16 bits, with a factor for each block of a
 * row (common/quantized.h). */
#pragma once
#include "common/key_rows.h"
#include "mma/fragment_tile.h"

#if K_CACHE || V_CACHE
static inline struct element_form element_form_of(const int format)
{
    CA_BLOCK_FORMATS(RETURN_OF, form(DTYPE == DTYPE_F16))
    return (struct element_form){0};
}

/* The power of two that elements of f16 take of a scale, at least `least`: large numbers have no room for more. */
static inline float power_of_scale(const int format, const float scale, const float least)
{
    return clamp(as_float(as_uint(scale) & 0x7f800000u), least,
                 layout_of(format).largest > 1024.0f ? 1.0f : 0x1p5f);
}

/* Decodes two codes, times a power of two, to elements without rounding. */
static inline uint exact_pair(const float x, const float y)
{
    if (DTYPE == DTYPE_F16)
        return pack_pair(x, y);
    return as_uint(x) >> 16 | (as_uint(y) & 0xffff0000u);
}

/* Decodes values d .. d + 3 of a block with this scale, d a multiple of 4, to elements. *factor is
 * the rest of the scale, 0 for an Inf or NaN if `finite`. */
INLINE ushort4 quantized_elements(const int cache, const float scale, const ushort2 words,
                                  const uint fifth, const int d, const bool finite, float *factor,
                                  int *nonfinite)
{
    const float4 numbers = numbers4_of_words(cache, words, fifth, d);
#if DTYPE == DTYPE_F16
    const float power = power_of_scale(cache, scale, element_form_of(cache).least_power);
    const float4 x = numbers * power;

    *factor = scale * as_float((254u << 23) - as_uint(power));
#else
    const float4 x = numbers;

    *factor = scale;
#endif
    if (finite && scale * 0.0f != 0.0f) {
        *factor = 0.0f;
        *nonfinite = 1;
    }
    const ushort4 elements = as_ushort4((uint2)(exact_pair(x.x, x.y), exact_pair(x.z, x.w)));
    /* without a scale, numbers may be infinite or NaN */
    return finite && layout_of(cache).scale < 0 ? finite_elements(elements, nonfinite) : elements;
}

/* Like fill_rows(), for a quantized matrix, which needs no step, width or alignment; fills
 * `factors` too. */
INLINE int fill_quantized_rows(const int cache, __local ushort *tile, const int stride,
                               const int tile_rows, const int columns, __local float *factors,
                               const __global uchar *matrix, const long row_step,
                               const __local long *places, const int rows, const int dim,
                               const bool finite, const struct row_scales of_rows)
{
    const int wide = ROW_PADDING, chunks = columns / wide, all = tile_rows * chunks;
    const int at_once = loads_at_once(all);
    int nonfinite = 0, first = get_local_id(0);

    INDEX_HERE(first);
    for (int t = first; t < all; t += at_once * THREADS) {
        float scales[LOADS_AT_ONCE];
        uint fifth[LOADS_AT_ONCE];
        ushort words[LOADS_AT_ONCE][ROW_PADDING / 2];
        UNROLL
        for (int n = 0; n < LOADS_AT_ONCE; n++) { /* values outside the tensor are ignored below */
            if (n >= at_once)
                continue;
            const int here = min(t + n * THREADS, all - 1), row = here / chunks;
            const int column = min(here % chunks * wide, dim - wide);
            const __global uchar *const block = format_block(
                cache, element_at(cache, DTYPE, matrix, row_place(places, row, rows, row_step)),
                column);
            const __global ushort *const from = words_at(cache, block, column);
            scales[n] = block_scale(cache, block) * scale_of_row(of_rows, min(row, rows - 1));
            fifth[n] = fifth_bits(cache, block);
            UNROLL
            for (int w = 0; w < wide / 2; w++)
                words[n][w] = from[w];
        }
        UNROLL
        for (int n = 0; n < LOADS_AT_ONCE; n++) {
            const int here = t + n * THREADS, row = here / chunks, column = here % chunks * wide;
            const bool inside = row < rows && column < dim;
            float factor = 0.0f;
            if (n >= at_once || here >= all)
                continue;
            UNROLL
            for (int w = 0; w < wide / 2; w += 2)
                *(__local ushort4 *)(tile + row * stride + column + 2 * w) =
                    inside ? quantized_elements(cache, scales[n],
                                                (ushort2)(words[n][w], words[n][w + 1]), fifth[n],
                                                column + 2 * w, finite, &factor, &nonfinite)
                           : (ushort4)0;
            if (column % BLOCK_VALUES == 0)
                factors[column / BLOCK_VALUES * tile_rows + row] = factor;
        }
    }
    return nonfinite;
}

#if PACKED_VALUES && V_CACHE
/* Like fill_packed(), for a quantized matrix; fills `factors` too. */
INLINE int fill_quantized_packed(const int cache, __local ushort *tile, const int tile_rows,
                                 const int dims, __local float *factors,
                                 const __global uchar *matrix, const long row_step,
                                 const __local long *places, const int rows, const int dim,
                                 const bool finite, const struct row_scales of_rows)
{
    int nonfinite = 0, first = get_local_id(0);

    INDEX_HERE(first);
    for (int t = first; t < tile_rows / 4 * (dims / 4); t += THREADS) {
        const struct packed_place to = packed_place_of(t, dims, 4);
        ushort4 x[4];
        UNROLL
        for (int n = 0; n < 4; n++) {
            const int key = packed_key(to, n);
            const __global uchar *const block = format_block(
                cache, element_at(cache, DTYPE, matrix, row_place(places, key, rows, row_step)),
                min(to.d, dim - 4));
            const __global ushort *const from = words_at(cache, block, to.d);
            const float scale =
                block_scale(cache, block) * scale_of_row(of_rows, min(key, rows - 1));
            const ushort2 words = (ushort2)(from[0], from[1]);
            float factor = 0.0f;
            x[n] = key < rows && to.d < dim
                       ? quantized_elements(cache, scale, words, fifth_bits(cache, block), to.d,
                                            finite, &factor, &nonfinite)
                       : (ushort4)0;
            if (to.d % BLOCK_VALUES == 0)
                factors[to.d / BLOCK_VALUES * tile_rows + key] = factor;
        }
        store_packed(tile, dims, to, 4, x);
    }
    return nonfinite;
}
#endif
#endif
