/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of keys as a in products of tiles (bf16/pair_tiles.h). */
#pragma once
#include "cpu/operands.h"
#include "bf16/pair_tiles.h"

/* The pairs of neighbours of a row of dim values, or of none if it is 0; zeros up to whole tiles. */
INLINE void stage_whole_pairs(uint *to, const __global ushort *row, const long step, const int dim)
{
    for (int d = row ? OPERANDS(dim) : 0; d < ROUNDED_TO_TILES(OPERANDS(dim)); d++)
        to[d] = 0;
    if (row)
        stage_pairs(to, row, step, dim);
}
