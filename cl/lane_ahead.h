/* Memory that is used soon, asked for between the products, a few rows at each turn: a core waits
 * for some 16 lines at a time, and while it asks for more than that it gets nothing else done.
 *
 * Before including this: common.cl, MV, NB, BN and BLOCKS. */
#ifndef CLATTN_LANE_AHEAD_H
#define CLATTN_LANE_AHEAD_H
#include "lane_scores.h"
#include "prefetch.h"
#include "quantized_lanes.h"

#define BM (WIDTH * MV)

/* Rows of a tensor from which nothing has been asked for. */
struct stream {
    const __global uchar *row;
    long step; /* from row to row, in bytes */
    int left;
};

/* The next tile's keys and values, biases and masks, or, beside the last tile, q of the next chunk
 * of blocks and o of this one. */
struct ahead {
    struct stream k, v, q, o, bias, mask;
};

/* There is a turn with every NB keys and AHEAD_COLUMNS columns of q and k. */
#define AHEAD_COLUMNS 32
#define AHEAD_TURNS (BN / NB * ((DIM_QK + AHEAD_COLUMNS - 1) / AHEAD_COLUMNS))
#define AHEAD_SHARE(rows) (((rows) + AHEAD_TURNS - 1) / AHEAD_TURNS)
/* A band's rows are in the cache already, but those of the next chunk's last queries. */
#define AHEAD_ROWS (HAS_WINDOW_LEFT && HAS_WINDOW_RIGHT ? min(BM, BN / BLOCKS) : BN / BLOCKS)
#define LINES(bytes) (((bytes) + 63) / 64)
#define ROW_LINES(cache, dim)                                                                      \
    LINES((cache) ? (dim) / BLOCK_VALUES * BLOCK_BYTES(cache) : (dim) * (int)sizeof(storage))

/* At most `rows` rows, each of so many lines (both constant). */
INLINE void ask_for(struct stream *stream, const int rows, const int lines)
{
    for (int n = 0; n < rows && stream->left > 0; n++) {
        prefetch_lines(stream->row, lines);
        stream->row += stream->step;
        stream->left--;
    }
}

INLINE void ask_ahead(struct ahead *ahead)
{
    ask_for(&ahead->k, AHEAD_SHARE(AHEAD_ROWS), ROW_LINES(K_CACHE, DIM_QK));
    ask_for(&ahead->v, AHEAD_SHARE(AHEAD_ROWS), ROW_LINES(V_CACHE, DIM_V));
    ask_for(&ahead->q, AHEAD_SHARE(BM), ROW_LINES(0, DIM_QK));
    ask_for(&ahead->o, AHEAD_SHARE(BM), ROW_LINES(0, DIM_V));
#if HAS_BIAS
    ask_for(&ahead->bias, AHEAD_SHARE(BM), LINES(BN * (int)sizeof(bias_storage)));
#endif
#if HAS_MASK
    ask_for(&ahead->mask, AHEAD_SHARE(BM), LINES(BN));
#endif
}

/* `rows` rows from p on, or none if they are not whole in memory. */
INLINE struct stream stream_of(const __global void *p, const long step, const int unit,
                               const long rows)
{
    struct stream stream = {(const __global uchar *)p, step, unit ? (int)max(rows, 0L) : 0};

    return stream;
}

#endif
