/* SPDX-License-Identifier: Apache-2.0 */
/* The prefetch of fused_cpu: a few rows that are used soon are requested at each step between the
 * products. A core has some 16 requests for lines in flight; with more it stalls.
 *
 * Tunables   BLOCK_VECTORS, QK_KEYS, BLOCK_N, BLOCKS_PER_TILE. */
#pragma once
#include "common/common.h"
#include "cpu/prefetch.h"
#include "families/units.h"
#include "cpu/quantized_simd.h"

/* Describes rows of a tensor that are still to be prefetched. */
struct stream {
    const __global uchar *row;
    long step; /* bytes from one row to the next */
    int left;
    int share, lines; /* rows that a step prefetches, in cache lines of each row */
};

/* The streams to prefetch: the next tile's keys, values, biases and masks. Beside the last tile
 * they are q of the next chunk of blocks and o of this one. */
enum { STREAM_K, STREAM_V, STREAM_Q, STREAM_O, STREAM_BIAS, STREAM_MASK = STREAM_BIAS + HAS_BIAS };
#define NUM_STREAMS (STREAM_MASK + HAS_MASK)
struct prefetch_streams {
    struct stream stream[STREAM_MASK + 1];
};

/* Chooses how often a step prefetches: with every register tile of QK_KEYS keys, if a row of keys
 * and of values in each is enough, or products are of tiles. Otherwise it prefetches with every
 * PREFETCH_DEPTH columns of them, in each copy of the products. */
#define PREFETCH_OFTEN (!OPERAND_TILES && QK_KEYS > BLOCKS_PER_TILE)
#define PREFETCH_DEPTH (PREFETCH_OFTEN ? 32 : DIM_QK)
#define PREFETCH_STEPS (BLOCK_N / QK_KEYS * ((DIM_QK + PREFETCH_DEPTH - 1) / PREFETCH_DEPTH))
/* The number of rows of a tile that a block prefetches. Most rows of a sliding window are in L2
 * already, so only rows for the next chunk's last queries are prefetched. */
#define STREAM_ROWS                                                                                \
    (HAS_WINDOW_LEFT && HAS_WINDOW_RIGHT ? min(BLOCK_M, BLOCK_N / BLOCKS_PER_TILE)                 \
                                         : BLOCK_N / BLOCKS_PER_TILE)
#define ROW_BYTES(cache, type, dim)                                                                \
    ((cache) ? (dim) / BLOCK_VALUES * BLOCK_BYTES(cache) : (dim) * (int)sizeof(type))

/* Prefetches a share of each stream. It stands between the products, so its code is kept small:
 * most streams have nothing left most of the time. */
INLINE void prefetch_step(struct prefetch_streams *streams)
{
    NO_UNROLL
    for (int n = 0; n < NUM_STREAMS; n++) {
        struct stream *stream = streams->stream + n;
        NO_UNROLL
        for (int r = min(stream->share, stream->left); r > 0; r--) {
            NO_UNROLL
            for (int line = 0; line < stream->lines; line++)
                prefetch_l2(stream->row + 64 * line);
            stream->row += stream->step;
            stream->left--;
        }
    }
}

/* Sets a stream of `rows` rows from p on, or none if rows are not contiguous (unit is 0). A step
 * takes its share of `most` rows, of `bytes` bytes each (both constant). */
INLINE struct stream stream_of(const __global void *p, const long step, const int unit,
                               const long rows, const int most, const int bytes)
{
    struct stream stream = {(const __global uchar *)p, step, unit ? (int)max(rows, 0L) : 0,
                            (most + PREFETCH_STEPS - 1) / PREFETCH_STEPS, (bytes + 63) / 64};

    return stream;
}
