/* SPDX-License-Identifier: Apache-2.0 */
/* The passes over streamed tiles where a producer copies them (warpgroup_producer.h).
 *
 * Local      halves of a place are streamed rows of q, or k, and those of do, or v. Each warpgroup has its owned rows in
 *            tiles of its own.
 * Masked     In the second pass the computing warpgroups replace Infs and NaNs of streamed rows in local memory, after
 *            the first products. */
#pragma once
#include "mma/gradients_rows.h"
#include "mma/warpgroup_producer.h"

#if !WEIGHTS_FIRST
#error "a producer is for gradients of scores without a bias, gradients of slopes or a function"
#endif

/* Makes a streamed tile finite: 0 replaces its Infs and NaNs. All computing threads take part. */
INLINE void make_streamed_finite(__local ushort *tile, const int elements,
                                 volatile __local int *nonfinite)
{
    int found = 0;

    for (int x = 4 * this_thread_again(); x < elements; x += 4 * COMPUTING) {
        __local ushort4 *const four = (__local ushort4 *)(tile + x);
        *four = finite_elements(*four, &found);
    }
    if (found)
        atomic_or(nonfinite, 1);
}

/* In the second pass, makes a tile finite for all warpgroups. PoCL 3.1 miscompiles a barrier in
 * an `if`. */
INLINE void make_finite(const bool again, __local ushort *tile, const int elements,
                        volatile __local int *nonfinite)
{
    if (EMULATE || again)
        computing_barrier(); /* all products with the tile are complete */
    if (again) {
        make_streamed_finite(tile, elements, nonfinite);
        copies_wait();
    }
    if (EMULATE || again)
        computing_barrier();
}

/* Returns whether all copies of these streamed rows run in the background. */
INLINE bool is_copied(const struct matrix m, const int dim, const bool unit)
{
    return is_wide(unit, dim) && m.aligned;
}

/* The computing threads wait for what the producer draws. */
INLINE void kept_here(const bool owns_keys, const struct arguments *args, const struct tile t,
                      const kept_tile kept, const struct use u, __local ulong *barriers)
{
    if (HAS_DROPOUT)
        STORES_HERE(u, 2, draw_kept_tile(owns_keys, args, t, kept, u.place));
}

INLINE void kept_read(__local ulong *barriers, const struct use u, const int lane)
{
    if (HAS_DROPOUT)
        half_read(barriers, u, 2, lane);
}

/* ---- keys ------------------------------------------------------------------------------------ */

#if !EMULATE
/* The producer draws what dropout keeps. */
INLINE void produce_kept(const bool owns_keys, const struct arguments *args, const struct tile t,
                         const kept_tile kept, const struct use u, __local ulong *barriers)
{
    if (HAS_DROPOUT) {
        wait_for_place(barriers, u, 2);
        draw_kept_tile(owns_keys, args, t, kept, u.place);
        stored(barriers, u, 2);
    }
}

/* The producer's whole work for owned keys. */
INLINE void produce_queries(const struct arguments *args, struct tile t, const long begin,
                            const long end, __local uint4 *tiles,
                            __local float4 (*statistics)[BLOCK_STREAMED], const kept_tile kept,
                            volatile __local int *not_finite, __local ulong *barriers)
{
    const struct place here = find_place(tiles, THIS_THREAD);
    const long first_head = t.h;
    struct use u = {0, 0};
    bool again = false;

    do {
        for (t.h = first_head; t.h < first_head + args->shape->group; t.h++) {
            find_head(args, &t);
            for (t = queries_from(t, next_queries(args, t, begin, begin, end), end); t.i0 < end;
                 t = queries_from(t, next_queries(args, t, begin, t.i0 + BLOCK_STREAMED, end),
                                  end)) {
                const struct place there = place_of_stage(here, tiles, u.place);
                const struct matrix streamed_q = tile_queries(args, t),
                                    streamed_do = tile_gradients(args, t);
                wait_for_place(barriers, u, 0);
                STAGE_STREAMED(streamed_q, there.qk, DIM_QK, UNIT_Q);
                stage_statistics(args, t, statistics[u.place]);
                copies_asked(barriers, u, 0, is_copied(streamed_q, DIM_QK, UNIT_Q));
                wait_for_place(barriers, u, 1);
                STAGE_STREAMED(streamed_do, there.v, DIM_V, UNIT_DO);
                copies_asked(barriers, u, 1, is_copied(streamed_do, DIM_V, UNIT_DO));
                produce_kept(true, args, t, kept, u, barriers);
                u = next_use(u);
            }
        }
        group_barrier(); /* not_finite is final */
        again = !again && *not_finite;
    } while (again);
}
#endif

/* The same place, with the warpgroup's owned rows found anew: beside the sums of dk and dv registers have no room for
 * descriptors that a compiler would make of them once, before the loop over tiles. */
INLINE struct place with_owned_again(struct place here, __local uint4 *tiles)
{
    const int first = warpgroup_rows(here.first_row);

    here.owned_qk = (__local ushort *)tiles + OWNED_QK_AT + first * OWNED_STRIDE(DIM_QK);
    here.owned_v = (__local ushort *)tiles + OWNED_V_AT + first * OWNED_STRIDE(DIM_V);
    return here;
}

/* Sums dk and dv. again: this is the second pass. At the end stream->next is the use after the
 * last one. */
INLINE void sum_produced_queries(const struct arguments *args, struct tile t, struct place here,
                                 const long begin, const long end, __local uint4 *tiles,
                                 __local float4 (*statistics)[BLOCK_STREAMED], const bool again,
                                 volatile __local int *nonfinite, float sums_k[DIM_SUMS(DIM_QK)],
                                 float sums_v[DIM_SUMS(DIM_V)], const kept_tile kept,
                                 struct stream *stream, const int lane, __local float *exchange)
{
    const long first_head = t.h;
    __local ulong *const barriers = stream->barriers;
    struct use u = stream->next;

    for (t.h = first_head; t.h < first_head + args->shape->group; t.h++) {
        find_head(args, &t);
        for (t = queries_from(t, next_queries(args, t, begin, begin, end), end); t.i0 < end;
             t = queries_from(t, next_queries(args, t, begin, t.i0 + BLOCK_STREAMED, end), end)) {
            float p[STREAMED_SUMS], ds[STREAMED_SUMS];
            const bool partial = hides_some(args, t, BLOCK_STREAMED, BLOCK_OWNED);
            here = with_owned_again(place_of_stage(here, tiles, u.place), tiles);
            HALF_HERE(u, 0, {
                STAGE_STREAMED(tile_queries(args, t), here.qk, DIM_QK, UNIT_Q);
                stage_statistics(args, t, statistics[u.place]);
            });
            begin_first(OPERAND_PARTS, &here, p, lane, exchange);
            HALF_HERE(u, 1, STAGE_STREAMED(tile_gradients(args, t), here.v, DIM_V, UNIT_DO));
            begin_second(OPERAND_PARTS, &here, ds, lane, exchange);
            FINISH(p, 1);
            REPLACE_PRODUCTS(again, false, &here, p);
            bend_products(args, scores_of_tile(args, t), p);
            if (!HAS_SOFTCAP)
                weigh_bent(true, partial, args, t, here.first_row, 0, statistics[u.place], p, lane);
            weights_here(p + STREAMED_SUMS - 2);
            kept_here(true, args, t, kept, u, barriers);
            const struct kept_pairs pairs = find_kept(kept, u.place, here.first_row, lane);
            kept_read(barriers, u, lane);
            FINISH(ds, 0);
            REPLACE_PRODUCTS(again, true, &here, ds);
            make_finite(again, here.qk, OPERAND_PARTS * BLOCK_STREAMED * DIM_QK, nonfinite);
            make_finite(again, here.v, OPERAND_PARTS * BLOCK_STREAMED * DIM_V, nonfinite);
            if (HAS_SOFTCAP)
                weigh_bent_gradients(partial, args, t, pairs, here.first_row, statistics[u.place],
                                     p, ds, lane);
            else
                weigh_gradients(again, true, partial, pairs, here.first_row, 0, statistics[u.place],
                                true, p, ds, lane);
            add_fragment_rows(again, here.v, DIM_V, 0, p, sums_v, lane, exchange);
            add_fragment_rows(again, here.qk, DIM_QK, 0, ds, sums_k, lane, exchange);
            complete_sums(sums_v, DIM_SUMS(DIM_V));
            complete_sums(sums_k, DIM_SUMS(DIM_QK));
            half_read(barriers, u, 0, lane);
            half_read(barriers, u, 1, lane);
            u = next_use(u);
        }
    }
    stream->next = u;
}

/* ---- queries --------------------------------------------------------------------------------- */

#if !EMULATE
/* The producer's whole work for owned queries. */
INLINE void produce_keys(const struct arguments *args, struct tile t, const long begin,
                         const long end, __local uint4 *tiles, const kept_tile kept,
                         volatile __local int *not_finite, __local ulong *barriers)
{
    const struct place here = find_place(tiles, THIS_THREAD);
    struct use u = {0, 0};
    bool again = false;

    do {
        for (t = keys_from(t, next_keys(args, t, begin, begin, end), end); t.j0 < end;
             t = keys_from(t, next_keys(args, t, begin, t.j0 + BLOCK_STREAMED, end), end)) {
            const struct place there = place_of_stage(here, tiles, u.place);
            const struct matrix streamed_k = rows_of_keys(args, t),
                                streamed_v = tile_values(args, t);
            wait_for_place(barriers, u, 0);
            STAGE_STREAMED(streamed_k, there.qk, DIM_QK, UNIT_K);
            copies_asked(barriers, u, 0, is_copied(streamed_k, DIM_QK, UNIT_K));
            wait_for_place(barriers, u, 1);
            STAGE_STREAMED(streamed_v, there.v, DIM_V, UNIT_V);
            copies_asked(barriers, u, 1, is_copied(streamed_v, DIM_V, UNIT_V));
            produce_kept(false, args, t, kept, u, barriers);
            u = next_use(u);
        }
        group_barrier(); /* not_finite is final */
        again = !again && *not_finite;
    } while (again);
}
#endif

/* Turns products of a tile into ds; `more` groups of products run after the second ones. */
INLINE void weigh_key_rows(const struct arguments *args, const struct tile t,
                           const struct place *here, const struct use u, const int more,
                           const float4 *statistics, const bool again, float p[STREAMED_SUMS],
                           float ds[STREAMED_SUMS], const kept_tile kept, __local ulong *barriers,
                           const int lane, __local float *exchange)
{
    const bool partial = hides_some(args, t, BLOCK_OWNED, BLOCK_STREAMED);

    REPLACE_PRODUCTS(again, false, here, p);
    weigh_scores(false, partial, args, t, here->first_row, statistics, 0, p, lane);
    weights_here(p + STREAMED_SUMS - 2);
    kept_here(false, args, t, kept, u, barriers);
    const struct kept_pairs pairs = find_kept(kept, u.place, here->first_row, lane);
    kept_read(barriers, u, lane);
    FINISH(ds, more);
    REPLACE_PRODUCTS(again, true, here, ds);
    half_read(barriers, u, 1, lane);
    weigh_gradients(again, false, partial, pairs, here->first_row, statistics, 0, false, p, ds,
                    lane);
}

/* Sums dq as the function for owned keys sums dk and dv. A tile's products for dq overlap with the
 * next tile's first ones. */
INLINE void sum_produced_keys(const struct arguments *args, struct tile t, struct place here,
                              const long begin, const long end, const float4 *statistics,
                              __local uint4 *tiles, const bool again,
                              volatile __local int *nonfinite, float sums_q[DIM_SUMS(DIM_QK)],
                              const kept_tile kept, struct stream *stream, const int lane,
                              __local float *exchange)
{
    __local ulong *const barriers = stream->barriers;
    struct use u = stream->next;
    float p[STREAMED_SUMS], ds[STREAMED_SUMS];
    uint words[OPERAND_PARTS * STREAMED_SLABS][QUERY_WORDS];

    t = keys_from(t, next_keys(args, t, begin, begin, end), end);
    if (t.j0 >= end)
        return;
    here = place_of_stage(here, tiles, u.place);
    HALF_HERE(u, 0, STAGE_STREAMED(rows_of_keys(args, t), here.qk, DIM_QK, UNIT_K));
    begin_first(OPERAND_PARTS, &here, p, lane, exchange);
    HALF_HERE(u, 1, STAGE_STREAMED(tile_values(args, t), here.v, DIM_V, UNIT_V));
    begin_second(OPERAND_PARTS, &here, ds, lane, exchange);
    FINISH(p, 1);
    weigh_key_rows(args, t, &here, u, 0, statistics, again, p, ds, kept, barriers, lane, exchange);
    make_finite(again, here.qk, OPERAND_PARTS * BLOCK_STREAMED * DIM_QK, nonfinite);
    ADD_INFINITE_WEIGHTS(again, here.qk, DIM_QK, 0, ds, sums_q);
    round_rows(ds, words, lane, exchange);
    for (;;) {
        const struct use then = next_use(u);
        const struct place there = place_of_stage(here, tiles, then.place);
        t = keys_from(t, next_keys(args, t, begin, t.j0 + BLOCK_STREAMED, end), end);
        if (t.j0 >= end)
            break;
        HALF_HERE(then, 0, STAGE_STREAMED(rows_of_keys(args, t), there.qk, DIM_QK, UNIT_K));
        begin_first(OPERAND_PARTS, &there, p, lane, exchange);
        HALF_HERE(then, 1, STAGE_STREAMED(tile_values(args, t), there.v, DIM_V, UNIT_V));
        begin_second(OPERAND_PARTS, &there, ds, lane, exchange);
        begin_part_sums(words, BLOCK_STREAMED, here.qk, STREAMED_ELEMENTS(DIM_QK), DIM_QK, sums_q,
                        lane, exchange);
        FINISH(p, 2);
        weigh_key_rows(args, t, &there, then, 1, statistics, again, p, ds, kept, barriers, lane,
                       exchange);
        weights_here(ds + STREAMED_SUMS - 2);
        complete_sums(sums_q, DIM_SUMS(DIM_QK));
        half_read(barriers, u, 0, lane);
        make_finite(again, there.qk, OPERAND_PARTS * BLOCK_STREAMED * DIM_QK, nonfinite);
        ADD_INFINITE_WEIGHTS(again, there.qk, DIM_QK, 0, ds, sums_q);
        round_rows(ds, words, lane, exchange);
        here = there;
        u = then;
    }
    begin_part_sums(words, BLOCK_STREAMED, here.qk, STREAMED_ELEMENTS(DIM_QK), DIM_QK, sums_q, lane,
                    exchange);
    complete_sums(sums_q, DIM_SUMS(DIM_QK));
    half_read(barriers, u, 0, lane);
    stream->next = next_use(u);
}
