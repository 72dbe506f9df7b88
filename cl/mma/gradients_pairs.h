/* SPDX-License-Identifier: Apache-2.0 */
/* The pairs of owned and streamed rows whose products a lane has. */
#pragma once
#include "mma/fragment.h"

enum {
    STREAMED_TILES = BLOCK_STREAMED / FRAGMENT_OTHERS,
    STREAMED_SLABS = BLOCK_STREAMED / FRAGMENT_DEPTH,
    STREAMED_SUMS = STREAMED_TILES * FRAGMENT_SUMS
};
/* The n-th owned row of a lane, in the block, of a sub-group that has them from first_row on; the streamed
 * row of sum x, in the tile, by a constant step from the lane's first. */
INLINE int owned_row(const int n, const int first_row, const int lane)
{
    return first_row + lane_query(lane, n);
}

INLINE int streamed_step(const int x)
{
    return x / FRAGMENT_SUMS * FRAGMENT_OTHERS + sum_other(0, x % FRAGMENT_SUMS);
}

INLINE int streamed_row(const int x, const int lane)
{
    return streamed_step(x) + sum_other(lane, 0);
}
