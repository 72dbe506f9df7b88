/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of gradient kernels for GPUs. Work-groups own BLOCK_OWNED rows of queries, or
 * OWNED_KEYS of keys, and stream the others in tiles of BLOCK_STREAMED. Here are the layout of the workspace, the rows
 * of a tile, the choice of tiles, and the gradient terms of a pair.
 *
 * Sizes      of src/families/backward_gpu. */
#pragma once
#include "families/backward_gpu/backward_gpu_sizes.h"
#include "score/score.h"
#include "common/backward.h"
#include "gpu/tile_load.h"
#include "gpu/tile_exp.h"

/* ---- workspace ------------------------------------------------------------------------------ */

/* Where the sums of dbias over keys or queries begin and end in the workspace, in floats. */
INLINE long bias_sums_begin(const struct arguments *args)
{
    return (ROW_STATISTICS + HAS_DSLOPES) * args->shape->batch * args->shape->heads *
           longest_q(args);
}

INLINE long bias_sums_end(const struct arguments *args)
{
    long count = 0;

    if (HAS_DBIAS && args->shape->bias_stride[3] == 0)
        count = args->shape->batch * args->shape->heads * args->shape->seq_q;
    else if (HAS_DBIAS && args->shape->bias_stride[2] == 0)
        count = args->shape->batch * args->shape->heads * args->shape->seq_kv;
    return bias_sums_begin(args) + count;
}

/* The begin of the sums of dslopes over keys. */
INLINE long slope_sums_begin(const struct arguments *args)
{
    return ROW_STATISTICS * args->shape->batch * args->shape->heads * longest_q(args);
}

/* Returns the statistics of row i of a head, or of the last row if there is no row i. */
INLINE const __global float *place_of_statistic(const struct arguments *args, const long b,
                                                const long h, const long i)
{
    return args->workspace + ROW_STATISTICS * row_of(args, b, h, min(i, args->shape->seq_q - 1));
}

INLINE float4 statistic_of(const struct arguments *args, const long b, const long h, const long i)
{
    return vload4(0, place_of_statistic(args, b, h, i));
}

/* The parts of q, do, k and v follow where operands have several (cl/mma/gradients_parts.h), from a multiple of 16
 * bytes on. */
INLINE long parts_end(const struct arguments *args)
{
    const long rows = args->shape->batch * (args->shape->heads * longest_q(args) +
                                            args->shape->kv_heads * longest_kv(args));

    return bias_sums_end(args) + (OPERAND_PARTS > 1 ? PARTS_WORDS(rows) : 0);
}

INLINE long count_load_blocks(const struct arguments *args)
{
    return (longest_q(args) + LOAD_ROWS - 1) / LOAD_ROWS;
}

/* The sums of dfunction follow in the workspace (gpu/load_gradients.h). A work-group has an array of sums, and takes LOAD_ROWS
 * queries at a time. */
#define LOAD_SUMS(args)                                                                            \
    FUNCTION_GROUPS((args)->shape->batch *(args)->shape->heads *count_load_blocks(args)),          \
        parts_end(args)
#include "score/function_sums.h"
#include "score/mark_pairs.h"
#include "score/mark_blocks.h"

/* ---- matrices ------------------------------------------------------------------------------- */

/* q_rows(), do_rows(), k_rows() and v_rows() return the matrix of `rows` rows of one head from query i or key j on, or of
 * their parts. (In do_rows() and v_rows() a row_offset() would spill registers on NVIDIA's GPUs.) */
#if OPERAND_PARTS > 1
/* The numbers of rows of q and do, and of k and v, in all batches. */
INLINE long part_rows_q(const struct arguments *args)
{
    return args->shape->batch * args->shape->heads * longest_q(args);
}

INLINE long part_rows_kv(const struct arguments *args)
{
    return args->shape->batch * args->shape->kv_heads * longest_kv(args);
}

/* The offsets of each tensor's parts, in elements. */
INLINE __global ushort *parts_of_q(const struct arguments *args)
{
    __global float *const begin = args->workspace + bias_sums_end(args);

    return (__global ushort *)((__global uchar *)begin + (-(size_t)begin & 15));
}

INLINE __global ushort *parts_of_do(const struct arguments *args)
{
    return parts_of_q(args) + OPERAND_PARTS * part_rows_q(args) * PART_LINE(DIM_QK);
}

INLINE __global ushort *parts_of_k(const struct arguments *args)
{
    return parts_of_do(args) + OPERAND_PARTS * part_rows_q(args) * PART_LINE(DIM_V);
}

INLINE __global ushort *parts_of_v(const struct arguments *args)
{
    return parts_of_k(args) + OPERAND_PARTS * part_rows_kv(args) * PART_LINE(DIM_QK);
}

/* Returns the matrix of `rows` rows from number `row` on; each part has part_rows rows. */
INLINE struct matrix matrix_of_parts(const __global ushort *parts, const int dim,
                                     const long part_rows, const long row, const int rows)
{
    const struct matrix m = {parts + row * PART_LINE(dim),
                             PART_LINE(dim),
                             1,
                             part_rows * PART_LINE(dim),
                             PART_LINE(dim),
                             rows,
                             8,
                             true};

    return m;
}

INLINE struct matrix q_rows(const struct arguments *args, const long b, const long h, const long i,
                            const int rows)
{
    return matrix_of_parts(parts_of_q(args), DIM_QK, part_rows_q(args), row_of(args, b, h, i),
                           rows);
}

INLINE struct matrix do_rows(const struct arguments *args, const long b, const long h, const long i,
                             const int rows)
{
    return matrix_of_parts(parts_of_do(args), DIM_V, part_rows_q(args), row_of(args, b, h, i),
                           rows);
}

INLINE struct matrix k_rows(const struct arguments *args, const long b, const long kv_head,
                            const long j, const int rows)
{
    return matrix_of_parts(parts_of_k(args), DIM_QK, part_rows_kv(args),
                           (b * args->shape->kv_heads + kv_head) * longest_kv(args) + j, rows);
}

INLINE struct matrix v_rows(const struct arguments *args, const long b, const long kv_head,
                            const long j, const int rows)
{
    return matrix_of_parts(parts_of_v(args), DIM_V, part_rows_kv(args),
                           (b * args->shape->kv_heads + kv_head) * longest_kv(args) + j, rows);
}
#else
INLINE struct matrix q_rows(const struct arguments *args, const long b, const long h, const long i,
                            const int rows)
{
    return matrix_of(args->q + row_offset(args->shape->q_stride, b, h, i), args->shape->q_stride[2],
                     q_step(args), DIM_QK, rows, WIDTH(UNIT_Q, DIM_QK));
}

INLINE struct matrix do_rows(const struct arguments *args, const long b, const long h, const long i,
                             const int rows)
{
    return matrix_of(args->d_o + b * args->shape->d_o_stride[0] + h * args->shape->d_o_stride[1] +
                         i * args->shape->d_o_stride[2],
                     args->shape->d_o_stride[2], do_step(args), DIM_V, rows, WIDTH(UNIT_DO, DIM_V));
}

INLINE struct matrix k_rows(const struct arguments *args, const long b, const long kv_head,
                            const long j, const int rows)
{
    return matrix_of(args->k + row_offset(args->shape->k_stride, b, kv_head, j),
                     args->shape->k_stride[2], k_step(args), DIM_QK, rows, WIDTH(UNIT_K, DIM_QK));
}

INLINE struct matrix v_rows(const struct arguments *args, const long b, const long kv_head,
                            const long j, const int rows)
{
    return matrix_of(args->v + b * args->shape->v_stride[0] + kv_head * args->shape->v_stride[1] +
                         j * args->shape->v_stride[2],
                     args->shape->v_stride[2], v_step(args), DIM_V, rows, WIDTH(UNIT_V, DIM_V));
}
#endif

/* ---- tiles ---------------------------------------------------------------------------------- */

/* The number of queries in use from i0 on and of keys in use from j0 on, of one head. */
struct tile {
    struct extent e;
    long b, h, i0, j0;
    int queries, keys;
    struct block_bits bits;      /* the bits of the head's block list (HAS_BLOCKS) */
    const __global uchar *marks; /* the marks of all pairs; null if none were made */
};

enum {
    /* 1 if each tile of all passes lies in one block of the lists. With a window to the right, tiles of queries may begin
     * inside of a block. */
    IN_BLOCKS = !HAS_WINDOW_RIGHT && TILES_IN_BLOCKS(BLOCK_OWNED, BLOCK_OWNED) &&
                TILES_IN_BLOCKS(BLOCK_STREAMED, BLOCK_STREAMED) && TILES_IN_BLOCKS(1, OWNED_KEYS)
};

/* Returns whether some key of the tile is masked for some query of it. */
INLINE bool is_partial(const struct arguments *args, const struct tile t)
{
    bool hides = HIDES_ANYWHERE;

    if (HAS_BLOCKS)
        hides = HIDES_BY_SCORE || hides_listed(IN_BLOCKS, t.bits, t.i0, t.queries, t.j0, t.keys);
    else if (HAS_MARKS)
        hides =
            HIDES_BY_SCORE ||
            !(mark_of_pairs(args, t.marks, t.b, t.h, t.i0, t.queries, t.j0, t.keys) & MARK_FULL);
    return hides || first_key(args, t.e, t.i0 + t.queries - 1) > t.j0 ||
           end_key(args, t.e, t.i0) < t.j0 + t.keys;
}

/* Finds the bits of block lists, or the marks, for the tile's head. Members that do not apply are set to null one by one: if
 * some were never set, LLVM would keep the tile in memory. */
INLINE void find_head(const struct arguments *args, struct tile *t)
{
    t->bits.at = 0;
    t->bits.words = 0;
    t->marks = 0;
    if (HAS_BLOCKS)
        t->bits = block_bits_of(args, args->workspace + marks_begin(args), t->b, t->h);
    else if (HAS_MARKS)
        t->marks = all_marks(args);
}

/* The parameters of the tile's scores. */
INLINE struct score_tile scores_of_tile(const struct arguments *args, const struct tile t)
{
    struct score_tile tile = score_tile_at(args, t.e, t.b, t.h, t.i0, t.j0, t.queries, t.keys,
                                           MAX(BLOCK_OWNED, BLOCK_STREAMED));

    if (HAS_BLOCKS)
        find_blocks(t.bits, t.i0, t.j0, IN_BLOCKS, &tile);
    return tile;
}

/* The number of blocks of owned queries in `rows` rows, and of owned keys. */
INLINE long blocks_of(const long rows)
{
    return (rows + BLOCK_OWNED - 1) / BLOCK_OWNED;
}

INLINE long key_blocks_of(const long rows)
{
    return (rows + OWNED_KEYS - 1) / OWNED_KEYS;
}

/* The keys that a group owns, with the first of the query heads that share them. With a limit to
 * the right, the first keys are visible to the most queries, so their groups start first. */
INLINE struct tile owned_keys(const struct arguments *args)
{
    const long blocks = key_blocks_of(longest_kv(args)),
               kv_heads = args->shape->heads / args->shape->group;
    struct tile t;

    t.b = get_group_id(0) / blocks / kv_heads;
    t.h = get_group_id(0) / blocks % kv_heads * args->shape->group;
    t.j0 = get_group_id(0) % blocks * OWNED_KEYS;
    t.e = extent_of(args, t.b);
    t.keys = clamp(t.e.keys - t.j0, 0L, (long)OWNED_KEYS);
    return t;
}

/* The queries that a group owns. With a limit to the right, later blocks see more keys, so the
 * longest start first. */
INLINE struct tile owned_queries(const struct arguments *args)
{
    const long blocks = blocks_of(longest_q(args)), bh = get_group_id(0) / blocks;
    struct tile t;

    t.b = bh / args->shape->heads;
    t.h = bh % args->shape->heads;
    const long n = get_group_id(0) % blocks;
    t.i0 = (HAS_WINDOW_RIGHT ? blocks - 1 - n : n) * BLOCK_OWNED;
    t.e = extent_of(args, t.b);
    t.queries = clamp(t.e.queries - t.i0, 0L, (long)BLOCK_OWNED);
    return t;
}

/* Returns the range of keys that some owned query may see: both limits grow with the query. */
INLINE long first_key_of_queries(const struct arguments *args, const struct tile t)
{
    const long seen_from = first_key(args, t.e, t.i0);

    return HAS_DROPOUT ? seen_from / 4 * 4 : seen_from; /* four keys share random numbers */
}

INLINE long end_key_of_queries(const struct arguments *args, const struct tile t)
{
    return end_key(args, t.e, t.i0 + max(t.queries, 1) - 1);
}

/* The first tile of queries from i0 on, or of keys from j0 on, with a listed pair and without the
 * mark MARK_EMPTY. */
INLINE long next_queries(const struct arguments *args, const struct tile t, const long begin,
                         long i0, const long end)
{
    if (HAS_BLOCKS)
        return i0 < end ? next_tile_of_queries(t.bits, t.j0, t.keys, begin, i0, end, BLOCK_STREAMED)
                        : end;
    while (HAS_MARKS && i0 < end &&
           mark_of_pairs(args, t.marks, t.b, t.h, i0, min(end - i0, (long)BLOCK_STREAMED), t.j0,
                         t.keys) &
               MARK_EMPTY)
        i0 += BLOCK_STREAMED;
    return i0;
}

INLINE long next_keys(const struct arguments *args, const struct tile t, const long begin, long j0,
                      const long end)
{
    if (HAS_BLOCKS)
        return j0 < end ? next_tile_of_keys(t.bits, block_rows_of(t.i0, t.queries), begin, j0, end,
                                            BLOCK_STREAMED)
                        : end;
    while (HAS_MARKS && j0 < end &&
           mark_of_pairs(args, t.marks, t.b, t.h, t.i0, t.queries, j0,
                         min(end - j0, (long)BLOCK_STREAMED)) &
               MARK_EMPTY)
        j0 += BLOCK_STREAMED;
    return j0;
}

/* The tile of a bias that a group of backward_bias has: its first query and key, and the batches
 * and heads
 * that share it. There is a group for each BLOCK_OWNED queries and BLOCK_STREAMED keys of each
 * batch and head of the bias. */
struct bias_tile {
    long i0, j0, b, end_b, h, end_h;
};

INLINE struct bias_tile find_bias_tile(const struct arguments *args)
{
    const bool over_b = args->shape->bias_stride[0] == 0, over_h = args->shape->bias_stride[1] == 0;
    const long across = (args->shape->seq_kv + BLOCK_STREAMED - 1) / BLOCK_STREAMED;
    const long down = (args->shape->seq_q + BLOCK_OWNED - 1) / BLOCK_OWNED;
    const long bias_heads = over_h ? 1 : args->shape->heads,
               place = get_group_id(0) / across / down;
    struct bias_tile tile;

    tile.i0 = get_group_id(0) / across % down * BLOCK_OWNED;
    tile.j0 = get_group_id(0) % across * BLOCK_STREAMED;
    tile.b = place / bias_heads;
    tile.end_b = over_b ? args->shape->batch : tile.b + 1;
    tile.h = place % bias_heads;
    tile.end_h = over_h ? args->shape->heads : tile.h + 1;
    return tile;
}

/* The part of a tile of pairs that a batch uses; false if windows and lengths mask all pairs. */
INLINE bool enter_bias_tile(const struct arguments *args, struct tile *t)
{
    t->queries = clamp(t->e.queries - t->i0, 0L, (long)BLOCK_OWNED);
    t->keys = clamp(t->e.keys - t->j0, 0L, (long)BLOCK_STREAMED);
    return t->queries > 0 && first_key(args, t->e, t->i0) < t->j0 + t->keys &&
           end_key(args, t->e, t->i0 + t->queries - 1) > t->j0;
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* The factor of the weights that dropout keeps. */
INLINE float keep_of(const struct arguments *args)
{
    return HAS_DROPOUT ? args->shape->keep : 1.0f;
}

/* Returns exp(s - lse) times a power of 2. */
INLINE float weight_of(const struct score s, const float minus_lse, const float power)
{
    return power_of_two(MULTIPLY_ADD(s.value + minus_lse, M_LOG2E_F, power));
}

/* A weight after dropout, and the gradient of its score before softcap's derivative. */
struct pair_gradient {
    float weight, ds;
};

/* Computes the gradient of a pair. dp is the product of do and v, statistic has the statistics of
 * the query's row, kept: dropout keeps the pair. */
INLINE struct pair_gradient pair_gradient_of(const struct score s, const float dp,
                                             const float4 statistic, const bool kept)
{
    struct pair_gradient pair;

    pair.weight = weight_of(s, statistic.s0, statistic.s2);
#if HAS_DROPOUT
    pair.ds = pair.weight * MULTIPLY_ADD(kept ? 1.0f : 0.0f, dp, statistic.s1);
    pair.weight *= kept ? 1.0f : 0.0f; /* a NaN that is dropped stays one */
#else
    pair.ds = pair.weight * (dp + statistic.s1);
#endif
    return pair;
}
