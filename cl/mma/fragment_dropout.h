/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a tile that dropout keeps, one bit each in local memory: four neighbouring keys,
 * the first of them a multiple of 4, share a counter of random numbers, which one thread computes.
 *
 * Sizes      THREADS, the work-items of a group. */
#pragma once
#include "common/dropout.h"
#include "mma/fragment.h"

/* Counters that a thread draws together, since each product waits for that of the round before; 2 need fewer
 * registers. */
#ifndef DRAWN_AT_ONCE
#define DRAWN_AT_ONCE 4
#endif

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

/* The same in words for the lanes of NVIDIA's fragments: `kept` has four words for each row, one for each of
 * the lanes that share it. Of 16 successive columns a lane has 2 * c, + 1, + 8 and + 9. Shifted left by their
 * number (and more, if a tile has fewer than 128 columns), these are the highest bits of bytes 1, 3, 0 and 2. */
INLINE int kept_bit(const int n)
{
    return (n < 2 ? 8 : 0) + n % 2 * 16;
}

/* Draws the four words of each counter, of keys 4 * j4 .. and queries i. */
INLINE void draw_counters(const struct arguments *args, const uint bh, const uint j4[DRAWN_AT_ONCE],
                          const uint i[DRAWN_AT_ONCE], uint drawn[DRAWN_AT_ONCE][4])
{
    ulong seed = args->call->seed;
    if (DRAWN_AT_ONCE < 4)
        later_long(&seed); /* keys of rounds are not computed before a loop over tiles and kept */
#pragma unroll
    for (int x = 0; x < DRAWN_AT_ONCE; x++)
        philox_begin_row(j4[x] + (uint)args->call->dropout_j / 4,
                         i[x] + (uint)args->call->dropout_i, bh, (uint)args->call->stream, seed,
                         drawn[x]);
#pragma unroll
    for (int round = PHILOX_ROUNDS_OF_ROW; round < 10; round++)
#pragma unroll
        for (int x = 0; x < DRAWN_AT_ONCE; x++)
            philox_round(round, drawn[x], seed);
}

/* kept_at() returns bit n of a lane's word if dropout keeps the pair, else 0. kept_shifted() moves the bits of 8 or 16 columns,
 * of which the first is `first`, to their place in the word. */
INLINE uint kept_at(const struct arguments *args, const uint drawn, const int n)
{
    return drawn < args->shape->drop_below ? 0 : 1u << kept_bit(n);
}

INLINE uint kept_shifted(const uint bits, const int first, const int columns)
{
    return bits << (columns / 16 - 1 - first / 16) >> first % 16;
}

/* Rows are queries, columns keys. */
INLINE void draw_kept_words(const struct arguments *args, const uint bh, const long i0,
                            const long j0, const int queries, const int keys, __local uint4 *kept)
{
    for (int row = FILL_THREAD; row < queries; row += FILL_THREADS) {
        uint bits[4] = {0, 0, 0, 0};
#pragma unroll 1
        for (int first = 0; first < keys; first += 4 * DRAWN_AT_ONCE) {
            uint j4[DRAWN_AT_ONCE], i[DRAWN_AT_ONCE], drawn[DRAWN_AT_ONCE][4];
#pragma unroll
            for (int x = 0; x < DRAWN_AT_ONCE; x++) {
                j4[x] = (uint)(j0 / 4 + first / 4 + x);
                i[x] = (uint)(i0 + row);
            }
            draw_counters(args, bh, j4, i, drawn);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                uint here = 0;
#pragma unroll
                for (int n = 0; n < DRAWN_AT_ONCE; n++)
                    here |= kept_at(args, drawn[c / 2 + n / 2 * 2][c % 2 * 2 + n % 2], n);
                bits[c] |= kept_shifted(here, first, keys);
            }
        }
        kept[row] = (uint4)(bits[0], bits[1], bits[2], bits[3]);
    }
}

INLINE bool is_kept(const __local uchar *kept, const int queries, const int row, const int key)
{
    return kept[key / 4 * queries + row] >> key % 4 & 1;
}
