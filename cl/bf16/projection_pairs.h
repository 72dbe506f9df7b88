/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of projection_cpu UNIT=pairs and projection_cpu_amx: as that of projection_cpu, with pairs of neighbours of the
 * depth (cpu/operands.h). The second value of the last pair of an odd depth is 0.
 *
 * Who includes this defines REGISTER_VECTORS, BLOCK_K and, without OPERAND_TILES, what
 * projection_cpu.cl says of strips. */
#ifndef CLATTN_PROJECTION_PAIRS_H
#define CLATTN_PROJECTION_PAIRS_H
#include "cpu/projection_blocks.h"

/* Elements k and k + 1 of the depth from p on; count of them exist. */
INLINE uint pair_at(const __global ushort *p, const long *depths, const int k, const int count)
{
    return (uint)p[depths[k]] | (k + 1 < count ? (uint)p[depths[k + 1]] << 16 : 0);
}

/* `count` of the depth of one vector of columns of w, at most left of them, into a panel. */
INLINE void pack_vector(const __global ushort *w, const long *columns, const int left,
                        const long *depths, const int count, lanes *panel)
{
    for (int k = 0; k < count;) {
        lanes x[SIMD_WIDTH];
        if (contiguous(UNIT_W_ROW, depths + k, 2 * SIMD_WIDTH, count - k)) {
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                x[c] = VECTOR(as_float)(UNALIGNED_PAIRS(w + columns[min(c, left - 1)] + depths[k]));
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                panel[(k / 2 + c) * REGISTER_VECTORS] = x[c];
            k += 2 * SIMD_WIDTH;
        } else {
            uint pairs[SIMD_WIDTH];
            for (int c = 0; c < SIMD_WIDTH; c++)
                pairs[c] = pair_at(w + columns[min(c, left - 1)], depths, k, count);
            panel[k / 2 * REGISTER_VECTORS] = VECTOR(as_float)(VECTOR(vload)(0, pairs));
            k += 2;
        }
    }
}

/* A block of w into panels. */
NOINLINE void pack_panels(const __global ushort *w, const long *columns, const int num_columns,
                          const long *depths, const int count, lanes *panels)
{
    int packed = 0; /* columns */

#if UNIT_W_COLUMN
    if (contiguous(true, columns, num_columns, num_columns)) {
        packed = num_columns / SIMD_WIDTH * SIMD_WIDTH;
        for (int k = 0; k < count; k += 2) { /* each row from one end to the other */
            const __global ushort *first = w + columns[0] + depths[k];
            const __global ushort *second = k + 1 < count ? w + columns[0] + depths[k + 1] : 0;
            for (int c = 0; c < packed; c += SIMD_WIDTH)
                panels[(c / PANEL * OPERANDS(BLOCK_K) + k / 2) * REGISTER_VECTORS +
                       c % PANEL / SIMD_WIDTH] =
                    VECTOR(as_float)(interleave(first + c, second ? second + c : 0));
        }
    }
#endif
    for (int c = packed; c < num_columns; c += SIMD_WIDTH) {
        lanes *panel =
            panels + c / PANEL * OPERANDS(BLOCK_K) * REGISTER_VECTORS + c % PANEL / SIMD_WIDTH;
        if (contiguous(UNIT_W_COLUMN, columns + c, SIMD_WIDTH, num_columns - c)) {
            for (int k = 0; k < count; k += 2)
                panel[k / 2 * REGISTER_VECTORS] = VECTOR(as_float)(
                    interleave(w + columns[c] + depths[k],
                               k + 1 < count ? w + columns[c] + depths[k + 1] : 0));
        } else {
            pack_vector(w, columns + c, num_columns - c, depths, count, panel);
        }
    }
}

/* `count` of the depth of one row of an x that is contiguous along it, in runs. */
INLINE void pack_row(const __global ushort *x, const long *depths, const int count, uint *to)
{
    int k = 0;

    if (contiguous(true, depths, count, count))
        for (; k + 2 * SIMD_WIDTH <= count; k += 2 * SIMD_WIDTH)
            VECTOR(vstore)(UNALIGNED_PAIRS(x + depths[0] + k), 0, to + k / 2);
    while (k < count) {
        if (contiguous(true, depths + k, 2 * SIMD_WIDTH, count - k)) {
            VECTOR(vstore)(UNALIGNED_PAIRS(x + depths[k]), 0, to + k / 2);
            k += 2 * SIMD_WIDTH;
        } else {
            to[k / 2] = pair_at(x, depths, k, count);
            k += 2;
        }
    }
}

#if !OPERAND_TILES && !IN_PLACE
/* Multiplies at most SLAB strips of x, num_rows rows. */
NOINLINE void pack_strips(const __global ushort *x, const long *rows, const int num_rows,
                          const long *depths, const int count, uint *strips)
{
#if UNIT_X_COLUMN
    for (int r = 0; r < num_rows; r++) {
        pack_row(x + rows[r], depths, count,
                 strips + r / REGISTER_ROWS * STRIP + r % REGISTER_ROWS * STRIP_ROW);
    }
#else
    const bool wide = REGISTER_ROWS <= SIMD_WIDTH && num_rows >= SIMD_WIDTH &&
                      contiguous(UNIT_X_ROW, rows, num_rows, num_rows);

    for (int k = 0; k < count; k += 2) {
        uint *to = strips + k / 2 * STRIP_DEPTH;
        uint read[SLAB * REGISTER_ROWS + SIMD_WIDTH];
        if (wide) {
            const __global ushort *first = x + rows[0] + depths[k];
            const __global ushort *second = k + 1 < count ? x + rows[0] + depths[k + 1] : 0;
            for (int r = 0; r < num_rows; r += SIMD_WIDTH) {
                const int at = min(r, num_rows - SIMD_WIDTH);
                VECTOR(vstore)(interleave(first + at, second ? second + at : 0), 0, read + at);
            }
        } else {
            for (int r = 0; r < num_rows; r++)
                read[r] = pair_at(x + rows[r], depths, k, count);
        }
        for (int r = 0; r < num_rows; r++)
            to[r / REGISTER_ROWS * STRIP + r % REGISTER_ROWS] = read[r];
    }
#endif
}
#endif

#endif
