/* SPDX-License-Identifier: Apache-2.0 */
/* The common sizes of forward kernels with work-groups that own a block of queries of a (batch,
 * head). */
#ifndef CA_BLOCK_SIZES_H
#define CA_BLOCK_SIZES_H

#include "base/sizes.h"
#include "families/family.h"

/* Returns whether such kernels keep more values for each row of an item than scores and sums:
 * addresses in a mask or a bias, or dropout's bits. */
static inline int ca_keeps_more(const struct ca_problem *p)
{
    return p->normal.mask || p->normal.bias || p->normal.dropout > 0.0f;
}

/* Returns whether half of a tile's queries or keys would hold a block of the lists. All of a tile is computed
 * where one of its blocks is listed, so such a tile computes much that no query sees. Tiles of 64 stay: their
 * loads and softmax take as long as what smaller ones would spare. */
static inline int ca_spans_blocks(size_t tile, size_t block)
{
    return block && tile / 2 >= ca_larger(block, 64);
}

/* Returns whether a kernel looks pairs up in the lists: TILES_IN_BLOCKS() of cl/score/blocks.h is false. */
static inline int ca_looks_up_blocks(const struct ca_problem *p, size_t queries, size_t keys)
{
    return p->normal.block_q && (p->normal.mask || p->normal.mask_function ||
                                 p->normal.window_left != CLATTN_UNLIMITED || p->normal.page_size ||
                                 p->normal.block_q % queries || p->normal.block_kv % keys);
}

#endif
