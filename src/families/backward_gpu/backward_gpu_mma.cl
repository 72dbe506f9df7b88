/* backward_gpu_mma: dq, dk and dv by matrix instructions, in f16 and bf16, in two passes over the pairs; see
 * clattn/problem.h for the formulas. Neither scores nor their gradients reach memory.
 *
 * Stages    those of src/families/backward_gpu/backward_gpu_item.cl, with the same workspace (cl/gpu/backward_tile.h):
 *           backward_rows, backward_keys (dk and dv, for blocks of owned keys), backward_queries (dq, for
 *           blocks of owned queries), backward_bias and backward_sums. Nothing is added by atomics: the
 *           same inputs give the same bits.
 * Tiles     A work-group owns BLOCK_OWNED rows, FRAGMENT_QUERIES for each of SUB_GROUPS sub-groups, of k
 *           and v, or of q and do, and streams BLOCK_STREAMED rows at a time of the other two:
 *             1. owned times streamed rows: s = q k^T and dp = do v^T, with all in local memory;
 *             2. p and ds in registers (cl/mma/fragment_gradients.h);
 *             3. sums += p or ds times streamed rows, with the weights as operands where they are.
 *           DIM_GROUPS sub-groups have the same owned rows: each does 1. and 2., and 3. for a part of the
 *           dims, where one could not hold all sums in registers.
 * Fragments cl/mma/fragment.h: the layouts of an instruction, which EMULATE replaces by local memory.
 * Sums      f32. p and ds are rounded to 16 bits once, as in FlashAttention: in f16 a ds over 65504 is
 *           infinite. What dbias and dslopes are sums of is not rounded.
 * NDRange   local THREADS = FRAGMENT_LANES * SUB_GROUPS * DIM_GROUPS everywhere.
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Hidden    A weight of 0 does not silence an Inf or NaN of a streamed row. Where some result comes to
 *           one, all of the block is computed again with 0 in its place in 3., and rows that see it get it
 *           at the end. Owned rows that see nothing, or that nobody sees, may hold anything: a row's sums
 *           are its own, and 0 is stored for it.
 * Barriers  Every thread reaches every barrier; only the instructions' own lockstep is relied on.
 * Units    mma: fragments of a sub-group. warpgroup: products of warpgroups (cl/mma/warpgroup_tile.h), NVIDIA's wgmma, of Hopper.
 *          Head dims are then 64 or 128; owned and streamed rows lie in local memory once, for all products, and the tensor
 *          cores read both.
 * Tunables  src/families/backward_gpu/backward_gpu_mma.def or backward_gpu_warpgroup.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "score/score.h"
#include "families/units.h"
#if UNIT == UNIT_WARPGROUP
#define INSTRUCTION 7
#define DIM_GROUPS 1
#endif
#if !defined(INSTRUCTION) || !defined(EMULATE) || !defined(SUB_GROUPS) || !defined(DIM_GROUPS) ||  \
    !defined(BLOCK_STREAMED) || !defined(STAGES) || !defined(EXP)
#error "backward_gpu_mma.cl must be built with all of its tunables defined"
#endif
#if DTYPE == DTYPE_F32 || HAS_STRICT
#error "backward_gpu_mma.cl takes f16 and bf16 in standard precision alone"
#endif

#include "mma/fragment.h"
#include "gpu/tile_exp.h"

#if !HAS_TILE_PRODUCTS
#define PRODUCER 0
#endif
/* Those that compute; with PRODUCER a warpgroup besides fills tiles, 128 threads as each other one fills its owned rows. */
#define COMPUTING (FRAGMENT_LANES * SUB_GROUPS * DIM_GROUPS)
#if PRODUCER
#define FILL_THREADS 128
#define FILL_THREAD (THIS_THREAD % FILL_THREADS)
#define MOST_COPIES 16
#define THREADS (COMPUTING + (EMULATE ? 0 : FILL_THREADS))
#else
#define THREADS COMPUTING
#endif
#define LOAD_WIDTH 8
#include "families/backward_gpu/backward_gpu_mma_sizes.h"
#define SCORE_UNIT 1.0f
#include "common/backward.h"
#include "gpu/tile_load.h"
#include "gpu/backward_tile.h"
#include "gpu/pair_dropout.h"
#include "mma/fragment_tile.h"
#include "mma/fragment_dropout.h"
#include "mma/fragment_gradients.h"

/* ---- what the kernels share ------------------------------------------------------------------ */

/* Where a work-group's rows lie in local memory, and which are this sub-group's. */
struct place {
    __local ushort *owned_qk, *owned_v, *qk, *v; /* qk, v: the streamed rows */
    int lane, first_row, dim_group;
};

INLINE struct place find_place(__local uint4 *tiles)
{
    __local ushort *const all = (__local ushort *)tiles;
    const int sub = THIS_THREAD / FRAGMENT_LANES;
    const int own = PRODUCER ? sub / 4 * 64 : 0; /* rows of warpgroups before this one, in tiles of their own */
    const struct place here = {all + OWNED_QK_AT + own * OWNED_STRIDE(DIM_QK),
                             all + OWNED_V_AT + own * OWNED_STRIDE(DIM_V),
                             all + STREAMED_QK_AT, all + STREAMED_V_AT,
                             THIS_THREAD % FRAGMENT_LANES, sub / DIM_GROUPS * FRAGMENT_QUERIES,
                             sub % DIM_GROUPS};

    return here;
}

#if PRODUCER /* a warpgroup's own, of which there may be none */
#define OWNED_COMPLETE()                                                                           \
    do {                                                                                           \
        copies_wait();                                                                             \
        COMPUTING_BARRIER();                                                                       \
    } while (0)
#define STAGE_OWN(owned, tile, dim, unit)                                                                     \
    do {                                                                                           \
        struct matrix m = owned;                                                                   \
        m.p += here.first_row / 64 * 64 * m.row_step;                                              \
        m.rows -= here.first_row / 64 * 64;                                                        \
        STAGE_ROWS(m, tile, OWNED_STRIDE(dim), 64, COLUMNS(dim), dim, unit);                       \
    } while (0)
#else
#define OWNED_COMPLETE() /* with the first streamed rows */
#define STAGE_OWN(owned, tile, dim, unit) STAGE_OWNED(owned, tile, dim, unit)
#endif

/* Stages a work-group's owned rows, which the next barrier completes, if there are any. */
#define STAGE_BOTH_OWNED(rows_qk, unit_qk, rows_v, unit_v, any)                                                     \
    do {                                                                                           \
        if (any) {                                                                                 \
            STAGE_OWN(rows_qk, here.owned_qk, DIM_QK, unit_qk);                                    \
            STAGE_OWN(rows_v, here.owned_v, DIM_V, unit_v);                                        \
        }                                                                                          \
    } while (0)

#if HAS_TILE_PRODUCTS
/* The warpgroup's owned rows, in a tile of so many. */
#define FIRST_OWNED (PRODUCER ? 0 : warpgroup_rows(here->first_row))
#define OWNED_TILE (PRODUCER ? 64 : BLOCK_OWNED)

INLINE void begin_first(const struct place *here, float s[STREAMED_SUMS] FRAGMENT_PARAM)
{
    begin_tile_products(here->owned_qk, FIRST_OWNED, OWNED_TILE, DIM_QK, here->qk, BLOCK_STREAMED,
                        false, s FRAGMENT_ARG);
}

INLINE void begin_second(const struct place *here, float dp[STREAMED_SUMS] FRAGMENT_PARAM)
{
    begin_tile_products(here->owned_v, FIRST_OWNED, OWNED_TILE, DIM_V, here->v, BLOCK_STREAMED,
                        false, dp FRAGMENT_ARG);
}
#endif

/* The products of the sub-group's owned rows with the streamed ones; complete behind FINISH_BOTH(). */
INLINE void begin_both(const struct place *here, float s[STREAMED_SUMS],
                       float dp[STREAMED_SUMS] FRAGMENT_PARAM)
{
#if HAS_TILE_PRODUCTS
    begin_first(here, s FRAGMENT_ARG);
    begin_second(here, dp FRAGMENT_ARG);
#else
    multiply_rows(here->owned_qk + here->first_row * OWNED_STRIDE(DIM_QK), here->qk, DIM_QK,
                  s FRAGMENT_ARG);
    multiply_rows(here->owned_v + here->first_row * OWNED_STRIDE(DIM_V), here->v, DIM_V,
                  dp FRAGMENT_ARG);
#endif
}
#if HAS_TILE_PRODUCTS
#define FINISH_BOTH(s, dp)                                                                         \
    do {                                                                                           \
        PRODUCTS_WAIT(0);                                                                          \
        SUMS_HERE(s, STREAMED_SUMS);                                                               \
        SUMS_HERE(dp, STREAMED_SUMS);                                                              \
    } while (0)
#else
#define FINISH_BOTH(s, dp)
#endif

/* Behind begin_both(), where WEIGHTS_FIRST: its first products, and what was begun before the latest ones. */
#define FINISH(sums, latest)                                                                       \
    do {                                                                                           \
        PRODUCTS_WAIT(latest);                                                                     \
        SUMS_HERE(sums, STREAMED_SUMS);                                                            \
    } while (0)

/* To the number-th place of streamed rows. */
INLINE struct place place_of_stage(struct place here, __local uint4 *tiles, const int number)
{
    here.qk = (__local ushort *)tiles + STREAMED_QK_AT + number * STAGE_ELEMENTS;
    here.v = (__local ushort *)tiles + STREAMED_V_AT + number * STAGE_ELEMENTS;
    return here;
}

/* Whether some pair of a tile may be hidden, or is none. */
INLINE bool hides_some(const struct attention_shape a, const struct tile t, const int most_queries,
                       const int most_keys)
{
    return t.queries < most_queries || t.keys < most_keys || is_partial(a, t);
}

/* Whether query i, which sees something, sees key j. */
INLINE bool counts(SHAPE_PARAMS, const struct tile t, const long i, const long j,
                   const __global float *workspace SCORE_OPERANDS_PARAM)
{
    return statistic_of(a, at, workspace, t.b, t.h, i).s0 != -INFINITY &&
           visible(a, at, t.e, first_key(a, t.e, i), end_key(a, t.e, i), t.b, t.h, i,
                   j SCORE_OPERANDS_ARG);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Adds to the gradients of owned keys the Infs and NaNs of queries from begin to end that were staged as
 * 0. One of q makes all of its row's scores such, so that nothing but NaN can come of it. */
INLINE void add_nonfinite_queries(SHAPE_PARAMS, struct tile t, const long begin, const long end,
                                  const __global storage *q, const __global storage *d_o,
                                  __global o_storage *dk, __global o_storage *dv,
                                  const __global float *workspace SCORE_OPERANDS_PARAM)
{
    const long kv_head = t.h / a.group;

    for (int x = get_local_id(0); x < t.keys * (DIM_QK + DIM_V); x += COMPUTING) {
        const long j = t.j0 + x / (DIM_QK + DIM_V);
        const int column = x % (DIM_QK + DIM_V);
        const bool of_k = column < DIM_QK;
        const int d = of_k ? column : column - DIM_QK;
        float extra = 0.0f;
        for (t.h = kv_head * a.group; t.h < (kv_head + 1) * a.group; t.h++)
            for (long i = begin; i < end; i++) {
                const float y =
                    of_k ? LOAD(q, at.q + t.b * a.q_stride[0] + t.h * a.q_stride[1] +
                                       i * a.q_stride[2] + d * Q_STEP)
                         : LOAD(d_o, at.d_o + t.b * a.d_o_stride[0] + t.h * a.d_o_stride[1] +
                                         i * a.d_o_stride[2] + d * DO_STEP);
                if (y * 0.0f != 0.0f && counts(a, at, t, i, j, workspace SCORE_OPERANDS_ARG))
                    extra += of_k ? NAN : y * dropout_factor(a, at, t.b, t.h, i, j);
            }
        __global o_storage *const to = of_k
                                         ? dk + at.dk + t.b * a.dk_stride[0] +
                                               kv_head * a.dk_stride[1] + j * a.dk_stride[2] +
                                               d * DK_STEP
                                         : dv + at.dv + t.b * a.dv_stride[0] +
                                               kv_head * a.dv_stride[1] + j * a.dv_stride[2] +
                                               d * DV_STEP;
        if (extra != 0.0f)
            store_result(LOAD_O(to, 0) + extra, to);
    }
}

#if HAS_DROPOUT
#define DRAW_KEPT(queries, keys)                                                                   \
    draw_kept(a, at, dropout_head(at, t.b, t.h), t.i0, t.j0, queries, keys, kept)
#else
#define DRAW_KEPT(queries, keys)
#endif

/* The queries of a tile. */
#define TILE_QUERIES(t) q_rows(a, at, q, (t).b, (t).h, (t).i0, (t).queries)
#define TILE_GRADIENTS(t) do_rows(a, at, d_o, (t).b, (t).h, (t).i0, (t).queries)
/* ... its keys. */
#define TILE_KEYS(t) k_rows(a, at, k, (t).b, (t).h / a.group, (t).j0, (t).keys)
#define TILE_VALUES(t) v_rows(a, at, v, (t).b, (t).h / a.group, (t).j0, (t).keys)

/* The tile of queries from i0 on, of those before `end`; of keys from j0 on. */
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

/* What belongs to the queries of a tile. */
INLINE void stage_statistics(SHAPE_PARAMS, const struct tile t, const __global float *workspace,
                             __local float4 *statistics)
{
    for (int r = FILL_THREAD; r < BLOCK_STREAMED; r += FILL_THREADS)
#if HAS_COPIES
        copy_three((__local float *)(statistics + r),
                  place_of_statistic(a, at, workspace, t.b, t.h, t.i0 + r));
#else
        statistics[r] = statistic_of(a, at, workspace, t.b, t.h, t.i0 + r);
#endif
}

#if PRODUCER
#include "mma/gradients_producer.h"
#else
#include "mma/gradients_passes.h"
#endif

/* What begins a kernel with a producer: that does all that it has to do, `call`, and leaves. */
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

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE
void backward_keys(PARAMETERS_backward_keys)
{
    ENTER_SEQUENCE(get_group_id(0) / BLOCKS_OF(LONGEST_KV) / (a.heads / a.group));
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local float4 statistics[STAGES][BLOCK_STREAMED];
    __local int not_finite;       /* not 0 once a result is Inf or NaN */
    __local int streamed_nonfinite; /* not 0 once an Inf or NaN of a streamed row became 0 */
#if HAS_DROPOUT
    __local uchar kept[KEPT_BYTES(BLOCK_STREAMED, BLOCK_OWNED)];
#endif
#if EMULATE
    __local float exchanges[SUB_GROUPS * DIM_GROUPS * EXCHANGE_WORDS];
    __local float *const exchange = exchanges + THIS_THREAD / FRAGMENT_LANES * EXCHANGE_WORDS;
#endif
    struct place here = find_place(tiles);
    const int lane = here.lane;
    struct tile t = owned_keys(a, at, LONGEST_KV Q_LENGTHS_ARG KV_LENGTHS_ARG);
    const long first_head = t.h, kv_head = t.h / a.group;
    const long begin = first_query(a, t.e, t.j0), end = end_query(a, t.e, t.j0, t.keys);
    const int rows = min(a.seq_kv - t.j0, (long)BLOCK_OWNED);
    float sums_k[DIM_SUMS(DIM_QK)], sums_v[DIM_SUMS(DIM_V)];
    bool again = false; /* the second time around */
    STREAM;

#if PRODUCER
    REGISTERS_FOR_GROUPS();
#endif
    if (get_local_id(0) == 0)
        not_finite = streamed_nonfinite = 0;
    PRODUCE(produce_queries(a, at, t, begin, end, q, d_o, workspace, tiles, statistics,
                            &not_finite, barriers));
    STAGE_BOTH_OWNED(k_rows(a, at, k, t.b, kv_head, t.j0, t.keys), UNIT_K,
                     v_rows(a, at, v, t.b, kv_head, t.j0, t.keys), UNIT_V, begin < end);
    OWNED_COMPLETE();
    do {
        CLEAR(sums_k);
        CLEAR(sums_v);
        t.h = first_head;
        sum_over_queries(a, at, t, here, begin, end, rows, q, d_o, workspace, tiles, statistics,
                         again, &streamed_nonfinite, sums_k,
                         sums_v STREAM_ARG SCORE_OPERANDS_ARG KEPT_ARG FRAGMENT_ARG);
        if (!all_finite(sums_k, DIM_QK) || !all_finite(sums_v, DIM_V))
            atomic_or(&not_finite, 1);
        GROUP_BARRIER(); /* not_finite is final */
        again = !again && not_finite;
    } while (again);
    store_rows(sums_k, DIM_QK, UNIT_DK, a.scale, t.keys, rows, here.first_row, here.dim_group, lane,
               dk + at.dk + t.b * a.dk_stride[0] + kv_head * a.dk_stride[1] +
                   t.j0 * a.dk_stride[2],
               a.dk_stride[2], DK_STEP);
    store_rows(sums_v, DIM_V, UNIT_DV, 1.0f, t.keys, rows, here.first_row, here.dim_group, lane,
               dv + at.dv + t.b * a.dv_stride[0] + kv_head * a.dv_stride[1] +
                   t.j0 * a.dv_stride[2],
               a.dv_stride[2], DV_STEP);
    COMPUTING_BARRIER(); /* the results are complete */
    t.h = first_head;
    if (streamed_nonfinite)
        add_nonfinite_queries(a, at, t, begin, end, q, d_o, dk, dv, workspace SCORE_OPERANDS_ARG);
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Makes NaN of the gradients of owned queries where a key that they see, from begin to end, has an Inf or
 * NaN that was staged as 0: all of its scores are such, so that nothing else can come of it. */
INLINE void add_nonfinite_keys(SHAPE_PARAMS, const struct tile t, const long begin, const long end,
                               const __global storage *k, __global o_storage *dq,
                               const __global float *workspace SCORE_OPERANDS_PARAM)
{
    for (int x = get_local_id(0); x < t.queries * DIM_QK; x += COMPUTING) {
        const long i = t.i0 + x / DIM_QK;
        const int d = x % DIM_QK;
        bool found = false;
        for (long j = begin; j < end; j++) {
            const float y = LOAD(k, at.k + t.b * a.k_stride[0] + t.h / a.group * a.k_stride[1] +
                                        j * a.k_stride[2] + d * K_STEP);
            found = found || (y * 0.0f != 0.0f &&
                              counts(a, at, t, i, j, workspace SCORE_OPERANDS_ARG));
        }
        if (found)
            store_result(NAN, dq + at.dq + t.b * a.dq_stride[0] + t.h * a.dq_stride[1] +
                                   i * a.dq_stride[2] + d * DQ_STEP);
    }
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE
void backward_queries(PARAMETERS_backward_queries)
{
    ENTER_SEQUENCE(get_group_id(0) / BLOCKS_OF(LONGEST_Q(a)) / a.heads);
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local int not_finite, streamed_nonfinite; /* as in backward_keys */
#if HAS_DROPOUT
    __local uchar kept[KEPT_BYTES(BLOCK_OWNED, BLOCK_STREAMED)];
#endif
#if EMULATE
    __local float exchanges[SUB_GROUPS * DIM_GROUPS * EXCHANGE_WORDS];
    __local float *const exchange = exchanges + THIS_THREAD / FRAGMENT_LANES * EXCHANGE_WORDS;
#endif
    struct place here = find_place(tiles);
    const int lane = here.lane, first_row = here.first_row;
    struct tile t = owned_queries(a, at Q_LENGTHS_ARG KV_LENGTHS_ARG);

    LEAVE_IF_BEYOND(t.i0, a.seq_q);
    const long begin = first_key_of_queries(a, t), end = end_key_of_queries(a, t);
    const int rows = min(a.seq_q - t.i0, (long)BLOCK_OWNED);
    float sums_q[DIM_SUMS(DIM_QK)];
    float slope_sums[LANE_QUERIES], bias_sums[LANE_QUERIES];
    float4 statistics[LANE_QUERIES];
    bool again = false;
    STREAM;

    REGISTERS_FOR_GROUPS();
    if (get_local_id(0) == 0)
        not_finite = streamed_nonfinite = 0;
    find_head(a, at, workspace, &t);
    PRODUCE(produce_keys(a, at, t, begin, end, k, v, workspace, tiles, &not_finite, barriers));
    STAGE_BOTH_OWNED(q_rows(a, at, q, t.b, t.h, t.i0, t.queries), UNIT_Q,
                     do_rows(a, at, d_o, t.b, t.h, t.i0, t.queries), UNIT_DO, begin < end);
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        statistics[n] = statistic_of(a, at, workspace, t.b, t.h, t.i0 + OWNED_ROW(n));
    OWNED_COMPLETE();
    do {
        CLEAR(sums_q);
        CLEAR(slope_sums);
        CLEAR(bias_sums);
        sum_over_keys(a, at, t, here, begin, end, k, v, statistics, tiles, again,
                      &streamed_nonfinite, slope_sums, bias_sums,
                      sums_q STREAM_ARG SCORE_OPERANDS_ARG KEPT_ARG FRAGMENT_ARG);
        if (!all_finite(sums_q, DIM_QK))
            atomic_or(&not_finite, 1);
        GROUP_BARRIER(); /* not_finite is final */
        again = !again && not_finite;
    } while (again);
#if HAS_DSLOPES
    store_sums(slope_sums, t.queries, rows, first_row, here.dim_group,
               workspace + at.workspace + slope_sums_begin(a) +
                   (t.b * a.heads + t.h) * LONGEST_Q(a) + t.i0 FRAGMENT_ARG);
#endif
#if HAS_DBIAS
    store_sums(bias_sums, t.queries, a.bias_stride[3] == 0 ? rows : 0, first_row, here.dim_group,
               workspace + at.workspace + bias_sums_begin(a) + (t.b * a.heads + t.h) * a.seq_q +
                   t.i0 FRAGMENT_ARG);
#endif
    store_rows(sums_q, DIM_QK, UNIT_DQ, a.scale, t.queries, rows, first_row, here.dim_group, lane,
               dq + at.dq + t.b * a.dq_stride[0] + t.h * a.dq_stride[1] + t.i0 * a.dq_stride[2],
               a.dq_stride[2], DQ_STEP);
    COMPUTING_BARRIER(); /* the results are complete */
    if (streamed_nonfinite)
        add_nonfinite_keys(a, at, t, begin, end, k, dq, workspace SCORE_OPERANDS_ARG);
    END_KERNEL();
}

#if HAS_DBIAS
/* A group for each tile of the bias. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE
void backward_bias(PARAMETERS_backward_bias)
{
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
#if HAS_DROPOUT
    __local uchar kept[KEPT_BYTES(BLOCK_OWNED, BLOCK_STREAMED)];
#endif
#if EMULATE
    __local float exchanges[SUB_GROUPS * DIM_GROUPS * EXCHANGE_WORDS];
    __local float *const exchange = exchanges + THIS_THREAD / FRAGMENT_LANES * EXCHANGE_WORDS;
#endif
    const struct place here = find_place(tiles);
    const int lane = here.lane, first_row = here.first_row;
    const struct bias_tile tile = find_bias_tile(a);
    float sums[STREAMED_SUMS], unused[LANE_QUERIES];
    struct tile t;

    t.i0 = tile.i0;
    t.j0 = tile.j0;
    CLEAR(sums);
    CLEAR(unused);
    for (t.b = tile.b; t.b < tile.end_b; t.b++) {
        t.e = extent_of(a, at, t.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
        if (!enter_bias_tile(a, &t))
            continue;
        for (t.h = tile.h; t.h < tile.end_h; t.h++) {
            float p[STREAMED_SUMS], ds[STREAMED_SUMS];
            float4 statistics[LANE_QUERIES];
            find_head(a, at, workspace, &t);
            UNROLL
            for (int n = 0; n < LANE_QUERIES; n++)
                statistics[n] = statistic_of(a, at, workspace, t.b, t.h, t.i0 + OWNED_ROW(n));
            LOCAL_BARRIER(); /* what was there may be overwritten */
            STAGE_OWNED(q_rows(a, at, q, t.b, t.h, t.i0, t.queries), here.owned_qk, DIM_QK,
                        UNIT_Q);
            STAGE_OWNED(do_rows(a, at, d_o, t.b, t.h, t.i0, t.queries), here.owned_v, DIM_V,
                        UNIT_DO);
            STAGE_STREAMED(k_rows(a, at, k, t.b, t.h / a.group, t.j0, t.keys), here.qk, DIM_QK,
                           UNIT_K);
            STAGE_STREAMED(v_rows(a, at, v, t.b, t.h / a.group, t.j0, t.keys), here.v, DIM_V,
                           UNIT_V);
            DRAW_KEPT(BLOCK_OWNED, BLOCK_STREAMED);
            copies_wait();
            LOCAL_BARRIER(); /* all rows are complete */
            begin_both(&here, p, ds FRAGMENT_ARG);
            FINISH_BOTH(p, ds);
            weigh(false, true, true, a, at, t, first_row, statistics, 0, p, ds, unused, unused,
                  lane SCORE_OPERANDS_ARG KEPT_ARG);
            UNROLL
            for (int x = 0; x < STREAMED_SUMS; x++)
                sums[x] += ds[x];
        }
    }
    dbias += at.dbias + tile.b * a.bias_stride[0] + tile.h * a.bias_stride[1];
    UNROLL
    for (int x = 0; x < STREAMED_SUMS; x++) {
        const long i = t.i0 + OWNED_ROW(SUM_QUERY(x % FRAGMENT_SUMS)), j = t.j0 + STREAMED_ROW(x);
        if (here.dim_group == 0 && i < a.seq_q && j < a.seq_kv)
            STORE_BIAS(sums[x], dbias, i * a.bias_stride[2] + j * a.bias_stride[3]);
    }
}
#endif

#include "gpu/backward_rows.h"
#include "gpu/backward_sums.h"
