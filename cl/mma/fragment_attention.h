/* SPDX-License-Identifier: Apache-2.0 */
/* The computation of a sub-group with a tile of keys, fragment by fragment: products with K, their
 * scores, the online softmax, products of the weights with V.
 *
 *   fused_gpu_mma   sub-groups have rows of their own, which are queries of one head, and all keys of the tile;
 *               weights are operands where they are
 *   split_gpu_mma   all sub-groups have all rows, which are queries of all heads that share a kv head: of the
 *               tile's keys each weighs its part, and the weights of all, which pass through local memory
 *               (WEIGHTS_IN_MEMORY), it multiplies with its part of V's dims
 *
 * Where K and V share a buffer in local memory (KV_PARTS), they arrive in that many parts one after
 * the other: columns of K, keys of V.
 *
 * Sizes      M_FRAGMENTS, BLOCK_N, Q_RESIDENT, KV_PARTS; BLOCK_M, the rows of the work-group; SUB_GROUPS_N, 1 or the
 *            sub-groups that share rows.
 * Kernels say HAS_ROW_TILES, whether each row has a score_tile of its own, TRACKS_SEEN, KEY_SPACING, how many keys apart
 * neighbouring columns of a tile are, and OWN_KEYS, 1 if weights stay where they are and dims are the rows of the second
 * product (split_decoded.h). What weights become operands from is in tile_weights.h. */
#pragma once
#include "mma/fragment.h"
#include "score/score.h"
#include "gpu/tile_exp.h"
#include "gpu/tile_load.h"

/* The key of a column of a tile. */
INLINE int place_of_key(const int tile, const int column)
{
    return tile / KEY_SPACING * KEY_SPACING * FRAGMENT_OTHERS + tile % KEY_SPACING +
           KEY_SPACING * column;
}

enum {
    TILE_ROWS = M_FRAGMENTS * FRAGMENT_QUERIES,
    HELD_DEPTHS = Q_RESIDENT ? PART_DEPTHS : SCALED_DEPTHS, /* depths with q in registers */
    KEY_TILES = BLOCK_N / SUB_GROUPS_N / FRAGMENT_OTHERS,
    /* sums in the first half of a fragment's rows, or in all of them */
    TILE_SUMS = FRAGMENT_SUMS / (HALF_ROWS ? 2 : 1),
    KEY_SUMS = KEY_TILES * TILE_SUMS,
    PART_SLABS = PART_KEYS / FRAGMENT_DEPTH,
    DIM_TILES = DIMS / SUB_GROUPS_N / FRAGMENT_OTHERS,
    DIM_SUMS = OWN_KEYS ? DIM_V * BLOCK_M / FRAGMENT_LANES : DIM_TILES * FRAGMENT_SUMS,
    SUB_GROUP_DIMS = DIM_TILES * FRAGMENT_OTHERS,
    /* The dims of a sub-group that share the factor of a weight: those of a format block, or of a tile
     * where a sub-group's dims may begin within a block. */
    SCALED_DIMS = !V_CACHE              ? SUB_GROUP_DIMS
                  : SUB_GROUP_DIMS % 32 ? OTHERS_AT_ONCE * FRAGMENT_OTHERS
                                        : 32
};

#include "common/quantized.h"
#include "mma/fragment_tile.h"
#include "mma/quantized_rows.h"
#include "mma/fragment_dropout.h"

/* Until a row ends, weights and their sums are 2^weight_exponent times too large. Weights of
 * quantized values also have a factor, below 2 for scales below 64, else below 2^11. If a product
 * exceeds f16, outputs become Infs and NaNs, and all is computed again with a smaller exponent: 2^4 times a factor of 2^11
 * is below the largest f16, of 2^12 is not. A scale of a row is such a factor itself in e5m2, in others 2^5 times one. An
 * invariant problem has the smaller exponent from the first, since other rows may decide whether all is computed again. */
INLINE float weight_exponent_of(const bool again)
{
    return DTYPE != DTYPE_F16 ? 0.0f : !V_CACHE ? 15.0f : again || HAS_INVARIANT ? 4.0f : 14.0f;
}

INLINE float weight_scale_of(const float weight_exponent)
{
    return DTYPE != DTYPE_F16 ? 1.0f
           : !V_CACHE         ? 0x1p15f
                              : (weight_exponent < 14.0f ? 0x1p4f : 0x1p14f);
}

/* Is 1 if scaling may wait until scores become weights: a positive scale keeps their order and
 * -inf. */
INLINE bool scale_waits(const float scale)
{
    return (HAS_SOFTCAP | HAS_SCORE_FUNCTION | HAS_BIAS | HAS_ALIBI) == 0 && scale > 0x1p-100f;
}

/* This sub-group's number among the sub-groups that share its rows. */
INLINE int sub_group_n(void)
{
    return SUB_GROUPS_N > 1 ? (int)THIS_THREAD / FRAGMENT_LANES % SUB_GROUPS_N : 0;
}

/* The row, in the block, of a lane's n-th query in a fragment. */
INLINE int lane_row_of(const int fragment_row, const int lane, const int n)
{
    return fragment_row + lane_query(lane, n);
}

/* The sub-group's first key, and the key of sum x: the lane's first key, and so many on. */
INLINE int group_key(void)
{
    return sub_group_n() * KEY_TILES * FRAGMENT_OTHERS;
}

INLINE int lane_key(const int lane)
{
    return place_of_key(0, sum_other(lane, 0));
}

INLINE int step_of(const int x)
{
    return place_of_key(x / TILE_SUMS, sum_other(0, x % TILE_SUMS));
}

INLINE int key_of(const int lane, const int x)
{
    return group_key() + step_of(x) + lane_key(lane);
}

/* The sub-group's first dim, and the dim of sum x. */
INLINE int group_dim(void)
{
    return sub_group_n() * DIM_TILES * FRAGMENT_OTHERS;
}

INLINE int dim_of(const int lane, const int x)
{
    return group_dim() + x / FRAGMENT_SUMS * FRAGMENT_OTHERS + sum_other(0, x % FRAGMENT_SUMS) +
           sum_other(lane, 0);
}

/* Is true in exactly one of the lanes that share a query. */
INLINE bool first_of_query(const int lane)
{
    return (lane & (SHARING_BITS_END - FIRST_SHARING_BIT)) == 0;
}

/* The index of the score_tile that has a lane's n-th query, and the query's row in that tile. */
INLINE int tile_of_query(const int n)
{
    return HAS_ROW_TILES ? n : 0;
}

INLINE int row_in_tile(const int fragment_row, const int lane, const int n)
{
    return HAS_ROW_TILES ? 0 : lane_row_of(fragment_row, lane, n);
}

/* ---- filling --------------------------------------------------------------------------------- */

/* Whether rows of v, and those of q and k, are planes of parts or bytes in the workspace: contiguous, padded to 16 bytes. */
enum { V_IN_LINES = OPERAND_PARTS > 1, QK_IN_LINES = V_IN_LINES || HAS_INT8 };

/* The step, dims and width of loads that fill tiles. */
INLINE long fill_step(const bool in_lines, const long step)
{
    return in_lines ? 1 : step;
}

INLINE int fill_dim(const bool in_lines, const int dim)
{
    return in_lines ? ROUND_UP(dim, 8) : dim;
}

INLINE int fill_width(const bool in_lines, const int unit, const int dim)
{
    return in_lines ? 8 : WIDTH(unit, dim);
}

/* These fill a tile of K with a part's columns (`dim` are left), or of V with a part's keys; if
 * `finite`, Infs and NaNs become 0. matrix: the first of these columns or keys; scales: of the tile's rows. They are macros:
 * in functions the fill loops would be unrolled before inlining, and the addresses of all their
 * loads would stay in registers. */
#if STAGES_CODES
#define FILL_KEYS(tile, factors, matrix, row_step, places, rows, dim, aligned, scales)             \
    fill_quantized_rows(K_CACHE, tile, K_STRIDE, BLOCK_N, PART_COLUMNS, factors, matrix, row_step, \
                        places, rows, dim, false, scales)
#else
#define FILL_KEYS(tile, factors, matrix, row_step, places, rows, dim, aligned, scales)             \
    fill_rows(tile, K_STRIDE, BLOCK_N, PART_COLUMNS, matrix, row_step, places,                     \
              fill_step(QK_IN_LINES, k_step(args)), rows, fill_dim(QK_IN_LINES, dim),              \
              fill_width(QK_IN_LINES, UNIT_K, DIM_QK), aligned, false)
#endif
#if V_CACHE && PACKED_VALUES
#define FILL_VALUES(tile, factors, matrix, row_step, places, rows, aligned, finite, scales)        \
    fill_quantized_packed(V_CACHE, tile, PART_KEYS, DIMS, factors, matrix, row_step, places, rows, \
                          DIM_V, finite, scales)
#elif V_CACHE
#define FILL_VALUES(tile, factors, matrix, row_step, places, rows, aligned, finite, scales)        \
    fill_quantized_rows(V_CACHE, tile, V_STRIDE, PART_KEYS, DIMS, factors, matrix, row_step,       \
                        places, rows, DIM_V, finite, scales)
#elif PACKED_VALUES
#define FILL_VALUES(tile, factors, matrix, row_step, places, rows, aligned, finite, scales)        \
    fill_packed(tile, PART_KEYS, DIMS, matrix, row_step, places,                                   \
                fill_step(V_IN_LINES, v_step(args)), rows, fill_dim(V_IN_LINES, DIM_V),            \
                fill_width(V_IN_LINES, UNIT_V, DIM_V), aligned, finite)
#else
#define FILL_VALUES(tile, factors, matrix, row_step, places, rows, aligned, finite, scales)        \
    fill_rows(tile, V_STRIDE, PART_KEYS, DIMS, matrix, row_step, places,                           \
              fill_step(V_IN_LINES, v_step(args)), rows, fill_dim(V_IN_LINES, DIM_V),              \
              fill_width(V_IN_LINES, UNIT_V, DIM_V), aligned, finite)
#endif

/* ---- scores ---------------------------------------------------------------------------------- */

/* The online softmax of a lane's rows of a fragment. */
struct fragment_state {
    float row_max[LANE_QUERIES], row_sum[LANE_QUERIES];
    float seen[LANE_QUERIES]; /* 1 once the lane has seen a visible key; used with TRACKS_SEEN */
    float out[DIM_SUMS];
#if OWN_KEYS
    float rescale[LANE_QUERIES]; /* the factor that rescales `out` before more is added */
#endif
};

/* The state of rows before their first key. */
INLINE void clear_rows(struct fragment_state state[M_FRAGMENTS])
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        UNROLL
        for (int n = 0; n < LANE_QUERIES; n++) {
            state[f].row_max[n] = -INFINITY;
            state[f].row_sum[n] = 0.0f;
            state[f].seen[n] = 0.0f;
        }
        UNROLL
        for (int x = 0; x < DIM_SUMS; x++)
            state[f].out[x] = 0.0f;
    }
}

INLINE void clear_products(float s[M_FRAGMENTS][KEY_SUMS])
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        UNROLL
    for (int x = 0; x < KEY_SUMS; x++)
        s[f][x] = 0.0f;
}

/* Loads the sub-group's fragments of queries at step d of the depth; q_tile begins with its first
 * row. */
INLINE void load_queries(const __local ushort *q_tile, const int d,
                         uint words[M_FRAGMENTS][QUERY_WORDS], const int lane)
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        load_query(words[f], q_tile + f * FRAGMENT_QUERIES * ROW_STRIDE + d * FRAGMENT_DEPTH,
                   ROW_STRIDE, lane);
}

#include "mma/fragment_softcap.h"

/* 1: the ALiBi term is multiplied and added by two instructions, each of which rounds. */
enum {
    TWO_STEPS_OF_ALIBI = HAS_ALIBI & HAS_TILE_PRODUCTS & (DTYPE != DTYPE_F32) &
                         (HAS_ALIBI_SYMMETRIC == 0) & (HAS_STRICT == 0)
};

/* Turns products into the scores of visible pairs, without a bias. This is score_of(), but the
 * distance of a row's first key is converted once: a conversion for each pair took half of the
 * time. */
INLINE void score_products(const struct arguments *args, const struct score_tile *tiles,
                           const int fragment_row, float s[KEY_SUMS], const int lane)
{
    float scale[LANE_QUERIES], distance[LANE_QUERIES];

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        scale[n] = tiles[tile_of_query(n)].scale;
        distance[n] = (float)(tiles[tile_of_query(n)].distance +
                              (key_of(lane, 0) - row_in_tile(fragment_row, lane, n)));
    }
    if (HAS_SOFTCAP)
        cap_products(args->shape->softcap, scale, s);
    UNROLL
    for (int x = 0; x < KEY_SUMS; x++) {
        const int here = sum_query(x % TILE_SUMS);
        const struct score_tile tile = tiles[tile_of_query(here)];
        /* in one expression with what is added, so that compilers may contract both */
#define SCORED                                                                                     \
    (HAS_SCORE_FUNCTION                                                                            \
         ? function_score(                                                                         \
               args,                                                                               \
               function_pair_in(tile, row_in_tile(fragment_row, lane, here), key_of(lane, x)),     \
               HAS_SOFTCAP ? s[x] : scale[here] * s[x])                                            \
     : HAS_SOFTCAP ? s[x]                                                                          \
                   : scale[here] * s[x])
        if (TWO_STEPS_OF_ALIBI)
            s[x] = SCORED + fma(tile.slope, (float)step_of(x), tile.slope * distance[here]);
        else if (HAS_ALIBI)
            s[x] = SCORED + tile.slope * ALIBI_DISTANCE(distance[here] + (float)step_of(x));
        else
            s[x] = SCORED;
    }
}

/* Turns the products of a fragment of queries into scores, -inf for masked keys; a scale that waits
 * (scale_waits()) is not applied. highest: the maximum of each row over all lanes that share it
 * and over earlier tiles. seen becomes 1 for rows with a visible key. partial: some keys may be
 * masked. Window and lengths are given as steps [see_from, see_to) from the lane's first key: a
 * comparison with each key's own number would take a register each. */
INLINE void finish_fragment_scores(const struct arguments *args, const struct score_tile *tiles,
                                   const bool partial, const int see_from[LANE_QUERIES],
                                   const int see_to[LANE_QUERIES], const int fragment_row,
                                   float s[KEY_SUMS], float highest[LANE_QUERIES],
                                   float seen[LANE_QUERIES], const int lane,
                                   __local float *exchange)
{
    bool waits = true;

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        waits = waits && scale_waits(tiles[tile_of_query(n)].scale);
    if (!waits)
        score_products(args, tiles, fragment_row, s, lane);
    if (partial) {
        UNROLL
        for (int x = 0; x < KEY_SUMS; x++) {
            const int here = sum_query(x % TILE_SUMS);
            struct score y = {s[x], 1.0f, 0.0f};
            const bool sees = hide(args, tiles[tile_of_query(here)],
                                   step_of(x) >= see_from[here] && step_of(x) < see_to[here],
                                   row_in_tile(fragment_row, lane, here), key_of(lane, x), &y);
            if (TRACKS_SEEN)
                seen[here] = sees ? 1.0f : seen[here];
            s[x] = sees ? y.value : -INFINITY;
        }
    }
    /* The maximum is taken in two chains, over even and odd tiles of keys, each of half the length.
     * */
    float odd[LANE_QUERIES];
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        odd[n] = -INFINITY;
    UNROLL
    for (int x = 0; x < KEY_SUMS; x++) {
        const int here = sum_query(x % TILE_SUMS);
        float *const chain = x / TILE_SUMS % 2 ? odd : highest;
        chain[here] = fmax(chain[here], s[x]);
    }
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        highest[n] = fmax(highest[n], odd[n]);
    query_maximum(highest, lane, exchange);
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* Returns the exponent of 2 of a score, plus `less`. Weights of a row are relative to the exponent
 * of its highest score. */
INLINE float exponent_of(const float score, const float scale, const float less)
{
    return fma(score, scale_waits(scale) ? scale * M_LOG2E_F : M_LOG2E_F, less);
}

/* Applies to the rows' state the factors that were deferred to the last key: the scale, and the
 * weights' exponent. */
INLINE void scale_rows(const float scale[LANE_QUERIES], struct fragment_state *state,
                       const float weight_exponent)
{
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        if (scale_waits(scale[n]))
            state->row_max[n] *= scale[n];
        state->row_sum[n] *= 1.0f / weight_scale_of(weight_exponent);
    }
}

/* Rescales earlier sums to the new row_max; most tiles do not change row_max. */
INLINE void rescale_sums(const bool rescales, const float rescale[LANE_QUERIES],
                         float out[DIM_SUMS])
{
    if (any_in_sub_group(rescales)) {
        UNROLL
        for (int x = 0; x < DIM_SUMS; x++)
            out[x] *= rescale[sum_query(x % FRAGMENT_SUMS)];
    }
}

/* Takes the rows' new maxima, and rescales the sums of their weights. base: what weights are relative to from now on;
 * rescale: the factors of earlier sums. Returns whether some factor is not 1. */
INLINE bool take_maxima(const float scale[LANE_QUERIES], const float highest[LANE_QUERIES],
                        struct fragment_state *state, const float weight_exponent,
                        float base[LANE_QUERIES], float rescale[LANE_QUERIES])
{
    bool rescales = false;

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        base[n] = exponent_of(finite_maximum(highest[n]), scale[n], -weight_exponent);
        rescale[n] =
            power_of_two(exponent_of(state->row_max[n], scale[n], -weight_exponent) - base[n]);
        state->row_max[n] = highest[n];
        state->row_sum[n] *= rescale[n];
        rescales = rescales || rescale[n] != 1.0f;
    }
    return rescales;
}

/* Turns a fragment's scores into softmax weights relative to `base`, and adds them to row_sum. */
INLINE void weights_of_scores(const int fragment_row, const int lane,
                              const float scale[LANE_QUERIES], const float base[LANE_QUERIES],
                              float s[KEY_SUMS], struct fragment_state *state,
                              const __local uchar *kept)
{
    UNROLL
    for (int x = 0; x < KEY_SUMS; x++) {
        const int here = sum_query(x % TILE_SUMS);
        s[x] = weight_power(x, exponent_of(s[x], scale[here], -base[here]));
        state->row_sum[here] += s[x];
        /* with a producer, drop_rounded_weights() applies dropout instead */
        if ((HAS_DROPOUT & (PRODUCER == 0)) &&
            !is_kept(kept, BLOCK_M, lane_row_of(fragment_row, lane, here), key_of(lane, x)))
            s[x] = 0.0f;
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* sums += a part of weights times values. */
INLINE void add_part(const int part, float *sums, const uint *weights, const uint *values,
                     const int lane, __local float *exchange)
{
    if (SCALES_PARTS && part > 0) {
        float products[FRAGMENT_SUMS] = {0.0f};
        multiply_add(products, weights, values, lane, exchange);
        UNROLL
        for (int e = 0; e < FRAGMENT_SUMS; e++)
            sums[e] = fma(products[e], 1.0f / PART_SCALE, sums[e]);
    } else {
        multiply_add(sums, weights, values, lane, exchange);
    }
}

/* Returns whether all outputs are finite: 0 times each of them is 0. */
INLINE bool all_finite(const struct fragment_state state[M_FRAGMENTS])
{
    float check = 0.0f;

    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        UNROLL
    for (int x = 0; x < DIM_SUMS; x++)
        check = fma(state[f].out[x], 0.0f, check);
    return check == 0.0f;
}
