/* SPDX-License-Identifier: Apache-2.0 */
/* backward_gpu_mma: dq, dk and dv by matrix instructions, in two passes over the pairs; see clattn/problem.h for the
 * formulas. Neither scores nor their gradients reach memory.
 *
 * Stages    those of src/families/backward_gpu/backward_gpu_item.cl, with the same workspace (cl/gpu/backward_tile.h):
 *           backward_rows, backward_keys (dk and dv, for blocks of owned keys), backward_queries (dq, for
 *           blocks of owned queries), backward_bias and backward_sums. Nothing is added by atomics: the
 *           same inputs give the same bits.
 * Tiles     A work-group owns BLOCK_OWNED rows, FRAGMENT_QUERIES for each of SUB_GROUPS sub-groups, of k
 *           and v, or of q and do, and streams BLOCK_STREAMED rows at a time of the other two:
 *             1. owned times streamed rows: s = q k^T and dp = do v^T, with all in local memory;
 *             2. p and ds in registers (cl/mma/fragment_gradients.h);
 *             3. sums += p or ds times streamed rows, with the weights as operands in the same registers.
 *           DIM_GROUPS sub-groups have the same owned rows: each does 1. and 2., and 3. for a part of the
 *           dims, where one could not hold all sums in registers. With M_FRAGMENTS > 1 sub-groups have more owned
 *           rows, and two of them divide the products of the same keys (cl/mma/gradients_wide.h).
 * Fragments cl/mma/fragment.h: the layouts of an instruction, which EMULATE replaces by local memory.
 * Parts     f32 is multiplied as three parts of bf16, by six products for one (cl/mma/f32_parts.h): a stage before all
 *           others, backward_parts, writes those of q, k, v and do to the workspace (cl/mma/gradients_parts.h), and p
 *           and ds are split in registers. In the second pass (see Masked) products that Infs made NaNs are those of
 *           first parts, and so are products of infinite p and ds.
 * Sums      f32. In f16 and bf16 p and ds are rounded to 16 bits once, as in FlashAttention: in f16 a ds over 65504 is
 *           infinite. The terms of dbias and dslopes are not rounded.
 * NDRange   local THREADS = FRAGMENT_LANES * SUB_GROUPS * DIM_GROUPS everywhere.
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Masked    A weight of 0 does not silence an Inf or NaN of a streamed row. If some result becomes
 *           one, the whole block is computed again with 0 in its place in 3., and is added at the end to rows
 *           that see it. Owned rows without a visible pair may contain anything: a row's sums
 *           are its own, and 0 is stored for it.
 * Barriers  Every thread reaches every barrier; only the instructions' own lockstep is relied on.
 * Units    mma: fragments of a sub-group. warpgroup: products of warpgroups (cl/mma/warpgroup_tile.h), NVIDIA's wgmma, of Hopper.
 *          Head dims are then 64 or 128; owned and streamed rows lie in local memory once, for all products, and the tensor
 *          cores read both.
 * Tunables  src/families/backward_gpu/backward_gpu_mma.def or backward_gpu_warpgroup.def, all defined by the host; no fallbacks here. */
#include "score/score.h"
#include "families/units.h"
#if UNIT == UNIT_WARPGROUP
#define INSTRUCTION 7
#define DIM_GROUPS 1
#define M_FRAGMENTS 1
#endif
#if !defined(INSTRUCTION) || !defined(EMULATE) || !defined(SUB_GROUPS) || !defined(DIM_GROUPS) ||  \
    !defined(M_FRAGMENTS) || !defined(BLOCK_STREAMED) || !defined(STAGES) || !defined(EXP)
#error "backward_gpu_mma.cl must be built with all of its tunables defined"
#endif
#if DTYPE != DTYPE_F32 && HAS_STRICT
#error "backward_gpu_mma.cl takes f16 and bf16 in standard precision alone"
#endif

#include "mma/fragment.h"
#include "gpu/tile_exp.h"

#if !HAS_TILE_PRODUCTS
#define PRODUCER 0
#endif
#define COMPUTING (FRAGMENT_LANES * SUB_GROUPS * DIM_GROUPS)
#define DRAWERS 0 /* a producer of gradients copies alone */
#include "mma/computing.h"
#define LOAD_WIDTH 8
#include "families/backward_gpu/backward_gpu_mma_sizes.h"
#define SCORE_UNIT 1.0f
#include "common/backward.h"
#include "gpu/tile_load.h"
#include "gpu/backward_tile.h"
#include "gpu/pair_dropout.h"
#include "mma/fragment_tile.h"
#include "mma/fragment_dropout.h"
#include "mma/gradients_parts.h"
#include "mma/fragment_gradients.h"

/* ---- what the kernels share ------------------------------------------------------------------ */

/* The addresses of a work-group's rows in local memory, and this sub-group's rows. */
struct place {
    __local ushort *owned_qk, *owned_v, *qk, *v; /* qk, v: the streamed rows */
    int lane, first_row, dim_group;
};

INLINE struct place find_place(__local uint4 *tiles)
{
    __local ushort *const all = (__local ushort *)tiles;
    const int sub = THIS_THREAD / FRAGMENT_LANES;
    /* the number of rows of warpgroups before this one, in tiles of their own */
    const int own = PRODUCER ? sub / 4 * 64 : 0;
    const struct place here = {all + OWNED_QK_AT + own * OWNED_STRIDE(DIM_QK),
                               all + OWNED_V_AT + own * OWNED_STRIDE(DIM_V),
                               all + STREAMED_QK_AT,
                               all + STREAMED_V_AT,
                               THIS_THREAD % FRAGMENT_LANES,
                               sub / DIM_GROUPS * M_FRAGMENTS * FRAGMENT_QUERIES,
                               sub % DIM_GROUPS};

    return here;
}

#if PRODUCER /* a warpgroup's own rows, possibly none */
#define OWNED_COMPLETE()                                                                           \
    do {                                                                                           \
        copies_wait();                                                                             \
        COMPUTING_BARRIER();                                                                       \
    } while (0)
#define STAGE_OWN(owned, tile, dim, unit)                                                          \
    do {                                                                                           \
        struct matrix m = owned;                                                                   \
        m.p += here.first_row / 64 * 64 * m.row_step;                                              \
        m.rows -= here.first_row / 64 * 64;                                                        \
        FILL_PARTS(m, tile, OWNED_STRIDE(dim), 64, COLUMNS(dim), dim, unit, OWNED_ELEMENTS(dim));  \
    } while (0)
#else
#define OWNED_COMPLETE() /* the barrier of the first streamed rows completes them too */
#define STAGE_OWN(owned, tile, dim, unit) STAGE_OWNED(owned, tile, dim, unit)
#endif

/* Stages a work-group's owned rows, if any; the next barrier completes them. */
#define STAGE_BOTH_OWNED(rows_qk, unit_qk, rows_v, unit_v, any)                                    \
    do {                                                                                           \
        if (any) {                                                                                 \
            STAGE_OWN(rows_qk, here.owned_qk, DIM_QK, unit_qk);                                    \
            STAGE_OWN(rows_v, here.owned_v, DIM_V, unit_v);                                        \
        }                                                                                          \
    } while (0)

#include "mma/gradients_products.h"

/* The address of streamed rows of stage `number`. */
INLINE struct place place_of_stage(struct place here, __local uint4 *tiles, const int number)
{
    here.qk = (__local ushort *)tiles + STREAMED_QK_AT + number * STAGE_ELEMENTS;
    here.v = (__local ushort *)tiles + STREAMED_V_AT + number * STAGE_ELEMENTS;
    return here;
}

/* Returns whether some pair of a tile may be masked or missing. */
INLINE bool hides_some(const struct arguments *args, const struct tile t, const int most_queries,
                       const int most_keys)
{
    return t.queries < most_queries || t.keys < most_keys || is_partial(args, t);
}

/* Returns whether key j is visible to query i and the query has a finite lse. */
INLINE bool counts(const struct arguments *args, const struct tile t, const long i, const long j)
{
    return statistic_of(args, t.b, t.h, i).s0 != -INFINITY &&
           visible(args, t.e, first_key(args, t.e, i), end_key(args, t.e, i), t.b, t.h, i, j);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Adds the Infs and NaNs of queries begin to end that were staged as 0 to the gradients of owned
 * keys. An Inf or NaN of q reaches all scores of its row, so the gradient can only be NaN. */
INLINE void add_nonfinite_queries(const struct arguments *args, struct tile t, const long begin,
                                  const long end)
{
    const long kv_head = t.h / args->shape->group;

    for (int x = get_local_id(0); x < t.keys * (DIM_QK + DIM_V); x += COMPUTING) {
        const long j = t.j0 + x / (DIM_QK + DIM_V);
        const int column = x % (DIM_QK + DIM_V);
        const bool of_k = column < DIM_QK;
        const int d = of_k ? column : column - DIM_QK;
        float extra = 0.0f;
        for (t.h = kv_head * args->shape->group; t.h < (kv_head + 1) * args->shape->group; t.h++)
            for (long i = begin; i < end; i++) {
                const float y =
                    of_k
                        ? LOAD(args->q, row_offset(args->shape->q_stride, t.b, t.h, i) + d * Q_STEP)
                        : LOAD(args->d_o,
                               row_offset(args->shape->d_o_stride, t.b, t.h, i) + d * DO_STEP);
                if (y * 0.0f != 0.0f && counts(args, t, i, j))
                    extra += of_k ? NAN : y * dropout_factor(args, t.b, t.h, i, j);
            }
        __global o_storage *const to =
            of_k ? args->dk + row_offset(args->shape->dk_stride, t.b, kv_head, j) + d * DK_STEP
                 : args->dv + row_offset(args->shape->dv_stride, t.b, kv_head, j) + d * DV_STEP;
        if (extra != 0.0f)
            store_result(LOAD_O(to, 0) + extra, to);
    }
}

#if HAS_DROPOUT
#define DRAW_KEPT(queries, keys)                                                                   \
    draw_kept_pairs(args, dropout_head(args, t.b, t.h), t.i0, t.j0, queries, keys, kept)
#else
#define DRAW_KEPT(queries, keys)
#endif

/* The matrices of q and do for a tile's queries. */
#define TILE_QUERIES(t) q_rows(args, (t).b, (t).h, (t).i0, (t).queries)
#define TILE_GRADIENTS(t) do_rows(args, (t).b, (t).h, (t).i0, (t).queries)
/* The matrices of k and v for a tile's keys. */
#define TILE_KEYS(t) k_rows(args, (t).b, (t).h / args->shape->group, (t).j0, (t).keys)
#define TILE_VALUES(t) v_rows(args, (t).b, (t).h / args->shape->group, (t).j0, (t).keys)

/* The tile of queries (or keys) from i0 (or j0) on; it ends before `end`. */
INLINE struct tile queries_from(struct tile t, const long i0, const long end)
{
    t.i0 = i0;
    t.queries = min(end - i0, (long)BLOCK_STREAMED);
    return t;
}

INLINE struct tile keys_from(struct tile t, const long j0, const long end)
{
    t.j0 = j0;
    t.keys = min(end - j0, (long)BLOCK_STREAMED);
    return t;
}

/* Stages the statistics of a tile's queries. */
INLINE void stage_statistics(const struct arguments *args, const struct tile t,
                             __local float4 *statistics)
{
    for (int r = FILL_THREAD; r < BLOCK_STREAMED; r += FILL_THREADS)
#if HAS_COPIES
        copy_three((__local float *)(statistics + r), place_of_statistic(args, t.b, t.h, t.i0 + r));
#else
        statistics[r] = statistic_of(args, t.b, t.h, t.i0 + r);
#endif
}

#if PRODUCER
#include "mma/gradients_producer.h"
#else
#include "mma/gradients_passes.h"
#if M_FRAGMENTS > 1
#include "mma/gradients_wide.h"
#endif
#endif

/* Begins a kernel with a producer: the producer does all its work in `call`, and returns. */
#if PRODUCER && !EMULATE
#define PRODUCE(call)                                                                              \
    if (get_local_id(0) == 0)                                                                      \
        start_barriers(barriers);                                                                  \
    LOCAL_BARRIER(); /* the mbarriers are there */                                                 \
    if (THIS_THREAD >= COMPUTING) {                                                                \
        FEWER_REGISTERS();                                                                         \
        call;                                                                                      \
        return;                                                                                    \
    }                                                                                              \
    MORE_REGISTERS()
#else
#define PRODUCE(call)
#endif

/* A sub-group's sums, whether it stores them, and what has to be added to them. In a pair each sub-
 * group has the sums of one matrix. */
#if M_FRAGMENTS > 1
#define DECLARE_KEY_SUMS                                                                           \
    __local float4 passed[PAIRS * PAIR_FLOAT4];                                                    \
    const bool second = THIS_THREAD / FRAGMENT_LANES >= PAIRS; /* of a pair */                     \
    const int pair = THIS_THREAD / FRAGMENT_LANES % PAIRS;                                         \
    float sums[M_FRAGMENTS][DIM_SUMS(DIM_QK)];                                                     \
    here.first_row = pair * M_FRAGMENTS * FRAGMENT_QUERIES
#define K_SUMS(f) sums[f]
#define V_SUMS(f) sums[f]
#define STORES_K second
#define STORES_V !second
#define SUM_QUERIES()                                                                              \
    sum_over_queries_in_pairs(args, t, here, second, pair, begin, end, tiles, statistics,          \
                              passed + pair * PAIR_FLOAT4, again, &streamed_nonfinite, sums, lane, \
                              exchange)
#else
#define DECLARE_KEY_SUMS float sums_k[DIM_SUMS(DIM_QK)], sums_v[DIM_SUMS(DIM_V)]
#define K_SUMS(f) sums_k
#define V_SUMS(f) sums_v
#define STORES_K true
#define STORES_V true
#if PRODUCER
#define SUM_QUERIES()                                                                              \
    sum_produced_queries(args, t, here, begin, end, tiles, statistics, again, &streamed_nonfinite, \
                         sums_k, sums_v, &stream, lane, exchange)
#else
#define SUM_QUERIES()                                                                              \
    sum_over_queries(args, t, here, begin, end, rows, tiles, statistics, again,                    \
                     &streamed_nonfinite, sums_k, sums_v, kept, lane, exchange)
#endif
#endif

/* Stores the sums of the sub-group's fragment f, of `rows` keys. */
INLINE void store_dk(const struct arguments *args, const struct tile t, const int rows,
                     const struct place *here, const int f, const float *sums)
{
    store_fragment_gradients(
        sums, DIM_QK, UNIT_DK, args->shape->scale, t.keys, rows,
        here->first_row + f * FRAGMENT_QUERIES, here->dim_group, here->lane,
        args->dk + row_offset(args->shape->dk_stride, t.b, t.h / args->shape->group, t.j0),
        args->shape->dk_stride[2], DK_STEP);
}

INLINE void store_dv(const struct arguments *args, const struct tile t, const int rows,
                     const struct place *here, const int f, const float *sums)
{
    store_fragment_gradients(
        sums, DIM_V, UNIT_DV, 1.0f, t.keys, rows, here->first_row + f * FRAGMENT_QUERIES,
        here->dim_group, here->lane,
        args->dv + row_offset(args->shape->dv_stride, t.b, t.h / args->shape->group, t.j0),
        args->shape->dv_stride[2], DV_STEP);
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
backward_keys(PARAMETERS_backward_keys)
{
    struct arguments arguments = ARGUMENTS_backward_keys;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / KEY_BLOCKS_OF(longest_kv(&arguments)) /
                       (arguments.shape->heads / arguments.shape->group));
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local float4 statistics[STAGES][BLOCK_STREAMED];
    __local int not_finite;         /* is nonzero once a result is Inf or NaN */
    __local int streamed_nonfinite; /* is nonzero once an Inf or NaN of a streamed row became 0 */
    DECLARE_KEPT(KEPT_BYTES(BLOCK_STREAMED, BLOCK_OWNED));
    DECLARE_EXCHANGE(SUB_GROUPS * DIM_GROUPS);
    struct place here = find_place(tiles);
    const int lane = here.lane;
    struct tile t = owned_keys(args);
    const long first_head = t.h, kv_head = t.h / args->shape->group;
    const long begin = first_query(args, t.e, t.j0), end = end_query(args, t.e, t.j0, t.keys);
    const int rows = min(args->shape->seq_kv - t.j0, (long)OWNED_KEYS);
    DECLARE_KEY_SUMS;
    bool again = false; /* the second pass */
    STREAM;

#if PRODUCER
    REGISTERS_FOR_GROUPS();
#endif
    LEAVE_FIRST_ASSEMBLY();
    if (get_local_id(0) == 0)
        not_finite = streamed_nonfinite = 0;
    PRODUCE(produce_queries(args, t, begin, end, tiles, statistics, &not_finite, barriers));
    STAGE_BOTH_OWNED(k_rows(args, t.b, kv_head, t.j0, t.keys), UNIT_K,
                     v_rows(args, t.b, kv_head, t.j0, t.keys), UNIT_V, begin < end);
    OWNED_COMPLETE();
    do {
        bool finite = true;
        t.h = first_head;
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++) {
            CLEAR(K_SUMS(f));
            CLEAR(V_SUMS(f));
        }
        SUM_QUERIES();
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            finite =
                finite && all_sums_finite(K_SUMS(f), DIM_QK) && all_sums_finite(V_SUMS(f), DIM_V);
        if (!finite)
            atomic_or(&not_finite, 1);
        GROUP_BARRIER(); /* not_finite is final */
        again = !again && not_finite;
    } while (again);
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        if (STORES_K)
            store_dk(args, t, rows, &here, f, K_SUMS(f));
        if (STORES_V)
            store_dv(args, t, rows, &here, f, V_SUMS(f));
    }
    COMPUTING_BARRIER(); /* the results are complete */
    t.h = first_head;
    if (streamed_nonfinite)
        add_nonfinite_queries(args, t, begin, end);
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Sets gradients of owned queries to NaN if one of keys begin to end that they see has an Inf or
 * NaN that was staged as 0. All of its scores are then infinite or NaN, so there is no other
 * result. */
INLINE void add_nonfinite_keys(const struct arguments *args, const struct tile t, const long begin,
                               const long end)
{
    for (int x = get_local_id(0); x < t.queries * DIM_QK; x += COMPUTING) {
        const long i = t.i0 + x / DIM_QK;
        const int d = x % DIM_QK;
        bool found = false;
        for (long j = begin; j < end; j++) {
            const float y =
                LOAD(args->k, row_offset(args->shape->k_stride, t.b, t.h / args->shape->group, j) +
                                  d * K_STEP);
            found = found || (y * 0.0f != 0.0f && counts(args, t, i, j));
        }
        if (found)
            store_result(NAN,
                         args->dq + row_offset(args->shape->dq_stride, t.b, t.h, i) + d * DQ_STEP);
    }
}

/* The statistics of owned queries: those of a lane or, since it would have many, all in local
 * memory. */
#if M_FRAGMENTS > 1
#define DECLARE_OWN_STATISTICS __local float4 statistics[BLOCK_OWNED]
#define FIND_OWN_STATISTICS()                                                                      \
    for (int n = THIS_THREAD; n < BLOCK_OWNED; n += THREADS)                                       \
    statistics[n] = statistic_of(args, t.b, t.h, t.i0 + n)
#define SUM_KEYS()                                                                                 \
    sum_over_keys_wide(args, t, here, begin, end, statistics, tiles, again, &streamed_nonfinite,   \
                       sums_q, lane, exchange)
#else
#define DECLARE_OWN_STATISTICS float4 statistics[LANE_QUERIES]
#define FIND_OWN_STATISTICS()                                                                      \
    UNROLL                                                                                         \
    for (int n = 0; n < LANE_QUERIES; n++)                                                         \
    statistics[n] = statistic_of(args, t.b, t.h, t.i0 + OWNED_ROW(n))
#if PRODUCER
#define SUM_KEYS()                                                                                 \
    sum_produced_keys(args, t, here, begin, end, statistics, tiles, again, &streamed_nonfinite,    \
                      sums_q[0], &stream, lane, exchange)
#else
#define SUM_KEYS()                                                                                 \
    sum_over_keys(args, t, here, begin, end, statistics, tiles, again, &streamed_nonfinite,        \
                  slope_sums, bias_sums, sums_q[0], kept, lane, exchange)
#endif
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
backward_queries(PARAMETERS_backward_queries)
{
    struct arguments arguments = ARGUMENTS_backward_queries;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / BLOCKS_OF(longest_q(&arguments)) / arguments.shape->heads);
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local int not_finite, streamed_nonfinite; /* described in backward_keys */
    DECLARE_KEPT(KEPT_BYTES(BLOCK_OWNED, BLOCK_STREAMED));
    DECLARE_EXCHANGE(SUB_GROUPS * DIM_GROUPS);
    struct place here = find_place(tiles);
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

    REGISTERS_FOR_GROUPS();
    LEAVE_FIRST_ASSEMBLY();
    if (get_local_id(0) == 0)
        not_finite = streamed_nonfinite = 0;
    find_head(args, &t);
    PRODUCE(produce_keys(args, t, begin, end, tiles, &not_finite, barriers));
    STAGE_BOTH_OWNED(q_rows(args, t.b, t.h, t.i0, t.queries), UNIT_Q,
                     do_rows(args, t.b, t.h, t.i0, t.queries), UNIT_DO, begin < end);
    FIND_OWN_STATISTICS();
    OWNED_COMPLETE();
    do {
        bool finite = true;
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            CLEAR(sums_q[f]);
        CLEAR(slope_sums);
        CLEAR(bias_sums);
        SUM_KEYS();
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            finite = finite && all_sums_finite(sums_q[f], DIM_QK);
        if (!finite)
            atomic_or(&not_finite, 1);
        GROUP_BARRIER(); /* not_finite is final */
        again = !again && not_finite;
    } while (again);
#if HAS_DSLOPES
    store_fragment_sums(slope_sums, t.queries, rows, first_row, here.dim_group,
                        args->workspace + slope_sums_begin(args) +
                            (t.b * args->shape->heads + t.h) * longest_q(args) + t.i0,
                        lane, exchange);
#endif
#if HAS_DBIAS
    store_fragment_sums(bias_sums, t.queries, args->shape->bias_stride[3] == 0 ? rows : 0,
                        first_row, here.dim_group,
                        args->workspace + bias_sums_begin(args) +
                            (t.b * args->shape->heads + t.h) * args->shape->seq_q + t.i0,
                        lane, exchange);
#endif
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        store_fragment_gradients(sums_q[f], DIM_QK, UNIT_DQ, args->shape->scale, t.queries, rows,
                                 first_row + f * FRAGMENT_QUERIES, here.dim_group, lane,
                                 args->dq + row_offset(args->shape->dq_stride, t.b, t.h, t.i0),
                                 args->shape->dq_stride[2], DQ_STEP);
    COMPUTING_BARRIER(); /* the results are complete */
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
    DECLARE_KEPT(KEPT_BYTES(BLOCK_OWNED, BLOCK_STREAMED));
    DECLARE_EXCHANGE(SUB_GROUPS * DIM_GROUPS);
    const struct place here = find_place(tiles);
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
                statistics[n] = statistic_of(args, t.b, t.h, t.i0 + OWNED_ROW(n));
            LOCAL_BARRIER(); /* all have read the old contents */
            STAGE_OWNED(q_rows(args, t.b, t.h, t.i0, t.queries), here.owned_qk, DIM_QK, UNIT_Q);
            STAGE_OWNED(do_rows(args, t.b, t.h, t.i0, t.queries), here.owned_v, DIM_V, UNIT_DO);
            STAGE_STREAMED(k_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys), here.qk,
                           DIM_QK, UNIT_K);
            STAGE_STREAMED(v_rows(args, t.b, t.h / args->shape->group, t.j0, t.keys), here.v, DIM_V,
                           UNIT_V);
            DRAW_KEPT(BLOCK_OWNED, BLOCK_STREAMED);
            copies_wait();
            LOCAL_BARRIER(); /* all rows are complete */
            begin_both(&here, p, ds, lane, exchange);
            FINISH_BOTH(p, ds);
            REPLACE_PRODUCTS(true, false, &here, p);
            REPLACE_PRODUCTS(true, true, &here, ds);
            gradients_of_fragment(false, true, true, args, t, first_row, statistics, 0, p, ds,
                                  unused, unused, lane, kept);
            UNROLL
            for (int x = 0; x < STREAMED_SUMS; x++)
                sums[x] += ds[x];
        }
    }
    __global bias_storage *to = args->dbias + head_offset(args->shape->bias_stride, tile.b, tile.h);
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++) {
        const long i = t.i0 + OWNED_ROW(SUM_QUERY(x % FRAGMENT_SUMS)), j = t.j0 + STREAMED_ROW(x);
        if (here.dim_group == 0 && i < args->shape->seq_q && j < args->shape->seq_kv)
            STORE_BIAS(sums[x], to,
                       i * args->shape->bias_stride[2] + j * args->shape->bias_stride[3]);
    }
}
#endif

#include "gpu/backward_rows.h"
#include "gpu/backward_sums.h"
