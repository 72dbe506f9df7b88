/* SPDX-License-Identifier: Apache-2.0 */
/* backward_gpu_item: dq, dk and dv for GPUs, in two passes over the pairs; see clattn/problem.h for the
 * formulas. Neither scores nor, unless STORE_DS, their gradients reach global memory.
 *
 * Stages    backward_rows      -lse and -delta of each row, into the workspace; if lse is large, the
 *                              factor that makes the row's weights sum to 1 (cl/gpu/backward_rows.h)
 *           backward_keys      a group owns BLOCK_OWNED keys of one kv head and streams the queries that
 *                              see them, of all query heads of that head, in tiles of BLOCK_STREAMED:
 *                              dk and dv, and sums of dbias over queries
 *           backward_queries   a group owns BLOCK_OWNED queries of one head and streams the keys that
 *                              they see, in tiles of BLOCK_STREAMED: dq, and sums of dslopes and dbias
 *                              over keys. With STORE_DS it reads ds of backward_keys from the workspace
 *           backward_bias      a group owns a tile of a bias that depends on query and key, and walks
 *                              over the batches and heads that share it
 *           backward_sums      a group for each remaining sum over rows
 *           One group forms each sum, in an order that depends on nothing but the
 *           problem and the tunables: the same inputs give the same bits.
 * Tiles     of BLOCK_OWNED owned rows (of k and v, or of q and do) and BLOCK_STREAMED streamed ones:
 *           scores and the weights' gradients are two products of them (cl/gpu/tile_products.h); from
 *           these weights p and gradients ds of the scores (cl/gpu/tile_gradients.h); dk, dv and dq are
 *           sums of streamed rows, with those as their weights.
 * NDRange   local THREADS = THREADS_N * THREADS_M everywhere.
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Masked    A masked pair's weight and gradient are -0, a visible one's never. An Inf or a NaN in a
 *           streamed row makes all its products infinite or NaN: after a masked pair has had such a
 *           product, sums in tiles of partial visibility skip masked pairs, which takes
 *           longer. Owned rows without a visible pair may contain anything: a row's sums
 *           are its own, and 0 is stored for it.
 * Dropout   Owned keys have a counter for four of a thread's rows; streamed keys are those of four
 *           threads: cl/gpu/tile_dropout.h.
 * Barriers  Every thread reaches every barrier; nothing relies on sub-group lockstep. Local memory is
 *           filled between two barriers and read before the next one, which stands right before it is
 *           filled again: PoCL 3.1 miscompiles a barrier at the end of a loop with such a place after it.
 *           No barrier is in an `if`: after it PoCL 3.1 would send all threads the first one's way, in
 *           any `if` that ends at the same point.
 * Workspace [rows][4] statistics (cl/common/backward.h); with HAS_DSLOPES [rows] sums of dslopes over keys; with
 *           HAS_DBIAS [rows] likewise if the bias broadcasts over keys, else [batch][heads][seq_kv]
 *           sums over queries if it broadcasts over these
 *           then the bits of score/blocks.h, or the marks of score/mark_pairs.h, or with STORE_DS
 *           ds of all pairs (cl/gpu/stored_gradients.h)
 * Lists     All kernels but backward_bias skip tiles without a listed pair, and tiles that a mask or a
 *           bias leaves empty by their marks.
 * Tunables  src/families/backward_gpu/backward_gpu_item.def, all defined by the host; no fallbacks here. */
#include "score/score.h"

#if !defined(BLOCK_OWNED) || !defined(BLOCK_STREAMED) || !defined(THREADS_N) ||                    \
    !defined(THREAD_M) || !defined(BLOCK_K) || !defined(STAGE_N) || !defined(STAGES) ||            \
    !defined(OWNED_RESIDENT) || !defined(PADDING) || !defined(LOAD_WIDTH) || !defined(UNROLL) ||   \
    !defined(STORE_DS) || !defined(EXP)
#error "backward_gpu_item.cl must be built with all of its tunables defined"
#endif

#include "families/backward_gpu/backward_gpu_item_sizes.h"
#include "common/backward.h"
#include "gpu/pair_dropout.h"
#include "gpu/tile_products.h"
#include "gpu/tile_dropout.h"

#include "gpu/backward_tile.h"
#include "gpu/tile_gradients.h"
#include "gpu/stored_gradients.h"

/* ---- owned rows ----------------------------------------------------------------------------- */

/* Loads the owned rows that stay in local memory; the first stage's barrier completes them. */
INLINE void load_owned(const struct matrix owned_qk, const struct matrix owned_v,
                       __local float4 *tiles)
{
    load_stage_columns(tiles, OWNED_STRIDE(DIM_QK), BLOCK_OWNED, 0, STAGED_DIM(DIM_QK), owned_qk);
    load_stage_columns(tiles + OWNED_V_AT, OWNED_STRIDE(DIM_V), BLOCK_OWNED, 0, STAGED_DIM(DIM_V),
                       owned_v);
}

/* ---- results -------------------------------------------------------------------------------- */

/* Stores the owned rows' sums times factor, 0 for rows not in use, to `rows` rows of a tensor. */
INLINE void store_thread_gradients(float4 sums[THREAD_M][MAX_DIMS4], const float factor,
                                   const int used, const int rows, __global o_storage *to,
                                   const long row_step, const long step, const int dim,
                                   const int width)
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;

#pragma unroll
    for (int r = 0; r < THREAD_M; r++)
        if (ROW(r) < rows)
#pragma unroll
            for (int n = 0; n < MAX_DIMS4; n++)
                store4(ROW(r) < used ? sums[r][n] * factor : 0.0f, to + ROW(r) * row_step, step,
                       4 * (thread_n + THREADS_N * n), dim, width);
}

/* Adds up what the threads of a row have summed, and stores a float for each row. */
INLINE void store_row_sums(const float *sums, const int used, const int rows,
                           __local float4 *partial, __global float *to)
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;

    LOCAL_BARRIER(); /* all have read the old contents */
    store_partial(sums, partial);
    LOCAL_BARRIER(); /* the threads' parts are complete */
#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
        float total = 0.0f;
        for (int l = 0; l < THREADS_N; l++)
            total += partial_of(partial, l, ROW(r));
        if (thread_n == r % THREADS_N && ROW(r) < rows)
            to[ROW(r)] = ROW(r) < used ? total : 0.0f;
    }
}

/* ---- kernels -------------------------------------------------------------------------------- */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
backward_keys(PARAMETERS_backward_keys)
{
    struct arguments arguments = ARGUMENTS_backward_keys;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / blocks_of(longest_kv(&arguments)) /
                       (arguments.shape->heads / arguments.shape->group));
    __local float4 tiles[LOCAL_FLOAT4S];
    /* is nonzero after a masked pair had a product that is not finite */
    __local int nonfinite;
    int stage = 0;                 /* the number of the stage that is read next */
    __local uchar *const kept = 0; /* null: only kernels that stream keys use it */
    const int thread_n = THIS_THREAD % THREADS_N;
    float4 sums_k[THREAD_M][MAX_DIMS4], sums_v[THREAD_M][MAX_DIMS4];
    float slope_sums[THREAD_M], bias_sums[THREAD_M];
    struct tile t = owned_keys(args);
    const long kv_head = t.h / args->shape->group;
    const long begin = first_query(args, t.e, t.j0), end = end_query(args, t.e, t.j0, t.keys);
    const int rows = min(args->shape->seq_kv - t.j0, (long)BLOCK_OWNED);
    const struct matrix owned_k = k_rows(args, t.b, kv_head, t.j0, t.keys);
    const struct matrix owned_v = v_rows(args, t.b, kv_head, t.j0, t.keys);

    if (get_local_id(0) == 0)
        nonfinite = 0;
    if (OWNED_RESIDENT && begin < end)
        load_owned(owned_k, owned_v, tiles);
    clear_sums(sums_k);
    clear_sums(sums_v);
    for (t.h = kv_head * args->shape->group; t.h < (kv_head + 1) * args->shape->group; t.h++) {
#pragma unroll
        for (int r = 0; r < THREAD_M; r++)
            slope_sums[r] = bias_sums[r] = 0.0f;
        find_head(args, &t);
        t.i0 = next_queries(args, t, begin, begin, end);
#if STAGES > 1
        if (HAS_DBIAS)
            LOCAL_BARRIER(); /* the last head's sums have been read */
        if (t.i0 < end)
            load_product_stage(owned_k,
                               q_rows(args, t.b, t.h, t.i0, min(end - t.i0, (long)BLOCK_STREAMED)),
                               0, stage, tiles);
#endif
        while (t.i0 < end) {
            float p[THREAD_M][THREAD_N], ds[THREAD_M][THREAD_N];
            float4 statistics[THREAD_N];
            t.queries = min(end - t.i0, (long)BLOCK_STREAMED);
            const bool partial = t.queries < BLOCK_STREAMED || is_partial(args, t);
            const struct matrix streamed_q = q_rows(args, t.b, t.h, t.i0, t.queries);
            const struct matrix streamed_do = do_rows(args, t.b, t.h, t.i0, t.queries);
            const long after = next_queries(args, t, begin, t.i0 + BLOCK_STREAMED, end);
            const struct next to_dv = {SUM_NEXT, owned_k, streamed_do},
                              to_dk = {SUM_NEXT, owned_k, streamed_q};
            const struct next tile = {
                after < end ? PRODUCT_NEXT : NOTHING_NEXT, owned_k,
                q_rows(args, t.b, t.h, after, min(end - after, (long)BLOCK_STREAMED))};
#pragma unroll
            for (int c = 0; c < THREAD_N; c++)
                statistics[c] = statistic_of(args, t.b, t.h, t.i0 + thread_n + THREADS_N * c);
            weigh_gradient_tile(true, false, partial, args, t, owned_k, owned_v, streamed_q,
                                streamed_do, to_dv, statistics, tiles, &stage, &nonfinite, p, ds,
                                slope_sums, bias_sums, kept);
            if (STORE_DS)
                store_gradients(args, t, ds);
            add_streamed_rows(partial, streamed_do, to_dk, p, tiles, &stage, &nonfinite, sums_v);
            add_streamed_rows(partial, streamed_q, tile, ds, tiles, &stage, &nonfinite, sums_k);
            t.i0 = after;
        }
#if HAS_DBIAS
        store_row_sums(bias_sums, t.keys,
                       args->shape->bias_stride[2] == 0 && args->shape->bias_stride[3] != 0 ? rows
                                                                                            : 0,
                       tiles + WEIGHTS_AT,
                       args->workspace + bias_sums_begin(args) +
                           (t.b * args->shape->heads + t.h) * args->shape->seq_kv + t.j0);
#endif
    }
    store_thread_gradients(sums_k, args->shape->scale, t.keys, rows,
                           args->dk + row_offset(args->shape->dk_stride, t.b, kv_head, t.j0),
                           args->shape->dk_stride[2], dk_step(args), DIM_QK,
                           WIDTH(UNIT_DK, DIM_QK));
    store_thread_gradients(sums_v, 1.0f, t.keys, rows,
                           args->dv + row_offset(args->shape->dv_stride, t.b, kv_head, t.j0),
                           args->shape->dv_stride[2], dv_step(args), DIM_V, WIDTH(UNIT_DV, DIM_V));
}

#if STORE_DS
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
backward_queries(PARAMETERS_backward_queries)
{
    struct arguments arguments = ARGUMENTS_backward_queries;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / blocks_of(longest_q(&arguments)) / arguments.shape->heads);
    __local float4 tiles[(STAGES > 1 ? 2 : 1) * DS_STAGE_FLOAT4S];
    float4 sums_q[THREAD_M][MAX_DIMS4];
    const struct tile t = owned_queries(args);

    clear_sums(sums_q);
    add_stored_gradients(args, t, first_key_of_queries(args, t), end_key_of_queries(args, t), tiles,
                         sums_q);
    store_thread_gradients(
        sums_q, args->shape->scale, t.queries, min(args->shape->seq_q - t.i0, (long)BLOCK_OWNED),
        args->dq + row_offset(args->shape->dq_stride, t.b, t.h, t.i0), args->shape->dq_stride[2],
        dq_step(args), DIM_QK, WIDTH(UNIT_DQ, DIM_QK));
}
#else
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
backward_queries(PARAMETERS_backward_queries)
{
    struct arguments arguments = ARGUMENTS_backward_queries;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / blocks_of(longest_q(&arguments)) / arguments.shape->heads);
    __local float4 tiles[LOCAL_FLOAT4S];
    __local int nonfinite; /* described in backward_keys, as is `stage` */
    int stage = 0;
    DECLARE_KEPT(KEPT_BYTES);
    const int thread_m = THIS_THREAD / THREADS_N;
    float4 sums_q[THREAD_M][MAX_DIMS4];
    float4 statistics[THREAD_M];
    float slope_sums[THREAD_M], bias_sums[THREAD_M];
    struct tile t = owned_queries(args);

    LEAVE_IF_BEYOND(t.i0, args->shape->seq_q);
    const long begin = first_key_of_queries(args, t), end = end_key_of_queries(args, t);
    const int rows = min(args->shape->seq_q - t.i0, (long)BLOCK_OWNED);
    const struct matrix owned_q = q_rows(args, t.b, t.h, t.i0, t.queries);
    const struct matrix owned_do = do_rows(args, t.b, t.h, t.i0, t.queries);

    if (get_local_id(0) == 0)
        nonfinite = 0;
    if (OWNED_RESIDENT && begin < end)
        load_owned(owned_q, owned_do, tiles);
    clear_sums(sums_q);
#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
        slope_sums[r] = bias_sums[r] = 0.0f;
        statistics[r] = statistic_of(args, t.b, t.h, t.i0 + ROW(r));
    }
    find_head(args, &t);
    t.j0 = next_keys(args, t, begin, begin, end);
#if STAGES > 1
    if (t.j0 < end)
        load_product_stage(owned_q,
                           k_rows(args, t.b, t.h / args->shape->group, t.j0,
                                  min(end - t.j0, (long)BLOCK_STREAMED)),
                           0, stage, tiles);
#endif
    while (t.j0 < end) {
        float p[THREAD_M][THREAD_N], ds[THREAD_M][THREAD_N];
        t.keys = min(end - t.j0, (long)BLOCK_STREAMED);
        const bool partial = t.keys < BLOCK_STREAMED || is_partial(args, t);
        const struct matrix streamed_k = k_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys);
        const struct matrix streamed_v = v_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys);
        const long after = next_keys(args, t, begin, t.j0 + BLOCK_STREAMED, end);
        const struct next to_dq = {SUM_NEXT, owned_q, streamed_k};
        const struct next tile = {after < end ? PRODUCT_NEXT : NOTHING_NEXT, owned_q,
                                  k_rows(args, t.b, t.h / args->shape->group, after,
                                         min(end - after, (long)BLOCK_STREAMED))};
        weigh_gradient_tile(false, false, partial, args, t, owned_q, owned_do, streamed_k,
                            streamed_v, to_dq, statistics, tiles, &stage, &nonfinite, p, ds,
                            slope_sums, bias_sums, kept);
        add_streamed_rows(partial, streamed_k, tile, ds, tiles, &stage, &nonfinite, sums_q);
        t.j0 = after;
    }
#if HAS_DSLOPES
    store_row_sums(slope_sums, t.queries, rows, tiles + WEIGHTS_AT,
                   args->workspace + slope_sums_begin(args) +
                       (t.b * args->shape->heads + t.h) * longest_q(args) + t.i0);
#endif
#if HAS_DBIAS
    store_row_sums(bias_sums, t.queries, args->shape->bias_stride[3] == 0 ? rows : 0,
                   tiles + WEIGHTS_AT,
                   args->workspace + bias_sums_begin(args) +
                       (t.b * args->shape->heads + t.h) * args->shape->seq_q + t.i0);
#endif
    store_thread_gradients(sums_q, args->shape->scale, t.queries, rows,
                           args->dq + row_offset(args->shape->dq_stride, t.b, t.h, t.i0),
                           args->shape->dq_stride[2], dq_step(args), DIM_QK,
                           WIDTH(UNIT_DQ, DIM_QK));
    END_KERNEL();
}
#endif

#if HAS_DBIAS
/* One group computes each tile of the bias. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
backward_bias(PARAMETERS_backward_bias)
{
    const struct arguments arguments = ARGUMENTS_backward_bias, *const args = &arguments;
    __local float4 tiles[LOCAL_FLOAT4S];
    __local int nonfinite; /* written, but never read here */
    int stage = 0;
    DECLARE_KEPT(KEPT_BYTES);
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;
    const struct bias_tile tile = find_bias_tile(args);
    float sums[THREAD_M][THREAD_N], unused[THREAD_M];
    struct tile t;

    t.i0 = tile.i0;
    t.j0 = tile.j0;
#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
        unused[r] = 0.0f;
#pragma unroll
        for (int c = 0; c < THREAD_N; c++)
            sums[r][c] = 0.0f;
    }
    for (t.b = tile.b; t.b < tile.end_b; t.b++) {
        t.e = extent_of(args, t.b);
        if (!enter_bias_tile(args, &t))
            continue;
        for (t.h = tile.h; t.h < tile.end_h; t.h++) {
            float p[THREAD_M][THREAD_N], ds[THREAD_M][THREAD_N];
            float4 statistics[THREAD_M];
            find_head(args, &t);
            const struct matrix owned_q = q_rows(args, t.b, t.h, t.i0, t.queries);
            const struct matrix owned_do = do_rows(args, t.b, t.h, t.i0, t.queries);
            const struct matrix streamed_k =
                k_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys);
            const struct matrix streamed_v =
                v_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys);
#pragma unroll
            for (int r = 0; r < THREAD_M; r++)
                statistics[r] = statistic_of(args, t.b, t.h, t.i0 + ROW(r));
            if (OWNED_RESIDENT) {
                LOCAL_BARRIER(); /* all have read the old contents */
                load_owned(owned_q, owned_do, tiles);
            }
#if STAGES > 1
            load_product_stage(owned_q, streamed_k, 0, stage, tiles);
#endif
            const struct next nothing = {NOTHING_NEXT, owned_q, streamed_k};
            weigh_gradient_tile(false, true, true, args, t, owned_q, owned_do, streamed_k,
                                streamed_v, nothing, statistics, tiles, &stage, &nonfinite, p, ds,
                                unused, unused, kept);
#pragma unroll
            for (int r = 0; r < THREAD_M; r++)
#pragma unroll
                for (int c = 0; c < THREAD_N; c++)
                    sums[r][c] += ds[r][c];
        }
    }
    __global bias_storage *to = args->dbias + head_offset(args->shape->bias_stride, tile.b, tile.h);
#pragma unroll
    for (int r = 0; r < THREAD_M; r++)
#pragma unroll
        for (int c = 0; c < THREAD_N; c++) {
            const long i = t.i0 + ROW(r), j = t.j0 + thread_n + THREADS_N * c;
            if (i < args->shape->seq_q && j < args->shape->seq_kv)
                store1_of(BIAS_DTYPE, sums[r][c], to,
                          i * args->shape->bias_stride[2] + j * args->shape->bias_stride[3]);
        }
}
#endif

#include "gpu/backward_rows.h"
#include "gpu/backward_sums.h"
#include "gpu/load_gradients.h"
