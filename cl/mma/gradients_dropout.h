/* SPDX-License-Identifier: Apache-2.0 */
/* What dropout keeps of tiles of gradients: drawn for a stage, words or bytes in local memory, and read as bits
 * of a lane's pairs. */
#pragma once
#include "gpu/backward_tile.h"
#include "mma/gradients_pairs.h"
#include "mma/fragment_dropout.h"

/* What dropout keeps of the tiles in local memory, and of a lane's pairs, in the form that the instruction has:
 *
 *   DECLARE_TILE_KEPT()   `kept` of a kernel, null without dropout
 *   draw_kept_tile()   draws what is kept of stage `number`, a tile of owned keys if owns_keys
 *   find_kept()        what is kept of a lane's pairs of stage `number`
 *   bit_of_pair()      not 0 if dropout keeps the pair of sum x
 *   sum_of_bit()       the m-th sum in the order of bits in words, byte by byte: an instruction of NVIDIA's tests all
 *                      of a byte. The same streamed rows follow for the lane's other owned row */
#if HAS_COPIES
typedef __local uint4 *kept_tile;
struct kept_pairs {
    uint words[LANE_QUERIES];
};

#if HAS_DROPOUT
#define DECLARE_TILE_KEPT() __local uint4 kept[TILE_KEPT_BYTES / KEPT_ROW_BYTES]
#else
#define DECLARE_TILE_KEPT() const kept_tile kept = 0
#endif

/* The words of rows that are keys, whose columns are queries: a thread draws the columns of a lane for four
 * rows, which share a counter. */
INLINE void draw_kept_words_of_keys(const struct arguments *args, const uint bh, const long i0,
                                    const long j0, const int queries, const int keys,
                                    __local uint4 *kept)
{
    for (int t = FILL_THREAD; t < keys; t += FILL_THREADS) {
        const int c = t % 4;
        uint bits[4] = {0, 0, 0, 0};
#pragma unroll 1
        for (int first = 0; first < queries; first += 4 * DRAWN_AT_ONCE) {
            uint j4[DRAWN_AT_ONCE], i[DRAWN_AT_ONCE], drawn[DRAWN_AT_ONCE][4];
            UNROLL
            for (int n = 0; n < DRAWN_AT_ONCE; n++) {
                j4[n] = (uint)(j0 / 4 + t / 4);
                i[n] = (uint)(i0 + first + 2 * c + n);
            }
            draw_counters(args, bh, j4, i, drawn);
            UNROLL
            for (int r = 0; r < 4; r++) {
                uint here = 0;
                UNROLL
                for (int n = 0; n < DRAWN_AT_ONCE; n++)
                    here |= kept_at(args, drawn[n][r], n);
                bits[r] |= kept_shifted(here, first, queries);
            }
        }
        UNROLL
        for (int r = 0; r < 4; r++)
            ((__local uint *)(kept + t / 4 * 4 + r))[c] = bits[r];
    }
}

INLINE void draw_kept_tile(const bool owns_keys, const struct arguments *args, const struct tile t,
                           const kept_tile kept, const int number)
{
    const uint bh = dropout_head(args, t.b, t.h);

    if (HAS_DROPOUT && owns_keys)
        draw_kept_words_of_keys(args, bh, t.i0, t.j0, BLOCK_STREAMED, OWNED_KEYS,
                                kept + number * BLOCK_OWNED);
    else if (HAS_DROPOUT)
        draw_kept_words(args, bh, t.i0, t.j0, BLOCK_OWNED, BLOCK_STREAMED,
                        kept + number * BLOCK_OWNED);
}

INLINE struct kept_pairs find_kept(const kept_tile kept, const int number, const int first_row,
                                   const int lane)
{
    struct kept_pairs pairs;

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        pairs.words[n] = HAS_DROPOUT
                             ? ((const __local uint *)(kept + number * BLOCK_OWNED +
                                                       owned_row(n, first_row, lane)))[lane % 4]
                             : 0;
    return pairs;
}

/* The bit of sum x in the word of its owned row. */
INLINE uint pair_mask(const int x)
{
    const int column = streamed_step(x), n = column % 2 + column % 16 / 8 * 2;

    return 1u << (kept_bit(n) + STREAMED_SLABS - 1 - column / 16);
}

INLINE uint bit_of_pair(const bool owns_keys, const struct kept_pairs pairs, const int x,
                        const int first_row, const int lane)
{
    return HAS_DROPOUT ? pairs.words[sum_query(x % FRAGMENT_SUMS)] & pair_mask(x) : 1;
}

INLINE int sum_of_bit(const int m)
{
    const int slab = m % STREAMED_SLABS, row = m / STREAMED_SLABS % 2, n = m / STREAMED_SLABS / 2;

    return HAS_DROPOUT ? (2 * slab + n / 2) * FRAGMENT_SUMS + 2 * row + n % 2 : m;
}
#else
typedef __local uchar *kept_tile;
struct kept_pairs {
    const __local uchar *bits;
};

#define DECLARE_TILE_KEPT() DECLARE_KEPT(TILE_KEPT_BYTES)

INLINE void draw_kept_tile(const bool owns_keys, const struct arguments *args, const struct tile t,
                           const kept_tile kept, const int number)
{
    if (HAS_DROPOUT)
        draw_kept_pairs(args, dropout_head(args, t.b, t.h), t.i0, t.j0,
                        owns_keys ? BLOCK_STREAMED : BLOCK_OWNED,
                        owns_keys ? BLOCK_OWNED : BLOCK_STREAMED, kept);
}

INLINE struct kept_pairs find_kept(const kept_tile kept, const int number, const int first_row,
                                   const int lane)
{
    const struct kept_pairs pairs = {kept};

    return pairs;
}

INLINE uint bit_of_pair(const bool owns_keys, const struct kept_pairs pairs, const int x,
                        const int first_row, const int lane)
{
    const int own = owned_row(sum_query(x % FRAGMENT_SUMS), first_row, lane),
              other = streamed_row(x, lane);

    if (!HAS_DROPOUT)
        return 1;
    return is_kept(pairs.bits, owns_keys ? BLOCK_STREAMED : BLOCK_OWNED, owns_keys ? other : own,
                   owns_keys ? own : other);
}

INLINE int sum_of_bit(const int m)
{
    return m;
}
#endif
