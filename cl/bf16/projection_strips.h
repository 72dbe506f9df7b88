/* SPDX-License-Identifier: Apache-2.0 */
/* Strips of x for tiles (bf16/tiles.h): REGISTER_ROWS rows of STRIP_ROW words, pairs of neighbours
 * of the depth. A tile contains 0 beyond the last row or the depth.
 *
 * Tunables   REGISTER_ROWS. A strip has STRIP_ROW words between rows. */
#pragma once
#include "cpu/projection_pack.h"

/* Packs `count` values of one row along the depth. */
INLINE void pack_strip_row(const __global ushort *x, const long *depths, const int count, uint *row)
{
#if UNIT_X_COLUMN
    pack_row(x, depths, count, row);
#else
    for (int k = 0; k < count; k += 2)
        row[k / 2] = operand_at(x, depths, k, count);
#endif
}

/* Packs rows that are neighbours in memory, as a transposed tile of TILE rows and TILE pairs. */
INLINE void pack_strip_tile(const __global ushort *x, const long *depths, const int count,
                            uint *rows)
{
    lanes t[TILE];

    for (int k = 0; k < TILE; k++) {
        const int left = count - 2 * k;
        t[k] = left <= 0 ? (lanes)(0.0f)
                         : VECTOR(as_float)(
                               interleave(x + depths[2 * k], left > 1 ? x + depths[2 * k + 1] : 0));
    }
    transpose(t);
    UNROLL
    for (int r = 0; r < TILE; r++)
        VECTOR(vstore)(VECTOR(as_uint)(t[r]), 0, rows + r * STRIP_ROW);
}

/* Packs a strip of at most REGISTER_ROWS rows. */
NOINLINE void pack_strip(const __global ushort *x, const long *rows, const int num_rows,
                         const long *depths, const int count, uint *strip)
{
    const int words = ROUNDED_TO_TILES(PAIRS_OF(count));
    int r = 0;

    for (; contiguous(!UNIT_X_COLUMN && UNIT_X_ROW, rows + r, TILE, num_rows - r); r += TILE)
        for (int k = 0; k < words; k += TILE)
            pack_strip_tile(x + rows[r], depths + 2 * k, count - 2 * k, strip + r * STRIP_ROW + k);
    for (; r < ROUNDED_TO_TILES(num_rows); r++) {
        uint *row = strip + r * STRIP_ROW;
        int k = 0;
        if (r < num_rows) {
            pack_strip_row(x + rows[r], depths, count, row);
            k = PAIRS_OF(count);
        }
        for (; k < words; k++)
            row[k] = 0;
    }
}

/* Prefetches part n of `parts` equal parts of a strip that is packed later. */
INLINE void prefetch_strip(const __global ushort *x, const long *rows, const int num_rows,
                           const long *depths, const int count, const int n, const int parts)
{
#if UNIT_X_COLUMN
    for (int r = part(num_rows, n, parts); r < part(num_rows, n + 1, parts); r++)
        for (int k = 0; k < count; k += 2 * SIMD_WIDTH)
            prefetch_l2(x + rows[r] + depths[k]);
#elif UNIT_X_ROW
    for (int k = part(count, n, parts); k < part(count, n + 1, parts); k++)
        prefetch_l2(x + rows[0] + depths[k]);
#endif
}
