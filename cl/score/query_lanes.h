/* SPDX-License-Identifier: Apache-2.0 */
/* Products become scores where SIMD lanes are queries: softcap, bias, ALiBi, masks and windows
 * (clattn/problem.h); weights get dropout. An option that changes scores is a step of
 * finish_tile_scores(), which fused_cpu calls; its values that depend on the tile alone are members of
 * struct score_tile (score/query_tile.h).
 *
 * Products become scores while they are accumulators of QK_KEYS keys; a tile without a visible key for any query of the
 * block is skipped. */
#pragma once
#include "score/query_functions.h"
#include "score/query_tile.h"
#include "common/philox_lanes.h"
#include "common/dropout.h"

/* ---- the steps from products to scores ------------------------------------------------------ */

/* Runs the statement for each key n and vector m of a register tile of scores s. */
#define EACH_SCORE(statement)                                                                      \
    {                                                                                              \
        UNROLL                                                                                     \
        for (int n = 0; n < QK_KEYS; n++) {                                                        \
            UNROLL                                                                                 \
            for (int m = 0; m < BLOCK_VECTORS; m++)                                                \
                statement;                                                                         \
        }                                                                                          \
    }

/* Applies the softcap. Most scores are within the cap: they skip the division. */
INLINE void softcap_scores(const struct score_tile *tile, lanes (*s)[BLOCK_VECTORS])
{
    lanes most = 0.0f; /* the largest square in each lane */

    if (HAS_INVARIANT) { /* all scores with the same steps */
        EACH_SCORE(s[n][m] = simd_tanh(s[n][m] * tile->inverse_softcap) * tile->softcap)
        return;
    }
    UNROLL
    for (int n = 0; n < QK_KEYS; n++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            s[n][m] *= tile->inverse_softcap;
            const lanes square = s[n][m] * s[n][m];
            most = square > most ? square : most;
        }
    }
    if (!any_lane(most > 1.0f)) {
        UNROLL
        for (int n = 0; n < QK_KEYS; n++) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                s[n][m] = small_tanh(s[n][m]) * tile->softcap;
        }
    } else {
        UNROLL
        for (int n = 0; n < QK_KEYS; n += 2) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                simd_tanh_of_two(&s[n][m], &s[n + 1][m], tile->softcap);
        }
    }
}

/* Returns the score of key n and the queries of vector m after bias and ALiBi. */
INLINE lanes add_bias(const struct score_tile *tile, const int n, const int m, lanes x)
{
    if (HAS_BIAS)
        x += tile->bias[n * BLOCK_VECTORS + m];
    if (HAS_ALIBI)
        x = FMA((lanes)(tile->slope), ALIBI_DISTANCE(tile->distance[m] + (float)n), x);
    return x;
}

/* Returns the scores x, with -INFINITY where bias or mask hide the pair. */
INLINE lanes hide_pairs(const struct score_tile *tile, const int n, const int m, lanes x)
{
    if (HAS_BIAS)
        x = tile->bias[n * BLOCK_VECTORS + m] == -INFINITY ? (lanes)(-INFINITY) : x;
    if (HAS_MASK || HAS_BLOCKS)
        x = mask_of(tile, n, m) == 0 ? (lanes)(-INFINITY) : x;
    return x;
}

/* Returns the scores x, with -INFINITY where the key is out of the query's window. */
INLINE lanes hide_outside(const struct score_tile *tile, const int n, const int m, const lanes x)
{
    lanes y = x;

    if (HAS_WINDOW_LEFT)
        y = n < tile->begin[m] ? (lanes)(-INFINITY) : y;
    if (HAS_WINDOW_RIGHT)
        y = n > tile->last[m] ? (lanes)(-INFINITY) : y;
    return y;
}

/* Turns products of keys n0 .. n0 + QK_KEYS - 1 into scores. Keys from count on repeat the last one
 * or, in AMX tiles, do not exist; their scores become -INFINITY where they might be read. */
INLINE void finish_tile_scores(const struct score_tile *tile, const int n0, const int count,
                               lanes (*s)[BLOCK_VECTORS])
{
    if (HAS_SOFTCAP)
        softcap_scores(tile, s);
    if (HAS_DISTANCE_FUNCTION)
        EACH_SCORE(s[n][m] = add_by_distance(tile, n0 + n, m, s[n][m]))
    else if (HAS_SCORE_FUNCTION)
        apply_score_function(tile, n0, s);
    if (HAS_BIAS || HAS_ALIBI)
        EACH_SCORE(s[n][m] = add_bias(tile, n0 + n, m, s[n][m]))
    if (HIDES_ANYWHERE && tile->hides)
        EACH_SCORE(s[n][m] = hide_pairs(tile, n0 + n, m, s[n][m]))
    if (HAS_BLOCKS ? HAS_MASK_FUNCTION && !tile->listed_full : HAS_MASK_FUNCTION)
        hide_by_function(tile, n0, count, s);
    if (HAS_WINDOW && (n0 < tile->all_begin || n0 + QK_KEYS > tile->all_end))
        EACH_SCORE(s[n][m] = hide_outside(tile, n0 + n, m, s[n][m]))
    if ((CHANGES_SCORES || HAS_WINDOW || HAS_BLOCKS || OPERAND_TILES) && n0 + QK_KEYS > count)
        EACH_SCORE(s[n][m] = n0 + n < count ? s[n][m] : (lanes)(-INFINITY))
}

/* ---- dropout -------------------------------------------------------------------------------- */

/* Applies dropout to the weights of keys j .. j + count - 1; -0 stays -0. */
NOINLINE void drop_block_weights(const struct arguments *restrict args,
                                 const struct query_block block, const long j, const int count,
                                 lanes *p)
{
    /* The shape is copied once: the compiler must assume that stores to p may change what args
     * points to. */
    const struct attention_shape shape = *args->shape;
    const struct attention_call call = *args->call;
    const struct arguments own = {&shape, &call};
    const uint first = (uint)block.i;

    for (int n = -(int)(j % 4); n < count; n += 4) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes x[4];
            dropout_factors_of_key(&own, dropout_head(&own, block.b, block.h),
                                   first + m * SIMD_WIDTH + VECTOR(convert_uint)(COUNT_UP),
                                   (uint)((j + n) / 4), x);
            UNROLL
            for (int c = 0; c < 4; c++)
                if (n + c >= 0 && n + c < count)
                    p[(n + c) * BLOCK_VECTORS + m] *= x[c];
        }
    }
}
