/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of keys and values as pairs, from bf16 or from a cache of bytes. The numbers of these formats are exact in bf16, and a
 * row's scale is applied to what they are multiplied with. */
#pragma once
#include "cpu/operands.h"
#include "cpu/quantized_simd.h"
#include "bf16/pair_tiles.h"

/* Numbers d .. d + SIMD_WIDTH - 1 of a row in a format of bytes, without the row's scale. */
INLINE lanes numbers_of_bytes(const int cache, const __global void *row, const int d)
{
    return quantized_lanes(cache, (const __global uchar *)row, d) * unit_of_lanes(cache);
}

/* Packs a row of dim values, in the format `cache` (constant), as pairs of neighbours. */
INLINE void stage_row_pairs(uint *to, const int cache, const __global void *row, const long step,
                            const int dim)
{
    if (!cache)
        stage_pairs(to, (const __global ushort *)row, step, dim);
    for (int d = 0; cache && d < dim; d += 2 * SIMD_WIDTH)
        store_exact(numbers_of_bytes(cache, row, d), numbers_of_bytes(cache, row, d + SIMD_WIDTH),
                    to + d / 2);
}

/* The same with zeros up to whole tiles, as operand a in products of tiles. A null row is all zeros. */
INLINE void stage_whole_pairs(uint *to, const int cache, const __global void *row, const long step,
                              const int dim)
{
    for (int d = row ? OPERANDS(dim) : 0; d < ROUNDED_TO_TILES(OPERANDS(dim)); d++)
        to[d] = 0;
    if (row)
        stage_row_pairs(to, cache, row, step, dim);
}

/* Packs pairs of at most SIMD_WIDTH values of two rows, from value d on; `second` may be 0. Zeros follow value dim - 1. */
INLINE lanes pairs_of_rows(const int cache, const __global void *first, const __global void *second,
                           const long step, const int d, const int dim)
{
    const __global ushort *x = (const __global ushort *)first, *y = (const __global ushort *)second;

    if (cache)
        return pack_exact_pairs(numbers_of_bytes(cache, first, d),
                                second ? numbers_of_bytes(cache, second, d) : (lanes)(0.0f));
    return load_pairs_of_rows(x + d * step, y ? y + d * step : 0, step, dim - d);
}
