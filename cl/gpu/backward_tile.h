/* What kernels of gradients for GPUs share whose work-groups own BLOCK_OWNED rows, keys or queries, and
 * stream the others in tiles of BLOCK_STREAMED: where things lie in the workspace, the rows of a tile,
 * which tiles are left out, and what a pair of a query and a key adds.
 *
 * Before including this: score.h, backward.h, tile_load.h, tile_exp.h; BLOCK_OWNED, BLOCK_STREAMED, MIN,
 * THREADS. */
#ifndef CLATTN_BACKWARD_TILE_H
#define CLATTN_BACKWARD_TILE_H
#include "families/backward_gpu/backward_gpu_sizes.h"

/* ---- workspace ------------------------------------------------------------------------------ */

/* What stands in the workspace before sums of dbias over keys or queries, and after these, in floats. */
INLINE long bias_sums_begin(const struct attention_shape a)
{
    return (ROW_STATISTICS + HAS_DSLOPES) * a.batch * a.heads * LONGEST_Q(a);
}

INLINE long bias_sums_end(const struct attention_shape a)
{
    long count = 0;

#if HAS_DBIAS
    if (a.bias_stride[3] == 0)
        count = a.batch * a.heads * a.seq_q;
    else if (a.bias_stride[2] == 0)
        count = a.batch * a.heads * a.seq_kv;
#endif
    return bias_sums_begin(a) + count;
}

/* Where sums of dslopes over keys begin. */
INLINE long slope_sums_begin(const struct attention_shape a)
{
    return ROW_STATISTICS * a.batch * a.heads * LONGEST_Q(a);
}

/* The statistics of row i of a head, the last one's if there is no such row. */
INLINE const __global float *place_of_statistic(SHAPE_PARAMS, const __global float *workspace,
                                                const long b, const long h, const long i)
{
    return workspace + at.workspace + ROW_STATISTICS * row_of(a, b, h, min(i, a.seq_q - 1));
}

INLINE float4 statistic_of(SHAPE_PARAMS, const __global float *workspace, const long b, const long h,
                           const long i)
{
    return vload4(0, place_of_statistic(a, at, workspace, b, h, i));
}

#define BLOCK_BITS_BEGIN(a) bias_sums_end(a)
#define MARKS_BEGIN(a) bias_sums_end(a)
#define MARK_ITEMS THREADS
#define MARK_SHARERS BACKWARD_MARK_SHARERS
#include "score/mark_pairs.h"
#include "score/mark_blocks.h"

/* ---- matrices ------------------------------------------------------------------------------- */

/* `rows` rows of one head from position i or j on. */
INLINE struct matrix q_rows(SHAPE_PARAMS, const __global storage *q, const long b, const long h,
                            const long i, const int rows)
{
    return matrix_of(q + at.q + b * a.q_stride[0] + h * a.q_stride[1] + i * a.q_stride[2],
                     a.q_stride[2], Q_STEP, DIM_QK, rows, WIDTH(UNIT_Q, DIM_QK));
}

INLINE struct matrix do_rows(SHAPE_PARAMS, const __global storage *d_o, const long b, const long h,
                             const long i, const int rows)
{
    return matrix_of(d_o + at.d_o + b * a.d_o_stride[0] + h * a.d_o_stride[1] + i * a.d_o_stride[2],
                     a.d_o_stride[2], DO_STEP, DIM_V, rows, WIDTH(UNIT_DO, DIM_V));
}

INLINE struct matrix k_rows(SHAPE_PARAMS, const __global storage *k, const long b,
                            const long kv_head, const long j, const int rows)
{
    return matrix_of(k + at.k + b * a.k_stride[0] + kv_head * a.k_stride[1] + j * a.k_stride[2],
                     a.k_stride[2], K_STEP, DIM_QK, rows, WIDTH(UNIT_K, DIM_QK));
}

INLINE struct matrix v_rows(SHAPE_PARAMS, const __global storage *v, const long b,
                            const long kv_head, const long j, const int rows)
{
    return matrix_of(v + at.v + b * a.v_stride[0] + kv_head * a.v_stride[1] + j * a.v_stride[2],
                     a.v_stride[2], V_STEP, DIM_V, rows, WIDTH(UNIT_V, DIM_V));
}

/* ---- tiles ---------------------------------------------------------------------------------- */

/* Queries from i0 on and keys from j0 on, those in use, of one head. */
struct tile {
    struct extent e;
    long b, h, i0, j0;
    int queries, keys;
#if HAS_BLOCKS
    struct block_bits bits; /* of the head's list */
#elif HAS_MARKS
    const __global uchar *marks; /* of all pairs; null if none were made */
#endif
};

/* Whether some query of the tile may not see some key of it. */
INLINE bool is_partial(const struct attention_shape a, const struct tile t)
{
#if HAS_BLOCKS
    const bool hides = HAS_BIAS || hides_listed(t.bits, t.i0, t.queries, t.j0, t.keys);
#elif HAS_MARKS
    const bool hides = HAS_BIAS || !(mark_of_pairs(a, t.marks, t.b, t.h, t.i0, t.queries, t.j0,
                                                   t.keys) & MARK_FULL);
#else
    const bool hides = HIDES_ANYWHERE;
#endif

    return hides || first_key(a, t.e, t.i0 + t.queries - 1) > t.j0 ||
           end_key(a, t.e, t.i0) < t.j0 + t.keys;
}

/* What the first stage says of the tile's head. */
INLINE void find_head(SHAPE_PARAMS, const __global float *workspace, struct tile *t)
{
#if HAS_BLOCKS
    t->bits = block_bits_of(a, workspace + at.workspace + BLOCK_BITS_BEGIN(a), t->b, t->h);
#elif HAS_MARKS
    t->marks = all_marks(a, at, workspace);
#endif
}

#define BLOCKS_OF(rows) (((rows) + BLOCK_OWNED - 1) / BLOCK_OWNED) /* of owned rows */

/* The keys that a group owns, of the first of the query heads that share them. With a limit to the right
 * the first keys are seen by the most queries, and go first. longest_kv: LONGEST_KV. */
INLINE struct tile owned_keys(SHAPE_PARAMS, const long longest_kv Q_LENGTHS_PARAM KV_LENGTHS_PARAM)
{
    const long blocks = BLOCKS_OF(longest_kv), kv_heads = a.heads / a.group;
    struct tile t;

    t.b = get_group_id(0) / blocks / kv_heads;
    t.h = get_group_id(0) / blocks % kv_heads * a.group;
    t.j0 = get_group_id(0) % blocks * BLOCK_OWNED;
    t.e = extent_of(a, at, t.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    t.keys = clamp(t.e.keys - t.j0, 0L, (long)BLOCK_OWNED);
    return t;
}

/* The queries that a group owns. With a limit to the right later blocks see more keys: the longest go
 * first. */
INLINE struct tile owned_queries(SHAPE_PARAMS Q_LENGTHS_PARAM KV_LENGTHS_PARAM)
{
    const long blocks = BLOCKS_OF(LONGEST_Q(a)), bh = get_group_id(0) / blocks;
    struct tile t;

    t.b = bh / a.heads;
    t.h = bh % a.heads;
#if HAS_WINDOW_RIGHT
    t.i0 = (blocks - 1 - get_group_id(0) % blocks) * BLOCK_OWNED;
#else
    t.i0 = get_group_id(0) % blocks * BLOCK_OWNED;
#endif
    t.e = extent_of(a, at, t.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    t.queries = clamp(t.e.queries - t.i0, 0L, (long)BLOCK_OWNED);
    return t;
}

/* The first key that owned queries may see, and the end of those that do: both limits grow with the query. */
INLINE long first_key_of_queries(const struct attention_shape a, const struct tile t)
{
    const long seen_from = first_key(a, t.e, t.i0);

    return HAS_DROPOUT ? seen_from / 4 * 4 : seen_from; /* the random numbers' step */
}

INLINE long end_key_of_queries(const struct attention_shape a, const struct tile t)
{
    return end_key(a, t.e, t.i0 + max(t.queries, 1) - 1);
}

/* The first tile of queries from i0 on, or of keys from j0 on, of which block lists have some pair, and
 * masks and biases are not marked as hiding all. */
INLINE long next_queries(const struct attention_shape a, const struct tile t, const long begin,
                         long i0, const long end)
{
#if HAS_BLOCKS
    return i0 < end ? next_tile_of_queries(t.bits, t.j0, t.keys, begin, i0, end, BLOCK_STREAMED)
                    : end;
#else
#if HAS_MARKS
    while (i0 < end && mark_of_pairs(a, t.marks, t.b, t.h, i0, min(end - i0, (long)BLOCK_STREAMED),
                                     t.j0, t.keys) & MARK_EMPTY)
        i0 += BLOCK_STREAMED;
#endif
    return i0;
#endif
}

INLINE long next_keys(const struct attention_shape a, const struct tile t, const long begin,
                      long j0, const long end)
{
#if HAS_BLOCKS
    return j0 < end ? next_tile_of_keys(t.bits, block_rows_of(t.i0, t.queries), begin, j0, end,
                                        BLOCK_STREAMED)
                    : end;
#else
#if HAS_MARKS
    while (j0 < end && mark_of_pairs(a, t.marks, t.b, t.h, t.i0, t.queries, j0,
                                     min(end - j0, (long)BLOCK_STREAMED)) & MARK_EMPTY)
        j0 += BLOCK_STREAMED;
#endif
    return j0;
#endif
}

#if HAS_DBIAS
/* The tile of a bias that a group of backward_bias has: its first query and key, and the batches and heads
 * that share it. A group for each BLOCK_OWNED queries and BLOCK_STREAMED keys of each batch and head of the
 * bias. */
struct bias_tile {
    long i0, j0, b, end_b, h, end_h;
};

INLINE struct bias_tile find_bias_tile(const struct attention_shape a)
{
    const bool over_b = a.bias_stride[0] == 0, over_h = a.bias_stride[1] == 0;
    const long across = (a.seq_kv + BLOCK_STREAMED - 1) / BLOCK_STREAMED;
    const long down = (a.seq_q + BLOCK_OWNED - 1) / BLOCK_OWNED;
    const long bias_heads = over_h ? 1 : a.heads, place = get_group_id(0) / across / down;
    struct bias_tile tile;

    tile.i0 = get_group_id(0) / across % down * BLOCK_OWNED;
    tile.j0 = get_group_id(0) % across * BLOCK_STREAMED;
    tile.b = place / bias_heads;
    tile.end_b = over_b ? a.batch : tile.b + 1;
    tile.h = place % bias_heads;
    tile.end_h = over_h ? a.heads : tile.h + 1;
    return tile;
}

/* How much of a tile of pairs a batch uses; false if no pair is visible by windows and lengths. */
INLINE bool enter_bias_tile(const struct attention_shape a, struct tile *t)
{
    t->queries = clamp(t->e.queries - t->i0, 0L, (long)BLOCK_OWNED);
    t->keys = clamp(t->e.keys - t->j0, 0L, (long)BLOCK_STREAMED);
    return t->queries > 0 && first_key(a, t->e, t->i0) < t->j0 + t->keys &&
           end_key(a, t->e, t->i0 + t->queries - 1) > t->j0;
}
#endif

/* ---- pairs ---------------------------------------------------------------------------------- */

/* exp(s - lse) times a power of 2. */
INLINE float weight_of(const struct score s, const float minus_lse, const float power)
{
    return EXP2(MULTIPLY_ADD(s.value + minus_lse, LOG2E, power));
}

/* A weight, after dropout, and the gradient of the score that it is of, before softcap's derivative. */
struct pair_gradient {
    float weight, ds;
};

/* dp: the product of do and v. statistic: of the query's row. factor: dropout's. */
INLINE struct pair_gradient pair_gradient_of(const struct score s, const float dp,
                                             const float4 statistic, const float factor)
{
    struct pair_gradient pair;

    pair.weight = weight_of(s, statistic.s0, statistic.s2);
#if HAS_DROPOUT
    pair.ds = pair.weight * MULTIPLY_ADD(factor, dp, statistic.s1);
    pair.weight *= factor;
#else
    pair.ds = pair.weight * (dp + statistic.s1);
#endif
    return pair;
}

#endif
