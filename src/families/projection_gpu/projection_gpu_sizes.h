/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that units of projection_gpu have in common, for kernels and, with the names of families/names.h, for the host. */
#ifndef CLATTN_PROJECTION_GPU_SIZES_H
#define CLATTN_PROJECTION_GPU_SIZES_H
#include "families/sizes.h"

/* Places in local memory: of the tile's rows of x and columns of w, of a stage's depths in x and w, twice, and of each
 * depth in its head. */
#define PLACES_BYTES ((BLOCK_M + BLOCK_N + 5 * BLOCK_K) * LONG_BYTES)

#endif
