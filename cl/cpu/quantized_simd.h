/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of quantized keys and values as vectors, and staged as f32, on CPUs. common/quantized.h has single values and
 * groups of four. */
#pragma once
#include "common/quantized.h"
#include "cpu/simd_storage.h"

/* Products read keys and values in memory or from copies (STAGED). Copies are f32 (of f16, bf16 and
 * quantized tensors; with STAGE_KV of all), pairs with OPERAND_PAIRS, or keys of bytes with OPERAND_BYTES
 * (cpu/fused_operands.h, bf16/fused_operands.h). A kernel that defines STAGE_PAGES also gathers paged keys and values by
 * copies. */
#if K_DTYPE == DTYPE_F32 && V_DTYPE == DTYPE_F32 && !K_CACHE && !V_CACHE &&                        \
    !(PAGE_SIZE && defined(STAGE_PAGES)) && !STAGE_KV && !OPERAND_BYTES
#define STAGED 0
#else
#define STAGED 1
#endif

/* The numbers of values d .. d + SIMD_WIDTH - 1 of a row, for d a multiple of SIMD_WIDTH, divided by unit_of_lanes(). */
INLINE lanes quantized_lanes(const int cache, const __global uchar *row, const uint d)
{
    const __global uchar *block = row + d / BLOCK_VALUES * BLOCK_BYTES(cache);

    return numbers_of_vector(cache, block + codes_at(cache), (int)(d % BLOCK_VALUES),
                             fifth_bits(cache, block));
}

/* The vector of a row that is read as the n'th: those of the low and of the high halves of the same bytes follow each
 * other. */
INLINE int vector_in_order(const int cache, const int n)
{
    const int low = BLOCK_VALUES / 2 / SIMD_WIDTH, m = n & (2 * low - 1);

    return bits_of_codes(cache) == 4 ? (n & -2 * low) | m >> 1 | (m & 1) * low : n;
}

/* Applies a block's scale and offset, if its format has them, to the numbers of its codes. */
INLINE lanes scaled_lanes(const int cache, const lanes numbers, const float scale,
                          const float offset)
{
    if (layout_of(cache).offset)
        return FMA(numbers, (lanes)(scale), (lanes)(offset));
    return layout_of(cache).scale < 0 ? numbers : numbers * scale;
}

/* Values d .. d + SIMD_WIDTH - 1 of a row, for d a multiple of SIMD_WIDTH. */
INLINE lanes quantized_columns(const int cache, const __global uchar *row, const int d)
{
    const __global uchar *block = row + d / BLOCK_VALUES * BLOCK_BYTES(cache);

    return scaled_lanes(cache, quantized_lanes(cache, row, d) * unit_of_lanes(cache),
                        block_scale(cache, block), block_offset(cache, block));
}

/* Converts a row of quantized values to floats. With row_scaled (constant) all are multiplied by row_scale. */
INLINE void stage_quantized(const int cache, float *to, const __global uchar *row, const int dim,
                            const bool row_scaled, const float row_scale)
{
    for (int d = 0; d < dim; d += BLOCK_VALUES) {
        UNROLL
        for (int c = d; c < d + BLOCK_VALUES; c += SIMD_WIDTH) {
            const lanes x = quantized_columns(cache, row, c);
            VECTOR(vstore)(row_scaled ? x * row_scale : x, 0, to + c);
        }
    }
}

/* Loads a row of k or v as f32, with its scale. */
INLINE void stage_key(float *to, const __global k_storage *row, const long step, const float scale)
{
    if (K_CACHE)
        stage_quantized(K_CACHE, to, (const __global uchar *)row, DIM_QK, HAS_K_SCALES, scale);
    else
        stage_row(K_DTYPE, to, row, step, DIM_QK);
}

INLINE void stage_value(float *to, const __global v_storage *row, const long step,
                        const float scale)
{
    if (V_CACHE)
        stage_quantized(V_CACHE, to, (const __global uchar *)row, DIM_V, HAS_V_SCALES, scale);
    else
        stage_row(V_DTYPE, to, row, step, DIM_V);
}

/* Loads the scales of count rows, row_step bytes apart, of `blocks` (constant) blocks, or with another `place` (constant)
 * in blocks the offsets: the scale of block c of row n goes to c * room + n. room (constant) is a multiple of SIMD_WIDTH; the
 * last row is repeated. Single halves are slow to convert on CPUs, so vectors are converted; these are made
 * of words, since compilers assemble vectors of halves slowly. listed: null, or the address of each
 * row. */
INLINE void load_scales(const int cache, const int place, const __global uchar *rows,
                        const long row_step, const __global uchar *const *listed, const int count,
                        const int blocks, const int room, float *scales)
{
    for (int n0 = 0; n0 < count; n0 += SIMD_WIDTH) {
        const __global uchar *row[SIMD_WIDTH];
        UNROLL
        for (int n = 0; n < SIMD_WIDTH; n++)
            row[n] =
                listed ? listed[min(n0 + n, count - 1)] : rows + min(n0 + n, count - 1) * row_step;
        UNROLL
        for (int c = 0; c < blocks; c++) {
            ushorts halves; /* read as a vector: common/storage.h says why */
            ushort4 *fours = (ushort4 *)&halves;
            UNROLL
            for (int n = 0; n < SIMD_WIDTH; n++) {
                const ulong half_bits =
                    *(const __global ushort *)(row[n] + c * BLOCK_BYTES(cache) + place);
                fours[n / 4] =
                    as_ushort4((n % 4 ? as_ulong(fours[n / 4]) : 0) | half_bits << n % 4 * 16);
            }
            VECTOR(vstore)(VECTOR(vload_half)(0, (const half *)&halves), 0, scales + c * room + n0);
        }
    }
}

/* Loads the scales of rows, and after room * blocks floats their offsets, where the format has them. */
INLINE void load_factors(const int cache, const __global uchar *rows, const long row_step,
                         const __global uchar *const *listed, const int count, const int blocks,
                         const int room, float *factors)
{
    const struct block_layout layout = layout_of(cache);

    if (layout.scale >= 0)
        load_scales(cache, layout.scale, rows, row_step, listed, count, blocks, room, factors);
    if (layout.offset)
        load_scales(cache, layout.offset, rows, row_step, listed, count, blocks, room,
                    factors + room * blocks);
}
