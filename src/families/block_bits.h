/* SPDX-License-Identifier: Apache-2.0 */
/* The bits that a family's first stage makes of the block lists (cl/score/blocks.h). */
#ifndef CA_BLOCK_BITS_H
#define CA_BLOCK_BITS_H

#include "families/family.h"

/* The bytes of these bits in the workspace; 0 without block lists. */
size_t ca_block_bits_bytes(const struct ca_problem *p);

/* The launch has one work-item for each row of blocks of each list; none without block lists. */
struct ca_ndrange ca_block_bits_ndrange(const struct ca_problem *p, const size_t *values);

/* The stage that makes the bits, for a family's list of stages, and the arguments of later
 * stages that read them. */
#define CA_MARK_BLOCKS                                                                             \
    {                                                                                              \
        "mark_blocks",                                                                             \
            CA_BIT(CA_BLOCK_OFFSETS) | CA_BIT(CA_BLOCK_ENTRIES) | CA_BIT(CA_WORKSPACE) |           \
                CA_OF_BLOCKS,                                                                      \
            ca_block_bits_ndrange                                                                  \
    }
#define CA_BLOCK_BITS (CA_BIT(CA_WORKSPACE) | CA_READ_ONLY | CA_OF_BLOCKS)

/* The number of a head's chunks of queries on CPUs. If a row of blocks has a whole chunk, its
 * chunks begin with the row. */
size_t ca_query_chunks(const struct ca_problem *p, size_t chunk);

#endif
