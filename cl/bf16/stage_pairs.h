/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of keys as operand a in products of tiles (bf16/pair_tiles.h). */
#pragma once
#include "cpu/operands.h"
#include "bf16/pair_tiles.h"

/* Packs a row of dim values as pairs of neighbours, with zeros up to whole tiles. A null row is all
 * zeros. */
INLINE void stage_whole_pairs(uint *to, const __global ushort *row, const long step, const int dim)
{
    for (int d = row ? OPERANDS(dim) : 0; d < ROUNDED_TO_TILES(OPERANDS(dim)); d++)
        to[d] = 0;
    if (row)
        stage_pairs(to, row, step, dim);
}
