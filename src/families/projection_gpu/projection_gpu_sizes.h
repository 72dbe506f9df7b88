/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that units of projection_gpu have in common, for kernels and, with the names of families/names.h, for the host. */
#ifndef CLATTN_PROJECTION_GPU_SIZES_H
#define CLATTN_PROJECTION_GPU_SIZES_H
#include "families/f32_part_sizes.h"

/* The offsets in local memory: of the tile's rows of x and columns of w, and of two stages' depths
 * in x, in w and in their heads. */
#define PLACES_BYTES ((BLOCK_M + BLOCK_N + 5 * BLOCK_K) * LONG_BYTES)

/* The sums of parts of the depth come first in the workspace. */
#define SPLIT_SUM_BYTES(rows, columns)                                                             \
    (SPLIT_K > 1 ? ROUND_UP(SPLIT_K * (rows) * (columns)*FLOAT_BYTES, 16) : 0)

/* The elements of a line of f32 parts (cl/mma/projection_parts.h): a row of x or a column of w. */
#define PART_DEPTH(depth) ROUND_UP(depth, 64)
/* A word behind the parts of w tells whether w is flagged. */
#define W_FLAG_BYTES 16
/* The number of flagged rows of y that a group computes at a time. */
#define FLAGGED_ROWS 8

#endif
