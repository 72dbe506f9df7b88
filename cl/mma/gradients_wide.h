/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients with M_FRAGMENTS fragments of owned rows in each sub-group: an operand of streamed rows serves all of them.
 * Loads of a step are asked for before the products of the one before.
 *
 * Owned keys are those of two sub-groups, a pair: the first multiplies q k^T, makes p and sums dv, the second
 * multiplies do v^T, makes ds of that and p, and sums dk. p passes in local memory, in the order of registers. Both
 * have the same products to do, and sums of one matrix in registers. Owned queries are those of one sub-group. */
#pragma once
#include "mma/gradients_stages.h"

enum { PAIRS = SUB_GROUPS / 2, PAIR_FLOAT4 = M_FRAGMENTS * STREAMED_SUMS / 4 * FRAGMENT_LANES };
#if PACKED_VALUES || DIM_GROUPS > 1 || DIM_QK != DIM_V || !WEIGHTS_FIRST
#error                                                                                             \
    "wide sub-groups have rows of values, of the dims of keys, and nothing else of a score than its weight and softcap's derivative"
#endif

/* Computes products = owned rows times streamed ones. */
INLINE void multiply_wide_rows(const __local ushort *owned, const __local ushort *streamed,
                               float products[M_FRAGMENTS][STREAMED_SUMS], const int lane,
                               __local float *exchange)
{
    const int tiles = STREAMED_TILES / OTHERS_AT_ONCE, steps = COLUMNS(DIM_QK) / FRAGMENT_DEPTH;
    const __local ushort *const rows = owned + rows_start(OWNED_STRIDE(DIM_QK), lane);
    const __local ushort *const keys = streamed + keys_start(STREAMED_STRIDE(DIM_QK), lane);
    uint row_words[2][M_FRAGMENTS][QUERY_WORDS], words[2][OTHERS_AT_ONCE * OTHER_WORDS];

    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        UNROLL
        for (int x = 0; x < STREAMED_SUMS; x++)
            products[f][x] = 0.0f;
        load_query_from(row_words[0][f], rows + f * FRAGMENT_QUERIES * OWNED_STRIDE(DIM_QK),
                        OWNED_STRIDE(DIM_QK), lane);
    }
    load_keys_from(words[0], keys, STREAMED_STRIDE(DIM_QK), lane);
    UNROLL
    for (int t = 0; t < steps * tiles; t++) {
        const int step = t / tiles, n = t % tiles, next = t + 1;
        if (next < steps * tiles)
            load_keys_from(
                words[next % 2],
                keys + next % tiles * OTHERS_AT_ONCE * FRAGMENT_OTHERS * STREAMED_STRIDE(DIM_QK) +
                    next / tiles * FRAGMENT_DEPTH,
                STREAMED_STRIDE(DIM_QK), lane);
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            if (f % tiles == n && step + 1 < steps)
                load_query_from(row_words[(step + 1) % 2][f],
                                rows + f * FRAGMENT_QUERIES * OWNED_STRIDE(DIM_QK) +
                                    (step + 1) * FRAGMENT_DEPTH,
                                OWNED_STRIDE(DIM_QK), lane);
        UNROLL
        for (int m = 0; m < OTHERS_AT_ONCE; m++)
            UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            multiply_add(products[f] + (n * OTHERS_AT_ONCE + m) * FRAGMENT_SUMS,
                         row_words[step % 2][f], words[t % 2] + m * OTHER_WORDS, lane, exchange);
    }
}

/* Adds weights, rounded to elements, times streamed rows to sums. */
INLINE void add_wide_rows(const __local ushort *tile, float weights[M_FRAGMENTS][STREAMED_SUMS],
                          float sums[M_FRAGMENTS][DIM_SUMS(DIM_QK)], const int lane,
                          __local float *exchange)
{
    const int tiles = DIM_TILES(DIM_QK) / OTHERS_AT_ONCE, all = STREAMED_SLABS * tiles;
    const __local ushort *const rows = tile + rows_start(STREAMED_STRIDE(DIM_QK), lane);
    uint weight_words[M_FRAGMENTS][QUERY_WORDS], words[2][OTHERS_AT_ONCE * OTHER_WORDS];

    load_values_from(words[0], rows, STREAMED_STRIDE(DIM_QK), lane);
    UNROLL
    for (int t = 0; t < all; t++) {
        const int slab = t / tiles, n = t % tiles, next = t + 1;
        if (next < all)
            load_values_from(words[next % 2],
                             rows + next / tiles * FRAGMENT_DEPTH * STREAMED_STRIDE(DIM_QK) +
                                 next % tiles * OTHERS_AT_ONCE * FRAGMENT_OTHERS,
                             STREAMED_STRIDE(DIM_QK), lane);
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            if (n == 0)
                take_weights(weight_words[f], weights[f], slab, lane, exchange);
        UNROLL
        for (int m = 0; m < OTHERS_AT_ONCE; m++)
            UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            multiply_add(sums[f] + (n * OTHERS_AT_ONCE + m) * FRAGMENT_SUMS, weight_words[f],
                         words[t % 2] + m * OTHER_WORDS, lane, exchange);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Passes the first sub-group's weights of fragment f to the second of a pair; with softcap times its derivatives, from
 * `bent`, the products' tanh. A derivative that rounding made negative would lose the mark of a masked pair. */
INLINE void pass_weights(const int f, const float weights[STREAMED_SUMS],
                         const float bent[STREAMED_SUMS], __local float4 *passed, const int lane)
{
    float passing[STREAMED_SUMS];

    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++)
        passing[x] = weights[x] * (HAS_SOFTCAP ? fmax(fma(-bent[x], bent[x], 1.0f), 0.0f) : 1.0f);
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x += 4)
        passed[(f * STREAMED_SUMS + x) / 4 * FRAGMENT_LANES + lane] = vload4(0, passing + x);
}

/* The second sub-group computes ds from its products dO V^T and the weights that the first has passed. */
INLINE void weigh_passed(const bool again, const bool partial, const __local float4 *statistics,
                         const __local float4 *passed, const kept_tile kept, const int number,
                         const int first_row, float ds[M_FRAGMENTS][STREAMED_SUMS], const int lane)
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        float p[STREAMED_SUMS];
        UNROLL
        for (int x = 0; x < STREAMED_SUMS; x += 4)
            vstore4(passed[(f * STREAMED_SUMS + x) / 4 * FRAGMENT_LANES + lane], 0, p + x);
        const int row = first_row + f * FRAGMENT_QUERIES;
        weigh_gradients(again, true, partial, find_kept(kept, number, row, lane), row, 0,
                        statistics, false, p, ds[f], lane);
    }
}

/* sum_over_queries() of a pair: sums dk if this is the second sub-group, else dv. */
INLINE void sum_over_queries_in_pairs(const struct arguments *args, struct tile t,
                                      struct place here, const bool second, const int pair,
                                      const long begin, const long end, __local uint4 *tiles,
                                      __local float4 (*statistics)[BLOCK_STREAMED],
                                      const kept_tile kept, __local float4 *passed,
                                      const bool again, volatile __local int *nonfinite,
                                      float sums[M_FRAGMENTS][DIM_SUMS(DIM_QK)], const int lane,
                                      __local float *exchange)
{
    const long first_head = t.h;
    const __local ushort *const owned =
        (second ? here.owned_v : here.owned_qk) + here.first_row * OWNED_STRIDE(DIM_QK);
    int number = 0; /* the number, 0 or 1, of the stage that is multiplied */

    for (t.h = first_head; t.h < first_head + args->shape->group; t.h++) {
        find_head(args, &t);
        t = queries_from(t, next_queries(args, t, begin, begin, end), end);
        if (STAGES > 1)
            LOCAL_BARRIER(); /* the last head's tiles may be overwritten */
        if (STAGES > 1 && t.i0 < end)
            stage_query_tile(args, t, tile_queries(args, t), tile_gradients(args, t), here,
                             statistics[number], kept, number);
        while (t.i0 < end) {
            float x[M_FRAGMENTS][STREAMED_SUMS];
            if (STAGES == 1) {
                LOCAL_BARRIER(); /* all have read the old contents */
                stage_query_tile(args, t, tile_queries(args, t), tile_gradients(args, t), here,
                                 statistics[0], kept, 0);
            }
            copies_wait();
            LOCAL_BARRIER(); /* all rows are complete, the last weights have been read */
            multiply_wide_rows(owned, second ? here.v : here.qk, x, lane, exchange);
            const struct tile next =
                queries_from(t, next_queries(args, t, begin, t.i0 + BLOCK_STREAMED, end), end);
            if (STAGES > 1 && next.i0 < end)
                stage_query_tile(args, next, tile_queries(args, next), tile_gradients(args, next),
                                 place_of_stage(here, tiles, 1 - number), statistics[1 - number],
                                 kept, 1 - number);
            const bool partial = hides_some(args, t, BLOCK_STREAMED, OWNED_KEYS);
            if (!second) {
                UNROLL
                for (int f = 0; f < M_FRAGMENTS; f++) {
                    float bent[STREAMED_SUMS];
                    bend_products(args, scores_of_tile(args, t), x[f]);
                    UNROLL
                    for (int n = 0; n < STREAMED_SUMS; n++)
                        bent[n] = x[f][n];
                    weigh_bent(true, partial, args, t, here.first_row + f * FRAGMENT_QUERIES, 0,
                               statistics[number], x[f], lane);
                    pass_weights(f, x[f], bent, passed, lane);
                }
                UNROLL
                for (int f = 0; f < M_FRAGMENTS; f++)
                    drop_fragments(
                        find_kept(kept, number, here.first_row + f * FRAGMENT_QUERIES, lane),
                        here.first_row + f * FRAGMENT_QUERIES, x[f], x[f], lane);
            }
            pair_barrier(pair, second); /* the weights are complete */
            if (second)
                weigh_passed(again, partial, statistics[number], passed, kept, number,
                             here.first_row, x, lane);
            restage_barrier(again); /* streamed rows may be overwritten */
            if (restages(again)) {
                stage_value_rows(tile_queries(args, t), again, here.qk, nonfinite);
                stage_value_rows(tile_gradients(args, t), again, here.v, nonfinite);
                copies_wait();
            }
            restage_barrier(again); /* values are complete */
            add_wide_rows(second ? here.qk : here.v, x, sums, lane, exchange);
            t = next;
            if (STAGES > 1) {
                number = 1 - number; /* that stage holds the next tile */
                here = place_of_stage(here, tiles, number);
            }
        }
    }
}

/* ---- queries --------------------------------------------------------------------------------- */

/* The statistics of a lane's queries of the fragment that begins at a row. */
INLINE void find_statistics(const __local float4 *statistics, const int first_row,
                            float4 own[LANE_QUERIES], const int lane)
{
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        own[n] = statistics[owned_row(n, first_row, lane)];
}

/* sum_over_keys() of wide sub-groups. */
INLINE void sum_over_keys_wide(const struct arguments *args, struct tile t, struct place here,
                               const long begin, const long end, const __local float4 *statistics,
                               __local uint4 *tiles, const bool again,
                               volatile __local int *nonfinite,
                               float sums_q[M_FRAGMENTS][DIM_SUMS(DIM_QK)], const kept_tile kept,
                               const int lane, __local float *exchange)
{
    const int owned = here.first_row * OWNED_STRIDE(DIM_QK);
    int number = 0; /* the number, 0 or 1, of the stage that is multiplied */

    t = keys_from(t, next_keys(args, t, begin, begin, end), end);
    if (STAGES > 1 && t.j0 < end)
        stage_key_tile(args, t, here, kept, 0);
    while (t.j0 < end) {
        float p[M_FRAGMENTS][STREAMED_SUMS], ds[M_FRAGMENTS][STREAMED_SUMS];
        if (STAGES == 1) {
            LOCAL_BARRIER(); /* all have read the old contents */
            stage_key_tile(args, t, here, kept, 0);
        }
        copies_wait();
        LOCAL_BARRIER(); /* all rows are complete */
        const struct tile next =
            keys_from(t, next_keys(args, t, begin, t.j0 + BLOCK_STREAMED, end), end);
        if (STAGES > 1 && next.j0 < end)
            stage_key_tile(args, next, place_of_stage(here, tiles, 1 - number), kept, 1 - number);
        multiply_wide_rows(here.owned_qk + owned, here.qk, p, lane, exchange);
        const bool partial = hides_some(args, t, BLOCK_OWNED, BLOCK_STREAMED);
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++) {
            float4 own[LANE_QUERIES];
            find_statistics(statistics, here.first_row + f * FRAGMENT_QUERIES, own, lane);
            weigh_scores(false, partial, args, t, here.first_row + f * FRAGMENT_QUERIES, own, 0,
                         p[f], lane);
        }
        multiply_wide_rows(here.owned_v + owned, here.v, ds, lane, exchange);
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++) {
            float4 own[LANE_QUERIES];
            const int row = here.first_row + f * FRAGMENT_QUERIES;
            find_statistics(statistics, row, own, lane);
            weigh_gradients(again, false, partial, find_kept(kept, number, row, lane), row, own, 0,
                            false, p[f], ds[f], lane);
        }
        restage_barrier(again); /* streamed keys may be overwritten */
        if (restages(again)) {
            stage_value_rows(rows_of_keys(args, t), again, here.qk, nonfinite);
            copies_wait();
        }
        restage_barrier(again); /* values are complete */
        add_wide_rows(here.qk, ds, sums_q, lane, exchange);
        t = next;
        if (STAGES > 1) {
            number = 1 - number; /* that stage holds the next tile */
            here = place_of_stage(here, tiles, number);
        }
    }
}
