/* The first stage of families that look into the bits of block lists (score/blocks.h).
 *
 * Before including this: BLOCK_BITS_BEGIN(a), where the bits begin in the workspace, in floats. */
#ifndef CLATTN_MARK_BLOCKS_H
#define CLATTN_MARK_BLOCKS_H
#include "score/blocks.h"
#if HAS_BLOCKS

/* Global (rows of blocks, lists). */
__kernel void mark_blocks(PARAMETERS_mark_blocks)
{
    const long row = get_global_id(0), list = get_global_id(1), words = block_words(a);
    const struct block_range range = listed_in_row(a, at, list, row, block_offsets);
    const __global int *entries = block_entries + at.block_entries + list * a.max_blocks;
    __global uint *bits = (__global uint *)(workspace + at.workspace + BLOCK_BITS_BEGIN(a)) +
                          (list * block_rows(a) + row) * BLOCK_PLANES * words;

    for (long n = 0; n < BLOCK_PLANES * words; n++)
        bits[n] = 0;
    for (long n = range.begin; n < range.end; n++) {
        const long column = listed_column(a, entries[n]);
        if (column < 0)
            continue;
        bits[column / 32] |= 1u << column % 32;
#if HAS_MASK
        if (entries[n] & BLOCK_FULL_BIT)
            bits[words + column / 32] |= 1u << column % 32;
#endif
    }
}

#endif
#endif
