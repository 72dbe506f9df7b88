/* SPDX-License-Identifier: Apache-2.0 */
/* The passes over streamed tiles that the whole work-group copies and waits for. With two STAGES it
 * waits once a tile, and a tile arrives while the one before is multiplied. */
#pragma once
#include "mma/gradients_stages.h"

/* ---- keys ------------------------------------------------------------------------------------ */

/* Sums dk and dv. again: this is the second pass; rows: the number of owned keys. */
INLINE void sum_over_queries(const struct arguments *args, struct tile t, struct place here,
                             const long begin, const long end, const int rows, __local uint4 *tiles,
                             __local float4 (*statistics)[BLOCK_STREAMED], const bool again,
                             volatile __local int *nonfinite, float sums_k[DIM_SUMS(DIM_QK)],
                             float sums_v[DIM_SUMS(DIM_V)], const kept_tile kept, const int lane,
                             __local float *exchange)
{
    const long first_head = t.h;
    int number = 0; /* the number, 0 or 1, of the stage that is multiplied */

    for (t.h = first_head; t.h < first_head + args->shape->group; t.h++) {
        float slope_sums[LANE_QUERIES], bias_sums[LANE_QUERIES];
        CLEAR(slope_sums);
        CLEAR(bias_sums);
        find_head(args, &t);
        t = queries_from(t, next_queries(args, t, begin, begin, end), end);
        if (STAGES > 1)
            LOCAL_BARRIER(); /* the last head's tiles may be overwritten */
        if (STAGES > 1 && t.i0 < end)
            stage_query_tile(args, t, tile_queries(args, t), tile_gradients(args, t), here,
                             statistics[number], kept, number);
        while (t.i0 < end) {
            float p[STREAMED_SUMS], ds[STREAMED_SUMS];
            if (STAGES == 1) {
                LOCAL_BARRIER(); /* all have read the old contents */
                stage_query_tile(args, t, tile_queries(args, t), tile_gradients(args, t), here,
                                 statistics[0], kept, 0);
            }
            copies_wait();
            LOCAL_BARRIER(); /* all rows are complete */
            begin_both(&here, p, ds, lane, exchange);
            const struct tile next =
                queries_from(t, next_queries(args, t, begin, t.i0 + BLOCK_STREAMED, end), end);
            if (STAGES > 1 && next.i0 < end)
                stage_query_tile(args, next, tile_queries(args, next), tile_gradients(args, next),
                                 place_of_stage(here, tiles, 1 - number), statistics[1 - number],
                                 kept, 1 - number);
            const bool partial = hides_some(args, t, BLOCK_STREAMED, BLOCK_OWNED);
            const struct kept_pairs pairs = find_kept(kept, number, here.first_row, lane);
            float dropped[STREAMED_SUMS], *weights = dropped; /* what dropout keeps of p */
#if WEIGHTS_FIRST && !HAS_SOFTCAP
            FINISH(p, 1);
            REPLACE_PRODUCTS(again, false, &here, p);
            weigh_scores(true, partial, args, t, here.first_row, 0, statistics[number], p, lane);
            if (again)
                products_wait(0);
            REPLACE_PRODUCTS(again, true, &here, ds);
            if (HAS_DROPOUT)
                drop_fragments(pairs, here.first_row, p, dropped, lane);
            else
                weights = p;
#else
            weights = p;
            FINISH_BOTH(p, ds);
            REPLACE_PRODUCTS(again, false, &here, p);
            REPLACE_PRODUCTS(again, true, &here, ds);
            gradients_of_fragment(true, false, partial, args, t, here.first_row, 0,
                                  statistics[number], p, ds, slope_sums, bias_sums, lane, pairs);
#endif
            restage_barrier(again); /* streamed rows may be overwritten */
            if (restages(again)) {
                stage_value_rows(tile_queries(args, t), again, here.qk, nonfinite);
                stage_value_rows(tile_gradients(args, t), again, here.v, nonfinite);
                copies_wait();
            }
            restage_barrier(again); /* values are complete */
            add_fragment_rows(again, here.v, DIM_V, here.dim_group, weights, sums_v, lane,
                              exchange);
#if WEIGHTS_FIRST && !HAS_SOFTCAP
            FINISH(ds, 1);
            weigh_gradients(again, true, partial, pairs, here.first_row, 0, statistics[number],
                            false, p, ds, lane);
#endif
            add_fragment_rows(again, here.qk, DIM_QK, here.dim_group, ds, sums_k, lane, exchange);
            complete_sums(sums_v, DIM_SUMS(DIM_V));
            complete_sums(sums_k, DIM_SUMS(DIM_QK));
            t = next;
            if (STAGES > 1) {
                number = 1 - number; /* that stage holds the next tile */
                here = place_of_stage(here, tiles, number);
            }
        }
        if (HAS_DBIAS)
            store_fragment_sums(
                bias_sums, t.keys,
                args->shape->bias_stride[2] == 0 && args->shape->bias_stride[3] != 0 ? rows : 0,
                here.first_row, here.dim_group,
                args->workspace + bias_sums_begin(args) +
                    (t.b * args->shape->heads + t.h) * args->shape->seq_kv + t.j0,
                lane, exchange);
    }
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Sums dq, as sum_over_queries() sums dk and dv. */
INLINE void sum_over_keys(const struct arguments *args, struct tile t, struct place here,
                          const long begin, const long end, const float4 *statistics,
                          __local uint4 *tiles, const bool again, volatile __local int *nonfinite,
                          float slope_sums[LANE_QUERIES], float bias_sums[LANE_QUERIES],
                          float sums_q[DIM_SUMS(DIM_QK)], const kept_tile kept, const int lane,
                          __local float *exchange)
{
    int number = 0; /* the number, 0 or 1, of the stage that is multiplied */

    t = keys_from(t, next_keys(args, t, begin, begin, end), end);
    if (STAGES > 1 && t.j0 < end)
        stage_key_tile(args, t, here, kept, 0);
    while (t.j0 < end) {
        float p[STREAMED_SUMS], ds[STREAMED_SUMS];
        if (STAGES == 1) {
            LOCAL_BARRIER(); /* all have read the old contents */
            stage_key_tile(args, t, here, kept, 0);
        }
        copies_wait();
        LOCAL_BARRIER(); /* all rows are complete */
        begin_both(&here, p, ds, lane, exchange);
        const struct tile next =
            keys_from(t, next_keys(args, t, begin, t.j0 + BLOCK_STREAMED, end), end);
        if (STAGES > 1 && next.j0 < end)
            stage_key_tile(args, next, place_of_stage(here, tiles, 1 - number), kept, 1 - number);
        const bool partial = hides_some(args, t, BLOCK_OWNED, BLOCK_STREAMED);
        const struct kept_pairs pairs = find_kept(kept, number, here.first_row, lane);
#if WEIGHTS_FIRST
        FINISH(p, 1);
        REPLACE_PRODUCTS(again, false, &here, p);
        weigh_scores(false, partial, args, t, here.first_row, statistics, 0, p, lane);
        weights_here(p + STREAMED_SUMS - 2);
        FINISH(ds, 0);
        REPLACE_PRODUCTS(again, true, &here, ds);
        weigh_gradients(again, false, partial, pairs, here.first_row, statistics, 0, false, p, ds,
                        lane);
#else
        FINISH_BOTH(p, ds);
        REPLACE_PRODUCTS(again, false, &here, p);
        REPLACE_PRODUCTS(again, true, &here, ds);
        gradients_of_fragment(false, false, partial, args, t, here.first_row, statistics, 0, p, ds,
                              slope_sums, bias_sums, lane, pairs);
#endif
        restage_barrier(again); /* streamed keys may be overwritten */
        if (restages(again)) {
            stage_value_rows(rows_of_keys(args, t), again, here.qk, nonfinite);
            copies_wait();
        }
        restage_barrier(again); /* values are complete */
        add_fragment_rows(again, here.qk, DIM_QK, here.dim_group, ds, sums_q, lane, exchange);
        complete_sums(sums_q, DIM_SUMS(DIM_QK));
        t = next;
        if (STAGES > 1) {
            number = 1 - number; /* that stage holds the next tile */
            here = place_of_stage(here, tiles, number);
        }
    }
}
