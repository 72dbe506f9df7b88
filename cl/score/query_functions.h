/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's functions of scores where SIMD lanes are queries (score/query_tile.h). They are called for a pair of a
 * query and a key at a time. */
#pragma once
#include "score/query_tile.h"

#if HAS_FUNCTIONS
/* The pair of key n and the query in lane c of vector m; beyond the last ones it is that of the last. */
INLINE struct function_pair function_pair_at(const struct function_pairs pairs, const int n,
                                             const int m, const int c)
{
    return function_pair_after(pairs.first, min(m * SIMD_WIDTH + c, pairs.queries - 1),
                               min(n, pairs.keys - 1));
}
#endif

#if HAS_DISTANCE_FUNCTION
/* What the function adds for each difference of a query and a key, from the first query and the last key on. */
#define LAST_DISTANCE_KEY (BLOCK_N + QK_KEYS - 1)
#define DISTANCE_VECTORS ((BLOCK_M + LAST_DISTANCE_KEY + SIMD_WIDTH - 1) / SIMD_WIDTH)

/* Computes the function once for each difference between the queries of the block and `count` keys. Scores of keys behind them are
 * not used. */
NOINLINE void find_distances(const struct score_tile *restrict tile, const int count,
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

#if SCORE_HIDES_DISTANCES
    return more == -INFINITY ? more : x + more;
#else
    return x + more;
#endif
}
#elif HAS_SCORE_FUNCTION
/* Scores of QK_KEYS keys from n0 on after the function. A function of its own, so that its loop is compiled once. */
NOINLINE void apply_score_function(const struct score_tile *restrict tile, const int n0,
                                   lanes (*s)[BLOCK_VECTORS])
{
    const struct score_function_operands o = score_operands(tile->args);
    const struct function_pairs pairs = tile->pairs;

    for (int n = 0; n < QK_KEYS; n++) {
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes x = s[n][m];
            float *const each = (float *)&x;
            EACH_LANE
            for (int c = 0; c < SIMD_WIDTH; c++)
                each[c] = score_function(each[c], function_pair_at(pairs, n0 + n, m, c), o);
            s[n][m] = x;
        }
    }
}
#endif

#if HAS_MASK_FUNCTION
#if HAS_BLOCKS
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
#endif

#if HAS_MARKS
/* Returns whether the mask function hides none of the keys n .. end - 1 from any query. */
INLINE bool are_marked_full(const struct score_tile *tile, const int n, const int end)
{
    int mark = tile->marks ? MARK_FULL : 0;

    for (int x = (tile->key + n) / MARK_N; mark && x * MARK_N < tile->key + end; x++)
        mark &= tile->marks[x];
    return mark;
}
#endif

/* Scores of QK_KEYS keys from n0 on, with -INFINITY where the mask function hides the pair, which it does not in blocks
 * that are listed as full. */
NOINLINE void apply_mask_function(const struct score_tile *restrict tile, const int n0,
                                  lanes (*s)[BLOCK_VECTORS])
{
    const struct mask_function_operands o = mask_operands(tile->args);
    const struct function_pairs pairs = tile->pairs;

    for (int n = 0; n < QK_KEYS; n++) {
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            ints sees;
            int *const each = (int *)&sees;
            EACH_LANE
            for (int c = 0; c < SIMD_WIDTH; c++)
                each[c] = -mask_function(function_pair_at(pairs, n0 + n, m, c), o);
#if HAS_BLOCKS
            if (tile->mixed)
                sees |= listed_as_full(tile, n0 + n, m);
#endif
            s[n][m] = sees ? s[n][m] : (lanes)(-INFINITY);
        }
    }
}
#endif
