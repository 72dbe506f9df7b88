/* What fused kernels for GPUs share whose work-groups own BLOCK_M queries of one (batch, head) and
 * walk over the keys that any of them may see: which these are, and how a row ends.
 *
 * Before including this: score.h, tile_exp.h, with dropout philox.h; BLOCK_M, BLOCK_N. */
#ifndef CLATTN_QUERY_BLOCK_H
#define CLATTN_QUERY_BLOCK_H
#include "common/sequence.h"

/* Whether rows that see nothing have to be told from those far below a sink: masks and biases hide what
 * windows and lengths do not. */
#define TRACKS_SEEN (HAS_SINKS && HIDES_ANYWHERE)

struct query_block {
    long bh, b, h, i0; /* batch * heads + head, and these; the first query */
    struct extent e;
    int queries;       /* that there are, of BLOCK_M */
    long begin, end;   /* the keys that some row sees are among these */
    long seen_by_all_from, seen_by_all_to;
};

/* Of the longest sequence. */
#define QUERY_BLOCKS(a) ((LONGEST_Q(a) + BLOCK_M - 1) / BLOCK_M)

/* Both limits grow with the query: no row sees keys outside, each sees those in between. With a limit
 * to the right later blocks see more keys: the longest go first. */
__attribute__((always_inline)) static inline struct query_block
find_query_block(SHAPE_PARAMS Q_LENGTHS_PARAM KV_LENGTHS_PARAM)
{
    const long blocks = QUERY_BLOCKS(a);
    struct query_block p;

    p.bh = get_group_id(0) / blocks;
    p.b = p.bh / a.heads;
    p.h = p.bh % a.heads;
#if HAS_WINDOW_RIGHT
    p.i0 = (blocks - 1 - get_group_id(0) % blocks) * BLOCK_M;
#else
    p.i0 = get_group_id(0) % blocks * BLOCK_M;
#endif
    p.e = extent_of(a, at, p.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    p.queries = clamp(p.e.queries - p.i0, 0L, (long)BLOCK_M);
    const long last = p.i0 + max(p.queries, 1) - 1;
    const long seen_from = first_key(a, p.e, p.i0);
    p.begin = HAS_DROPOUT ? seen_from / 4 * 4 : seen_from; /* the random numbers' step */
    p.end = end_key(a, p.e, last);
    p.seen_by_all_from = first_key(a, p.e, last);
    p.seen_by_all_to = end_key(a, p.e, p.i0);
    return p;
}

/* The tile of keys from j0 on. */
struct keys {
    long j0;
    int count;
    bool partial; /* some key may be hidden from some row */
};

INLINE struct keys find_keys(const struct query_block block, const long j0)
{
    const struct keys keys = {j0, min(block.end - j0, (long)BLOCK_N),
                              HIDES_ANYWHERE || j0 < block.seen_by_all_from ||
                                  j0 + BLOCK_N > block.seen_by_all_to};

    return keys;
}

/* What the weight of a pair is multiplied by. */
static inline float dropout_factor(SHAPE_PARAMS, const long bh, const long i, const long j)
{
#if HAS_DROPOUT
    float x[4];
    dropout_factors(a, at, bh, (uint)i, (uint)(j / 4), x);
    return x[j % 4];
#else
    return 1.0f;
#endif
}

/* A row's outputs are `factor` times what was summed, or zero; lse is highest + log(total). */
struct row_end {
    float factor, highest, total;
    bool zero;
};

/* Of weights that were taken relative to maximum. A total of 0 is a row of hidden keys or of -inf
 * scores alone; NaN goes on to o. */
static inline struct row_end end_row(SHAPE_PARAMS, const long h, const bool sees_any,
                                     const float maximum, const float sum SINKS_PARAM)
{
    struct row_end row = {1.0f, maximum, sum, false};

#if HAS_SINKS
    const float sink = sinks[at.sinks + h];
    row.highest = fmax(maximum, sink);
    row.factor = EXP2((maximum - FINITE(row.highest)) * LOG2E);
    row.total = sum * row.factor + EXP2((sink - FINITE(row.highest)) * LOG2E);
#endif
    row.zero = !sees_any || row.total == 0.0f;
    row.factor /= row.total;
    return row;
}

#endif
