/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a tile that dropout keeps, one bit each in local memory: four neighbouring keys,
 * the first of them a multiple of 4, share a counter of random numbers, which one thread computes.
 *
 * Who includes this defines THREADS. */
#pragma once
#include "common/common.h"

#if HAS_DROPOUT
#define RANDOM_LANES 1
#include "common/dropout.h"

/* Bit n of kept[four * queries + row] tells whether the row's weight for key 4 * four + n stays. */
static inline void draw_kept_pairs(const struct arguments *args, const uint bh, const long i0,
                                   const long j0, const int queries, const int keys,
                                   __local uchar *kept)
{
    for (int t = get_local_id(0); t < queries * (keys / 4); t += THREADS) {
        float x[4];
        dropout_factors(args, bh, (uint)(i0 + t % queries), (uint)(j0 / 4 + t / queries), x);
        kept[t] = (x[0] > 0.0f) | (x[1] > 0.0f) << 1 | (x[2] > 0.0f) << 2 | (x[3] > 0.0f) << 3;
    }
}

INLINE bool is_kept(const __local uchar *kept, const int queries, const int row, const int key)
{
    return kept[key / 4 * queries + row] >> key % 4 & 1;
}
#endif
