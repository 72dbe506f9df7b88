/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout in tiles of queries, ROW(r) of a thread, and keys, thread_n + THREADS_N * c: neighbouring
 * threads have neighbouring keys. Four threads share a counter of random numbers. Each of them
 * computes those of one row in four, and they exchange a bit for each weight through local memory.
 * The first key of a tile is a multiple of 4. */
#pragma once
#include "gpu/local_barrier.h"
#include "common/dropout.h"
#include "gpu/thread_tile.h"

#if HAS_DROPOUT

enum { TILE_ROWS = THREADS_M * THREAD_M };

/* Bit n of kept[four * TILE_ROWS + row] tells whether the row's weight for key 4 * four + n of the
 * tile stays. Here one of four threads has each row; queries and keys from i0 and j0 on. */
__attribute__((always_inline)) static inline void draw_kept(const struct arguments *args,
                                                            const uint bh, const long i0,
                                                            const long j0, __local uchar *kept)
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;

    for (int c = 0; c < THREAD_N; c++)
        for (int g = 0; g < QUADS; g++) {
            const int row = ROW(4 * g) + thread_n % 4, four = c * (THREADS_N / 4) + thread_n / 4;
            float x[4];

            dropout_factors(args, bh, (uint)(i0 + row), (uint)(j0 / 4 + four), x);
            kept[four * TILE_ROWS + row] =
                (x[0] > 0.0f) | (x[1] > 0.0f) << 1 | (x[2] > 0.0f) << 2 | (x[3] > 0.0f) << 3;
        }
}

/* The dropout factor of the weight of a row and of the thread's key c. */
static inline float kept_factor(const struct arguments *args, const int row, const int c,
                                __local uchar *kept)
{
    const int thread_n = THIS_THREAD % THREADS_N;
    const uchar bits = kept[(c * (THREADS_N / 4) + thread_n / 4) * TILE_ROWS + row];

    return bits >> thread_n % 4 & 1 ? args->shape->keep : 0.0f;
}
#endif
