/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that units of projection_gpu have in common, for kernels and, with the names of families/names.h, for the host. */
#ifndef CLATTN_PROJECTION_GPU_SIZES_H
#define CLATTN_PROJECTION_GPU_SIZES_H
#include "families/f32_part_sizes.h"

/* Places in local memory: of the tile's rows of x and columns of w, of a stage's depths in x and w, twice, and of each
 * depth in its head. */
#define PLACES_BYTES ((BLOCK_M + BLOCK_N + 5 * BLOCK_K) * LONG_BYTES)

/* The sums of parts of the depth in the workspace, before what else it holds. */
#define SPLIT_SUM_BYTES(rows, columns)                                                             \
    (SPLIT_K > 1 ? ROUND_UP(SPLIT_K * (rows) * (columns)*FLOAT_BYTES, 16) : 0)

/* Elements of a line of parts of f32 (cl/mma/projection_parts.h), a row of x or a column of w. */
#define PART_DEPTH(depth) ROUND_UP(depth, 64)
/* Behind the parts of w: whether it has a flag. */
#define W_FLAG_BYTES 16
/* Rows of y that a group computes at a time where they are flagged. */
#define FLAGGED_ROWS 8

#endif
