/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of 16-bit elements in tiles of local memory. Plain C: tests/offline/bank_conflicts.c
 * uses it to count bank conflicts.
 *
 * Rows are ROW_PADDING elements longer than needed, which spreads columns over the banks, and are
 * aligned to a lane's load. Packed values are stored in pieces of PACKED_RUN terms, one load each:
 * a piece for each of `dims` dims, then those of the next terms; element (key, dim) is at
 * packed_at().
 *
 * Rows without padding, which the tensor cores read themselves, are SWIZZLED: blocks of 64 columns
 * of all rows follow each other, and the row's number permutes the eight pieces of a row. */
#pragma once
#include "mma/instruction.h"

enum {
    ROW_PADDING = OTHER_WORDS == 2 && PACKED_VALUES ? 4 : 8, /* 4 if lanes read 8 bytes */
    PACKED_RUN = OTHER_WORDS == 2 ? 4 : 8,
    PACKED_LINE = 64 / PACKED_RUN /* dims in 128 bytes, the width of all banks */
};

static inline bool is_swizzled(const int stride)
{
    return HAS_TILE_PRODUCTS && stride % 64 == 0;
}

/* Tiles that the tensor cores read begin where the swizzle does, which goes by addresses. */
#define TILES_ATTRIBUTE __attribute__((aligned(HAS_TILE_PRODUCTS ? SWIZZLE_BYTES : 16)))

/* Dims are permuted within four, or else in each 128 bytes: lanes read neighbouring dims and
 * threads fill every fourth, both without bank conflicts. */
static inline int packed_at(const int dims, const int slab, const int dim, const int depth)
{
    const int place = dim ^ (dim / PACKED_LINE & 3);

    return ((slab * (FRAGMENT_DEPTH / PACKED_RUN) + depth / PACKED_RUN) * dims + place) *
               PACKED_RUN +
           depth % PACKED_RUN;
}

/* The index of element (row, column) in a tile of `rows` rows. */
static inline int row_at(const int stride, const int rows, const int row, const int column)
{
    if (!is_swizzled(stride))
        return row * stride + column;
    return (column / 64 * rows + row) * 64 + ((column / 8 ^ row) % 8) * 8 + column % 8;
}
