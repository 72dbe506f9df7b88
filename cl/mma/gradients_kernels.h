/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of gradients by matrix instructions. A unit's passes over streamed rows are in gradients_passes.h,
 * gradients_wide.h or gradients_producer.h. */
#pragma once
#include "mma/gradients_rows.h"

/* Begins a kernel with a producer: the producer does all its work, `call`, and returns. */
#if PRODUCER && !EMULATE
#define PRODUCE(call)                                                                              \
    if (get_local_id(0) == 0)                                                                      \
        start_barriers(barriers);                                                                  \
    LOCAL_BARRIER(); /* the mbarriers are there */                                                 \
    if (THIS_THREAD >= COMPUTING) {                                                                \
        take_fewer_registers();                                                                    \
        call;                                                                                      \
        return;                                                                                    \
    }                                                                                              \
    take_more_registers()
#else
#define PRODUCE(call)
#endif

/* Declares a sub-group's sums of dk and dv, and whether it stores them. With M_FRAGMENTS > 1, one sub-group of a pair has the
 * sums of dk and the other those of dv. Statistics of owned queries are in registers, but in local memory with M_FRAGMENTS > 1,
 * since a lane would have too many. */
#if M_FRAGMENTS > 1
#define DECLARE_KEY_SUMS                                                                           \
    __local float4 passed[PAIRS * PAIR_FLOAT4];                                                    \
    const bool second = THIS_THREAD / FRAGMENT_LANES >= PAIRS; /* of a pair */                     \
    const bool stores_k = second, stores_v = !second;                                              \
    const int pair = THIS_THREAD / FRAGMENT_LANES % PAIRS;                                         \
    float sums[M_FRAGMENTS][DIM_SUMS(DIM_QK)];                                                     \
    here.first_row = pair * M_FRAGMENTS * FRAGMENT_QUERIES
#define K_SUMS(f) sums[f]
#define V_SUMS(f) sums[f]
#define DECLARE_OWN_STATISTICS __local float4 statistics[BLOCK_OWNED]
#define FIND_OWN_STATISTICS()                                                                      \
    for (int n = THIS_THREAD; n < BLOCK_OWNED; n += THREADS)                                       \
    statistics[n] = statistic_of(args, t.b, t.h, t.i0 + n)
#else
#define DECLARE_KEY_SUMS                                                                           \
    float sums_k[DIM_SUMS(DIM_QK)], sums_v[DIM_SUMS(DIM_V)];                                       \
    const bool stores_k = true, stores_v = true
#define K_SUMS(f) sums_k
#define V_SUMS(f) sums_v
#define DECLARE_OWN_STATISTICS float4 statistics[LANE_QUERIES]
#define FIND_OWN_STATISTICS()                                                                      \
    UNROLL                                                                                         \
    for (int n = 0; n < LANE_QUERIES; n++)                                                         \
    statistics[n] = statistic_of(args, t.b, t.h, t.i0 + owned_row(n, first_row, lane))
#endif

/* Stores the sums of the sub-group's fragment f, of `rows` keys. */
INLINE void store_dk(const struct arguments *args, const struct tile t, const int rows,
                     const struct place *here, const int f, const float *sums)
{
    store_fragment_gradients(
        sums, DIM_QK, UNIT_DK, args->shape->scale, t.keys, rows,
        here->first_row + f * FRAGMENT_QUERIES, here->dim_group, here->lane,
        args->dk + row_offset(args->shape->dk_stride, t.b, t.h / args->shape->group, t.j0),
        args->shape->dk_stride[2], dk_step(args));
}

INLINE void store_dv(const struct arguments *args, const struct tile t, const int rows,
                     const struct place *here, const int f, const float *sums)
{
    store_fragment_gradients(
        sums, DIM_V, UNIT_DV, 1.0f, t.keys, rows, here->first_row + f * FRAGMENT_QUERIES,
        here->dim_group, here->lane,
        args->dv + row_offset(args->shape->dv_stride, t.b, t.h / args->shape->group, t.j0),
        args->shape->dv_stride[2], dv_step(args));
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
backward_keys(PARAMETERS_backward_keys)
{
    struct arguments arguments = ARGUMENTS_backward_keys;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / key_blocks_of(longest_kv(&arguments)) /
                       (arguments.shape->heads / arguments.shape->group));
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local float4 statistics[STAGES][BLOCK_STREAMED];
    __local int not_finite;         /* not 0 once a result is Inf or NaN */
    __local int streamed_nonfinite; /* not 0 once an Inf or NaN of a streamed row became 0 */
    DECLARE_TILE_KEPT();
    DECLARE_EXCHANGE(SUB_GROUPS * DIM_GROUPS);
    struct place here = find_place(tiles, THIS_THREAD);
    const int lane = here.lane;
    struct tile t = owned_keys(args);
    const long first_head = t.h, kv_head = t.h / args->shape->group;
    const long begin = first_query(args, t.e, t.j0), end = end_query(args, t.e, t.j0, t.keys);
    const int rows = min(args->shape->seq_kv - t.j0, (long)OWNED_KEYS);
    DECLARE_KEY_SUMS;
    bool again = false; /* the second pass */
    STREAM;

    if (PRODUCER)
        registers_for_groups();
    LEAVE_FIRST_ASSEMBLY();
    if (get_local_id(0) == 0)
        not_finite = streamed_nonfinite = 0;
    PRODUCE(produce_queries(args, t, begin, end, tiles, statistics, kept, &not_finite, barriers));
    if (begin < end) { /* the next barrier completes the group's own rows */
        STAGE_OWN(k_rows(args, t.b, kv_head, t.j0, t.keys), here.owned_qk, DIM_QK, UNIT_K);
        STAGE_OWN(v_rows(args, t.b, kv_head, t.j0, t.keys), here.owned_v, DIM_V, UNIT_V);
    }
    owned_complete();
    do {
        bool finite = true;
        t.h = first_head;
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++) {
            CLEAR(K_SUMS(f));
            CLEAR(V_SUMS(f));
        }
#if M_FRAGMENTS > 1
        sum_over_queries_in_pairs(args, t, here, second, pair, begin, end, tiles, statistics, kept,
                                  passed + pair * PAIR_FLOAT4, again, &streamed_nonfinite, sums,
                                  lane, exchange);
#elif PRODUCER
        sum_produced_queries(args, t, here, begin, end, tiles, statistics, again,
                             &streamed_nonfinite, sums_k, sums_v, kept, &stream, lane, exchange);
#else
        sum_over_queries(args, t, here, begin, end, rows, tiles, statistics, again,
                         &streamed_nonfinite, sums_k, sums_v, kept, lane, exchange);
#endif
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            finite =
                finite && all_sums_finite(K_SUMS(f), DIM_QK) && all_sums_finite(V_SUMS(f), DIM_V);
        if (!finite)
            atomic_or(&not_finite, 1);
        group_barrier(); /* not_finite is final */
        again = !again && not_finite;
    } while (again);
    if (PRODUCER)
        here = find_place(tiles, this_thread_again());
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        if (stores_k)
            store_dk(args, t, rows, &here, f, K_SUMS(f));
        if (stores_v)
            store_dv(args, t, rows, &here, f, V_SUMS(f));
    }
    computing_barrier(); /* the results are complete */
    t.h = first_head;
    if (streamed_nonfinite)
        add_nonfinite_queries(args, t, begin, end);
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Makes NaN of the gradients of owned queries where a key that they see, from begin to end, has an Inf or
 * NaN that was staged as 0: all of its scores are such, so that nothing else can come of it. */
INLINE void add_nonfinite_keys(const struct arguments *args, const struct tile t, const long begin,
                               const long end)
{
    for (int x = this_thread_again(); x < t.queries * DIM_QK; x += COMPUTING) {
        const long i = t.i0 + x / DIM_QK;
        const int d = x % DIM_QK;
        bool found = false;
        for (long j = begin; j < end; j++) {
            const float y =
                load1_of(DTYPE, args->k,
                         row_offset(args->shape->k_stride, t.b, t.h / args->shape->group, j) +
                             d * k_step(args));
            found = found || (y * 0.0f != 0.0f && counts(args, t, i, j));
        }
        if (found)
            store_result(NAN, args->dq + row_offset(args->shape->dq_stride, t.b, t.h, i) +
                                  d * dq_step(args));
    }
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
backward_queries(PARAMETERS_backward_queries)
{
    struct arguments arguments = ARGUMENTS_backward_queries;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / blocks_of(longest_q(&arguments)) / arguments.shape->heads);
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local int not_finite, streamed_nonfinite; /* described in backward_keys */
    DECLARE_TILE_KEPT();
    DECLARE_EXCHANGE(SUB_GROUPS * DIM_GROUPS);
    struct place here = find_place(tiles, THIS_THREAD);
    const int lane = here.lane, first_row = here.first_row;
    struct tile t = owned_queries(args);

    LEAVE_IF_BEYOND(t.i0, args->shape->seq_q);
    const long begin = first_key_of_queries(args, t), end = end_key_of_queries(args, t);
    const int rows = min(args->shape->seq_q - t.i0, (long)BLOCK_OWNED);
    float sums_q[M_FRAGMENTS][DIM_SUMS(DIM_QK)];
    float slope_sums[LANE_QUERIES], bias_sums[LANE_QUERIES];
    DECLARE_OWN_STATISTICS;
    bool again = false;
    STREAM;

    registers_for_groups();
    LEAVE_FIRST_ASSEMBLY();
    if (get_local_id(0) == 0)
        not_finite = streamed_nonfinite = 0;
    find_head(args, &t);
    PRODUCE(produce_keys(args, t, begin, end, tiles, kept, &not_finite, barriers));
    if (begin < end) {
        STAGE_OWN(q_rows(args, t.b, t.h, t.i0, t.queries), here.owned_qk, DIM_QK, UNIT_Q);
        STAGE_OWN(do_rows(args, t.b, t.h, t.i0, t.queries), here.owned_v, DIM_V, UNIT_DO);
    }
    FIND_OWN_STATISTICS();
    owned_complete();
    do {
        bool finite = true;
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            CLEAR(sums_q[f]);
        CLEAR(slope_sums);
        CLEAR(bias_sums);
#if M_FRAGMENTS > 1
        sum_over_keys_wide(args, t, here, begin, end, statistics, tiles, again, &streamed_nonfinite,
                           sums_q, kept, lane, exchange);
#elif PRODUCER
        sum_produced_keys(args, t, here, begin, end, statistics, tiles, again, &streamed_nonfinite,
                          sums_q[0], kept, &stream, lane, exchange);
#else
        sum_over_keys(args, t, here, begin, end, statistics, tiles, again, &streamed_nonfinite,
                      slope_sums, bias_sums, sums_q[0], kept, lane, exchange);
#endif
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            finite = finite && all_sums_finite(sums_q[f], DIM_QK);
        if (!finite)
            atomic_or(&not_finite, 1);
        group_barrier(); /* not_finite is final */
        again = !again && not_finite;
    } while (again);
    if (PRODUCER)
        here = find_place(tiles, this_thread_again());
    if (HAS_DSLOPES)
        store_fragment_sums(slope_sums, t.queries, rows, first_row, here.dim_group,
                            args->workspace + slope_sums_begin(args) +
                                (t.b * args->shape->heads + t.h) * longest_q(args) + t.i0,
                            lane, exchange);
    if (HAS_DBIAS)
        store_fragment_sums(bias_sums, t.queries, args->shape->bias_stride[3] == 0 ? rows : 0,
                            first_row, here.dim_group,
                            args->workspace + bias_sums_begin(args) +
                                (t.b * args->shape->heads + t.h) * args->shape->seq_q + t.i0,
                            lane, exchange);
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        store_fragment_gradients(sums_q[f], DIM_QK, UNIT_DQ, args->shape->scale, t.queries, rows,
                                 here.first_row + f * FRAGMENT_QUERIES, here.dim_group, here.lane,
                                 args->dq + row_offset(args->shape->dq_stride, t.b, t.h, t.i0),
                                 args->shape->dq_stride[2], dq_step(args));
    computing_barrier(); /* the results are complete */
    if (streamed_nonfinite)
        add_nonfinite_keys(args, t, begin, end);
    END_KERNEL();
}

#if HAS_DBIAS
/* One group computes each tile of the bias. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
backward_bias(PARAMETERS_backward_bias)
{
    const struct arguments arguments = ARGUMENTS_backward_bias, *const args = &arguments;
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    DECLARE_TILE_KEPT();
    DECLARE_EXCHANGE(SUB_GROUPS * DIM_GROUPS);
    const struct place here = find_place(tiles, THIS_THREAD);
    const int lane = here.lane, first_row = here.first_row;
    const struct bias_tile tile = find_bias_tile(args);
    float sums[STREAMED_SUMS], unused[LANE_QUERIES];
    struct tile t;

    t.i0 = tile.i0;
    t.j0 = tile.j0;
    CLEAR(sums);
    CLEAR(unused);
    for (t.b = tile.b; t.b < tile.end_b; t.b++) {
        t.e = extent_of(args, t.b);
        if (!enter_bias_tile(args, &t))
            continue;
        for (t.h = tile.h; t.h < tile.end_h; t.h++) {
            float p[STREAMED_SUMS], ds[STREAMED_SUMS];
            float4 statistics[LANE_QUERIES];
            find_head(args, &t);
            UNROLL
            for (int n = 0; n < LANE_QUERIES; n++)
                statistics[n] = statistic_of(args, t.b, t.h, t.i0 + owned_row(n, first_row, lane));
            LOCAL_BARRIER(); /* all have read the old contents */
            STAGE_OWNED(q_rows(args, t.b, t.h, t.i0, t.queries), here.owned_qk, DIM_QK, UNIT_Q);
            STAGE_OWNED(do_rows(args, t.b, t.h, t.i0, t.queries), here.owned_v, DIM_V, UNIT_DO);
            STAGE_STREAMED(k_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys), here.qk,
                           DIM_QK, UNIT_K);
            STAGE_STREAMED(v_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys), here.v, DIM_V,
                           UNIT_V);
            draw_kept_tile(false, args, t, kept, 0);
            copies_wait();
            LOCAL_BARRIER(); /* all rows are complete */
            begin_both(&here, p, ds, lane, exchange);
            FINISH_BOTH(p, ds);
            REPLACE_PRODUCTS(true, false, &here, p);
            REPLACE_PRODUCTS(true, true, &here, ds);
            gradients_of_fragment(false, true, true, args, t, first_row, statistics, 0, p, ds,
                                  unused, unused, lane, find_kept(kept, 0, first_row, lane));
            UNROLL
            for (int x = 0; x < STREAMED_SUMS; x++)
                sums[x] += ds[x];
        }
    }
    __global bias_storage *to = args->dbias + head_offset(args->shape->bias_stride, tile.b, tile.h);
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++) {
        const long i = t.i0 + owned_row(sum_query(x % FRAGMENT_SUMS), first_row, lane),
                   j = t.j0 + streamed_row(x, lane);
        if (here.dim_group == 0 && i < args->shape->seq_q && j < args->shape->seq_kv)
            store1_of(BIAS_DTYPE, sums[x], to,
                      i * args->shape->bias_stride[2] + j * args->shape->bias_stride[3]);
    }
}
#endif

#include "gpu/backward_rows.h"
#include "gpu/backward_sums.h"
#include "gpu/load_gradients.h"
