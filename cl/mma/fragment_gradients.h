/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of tiles by matrix instructions: owned rows (of q or k) are the fragments' queries,
 * streamed rows their keys. Each sub-group holds the products of FRAGMENT_QUERIES owned rows with
 * all streamed rows of a tile in registers, STREAMED_SUMS in each lane; the weights made of them
 * are operands of the second product without moving between registers.
 *
 * Dims of results are divided among DIM_GROUPS sub-groups, and each of these has all products.
 */
#pragma once
#include "gpu/backward_tile.h"
#include "mma/fragment_tile.h"
#include "mma/gradients_pairs.h"
#include "mma/gradients_dropout.h"
#include "mma/fragment_tanh.h"

/* A lane's sums of rows of dim elements. */
#define DIM_SUMS(dim) (DIM_TILES(dim) * FRAGMENT_SUMS)
/* The larger counts of the two dims. Loops over sums go to these: compilers may give up unrolling
 * loops before a function's dim is constant, and indexed sums cannot stay in registers. */
enum {
    MAX_DIM_TILES = MAX(DIM_TILES(DIM_QK), DIM_TILES(DIM_V)),
    MAX_DIM_SUMS = MAX_DIM_TILES * FRAGMENT_SUMS
};

/* Local memory of kernels that define the sizes. */
#if STAGES > 1 && !HAS_COPIES
#error "without background copies one tile is staged"
#elif HAS_TILE_PRODUCTS && (DIM_QK % 64 || DIM_V % 64 || BLOCK_STREAMED % 32 || DIM_GROUPS > 1)
#error "wgmma multiplies with tiles of whole blocks of 64 columns"
#endif
enum {
    OWNED_QK_AT = HAS_TILE_PRODUCTS ? STAGES * STAGE_ELEMENTS : 0,
    OWNED_V_AT = OWNED_QK_AT + OPERAND_PARTS * OWNED_ELEMENTS(DIM_QK),
    /* tiles of streamed rows begin where the swizzle does */
    STREAMED_QK_AT = HAS_TILE_PRODUCTS ? 0 : OWNED_V_AT + OPERAND_PARTS * OWNED_ELEMENTS(DIM_V),
    STREAMED_V_AT = STREAMED_QK_AT + OPERAND_PARTS * STREAMED_ELEMENTS(DIM_QK)
};

/* ---- load ------------------------------------------------------------------------------------ */

/* Macros: in a function the fill loop would be unrolled before inlining, and the addresses of all
 * its loads would stay in registers. dim and unit are constants rather than members of the matrix:
 * NVIDIA's compiler would divide by a member in each tile. */
/* Parts are staged one after the other, by one piece of code. (PoCL 3.1 skips loops that follow such a loop.) */
#if EMULATE
#define ONE_BY_ONE _Pragma("unroll")
#else
#define ONE_BY_ONE _Pragma("unroll 1")
#endif
#if OPERAND_PARTS > 1
#define FILL_PARTS(m, tile, stride, tile_rows, columns, dim, unit, part_elements)                  \
    do {                                                                                           \
        ONE_BY_ONE                                                                                 \
        for (int part = 0; part < OPERAND_PARTS; part++)                                           \
            fill_rows((tile) + part * (part_elements), stride, tile_rows, columns,                 \
                      (m).p + part * (m).part_step, (m).row_step, 0, 1, (m).rows, PART_LINE(dim),  \
                      8, (m).aligned, false);                                                      \
    } while (0)
#define PART_STEP(m) (m).part_step
#else
#define FILL_PARTS(m, tile, stride, tile_rows, columns, dim, unit, part_elements)                  \
    fill_rows(tile, stride, tile_rows, columns, (m).p, (m).row_step, 0, (m).step, (m).rows, dim,   \
              WIDTH(unit, dim), (m).aligned, false)
#define PART_STEP(m) 0
#endif
/* Whether rows are copied 16 bytes at a time. */
INLINE bool is_wide(const bool unit, const int dim)
{
    return OPERAND_PARTS > 1 || WIDTH(unit, dim) == 8;
}

#define STAGE_OWNED(owned, tile, dim, unit)                                                        \
    do {                                                                                           \
        const struct matrix m = owned;                                                             \
        FILL_PARTS(m, tile, OWNED_STRIDE(dim), BLOCK_OWNED, COLUMNS(dim), dim, unit,               \
                   OWNED_ELEMENTS(dim));                                                           \
    } while (0)
#define STAGE_STREAMED(streamed, tile, dim, unit)                                                  \
    do {                                                                                           \
        const struct matrix m = streamed;                                                          \
        FILL_PARTS(m, tile, STREAMED_STRIDE(dim), BLOCK_STREAMED, STREAMED_COLUMNS(dim), dim,      \
                   unit, STREAMED_ELEMENTS(dim));                                                  \
    } while (0)
/* Stages streamed rows as values of the second product, with 0 for Infs and NaNs if `finite`;
 * sets *nonfinite if there was one. */
INLINE void stage_value_rows(const struct matrix m, const bool finite, __local ushort *tile,
                             volatile __local int *nonfinite)
{
    int found = 0;

    ONE_BY_ONE
    for (int part = 0; part < OPERAND_PARTS; part++) {
        __local ushort *const to = tile + part * STREAMED_ELEMENTS(m.dim);
        const __global element *const from = m.p + part * PART_STEP(m);
#if PACKED_VALUES
        found |= fill_packed(to, BLOCK_STREAMED, DIMS(m.dim), from, m.row_step, 0, m.step, m.rows,
                             m.dim, m.width, m.aligned, finite);
#else
        found |= fill_rows(to, STREAMED_STRIDE(m.dim), BLOCK_STREAMED, STREAMED_COLUMNS(m.dim),
                           from, m.row_step, 0, m.step, m.rows, m.dim, m.width, m.aligned, finite);
#endif
    }
    if (found)
        atomic_or(nonfinite, 1);
}

/* ---- first product --------------------------------------------------------------------------- */

/* Adds to the sums of OTHERS_AT_ONCE tiles the products of all pairs of parts that count, the small
 * ones first. */
INLINE void multiply_parts(const int parts, float *sums, uint queries[OPERAND_PARTS][QUERY_WORDS],
                           uint others[OPERAND_PARTS][OTHERS_AT_ONCE * OTHER_WORDS], const int lane,
                           __local float *exchange)
{
    UNROLL
    for (int both = parts - 1; both >= 0; both--)
        UNROLL
    for (int part = 0; part <= both; part++)
        UNROLL
    for (int m = 0; m < OTHERS_AT_ONCE; m++)
        multiply_add(sums + m * FRAGMENT_SUMS, queries[part], others[both - part] + m * OTHER_WORDS,
                     lane, exchange);
}

/* Zeros an array of sums. */
#define CLEAR(sums)                                                                                \
    do {                                                                                           \
        UNROLL                                                                                     \
        for (int x = 0; x < (int)(sizeof(sums) / sizeof *(sums)); x++)                             \
            (sums)[x] = 0.0f;                                                                      \
    } while (0)

/* Multiplies the sub-group's owned rows, from `owned` on, by streamed rows, of dim elements
 * each, both of `parts` parts. */
INLINE void multiply_fragment_rows(const int parts, const __local ushort *owned,
                                   const __local ushort *streamed, const int dim,
                                   float products[STREAMED_SUMS], const int lane,
                                   __local float *exchange)
{
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++)
        products[x] = 0.0f;
    UNROLL
    for (int d = 0; d < COLUMNS(dim); d += FRAGMENT_DEPTH) {
        uint owned_words[OPERAND_PARTS][QUERY_WORDS];
        UNROLL
        for (int part = 0; part < OPERAND_PARTS; part++)
            if (part < parts)
                load_query(owned_words[part], owned + part * OWNED_ELEMENTS(dim) + d,
                           OWNED_STRIDE(dim), lane);
        UNROLL
        for (int n = 0; n < STREAMED_TILES; n += OTHERS_AT_ONCE) {
            uint words[OPERAND_PARTS][OTHERS_AT_ONCE * OTHER_WORDS];
            UNROLL
            for (int part = 0; part < OPERAND_PARTS; part++)
                if (part < parts)
                    load_keys(words[part],
                              streamed + part * STREAMED_ELEMENTS(dim) +
                                  n * FRAGMENT_OTHERS * STREAMED_STRIDE(dim) + d,
                              STREAMED_STRIDE(dim), lane);
            multiply_parts(parts, products + n * FRAGMENT_SUMS, owned_words, words, lane, exchange);
        }
        in_order();
    }
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++)
        sum_here(&products[x]);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The streamed rows that pair with a lane's owned rows by windows and row counts, as constant steps
 * [see_from, see_to) from the lane's first one: a comparison with each row itself would take a
 * register each. */
INLINE void find_visible(const bool owns_keys, const struct score_tile tile, const int first_row,
                         const int lane, int see_from[LANE_QUERIES], int see_to[LANE_QUERIES])
{
    const int first = sum_other(lane, 0);

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        const int own = owned_row(n, first_row, lane), from = own - first;
        see_from[n] = -BLOCK_STREAMED;
        see_to[n] = (owns_keys ? tile.rows : tile.keys) - first;
        if (HAS_WINDOW_LEFT && owns_keys)
            see_to[n] = min(see_to[n], from - tile.window_begin + 1);
        else if (HAS_WINDOW_LEFT)
            see_from[n] = from + tile.window_begin;
        if (HAS_WINDOW_RIGHT && owns_keys)
            see_from[n] = from - tile.window_end + 1;
        else if (HAS_WINDOW_RIGHT)
            see_to[n] = min(see_to[n], from + tile.window_end);
        if (own >= (owns_keys ? tile.keys : tile.rows))
            see_to[n] = -BLOCK_STREAMED;
    }
}

/* Is 1 if masked pairs are computed like others and zeroed at the end, in partial tiles only;
 * nothing else may depend on them. */
#define HIDES_AT_END (!HAS_BIAS && !HAS_DBIAS && !HAS_DSLOPES && !HAS_SCORE_FUNCTION)
/* Is 1 if p is computed while the products with v are still running, and multiplied while ds is
 * computed. No other value of a score but softcap's derivative may be needed again. */
#define WEIGHTS_FIRST ((HAS_TILE_PRODUCTS || M_FRAGMENTS > 1) && HIDES_AT_END)

/* With softcap, replaces products by their tanh, from which scores and their derivatives follow. */
INLINE void bend_products(const struct arguments *args, const struct score_tile tile,
                          float p[STREAMED_SUMS])
{
    if (!HAS_SOFTCAP)
        return;
    const float factor = bend_of(args, tile);
    if (DTYPE != DTYPE_F32) { /* most tiles of models have small scores alone */
        float highest[2] = {0.0f, 0.0f};
        UNROLL
        for (int x = 0; x < STREAMED_SUMS; x++)
            highest[x % 2] = fmax(highest[x % 2], fabs(p[x]));
        if (!any_in_sub_group(fmax(highest[0], highest[1]) * fabs(factor) > MOST_OF_SMALL_TANH)) {
            UNROLL
            for (int x = 0; x < STREAMED_SUMS; x++)
                p[x] = small_score_tanh(1.0f, factor * p[x]);
            return;
        }
    }
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++)
        p[x] = fragment_tanh(factor * p[x]);
}

/* Turns the products of a sub-group's owned rows into p and ds in the same registers: p after
 * dropout, for dv; ds with softcap's derivative, without it if ds_is_raw; 0 for masked pairs. Owned
 * rows are
 * keys if owns_keys. partial: some pair of the tile may be masked or missing. Statistics of queries
 * are in `owned` if these are owned, else in `streamed`. slope_sums and bias_sums, of the lane's
 * owned rows, add up ds times the distance, and ds. */
INLINE void gradients_of_fragment(const bool owns_keys, const bool ds_is_raw, const bool partial,
                                  const struct arguments *args, const struct tile t,
                                  const int first_row, const float4 *owned,
                                  const __local float4 *streamed, float p[STREAMED_SUMS],
                                  float ds[STREAMED_SUMS], float *slope_sums, float *bias_sums,
                                  const int lane, const struct kept_pairs kept)
{
    const struct score_tile tile = scores_of_tile(args, t);
    int see_from[LANE_QUERIES], see_to[LANE_QUERIES];

    find_visible(owns_keys, tile, first_row, lane, see_from, see_to);
    bend_products(args, tile, p);
#define SEES(x, n, row, key, s)                                                                    \
    hide(args, tile, streamed_step(x) >= see_from[n] && streamed_step(x) < see_to[n], row, key, s)
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++) {
        const int n = sum_query(x % FRAGMENT_SUMS), own = owned_row(n, first_row, lane),
                  other = streamed_row(x, lane);
        const int row = owns_keys ? other : own, key = owns_keys ? own : other;
        struct score s = score_of_bent(args, tile, row, key, p[x]);
        bool sees = true;
        if (!HIDES_AT_END && partial)
            sees = SEES(x, n, row, key, &s);
        const struct pair_gradient pair =
            pair_gradient_of(s, ds[x], owns_keys ? streamed[other] : owned[n],
                             bit_of_pair(owns_keys, kept, x, first_row, lane) != 0);
        if (HAS_DSLOPES)
            slope_sums[n] = MULTIPLY_ADD(sees ? pair.ds : 0.0f, s.distance, slope_sums[n]);
        if (HAS_DBIAS)
            bias_sums[n] += sees ? pair.ds : 0.0f;
        p[x] = sees ? pair.weight : 0.0f;
        ds[x] = sees ? (ds_is_raw ? pair.ds : pair.ds * s.derivative) : 0.0f;
    }
    if (HIDES_AT_END && partial) {
        UNROLL
        for (int x = 0; x < STREAMED_SUMS; x++) {
            const int n = sum_query(x % FRAGMENT_SUMS), own = owned_row(n, first_row, lane),
                      other = streamed_row(x, lane);
            struct score unused;
            const bool sees = SEES(x, n, owns_keys ? other : own, owns_keys ? own : other, &unused);
            p[x] = sees ? p[x] : 0.0f;
            ds[x] = sees ? ds[x] : 0.0f;
        }
    }
#undef SEES
}

#if WEIGHTS_FIRST
/* These steps do what gradients_of_fragment() does. The first makes p of its products, with -0 for a
 * masked pair, since no exponential is -0; the second makes ds of p and the second products, and drops weights of p
 * if it drops.
 *
 * Softcap's derivative: what ds is made of are weights times it. With owned queries p is nothing else, and becomes
 * that in the first step. With owned keys dv needs p as well: tanh is computed first, and one step makes p and ds when
 * the second products are there. */

/* ALiBi's distances of the lane's first streamed row. */
INLINE void find_first_distances(const bool owns_keys, const struct score_tile tile,
                                 const int first_row, float first[LANE_QUERIES], const int lane)
{
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        const int own = owned_row(n, first_row, lane), other = streamed_row(0, lane);
        first[n] =
            HAS_ALIBI ? (float)(tile.distance + (owns_keys ? own - other : other - own)) : 0.0f;
    }
}

/* The weight of sum x of its product, or with softcap of the product's tanh. */
INLINE float weight_of_sum(const bool owns_keys, const struct arguments *args,
                           const struct score_tile tile, const float first[LANE_QUERIES],
                           const float4 *owned, const __local float4 *streamed, const int x,
                           const float product, const int lane)
{
    const int n = sum_query(x % FRAGMENT_SUMS), other = streamed_row(x, lane);
    const float minus_lse = owns_keys ? streamed[other].s0 : owned[n].s0;
    const float power = owns_keys ? streamed[other].s2 : owned[n].s2;
    const float step = (float)streamed_step(x);
    const float distance = ALIBI_DISTANCE(owns_keys ? first[n] - step : first[n] + step);
    const float base = HAS_ALIBI ? fma(tile.slope, distance, minus_lse) : minus_lse;
    return power_of_two(
        fma(fma(product, HAS_SOFTCAP ? args->shape->softcap : tile.scale, base), M_LOG2E_F, power));
}

/* Whether sum x is of a pair that is visible, by steps of find_visible(). */
INLINE bool is_visible(const bool owns_keys, const struct arguments *args,
                       const struct score_tile tile, const int see_from[LANE_QUERIES],
                       const int see_to[LANE_QUERIES], const int first_row, const int x,
                       const int lane)
{
    const int n = sum_query(x % FRAGMENT_SUMS), own = owned_row(n, first_row, lane),
              other = streamed_row(x, lane);
    struct score unused;

    return hide(args, tile, streamed_step(x) >= see_from[n] && streamed_step(x) < see_to[n],
                owns_keys ? other : own, owns_keys ? own : other, &unused);
}

/* The first step after tanh. */
INLINE void weigh_bent(const bool owns_keys, const bool partial, const struct arguments *args,
                       const struct tile t, const int first_row, const float4 *owned,
                       const __local float4 *streamed, float p[STREAMED_SUMS], const int lane)
{
    const struct score_tile tile = scores_of_tile(args, t);
    int see_from[LANE_QUERIES], see_to[LANE_QUERIES];
    float first[LANE_QUERIES];

    find_first_distances(owns_keys, tile, first_row, first, lane);
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++) {
        const float weight =
            weight_of_sum(owns_keys, args, tile, first, owned, streamed, x, p[x], lane);
        p[x] = HAS_SOFTCAP && !owns_keys ? weight * fma(-p[x], p[x], 1.0f) : weight;
    }
    if (!partial)
        return;
    find_visible(owns_keys, tile, first_row, lane, see_from, see_to);
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++)
        if (!is_visible(owns_keys, args, tile, see_from, see_to, first_row, x, lane))
            p[x] = -0.0f;
}

INLINE void weigh_scores(const bool owns_keys, const bool partial, const struct arguments *args,
                         const struct tile t, const int first_row, const float4 *owned,
                         const __local float4 *streamed, float p[STREAMED_SUMS], const int lane)
{
    bend_products(args, scores_of_tile(args, t), p);
    weigh_bent(owns_keys, partial, args, t, first_row, owned, streamed, p, lane);
}

/* In the second pass a NaN that is dropped stays one: a weight that is an Inf, a NaN or masked is kept, or, where
 * weights are not dropped, all second products, but 0 times those that are dropped. The first pass needs no such care:
 * weights, dropped or not, are multiplied by -delta, which is finite for finite gradients and values alone, since the row
 * of o was made of these. */
INLINE struct kept_pairs keep_nonfinite(const bool again, const bool drops, struct kept_pairs kept,
                                        float p[STREAMED_SUMS], float ds[STREAMED_SUMS])
{
    if (!HAS_DROPOUT || !again)
        return kept;
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++) {
        const int n = sum_query(x % FRAGMENT_SUMS);
        const bool keeps = (kept.words[n] & pair_mask(x)) != 0, finite = p[x] * 0.0f == 0.0f;
        if (drops) {
            kept.words[n] |= finite && as_uint(p[x]) != as_uint(-0.0f) ? 0 : pair_mask(x);
            p[x] = keeps || finite ? p[x] : NAN;
        } else {
            ds[x] *= keeps ? 1.0f : 0.0f;
        }
    }
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        kept.words[n] |= drops ? 0 : ~0u;
    return kept;
}

/* Returns ds of a pair, from its weight and dp. If `drops`, dropout is also applied to *weight. bits: not 0 if dropout keeps
 * the pair. */
INLINE float gradient_of_weight(const bool drops, const uint bits, const float dp,
                                const float minus_delta, float *weight)
{
    const float w = *weight;
    float ds = w * minus_delta;

    if (!HAS_DROPOUT)
        return w * (dp + minus_delta);
    if (drops) {
        *weight = bits ? w : 0.0f;
        return fma(*weight, dp, ds);
    }
    return add_product_if(bits, w, dp, ds);
}

/* Both steps after tanh, of owned keys. */
INLINE void weigh_bent_gradients(const bool partial, const struct arguments *args,
                                 const struct tile t, const struct kept_pairs kept,
                                 const int first_row, const __local float4 *streamed,
                                 float p[STREAMED_SUMS], float ds[STREAMED_SUMS], const int lane)
{
    const struct score_tile tile = scores_of_tile(args, t);
    int see_from[LANE_QUERIES], see_to[LANE_QUERIES];
    float first[LANE_QUERIES];

    find_first_distances(true, tile, first_row, first, lane);
    UNROLL
    for (int m = 0; m < STREAMED_SUMS; m++) {
        const int x = sum_of_bit(m);
        const float factor = bit_of_pair(true, kept, x, first_row, lane) ? 1.0f : 0.0f;
        const float minus_delta = streamed[streamed_row(x, lane)].s1;
        ds[x] = fma(-p[x], p[x], 1.0f) *
                (HAS_DROPOUT ? fma(factor, ds[x], minus_delta) : ds[x] + minus_delta);
    }
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++) {
        const float w = weight_of_sum(true, args, tile, first, 0, streamed, x, p[x], lane);
        p[x] = HAS_DROPOUT && !bit_of_pair(true, kept, x, first_row, lane) ? w * 0.0f : w;
        ds[x] *= w;
    }
    if (!partial)
        return;
    find_visible(true, tile, first_row, lane, see_from, see_to);
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++)
        if (!is_visible(true, args, tile, see_from, see_to, first_row, x, lane))
            p[x] = ds[x] = 0.0f;
}

/* The second step: computes ds from p and dp. If `drops`, it also applies dropout to p. */
INLINE void weigh_gradients(const bool again, const bool owns_keys, const bool partial,
                            const struct kept_pairs kept, const int first_row, const float4 *owned,
                            const __local float4 *streamed, const bool drops,
                            float p[STREAMED_SUMS], float ds[STREAMED_SUMS], const int lane)
{
    const struct kept_pairs pairs = keep_nonfinite(again, drops, kept, p, ds);

    UNROLL
    for (int m = 0; m < STREAMED_SUMS; m++) {
        const int x = sum_of_bit(m);
        const float minus_delta =
            owns_keys ? streamed[streamed_row(x, lane)].s1 : owned[sum_query(x % FRAGMENT_SUMS)].s1;
        ds[x] = gradient_of_weight(drops, bit_of_pair(owns_keys, pairs, x, first_row, lane), ds[x],
                                   minus_delta, &p[x]);
    }
    if (!again || !partial) /* of masked pairs ds is 0, unless it is 0 times an Inf or NaN */
        return;
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++)
        ds[x] = as_uint(p[x]) == as_uint(-0.0f) ? 0.0f : ds[x];
}

/* The weights of owned keys that dropout keeps, and 0. A NaN stays one. */
INLINE void drop_fragments(const struct kept_pairs kept, const int first_row,
                           const float p[STREAMED_SUMS], float dropped[STREAMED_SUMS],
                           const int lane)
{
    UNROLL
    for (int m = 0; m < STREAMED_SUMS; m++) {
        const int x = sum_of_bit(m);
        dropped[x] = p[x] * (bit_of_pair(true, kept, x, first_row, lane) ? 1.0f : 0.0f);
    }
}
#endif

/* ---- second product -------------------------------------------------------------------------- */

/* sums += weights times a slab of streamed rows of dim elements, of both the first `parts` parts, in one or, of
 * OTHERS_AT_ONCE, two tiles of dims from d on. */
INLINE void add_tiles(const int parts, const __local ushort *tile, const int dim, const int slab,
                      const int d, uint weight_words[OPERAND_PARTS][QUERY_WORDS], float *sums,
                      const int lane, __local float *exchange)
{
    uint words[OPERAND_PARTS][OTHERS_AT_ONCE * OTHER_WORDS];

    UNROLL
    for (int part = 0; part < OPERAND_PARTS; part++) {
        const __local ushort *const values = tile + part * STREAMED_ELEMENTS(dim);
        if (part >= parts)
            continue;
#if PACKED_VALUES
        UNROLL
        for (int w = 0; w < OTHER_WORDS; w += PACKED_RUN / 2)
            load_run(words[part] + w,
                     values + packed_at(DIMS(dim), slab, d + other_column(lane),
                                        other_depth(lane, 2 * w)),
                     PACKED_RUN / 2);
#else
        load_values(words[part], values + slab * FRAGMENT_DEPTH * STREAMED_STRIDE(dim) + d,
                    STREAMED_STRIDE(dim), lane);
#endif
    }
    multiply_parts(parts, sums, weight_words, words, lane, exchange);
}

/* Rounds weights, or the gradients of scores, to operands, in parts. */
INLINE void round_rows(const float weights[STREAMED_SUMS],
                       uint words[OPERAND_PARTS * STREAMED_SLABS][QUERY_WORDS], const int lane,
                       __local float *exchange)
{
    float rest[STREAMED_SUMS]; /* the caller may need the weights again */

    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++)
        rest[x] = weights[x];
    UNROLL
    for (int part = 0; part < OPERAND_PARTS; part++)
        UNROLL
    for (int slab = 0; slab < STREAMED_SLABS; slab++)
        take_weights(words[part * STREAMED_SLABS + slab], rest, slab, lane, exchange);
}

#if OPERAND_PARTS > 1
/* Multiplies Infs and NaNs among the weights by the first parts of streamed rows alone, adds the products to sums, and sets
 * these weights to 0. Their products with the other parts, which may be 0 or have another sign, would make NaNs. */
INLINE void add_infinite_weights(const __local ushort *tile, const int dim, const int dim_group,
                                 float weights[STREAMED_SUMS], float *sums, const int lane,
                                 __local float *exchange)
{
    float infinite[STREAMED_SUMS];

    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++) {
        const bool finite = weights[x] * 0.0f == 0.0f;
        infinite[x] = finite ? 0.0f : weights[x];
        weights[x] = finite ? weights[x] : 0.0f;
    }
#if HAS_TILE_PRODUCTS
    uint words[STREAMED_SLABS][QUERY_WORDS];
    UNROLL
    for (int slab = 0; slab < STREAMED_SLABS; slab++)
        take_weights(words[slab], infinite, slab, lane, exchange);
    add_rows_of_tile(words, 1, BLOCK_STREAMED, tile, dim, sums, lane, exchange);
#else
    const int tiles = DIM_TILES(dim);
    UNROLL
    for (int slab = 0; slab < STREAMED_SLABS; slab++) {
        uint words[OPERAND_PARTS][QUERY_WORDS];
        take_weights(words[0], infinite, slab, lane, exchange);
        UNROLL
        for (int n = 0; n < (EMULATE ? tiles : MAX_DIM_TILES); n += OTHERS_AT_ONCE)
            if (EMULATE || n < tiles) /* no barrier in an `if` */
                add_tiles(1, tile, dim, slab, (dim_group * tiles + n) * FRAGMENT_OTHERS, words,
                          sums + n * FRAGMENT_SUMS, lane, exchange);
        in_order();
    }
#endif
}

/* Calls add_infinite_weights() in the second pass; in emulation always, since PoCL 3.1 miscompiles a barrier in an `if`. */
#define ADD_INFINITE_WEIGHTS(again, tile, dim, dim_group, weights, sums)                           \
    do {                                                                                           \
        if (EMULATE || (again))                                                                    \
            add_infinite_weights(tile, dim, dim_group, weights, sums, lane, exchange);             \
    } while (0)
#else
#define ADD_INFINITE_WEIGHTS(again, tile, dim, dim_group, weights, sums)
#endif

/* Adds weights, rounded to elements, times streamed rows of dim elements to sums, in this sub-
 * group's dims. They are complete after complete_sums(). again: this is the second pass. */
INLINE void add_fragment_rows(const bool again, const __local ushort *tile, const int dim,
                              const int dim_group, float weights[STREAMED_SUMS], float *sums,
                              const int lane, __local float *exchange)
{
    ADD_INFINITE_WEIGHTS(again, tile, dim, dim_group, weights, sums);
#if HAS_TILE_PRODUCTS
    uint words[OPERAND_PARTS * STREAMED_SLABS][QUERY_WORDS];

    round_rows(weights, words, lane, exchange);
    begin_part_sums(words, BLOCK_STREAMED, tile, STREAMED_ELEMENTS(dim), dim, sums, lane, exchange);
#else
    const int tiles = DIM_TILES(dim);

    UNROLL
    for (int slab = 0; slab < STREAMED_SLABS; slab++) {
        uint weight_words[OPERAND_PARTS][QUERY_WORDS];
        UNROLL
        for (int part = 0; part < OPERAND_PARTS; part++)
            take_weights(weight_words[part], weights, slab, lane, exchange);
        UNROLL
        for (int n = 0; n < (EMULATE ? tiles : MAX_DIM_TILES); n += OTHERS_AT_ONCE)
            if (EMULATE || n < tiles) /* no barrier in an `if` */
                add_tiles(OPERAND_PARTS, tile, dim, slab, (dim_group * tiles + n) * FRAGMENT_OTHERS,
                          weight_words, sums + n * FRAGMENT_SUMS, lane, exchange);
        in_order();
    }
#endif
}

/* ---- results --------------------------------------------------------------------------------- */

/* Returns whether a lane's sums in rows of dim elements are all finite: 0 times each is 0. */
INLINE bool all_sums_finite(const float *sums, const int dim)
{
    float check = 0.0f;

    UNROLL
    for (int x = 0; x < MAX_DIM_SUMS; x++)
        if (x < DIM_SUMS(dim))
            check = fma(sums[x], 0.0f, check);
    return check == 0.0f;
}

/* Stores the lane's sums times factor to `rows` rows of dim elements, with 0 for owned rows from
 * `used` on. unit: these elements are neighbours (constant). Where rows allow it, a lane stores two
 * elements at once. */
INLINE void store_fragment_gradients(const float *sums, const int dim, const bool unit,
                                     const float factor, const int used, const int rows,
                                     const int first_row, const int dim_group, const int lane,
                                     __global o_storage *to, const long row_step, const long step)
{
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        const int own = owned_row(n, first_row, lane);
        __global o_storage *const row = to + own * row_step;
        if (own >= rows)
            continue;
        UNROLL
        for (int x = 0; x < MAX_DIM_SUMS; x++) {
            const int d = (dim_group * DIM_TILES(dim) + x / FRAGMENT_SUMS) * FRAGMENT_OTHERS +
                          sum_other(lane, x % FRAGMENT_SUMS);
            if (x >= DIM_SUMS(dim) || sum_query(x % FRAGMENT_SUMS) != n || d >= dim)
                continue;
#if KEYS_OF_SUMS % 2 == 0 && O_DTYPE == DTYPE
            if (unit && dim % 2 == 0) {
                if (x % 2 == 0)
                    store_pair(own < used ? SUM_PAIR(sums[x] * factor, sums[x + 1] * factor)
                                          : NO_SUMS,
                               rows_aligned(to, row_step, 2), row + d);
                continue;
            }
#endif
            store_result(own < used ? sums[x] * factor : 0.0f, row + d * step);
        }
    }
}

/* Adds up the lanes' sums of each owned row and stores them to `rows` rows, 0 from row `used` on.
 * The first of the sub-groups that share the rows does so. */
INLINE void store_fragment_sums(float sums[LANE_QUERIES], const int used, const int rows,
                                const int first_row, const int dim_group, __global float *to,
                                const int lane, __local float *exchange)
{
    query_sum(sums, lane, exchange);
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        if (dim_group == 0 && (lane & (SHARING_BITS_END - FIRST_SHARING_BIT)) == 0 &&
            owned_row(n, first_row, lane) < rows)
            to[owned_row(n, first_row, lane)] =
                owned_row(n, first_row, lane) < used ? sums[n] : 0.0f;
}
