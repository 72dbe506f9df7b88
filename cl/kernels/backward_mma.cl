/* backward_mma: dq, dk and dv by matrix instructions, in f16 and bf16, in two passes over the pairs; see
 * clattn/problem.h for the formulas. Neither scores nor their gradients reach memory.
 *
 * Stages    those of cl/kernels/backward_tiles.cl, with the same workspace (cl/gpu/backward_tile.h):
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
 * Tunables  src/families/tunables/backward_mma.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "score/score.h"
#if !defined(INSTRUCTION) || !defined(EMULATE) || !defined(SUB_GROUPS) || !defined(DIM_GROUPS) ||  \
    !defined(BLOCK_STREAMED) || !defined(EXP)
#error "backward_mma.cl must be built with all of its tunables defined"
#endif
#if DTYPE == DTYPE_F32 || HAS_STRICT
#error "backward_mma.cl takes f16 and bf16 in standard precision alone"
#endif

#include "mma/fragment.h"
#include "gpu/tile_exp.h"

#define THREADS (FRAGMENT_LANES * SUB_GROUPS * DIM_GROUPS)
#define BLOCK_OWNED (SUB_GROUPS * FRAGMENT_QUERIES)
#define LOAD_WIDTH 8
#define ROUND_UP(x, multiple) (((x) + (multiple) - 1) / (multiple) * (multiple))
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define UNIT 1.0f
#include "common/backward.h"
#include "gpu/tile_load.h"
#include "gpu/backward_tile.h"
#include "gpu/pair_dropout.h"
#include "mma/fragment_tile.h"
#include "mma/fragment_dropout.h"
#include "mma/fragment_gradients.h"

/* Where the second product needs streamed rows otherwise than the first one: packed, or without Infs and
 * NaNs. PoCL 3.1 miscompiles a barrier in an `if` (cl/kernels/backward_tiles.cl). */
#define RESTAGES(again) (PACKED_VALUES || (again))
#define RESTAGE_BARRIER(again)                                                                     \
    do {                                                                                           \
        if (EMULATE || RESTAGES(again))                                                            \
            LOCAL_BARRIER();                                                                       \
    } while (0)

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
    const struct place here = {all + OWNED_QK_AT, all + OWNED_V_AT, all + STREAMED_QK_AT, all + STREAMED_V_AT,
                             THIS_THREAD % FRAGMENT_LANES, sub / DIM_GROUPS * FRAGMENT_QUERIES,
                             sub % DIM_GROUPS};

    return here;
}

/* Stages a work-group's owned rows, which the next barrier completes, if there are any. */
#define STAGE_BOTH_OWNED(rows_qk, rows_v, any)                                                     \
    do {                                                                                           \
        if (any) {                                                                                 \
            STAGE_OWNED(rows_qk, here.owned_qk);                                                   \
            STAGE_OWNED(rows_v, here.owned_v);                                                     \
        }                                                                                          \
    } while (0)

/* The products of the sub-group's owned rows with the streamed ones; complete behind FINISH_BOTH(). */
INLINE void begin_both(const struct place *here, float s[STREAMED_SUMS],
                       float dp[STREAMED_SUMS] FRAGMENT_PARAM)
{
#if HAS_TILE_PRODUCTS
    const int first = here->first_row / 64 * 64; /* of the warpgroup */

    begin_tile_products(here->owned_qk, first, BLOCK_OWNED, DIM_QK, here->qk, BLOCK_STREAMED, false,
                        s FRAGMENT_ARG);
    begin_tile_products(here->owned_v, first, BLOCK_OWNED, DIM_V, here->v, BLOCK_STREAMED, false,
                        dp FRAGMENT_ARG);
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

/* To the number-th place of streamed rows. */
INLINE struct place place_of_stage(struct place here, __local uint4 *tiles, const int number)
{
    here.qk = (__local ushort *)tiles + STREAMED_QK_AT + number * STAGE_ELEMENTS;
    here.v = (__local ushort *)tiles + STREAMED_V_AT + number * STAGE_ELEMENTS;
    return here;
}

/* To the next tile, and the other place of streamed rows, where it was staged. */
#define ADVANCE(next)                                                                                 \
    do {                                                                                           \
        t = next;                                                                                  \
        if (STAGES > 1) {                                                                          \
            number = 1 - number;                                                                   \
            here = place_of_stage(here, tiles, number);                                            \
        }                                                                                          \
    } while (0)

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
    return statistic_of(a, at, workspace, t.b, t.h, i).x != -INFINITY &&
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

    for (int x = get_local_id(0); x < t.keys * (DIM_QK + DIM_V); x += THREADS) {
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

/* Queries of a tile, with what belongs to them; the barrier after it completes them. */
INLINE void stage_queries(SHAPE_PARAMS, const struct tile t, const struct matrix streamed_q,
                          const struct matrix streamed_do, const struct place here,
                          const __global float *workspace, __local float2 *statistics)
{
    STAGE_STREAMED(streamed_q, here.qk);
    STAGE_STREAMED(streamed_do, here.v);
    for (int r = get_local_id(0); r < BLOCK_STREAMED; r += THREADS)
#if HAS_COPIES
        copy_pair((__local float *)(statistics + r),
                  place_of_statistic(a, at, workspace, t.b, t.h, t.i0 + r));
#else
        statistics[r] = statistic_of(a, at, workspace, t.b, t.h, t.i0 + r);
#endif
}

#define STAGE_QUERIES(t, there, number)                                                            \
    stage_queries(a, at, t, TILE_QUERIES(t), TILE_GRADIENTS(t), there, workspace,                  \
                  statistics[number])

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE
void backward_keys(PARAMETERS_backward_keys)
{
    ENTER_SEQUENCE(get_group_id(0) / BLOCKS_OF(LONGEST_KV) / (a.heads / a.group));
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local float2 statistics[STAGES][BLOCK_STREAMED];
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
    int number = 0; /* of the stage */
    struct tile t = owned_keys(a, at, LONGEST_KV Q_LENGTHS_ARG KV_LENGTHS_ARG);
    const long first_head = t.h, kv_head = t.h / a.group;
    const long begin = first_query(a, t.e, t.j0), end = end_query(a, t.e, t.j0, t.keys);
    const int rows = min(a.seq_kv - t.j0, (long)BLOCK_OWNED);
    float sums_k[DIM_SUMS(DIM_QK)], sums_v[DIM_SUMS(DIM_V)];
    bool again = false; /* the second time around */

    if (get_local_id(0) == 0)
        not_finite = streamed_nonfinite = 0;
    STAGE_BOTH_OWNED(k_rows(a, at, k, t.b, kv_head, t.j0, t.keys),
                     v_rows(a, at, v, t.b, kv_head, t.j0, t.keys), begin < end);
    do {
        CLEAR(sums_k);
        CLEAR(sums_v);
        for (t.h = first_head; t.h < first_head + a.group; t.h++) {
            float slope_sums[LANE_QUERIES], bias_sums[LANE_QUERIES];
            CLEAR(slope_sums);
            CLEAR(bias_sums);
            find_head(a, at, workspace, &t);
            t = queries_from(t, next_queries(a, t, begin, begin, end), end);
#if STAGES > 1
            LOCAL_BARRIER(); /* what the head before had may be overwritten */
            if (t.i0 < end)
                STAGE_QUERIES(t, here, number);
#endif
            while (t.i0 < end) {
                float p[STREAMED_SUMS], ds[STREAMED_SUMS];
#if STAGES == 1
                LOCAL_BARRIER(); /* what was there may be overwritten */
                STAGE_QUERIES(t, here, 0);
                DRAW_KEPT(BLOCK_STREAMED, BLOCK_OWNED);
#endif
                copies_wait();
                LOCAL_BARRIER(); /* all rows are complete */
                begin_both(&here, p, ds FRAGMENT_ARG);
                const struct tile next =
                    queries_from(t, next_queries(a, t, begin, t.i0 + BLOCK_STREAMED, end), end);
#if STAGES > 1
                if (next.i0 < end)
                    STAGE_QUERIES(next, place_of_stage(here, tiles, 1 - number), 1 - number);
#endif
                FINISH_BOTH(p, ds);
                weigh(true, false, hides_some(a, t, BLOCK_STREAMED, BLOCK_OWNED), a, at, t,
                      here.first_row, 0, statistics[number], p, ds, slope_sums, bias_sums,
                      lane SCORE_OPERANDS_ARG KEPT_ARG);
                RESTAGE_BARRIER(again); /* streamed rows may be overwritten */
                if (RESTAGES(again)) {
                    stage_values(TILE_QUERIES(t), again, here.qk, &streamed_nonfinite);
                    stage_values(TILE_GRADIENTS(t), again, here.v, &streamed_nonfinite);
                    copies_wait();
                }
                RESTAGE_BARRIER(again); /* values are complete */
                add_rows(here.v, DIM_V, here.dim_group, p, sums_v FRAGMENT_ARG);
                add_rows(here.qk, DIM_QK, here.dim_group, ds, sums_k FRAGMENT_ARG);
                SUMS_COMPLETE(sums_v, DIM_V);
                SUMS_COMPLETE(sums_k, DIM_QK);
                ADVANCE(next);
            }
#if HAS_DBIAS
            store_sums(bias_sums, t.keys, a.bias_stride[2] == 0 && a.bias_stride[3] != 0 ? rows : 0,
                       here.first_row, here.dim_group,
                       workspace + at.workspace + bias_sums_begin(a) +
                           (t.b * a.heads + t.h) * a.seq_kv + t.j0 FRAGMENT_ARG);
#endif
        }
        if (!all_finite(sums_k, DIM_QK) || !all_finite(sums_v, DIM_V))
            atomic_or(&not_finite, 1);
        LOCAL_BARRIER(); /* not_finite is final */
        again = !again && not_finite;
    } while (again);
    store_rows(sums_k, DIM_QK, a.scale, t.keys, rows, here.first_row, here.dim_group, lane,
               dk + at.dk + t.b * a.dk_stride[0] + kv_head * a.dk_stride[1] +
                   t.j0 * a.dk_stride[2],
               a.dk_stride[2], DK_STEP);
    store_rows(sums_v, DIM_V, 1.0f, t.keys, rows, here.first_row, here.dim_group, lane,
               dv + at.dv + t.b * a.dv_stride[0] + kv_head * a.dv_stride[1] +
                   t.j0 * a.dv_stride[2],
               a.dv_stride[2], DV_STEP);
    barrier(CLK_GLOBAL_MEM_FENCE);
    LOCAL_BARRIER(); /* the results are complete */
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
    for (int x = get_local_id(0); x < t.queries * DIM_QK; x += THREADS) {
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

#define STAGE_BOTH_STREAMED(t, there)                                                              \
    do {                                                                                           \
        const struct place at_tile = there;                                                        \
        STAGE_STREAMED(TILE_KEYS(t), at_tile.qk);                                                  \
        STAGE_STREAMED(TILE_VALUES(t), at_tile.v);                                                 \
    } while (0)

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
    int number = 0; /* of the stage */
    struct tile t = owned_queries(a, at Q_LENGTHS_ARG KV_LENGTHS_ARG);

    LEAVE_IF_BEYOND(t.i0, a.seq_q);
    const long begin = first_key_of_queries(a, t), end = end_key_of_queries(a, t);
    const int rows = min(a.seq_q - t.i0, (long)BLOCK_OWNED);
    float sums_q[DIM_SUMS(DIM_QK)];
    float slope_sums[LANE_QUERIES], bias_sums[LANE_QUERIES];
    float2 statistics[LANE_QUERIES];
    bool again = false;

    REGISTERS_FOR_GROUPS();
    if (get_local_id(0) == 0)
        not_finite = streamed_nonfinite = 0;
    STAGE_BOTH_OWNED(q_rows(a, at, q, t.b, t.h, t.i0, t.queries),
                     do_rows(a, at, d_o, t.b, t.h, t.i0, t.queries), begin < end);
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        statistics[n] = statistic_of(a, at, workspace, t.b, t.h, t.i0 + OWNED_ROW(n));
    find_head(a, at, workspace, &t);
    do {
        CLEAR(sums_q);
        CLEAR(slope_sums);
        CLEAR(bias_sums);
        t = keys_from(t, next_keys(a, t, begin, begin, end), end);
#if STAGES > 1
        if (t.j0 < end)
            STAGE_BOTH_STREAMED(t, here);
#endif
        while (t.j0 < end) {
            float p[STREAMED_SUMS], ds[STREAMED_SUMS];
#if STAGES == 1
            LOCAL_BARRIER(); /* what was there may be overwritten */
            STAGE_BOTH_STREAMED(t, here);
            DRAW_KEPT(BLOCK_OWNED, BLOCK_STREAMED);
#endif
            copies_wait();
            LOCAL_BARRIER(); /* all rows are complete */
            begin_both(&here, p, ds FRAGMENT_ARG);
            const struct tile next =
                keys_from(t, next_keys(a, t, begin, t.j0 + BLOCK_STREAMED, end), end);
#if STAGES > 1
            if (next.j0 < end)
                STAGE_BOTH_STREAMED(next, place_of_stage(here, tiles, 1 - number));
#endif
            FINISH_BOTH(p, ds);
            weigh(false, false, hides_some(a, t, BLOCK_OWNED, BLOCK_STREAMED), a, at, t, first_row,
                  statistics, 0, p, ds, slope_sums, bias_sums, lane SCORE_OPERANDS_ARG KEPT_ARG);
            RESTAGE_BARRIER(again); /* streamed keys may be overwritten */
            if (RESTAGES(again)) {
                stage_values(TILE_KEYS(t), again, here.qk, &streamed_nonfinite);
                copies_wait();
            }
            RESTAGE_BARRIER(again); /* values are complete */
            add_rows(here.qk, DIM_QK, here.dim_group, ds, sums_q FRAGMENT_ARG);
            SUMS_COMPLETE(sums_q, DIM_QK);
            ADVANCE(next);
        }
        if (!all_finite(sums_q, DIM_QK))
            atomic_or(&not_finite, 1);
        LOCAL_BARRIER(); /* not_finite is final */
        again = !again && not_finite;
    } while (again);
#if HAS_DSLOPES
    store_sums(slope_sums, t.queries, rows, first_row, here.dim_group,
               workspace + at.workspace + 2 * a.batch * a.heads * LONGEST_Q(a) +
                   (t.b * a.heads + t.h) * LONGEST_Q(a) + t.i0 FRAGMENT_ARG);
#endif
#if HAS_DBIAS
    store_sums(bias_sums, t.queries, a.bias_stride[3] == 0 ? rows : 0, first_row, here.dim_group,
               workspace + at.workspace + bias_sums_begin(a) + (t.b * a.heads + t.h) * a.seq_q +
                   t.i0 FRAGMENT_ARG);
#endif
    store_rows(sums_q, DIM_QK, a.scale, t.queries, rows, first_row, here.dim_group, lane,
               dq + at.dq + t.b * a.dq_stride[0] + t.h * a.dq_stride[1] + t.i0 * a.dq_stride[2],
               a.dq_stride[2], DQ_STEP);
    barrier(CLK_GLOBAL_MEM_FENCE);
    LOCAL_BARRIER(); /* the results are complete */
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
            float2 statistics[LANE_QUERIES];
            find_head(a, at, workspace, &t);
            UNROLL
            for (int n = 0; n < LANE_QUERIES; n++)
                statistics[n] = statistic_of(a, at, workspace, t.b, t.h, t.i0 + OWNED_ROW(n));
            LOCAL_BARRIER(); /* what was there may be overwritten */
            STAGE_OWNED(q_rows(a, at, q, t.b, t.h, t.i0, t.queries), here.owned_qk);
            STAGE_OWNED(do_rows(a, at, d_o, t.b, t.h, t.i0, t.queries), here.owned_v);
            STAGE_STREAMED(k_rows(a, at, k, t.b, t.h / a.group, t.j0, t.keys), here.qk);
            STAGE_STREAMED(v_rows(a, at, v, t.b, t.h / a.group, t.j0, t.keys), here.v);
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

#include "gpu/backward_sums.h"
