/* SPDX-License-Identifier: Apache-2.0 */
/* The first stage of families that look into the bits of block lists (score/blocks.h).
 *
 * Kernels say marks_begin(args), where the bits begin in the workspace, in floats. */
#pragma once
#include "score/blocks.h"
#if HAS_BLOCKS

/* Adds bits to word `place` of a row; those of columns in their order are stored once a word. */
INLINE void add_block_bits(__global uint *bits, const long words, const long place,
                           const uint listed, const uint full)
{
    if (listed)
        bits[place] |= listed;
    if (full)
        bits[(BLOCK_PLANES - 1) * words + place] |= full;
}

/* The global range is (rows of blocks, lists). */
__kernel void mark_blocks(PARAMETERS_mark_blocks)
{
    const struct arguments arguments = ARGUMENTS_mark_blocks, *const args = &arguments;
    const long row = get_global_id(0), list = get_global_id(1), words = block_words(args);
    const struct block_range range = listed_in_row(args, list, row);
    const __global int *entries = args->block_entries + list * args->shape->max_blocks;
    __global uint *bits = (__global uint *)(args->workspace + marks_begin(args)) +
                          (list * block_rows(args) + row) * BLOCK_PLANES * words;
    long place = 0;
    uint listed = 0, full = 0; /* the bits of word `place` that are not stored yet */

    for (long n = 0; n < BLOCK_PLANES * words; n++)
        bits[n] = 0;
    for (long n = range.begin; n < range.end; n++) {
        const long column = listed_column(args, entries[n]);
        if (column < 0)
            continue;
        if (column / 32 != place) {
            add_block_bits(bits, words, place, listed, full);
            listed = full = 0;
            place = column / 32;
        }
        listed |= 1u << column % 32;
        if (HAS_MASKS && entries[n] & BLOCK_FULL_BIT)
            full |= 1u << column % 32;
    }
    add_block_bits(bits, words, place, listed, full);
}

#endif
