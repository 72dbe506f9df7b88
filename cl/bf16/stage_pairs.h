/* Rows of keys as a in products of tiles (bf16/pair_tiles.h). Needs DIM_QK. */
#ifndef CLATTN_STAGE_PAIRS_H
#define CLATTN_STAGE_PAIRS_H
#include "cpu/operands.h"
#include "bf16/pair_tiles.h"

#define KEY_OPERANDS ROUNDED_TO_TILES(OPERANDS(DIM_QK)) /* from a staged key to the next */

/* The pairs of neighbours of a row of dim values, or of none if it is 0; zeros up to whole tiles. */
INLINE void stage_whole_pairs(uint *to, const __global ushort *row, const long step, const int dim)
{
    for (int d = row ? OPERANDS(dim) : 0; d < ROUNDED_TO_TILES(OPERANDS(dim)); d++)
        to[d] = 0;
    if (row)
        stage_pairs(to, row, step, dim);
}

#endif
