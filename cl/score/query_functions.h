/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's functions of scores where SIMD lanes are queries (score/query_tile.h). They are called for a pair of a
 * query and a key at a time. */
#pragma once
#include "score/query_tile.h"

/* The pair of key n and the query in lane c of vector m; beyond the last ones it is that of the last. whole (constant): all
 * queries of the block exist. Then what neighbouring queries load may be a vector. */
INLINE struct function_pair function_pair_at(const int whole, const struct function_pairs pairs,
                                             const int n, const int m, const int c)
{
    const int query = m * SIMD_WIDTH + c;

    return function_pair_after(pairs.first, whole ? query : min(query, pairs.queries - 1),
                               min(n, pairs.keys - 1));
}

/* What the function adds for each difference of a query and a key, from the first query and the last key on. */
#define LAST_DISTANCE_KEY (BLOCK_N + QK_KEYS - 1)
#define DISTANCE_VECTORS ((BLOCK_M + LAST_DISTANCE_KEY + SIMD_WIDTH - 1) / SIMD_WIDTH)

/* Computes the function once for each difference between the queries of the block and `count` keys. Scores of keys behind them
 * are not used. */
NOINLINE void find_tile_distances(const struct score_tile *restrict tile, const int count,
                                  lanes *by_distance)
{
    const struct score_function_operands o = score_operands(tile->args);
    const struct function_pairs pairs = tile->pairs;

    for (int n = (LAST_DISTANCE_KEY + 1 - count) / SIMD_WIDTH; n < DISTANCE_VECTORS; n++) {
        lanes x;
        float *const each = (float *)&x;
        EACH_LANE
        for (int c = 0; c < SIMD_WIDTH; c++) {
            const int ahead =
                clamp(n * SIMD_WIDTH + c - LAST_DISTANCE_KEY, 1 - pairs.keys, pairs.queries - 1);
            each[c] = score_function(
                0.0f, function_pair_after(pairs.first, max(ahead, 0), max(-ahead, 0)), o);
        }
        by_distance[n] = x;
    }
}

/* The score x of key n and the queries of vector m after the function. */
INLINE lanes add_by_distance(const struct score_tile *tile, const int n, const int m, const lanes x)
{
    const lanes more = VECTOR(vload)(0, (const float *)tile->by_distance +
                                            (LAST_DISTANCE_KEY + m * SIMD_WIDTH - n));

    return SCORE_HIDES_DISTANCES && more == -INFINITY ? more : x + more;
}

INLINE void apply_score_function_to(const int whole, const struct score_tile *restrict tile,
                                    const int n0, lanes (*s)[BLOCK_VECTORS])
{
    const struct score_function_operands o = score_operands(tile->args);
    const struct function_pairs pairs = tile->pairs;

    for (int n = 0; n < QK_KEYS; n++) {
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes x = s[n][m];
            float *const each = (float *)&x;
            EACH_LANE
            for (int c = 0; c < SIMD_WIDTH; c++)
                each[c] = score_function(each[c], function_pair_at(whole, pairs, n0 + n, m, c), o);
            s[n][m] = x;
        }
    }
}

/* Scores of QK_KEYS keys from n0 on after the function. A function of its own, so that its loop is compiled once. */
NOINLINE void apply_score_function(const struct score_tile *restrict tile, const int n0,
                                   lanes (*s)[BLOCK_VECTORS])
{
    if (tile->pairs.queries == BLOCK_M)
        apply_score_function_to(1, tile, n0, s);
    else
        apply_score_function_to(0, tile, n0, s);
}

/* -1 in the lanes of vector m whose queries and key n are in a block that is listed as full. */
INLINE ints listed_as_full(const struct score_tile *tile, const int n, const int m)
{
    ints full;
    int *const each = (int *)&full;

    for (int c = 0; c < SIMD_WIDTH; c++)
        each[c] = -(block_at(tile->bits,
                             (tile->i + min(m * SIMD_WIDTH + c, tile->pairs.queries - 1)) / BLOCK_Q,
                             (tile->j + min(n, tile->pairs.keys - 1)) / BLOCK_KV) == BLOCK_FULL);
    return full;
}

/* What the marks say of keys n .. end - 1. */
INLINE int mark_of_keys(const struct score_tile *tile, const __global uchar *marks, const int n,
                        const int end)
{
    int mark = marks ? MARK_EMPTY | MARK_FULL : 0;

    for (int x = (tile->key + n) / MARK_N; mark && x * MARK_N < tile->key + end; x++)
        mark &= marks[x];
    return mark;
}

INLINE void apply_mask_function_to(const int whole, const struct score_tile *restrict tile,
                                   const int n0, const int first, const int end,
                                   lanes (*s)[BLOCK_VECTORS])
{
    const struct mask_function_operands o = mask_operands(tile->args);
    const struct function_pairs pairs = tile->pairs;

    for (int n = 0; n < QK_KEYS; n++) {
        for (int m = first; m < end; m++) {
            ints sees;
            int *const each = (int *)&sees;
            EACH_LANE
            for (int c = 0; c < SIMD_WIDTH; c++)
                each[c] = -mask_function(function_pair_at(whole, pairs, n0 + n, m, c), o);
            if (HAS_BLOCKS && tile->mixed)
                sees |= listed_as_full(tile, n0 + n, m);
            s[n][m] = sees ? s[n][m] : (lanes)(-INFINITY);
        }
    }
}

/* Scores of QK_KEYS keys from n0 on and the vectors first .. end - 1, with -INFINITY where the mask function hides the pair,
 * which it does not in blocks that are listed as full. */
NOINLINE void apply_mask_function(const struct score_tile *restrict tile, const int n0,
                                  const int first, const int end, lanes (*s)[BLOCK_VECTORS])
{
    if (tile->pairs.queries == BLOCK_M)
        apply_mask_function_to(1, tile, n0, first, end, s);
    else
        apply_mask_function_to(0, tile, n0, first, end, s);
}

/* The same for all vectors, with the last key before `count`: where marks say that a half is full, or halves are empty, the
 * function is not called. */
INLINE void hide_by_function(const struct score_tile *tile, const int n0, const int count,
                             lanes (*s)[BLOCK_VECTORS])
{
    if (!HAS_MARKS) {
        apply_mask_function(tile, n0, 0, BLOCK_VECTORS, s);
        return;
    }
    const int end = min(n0 + QK_KEYS, count);
    const int lower = mark_of_keys(tile, tile->lower_marks, n0, end);
    const int upper = MARKS_HALVES ? mark_of_keys(tile, tile->upper_marks, n0, end) : lower;
    const int first = lower & MARK_FULL ? BLOCK_VECTORS / 2 : 0;
    const int last = upper & MARK_FULL ? BLOCK_VECTORS / 2 : BLOCK_VECTORS;

    if (!(lower & upper & MARK_FULL))
        apply_mask_function(tile, n0, MARKS_HALVES ? first : 0, MARKS_HALVES ? last : BLOCK_VECTORS,
                            s);
}
