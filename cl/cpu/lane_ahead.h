/* Memory that is used soon, asked for between the products, a few rows at each turn: a core waits
 * for some 16 lines at a time, and while it asks for more than that it gets nothing else done.
 *
 * Before including this: common.cl, BLOCK_VECTORS, QK_KEYS, BLOCK_N and BLOCKS_PER_TILE. */
#ifndef CLATTN_LANE_AHEAD_H
#define CLATTN_LANE_AHEAD_H
#include "score/lane_scores.h"
#include "cpu/prefetch.h"
#include "cpu/quantized_lanes.h"

#define BLOCK_M (SIMD_WIDTH * BLOCK_VECTORS)

/* Rows of a tensor from which nothing has been asked for. */
struct stream {
    const __global uchar *row;
    long step;        /* from row to row, in bytes */
    int left;
    int share, lines; /* rows in a turn, lines of each */
};

/* The next tile's keys and values, biases and masks, or, beside the last tile, q of the next chunk
 * of blocks and o of this one. */
enum { AHEAD_K, AHEAD_V, AHEAD_Q, AHEAD_O, AHEAD_BIAS, AHEAD_MASK = AHEAD_BIAS + HAS_BIAS };
#define STREAMS (AHEAD_MASK + HAS_MASK)
struct ahead {
    struct stream streams[STREAMS];
};

/* There is a turn with every QK_KEYS keys, if a row of keys and of values in each is enough; else
 * one with every AHEAD_COLUMNS columns of them, in each copy of the products. */
#define ASKS_OFTEN (QK_KEYS > BLOCKS_PER_TILE)
#define AHEAD_COLUMNS (ASKS_OFTEN ? 32 : DIM_QK)
#define AHEAD_TURNS (BLOCK_N / QK_KEYS * ((DIM_QK + AHEAD_COLUMNS - 1) / AHEAD_COLUMNS))
/* A band's rows are in the cache already, but those of the next chunk's last queries. */
#define AHEAD_ROWS                                                                                 \
    (HAS_WINDOW_LEFT && HAS_WINDOW_RIGHT ? min(BLOCK_M, BLOCK_N / BLOCKS_PER_TILE)                 \
                                         : BLOCK_N / BLOCKS_PER_TILE)
#define ROW_BYTES(cache, dim)                                                                      \
    ((cache) ? (dim) / BLOCK_VALUES * BLOCK_BYTES(cache) : (dim) * (int)sizeof(storage))

/* A turn. It stands between the products, so that its code is kept small: most streams have nothing
 * left most of the time. */
INLINE void ask_ahead(struct ahead *ahead)
{
    ROLLED
    for (int n = 0; n < STREAMS; n++) {
        struct stream *stream = ahead->streams + n;
        ROLLED
        for (int r = min(stream->share, stream->left); r > 0; r--) {
            ROLLED
            for (int line = 0; line < stream->lines; line++)
                PREFETCH_LINE(stream->row + 64 * line);
            stream->row += stream->step;
            stream->left--;
        }
    }
}

/* `rows` rows from p on, or none if they are not whole in memory. A turn takes its share of `most`
 * rows, of so many bytes each (both constant). */
INLINE struct stream stream_of(const __global void *p, const long step, const int unit,
                               const long rows, const int most, const int bytes)
{
    struct stream stream = {(const __global uchar *)p, step, unit ? (int)max(rows, 0L) : 0,
                            (most + AHEAD_TURNS - 1) / AHEAD_TURNS, (bytes + 63) / 64};

    return stream;
}

#endif
