/* SPDX-License-Identifier: Apache-2.0 */
/* Filling tiles of local memory from keys and values, quantized or not. */
#pragma once
#include "gpu/tile_load.h"
#include "common/key_rows.h"
#include "common/quantized.h"

/* load_tile() for any storage, given by cache and dtype (constants); quantized rows need no step,
 * width or alignment, and have scales from the first row on. */
__attribute__((always_inline)) static inline int
load_cache_tile(const int cache, __local float4 *tile, const int stride, const int tile_rows,
                const int columns, const int dtype, const __global void *matrix,
                const long row_step, const __local long *places, const long step, const int rows,
                const int first, const int dim, const int width, const bool aligned,
                const bool finite, const struct row_scales scales)
{
    int nonfinite = 0;

    if (!cache)
        return load_tile(tile, stride, tile_rows, columns, dtype, matrix, row_step, places, step,
                         rows, first, dim, width, aligned, finite);
    for (int t = get_local_id(0); t < tile_rows * (columns / 4); t += THREADS) {
        const int row = t / (columns / 4), column = t % (columns / 4) * 4;
        const bool inside = row < rows && first + column < dim;
        const __global uchar *p =
            element_at(cache, dtype, matrix, row_place(places, row, rows, row_step));
        const float4 x =
            inside ? quantized4(cache, p, min(first + column, dim - 4)) * scale_of_row(scales, row)
                   : 0.0f;
        tile[row * stride + column / 4] = finite ? finite_or_0(x, &nonfinite) : x;
    }
    return nonfinite;
}
