/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of projections on CPUs: x and w as operands (cpu/operands.h), which are floats or pairs of neighbours of the
 * depth. The second value of the last pair of an odd depth is 0.
 *
 * REGISTER_VECTORS and BLOCK_K are tunables; for strips of x in private memory the kernel has sizes of its own. */
#pragma once
#include "cpu/projection_blocks.h"

#define OPERAND_RUN (VALUES_IN_OPERAND * SIMD_WIDTH) /* values of the depth in one vector */

#if OPERAND_PAIRS
/* Returns the operand at depth k; `count` values of the depth exist from p on. */
INLINE operand operand_at(const __global storage *p, const long *depths, const int k,
                          const int count)
{
    return (uint)p[depths[k]] | (k + 1 < count ? (uint)p[depths[k + 1]] << 16 : 0);
}

/* operands_along() loads a vector of operands along a contiguous depth. operands_across() loads one
 * of neighbours across the depth, at depth k. */
INLINE lanes operands_along(const __global storage *p)
{
    return VECTOR(as_float)(UNALIGNED_PAIRS(p));
}

INLINE lanes operands_across(const __global storage *p, const long *depths, const int k,
                             const int count)
{
    return VECTOR(as_float)(interleave(p + depths[k], k + 1 < count ? p + depths[k + 1] : 0));
}
#else
INLINE operand operand_at(const __global storage *p, const long *depths, const int k,
                          const int count)
{
    return load1_of(DTYPE, p, depths[k]);
}

INLINE lanes operands_along(const __global storage *p)
{
    return load_lanes(DTYPE, p);
}

INLINE lanes operands_across(const __global storage *p, const long *depths, const int k,
                             const int count)
{
    return load_lanes(DTYPE, p + depths[k]);
}
#endif

/* Packs `count` values along the depth of one vector of columns of w, of which at most `left`
 * exist, into a panel. */
INLINE void pack_vector(const __global storage *w, const long *columns, const int left,
                        const long *depths, const int count, lanes *panel)
{
    for (int k = 0; k < count;) {
        lanes *const to = panel + k / VALUES_IN_OPERAND * REGISTER_VECTORS;
        if (contiguous(UNIT_W_ROW, depths + k, OPERAND_RUN, count - k)) {
            lanes x[SIMD_WIDTH];
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                x[c] = operands_along(w + columns[min(c, left - 1)] + depths[k]);
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                to[c * REGISTER_VECTORS] = x[c];
            k += OPERAND_RUN;
        } else {
            operand each[SIMD_WIDTH];
            for (int c = 0; c < SIMD_WIDTH; c++)
                each[c] = operand_at(w + columns[min(c, left - 1)], depths, k, count);
            *to = VECTOR(as_float)(VECTOR(vload)(0, each));
            k += VALUES_IN_OPERAND;
        }
    }
}

/* Packs a block of w into panels. */
NOINLINE void pack_panels(const __global storage *w, const long *columns, const int num_columns,
                          const long *depths, const int count, lanes *panels)
{
    int packed = 0; /* the number of packed columns */

#if UNIT_W_COLUMN
    if (contiguous(true, columns, num_columns, num_columns)) {
        packed = num_columns / SIMD_WIDTH * SIMD_WIDTH;
        for (int k = 0; k < count; k += VALUES_IN_OPERAND) /* reads each row of w as a whole */
            for (int c = 0; c < packed; c += SIMD_WIDTH)
                panels[(c / PANEL * OPERANDS(BLOCK_K) + k / VALUES_IN_OPERAND) * REGISTER_VECTORS +
                       c % PANEL / SIMD_WIDTH] =
                    operands_across(w + columns[0] + c, depths, k, count);
    }
#endif
    for (int c = packed; c < num_columns; c += SIMD_WIDTH) {
        lanes *panel =
            panels + c / PANEL * OPERANDS(BLOCK_K) * REGISTER_VECTORS + c % PANEL / SIMD_WIDTH;
        if (contiguous(UNIT_W_COLUMN, columns + c, SIMD_WIDTH, num_columns - c)) {
            for (int k = 0; k < count; k += VALUES_IN_OPERAND)
                panel[k / VALUES_IN_OPERAND * REGISTER_VECTORS] =
                    operands_across(w + columns[c], depths, k, count);
        } else {
            pack_vector(w, columns + c, num_columns - c, depths, count, panel);
        }
    }
}

/* Packs `count` values of one row of an x that is contiguous along the depth, in runs. */
INLINE void pack_row(const __global storage *x, const long *depths, const int count, operand *to)
{
    int k = 0;

    if (contiguous(true, depths, count, count))
        for (; k + OPERAND_RUN <= count; k += OPERAND_RUN)
            store_operands(operands_along(x + depths[0] + k), to + k / VALUES_IN_OPERAND);
    while (k < count) {
        if (contiguous(true, depths + k, OPERAND_RUN, count - k)) {
            store_operands(operands_along(x + depths[k]), to + k / VALUES_IN_OPERAND);
            k += OPERAND_RUN;
        } else {
            to[k / VALUES_IN_OPERAND] = operand_at(x, depths, k, count);
            k += VALUES_IN_OPERAND;
        }
    }
}
