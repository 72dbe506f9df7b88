/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of scores in the workspace, for the tunable STORE_DS: backward_keys stores those of its pairs, and
 * backward_queries multiplies them by K, without scores of its own. Five products a pair instead of seven, but
 * memory of all pairs.
 *
 * Layout    for each batch and query head a row for each key, with the gradients of all queries, DS_STEP floats.
 *           Pairs that no query sees by lengths, window or causality may lie in tiles that nobody computes: what
 *           is there is never used.
 * Stages    of backward_queries: STAGE_N keys, their gradients as weights and their rows of K, at the begin of the
 *           tiles.
 *
 * No mask, bias or list hides pairs (the host refuses the tunable otherwise). */
#pragma once
#include "gpu/backward_tile.h"
#include "gpu/tile_products.h"

/* The number of floats in a key's row: whole quads of queries. */
#define DS_STEP(args) (((args)->shape->seq_q + 3) / 4 * 4)
/* The offset in a stage, in float4, of the rows of K, and of its end. */
#define DS_ROWS_AT (STAGE_N * ROW_STRIDE)
#define DS_STAGE_FLOAT4S (DS_ROWS_AT + STAGE_N * THREADS_N * DIMS4(DIM_QK))

/* The row of key j. */
INLINE __global float *stored_row(const struct arguments *args, const struct tile t, const long j)
{
    return args->workspace + bias_sums_end(args) +
           ((t.b * args->shape->heads + t.h) * args->shape->seq_kv + j) * DS_STEP(args);
}

/* Stores a tile's gradients; owned rows are keys. */
INLINE void store_gradients(const struct arguments *args, const struct tile t,
                            float ds[THREAD_M][THREAD_N])
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;
    __global float *const to = stored_row(args, t, t.j0 + ROW(0)) + t.i0 + thread_n;

#pragma unroll
    for (int c = 0; c < THREAD_N; c++)
        if (thread_n + THREADS_N * c < t.queries)
#pragma unroll
            for (int r = 0; r < THREAD_M; r++)
                if (ROW(r) < t.keys)
                    to[ROW_FROM_FIRST(r) * DS_STEP(args) + THREADS_N * c] = ds[r][c];
}

/* Loads the gradients of t.keys keys from t.j0 on and of the owned queries, -0 for pairs that are not visible. */
INLINE void load_visible_gradients(const struct arguments *args, const struct tile t,
                                   __local float4 *weights)
{
    const __global float *const from = stored_row(args, t, t.j0) + t.i0;

#pragma unroll 1
    for (int n = THIS_THREAD; n < STAGE_N * BLOCK_OWNED; n += THREADS) {
        const int key = n / BLOCK_OWNED, query = n % BLOCK_OWNED;
        const long i = t.i0 + query, j = t.j0 + key;
        const bool sees = key < t.keys && query < t.queries && j >= first_key(args, t.e, i) &&
                          j < end_key(args, t.e, i);
        ((__local float *)(weights + key * ROW_STRIDE))[query] =
            sees ? from[key * DS_STEP(args) + query] : -0.0f;
    }
}

/* Loads the stage of t.keys keys from key t.j0 on. */
INLINE void load_gradient_stage(const struct arguments *args, const struct tile t,
                                const bool partial, __local float4 *stage)
{
    const __global float *const from = stored_row(args, t, t.j0) + t.i0;

    if (partial)
        load_visible_gradients(args, t, stage);
    else
        copy_tile(stage, ROW_STRIDE, STAGE_N, BLOCK_OWNED, from, DS_STEP(args), 1, t.keys, 0,
                  BLOCK_OWNED, rows_aligned_of(DTYPE_F32, from, DS_STEP(args), 4));
    load_rows(stage + DS_ROWS_AT, 0, k_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys));
}

/* Returns whether some pair of the stage is masked or missing. */
INLINE bool is_partial_stage(const struct arguments *args, const struct tile t)
{
    return t.queries < BLOCK_OWNED || is_partial(args, t);
}

/* The stage of keys from j0 on. */
INLINE struct tile stage_of_keys(struct tile t, const long j0, const long end)
{
    t.j0 = j0;
    t.keys = (int)min(end - j0, (long)STAGE_N);
    return t;
}

/* sums += the gradients of the owned queries' scores times K, of keys [begin, end). */
INLINE void add_stored_gradients(const struct arguments *args, const struct tile t,
                                 const long begin, const long end, __local float4 *tiles,
                                 float4 sums[THREAD_M][MAX_DIMS4])
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;
    struct tile now = stage_of_keys(t, begin, end);
    bool partial = is_partial_stage(args, now);
    int stage = 0;

#if STAGES > 1
    if (begin < end)
        load_gradient_stage(args, now, partial, tiles);
#endif
    while (now.j0 < end) {
        const struct tile next = stage_of_keys(t, now.j0 + STAGE_N, end);
        const bool next_partial = next.j0 < end && is_partial_stage(args, next);
        const __local float4 *const weights = tiles + stage + thread_m;
        const __local float4 *const rows = tiles + stage + DS_ROWS_AT + thread_n;
#if STAGES > 1
        COPIES_WAIT();
        LOCAL_BARRIER(); /* the stage is complete; the one before is no longer read */
        stage = DS_STAGE_FLOAT4S - stage;
        if (next.j0 < end)
            load_gradient_stage(args, next, next_partial, tiles + stage);
#else
        LOCAL_BARRIER(); /* all have read the old contents */
        load_gradient_stage(args, now, partial, tiles);
        LOCAL_BARRIER(); /* the stage is complete */
#endif
        if (partial)
            add_stage(true, DIMS4(DIM_QK), weights, rows, sums);
        else
            add_stage(false, DIMS4(DIM_QK), weights, rows, sums);
        now = next;
        partial = next_partial;
    }
}
