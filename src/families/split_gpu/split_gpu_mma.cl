/* SPDX-License-Identifier: Apache-2.0 */
/* split_gpu_mma: forward attention for few queries and many keys by matrix instructions, by split-K
 * (Flash-Decoding).
 *
 *   split    partial results of a range of keys, for all rows of a kv head: sums, row_max, row_sum
 *   combine  o and lse from the partial results of each row, in the order of the ranges
 *
 * Rows are the queries of all query heads that share a kv head: BLOCK_M of them, which are M_FRAGMENTS
 * fragments, are the queries of each instruction, so that K and V are read once for all of them. A
 * work-group walks over its range of keys, BLOCK_N at a time:
 *   1. s = q k^T: each sub-group has BLOCK_N / SUB_GROUPS of the keys, and all rows;
 *   2. online softmax in registers: a row's maximum over the lanes that share it and, by local memory,
 *      over the sub-groups; weights, rounded, to local memory;
 *   3. o += p v: each sub-group has all weights, and 1 / SUB_GROUPS of V's dims.
 * K and V lie side by side in local memory; where the device copies to it in the background, V arrives
 * during 1. and the next K during 2. and 3. With KV_PARTS they take turns in one place, in that many parts:
 * columns of K, keys of V. With BYTES quantized keys and values arrive as bytes, while the tile before is
 * computed, and are decoded in that place (mma/quantized_bytes.h). With BYTES of 2 each sub-group has keys of its own,
 * and decodes them in registers (mma/split_decoded.h).
 *
 * Fragments cl/mma/fragment.h: the layouts of an instruction, which EMULATE replaces by local memory.
 * Sums      f32. Weights are rounded as fused_gpu_mma's are; those of strict problems in two or three parts.
 * NDRange   local THREADS = FRAGMENT_LANES * SUB_GROUPS; split: a work-group for each (batch, kv head,
 *           range, BLOCK_M rows); combine: one for each row and 32 columns.
 * Workspace partial results: gpu/split_task.h
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Invariant A row's bits depend on BLOCK_N, SUB_GROUPS, BYTES and EXP, which the host fixes, but neither on other rows nor on
 *           its place among them: a key that it does not see adds 0, and its maximum rescales its own sums alone.
 * Masked    A weight of 0 does not silence an Inf or NaN of V. If some output becomes one, the range is
 *           computed again with 0 in the place of V's, and these are added at the end to rows that see them.
 * Barriers  Every thread reaches every barrier; only the instructions' own lockstep is relied on.
 * Tunables  src/families/split_gpu/split_gpu_mma.def, all defined by the host; no fallbacks here. */
#include "common/key_rows.h"
#include "score/score.h"
#include "common/sequence.h"
#if !defined(INSTRUCTION) || !defined(EMULATE) || !defined(SUB_GROUPS) || !defined(M_FRAGMENTS) || \
    !defined(BLOCK_N) || !defined(Q_RESIDENT) || !defined(KV_PARTS) || !defined(SPLIT_K) ||        \
    !defined(BYTES) || !defined(HALF_ROWS) || !defined(EXP)
#error "split_gpu_mma.cl must be built with all of its tunables defined"
#endif
#if DTYPE == DTYPE_F32 || K_DTYPE != DTYPE || V_DTYPE != DTYPE || SCORES || HAS_DROPOUT
#error "split_gpu_mma.cl takes f16 and bf16 alone, and quantized keys and values"
#endif

#define OWN_KEYS (BYTES == 2)
#define WEIGHTS_IN_MEMORY !OWN_KEYS
#include "mma/any_instruction.h"
#include "mma/fragment.h"
#include "gpu/tile_exp.h"

#include "common/quantized.h"
#include "mma/tile_layout.h"
#include "families/split_gpu/split_gpu_sizes.h"
#include "families/split_gpu/split_gpu_mma_sizes.h"
#define LOAD_WIDTH 8
#define HAS_ROW_TILES 1
#define TRACKS_SEEN 0
#define PRODUCER 0

#include "gpu/tile_load.h"
/* With the words of a row, neighbouring columns of a tile of own keys are four or twelve banks apart, modulo 16. */
enum {
    WORDS_OF_ROW = DIVIDE_UP(K_ROW_BYTES, 4),
    SPACED_KEYS = WORDS_OF_ROW % 2   ? 4
                  : WORDS_OF_ROW % 4 ? 2
                                     : 1,
    KEY_SPACING = OWN_KEYS ? MIN(SPACED_KEYS, TILE_KEYS / FRAGMENT_OTHERS) : 1
};
#include "mma/key_places.h"
#include "mma/fragment_attention.h"
#include "gpu/split_task.h"
#include "gpu/split_combine.h"

/* Quantized keys and values that are copied to local memory as bytes. */
#if BYTES
#include "mma/quantized_bytes.h"
#if KV_PARTS != 1
#error "quantized keys and values that arrive as bytes take turns in a tile of elements"
#endif
#endif

#if OWN_KEYS
#include "mma/decoded_operands.h"
#else
#include "mma/fragment_products.h"
#endif
#if BYTES
#define BYTES_OF_TILE , k_bytes, v_bytes
#else
#define BYTES_OF_TILE
#define DECLARE_BYTES()
#endif

/* 1 if the next tile is loaded while this one is computed. */
#define COPIES_AHEAD (HAS_COPIES && !KV_PARTS)

/* ---- what the parts of the kernel share ------------------------------------------------------ */

/* The addresses of a work-group's matrices. */
struct matrices {
    const __global storage *q;   /* the first row of the batch */
    const __global k_storage *k; /* the kv head's first key; paged: its first row in page 0 */
    const __global v_storage *v;
    bool q_aligned, k_aligned, v_aligned;
};

/* Local memory. */
struct shared {
    __local ushort *q_tile, *k_tile, *v_tile;
#if !OWN_KEYS
    __local weight_storage *p_tile;
#endif
    __local float *k_factors, *v_factors; /* the scales of quantized tiles */
    __local float *statistics; /* each sub-group's row_max of each row; in the end its row_sum */
    __local long *q_places;    /* the offset of each row of Q */
#if BYTES
    __local uchar *k_bytes, *v_bytes;
#endif
};

/* A tile of keys. */
struct keys {
    long j0;
    int count;
    bool partial; /* some key may be masked for some row */
    int number;   /* the tile's number modulo 2 */
};

/* A lane's row of a fragment, and the keys that it may see, counted from the range's first. */
struct lane_row {
    int h, i, first, end;
};

INLINE struct matrices find_matrices(const struct arguments *args, const struct task *task)
{
    const int q_width = WIDTH(UNIT_Q, DIM_QK), k_width = WIDTH(UNIT_K, DIM_QK);
    struct matrices m;

    m.q = args->q + task->b * args->shape->q_stride[0];
    m.k = k_place(args->k, head_offset(args->shape->k_stride, cache_batch(task->b), task->kv_head));
    m.v = v_place(args->v, head_offset(args->shape->v_stride, cache_batch(task->b), task->kv_head));
    m.q_aligned = rows_aligned(m.q, args->shape->q_stride[2], q_width) &&
                  rows_aligned(m.q, args->shape->q_stride[1], q_width);
    m.k_aligned = K_CACHE || cache_aligned(DTYPE, m.k, args->shape->k_stride[0],
                                           args->shape->k_stride[2], k_width);
    m.v_aligned = V_CACHE || cache_aligned(DTYPE, m.v, args->shape->v_stride[0],
                                           args->shape->v_stride[2], WIDTH(UNIT_V, DIM_V));
#if BYTES
    MARK_ALIGNED(m);
#endif
    return m;
}

/* The first tile from key j0 on that some row may see, past keys that the page table masks. */
INLINE struct keys find_tile_of_keys(const struct arguments *args, const struct task *task, long j0,
                                     const int number, const volatile __local uint *seen_tiles)
{
    j0 = next_tile_of_task(args, task, j0, seen_tiles);
    const long j1 = next_run(args, task->b, task->begin, task->end, BLOCK_N, &j0);
    struct keys keys;

    keys.j0 = j0;
    keys.count = (int)(j1 - j0);
    keys.partial = HIDES_ANYWHERE || keys.count < BLOCK_N || j0 < task->all_begin ||
                   j0 + BLOCK_N > task->all_end;
    keys.number = number;
    return keys;
}

INLINE void find_lane_rows(const struct arguments *args, const struct task *task,
                           struct lane_row rows[M_FRAGMENTS][LANE_QUERIES], const int lane)
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        const int row = f * FRAGMENT_QUERIES + lane_query(lane, n);
        long h, i;
        find_row(args, task, row, &h, &i);
        const long end = row < task->rows ? min(end_key(args, task->e, i), task->end) : 0;
        rows[f][n].h = (int)h;
        rows[f][n].i = (int)i;
        rows[f][n].first = (int)max(first_key(args, task->e, i) - task->begin, 0L);
        rows[f][n].end = (int)max(end - task->begin, 0L);
    }
}

/* ---- load ------------------------------------------------------------------------------------ */

/* Loads Q to local memory and, with Q_RESIDENT, on to registers. */
INLINE void load_q(const struct arguments *args, const struct task *task, const struct matrices *m,
                   const struct shared *l, uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS],
                   const int lane)
{
    for (int r = get_local_id(0); r < BLOCK_M; r += THREADS) {
        long h, i;
        find_row(args, task, r, &h, &i);
        l->q_places[r] = h * args->shape->q_stride[1] + i * args->shape->q_stride[2];
    }
    LOCAL_BARRIER(); /* the places are complete */
    fill_rows(l->q_tile, ROW_STRIDE, BLOCK_M, COLUMNS, m->q, 0, l->q_places, q_step(args),
              task->rows, DIM_QK, WIDTH(UNIT_Q, DIM_QK), m->q_aligned, false);
    copies_wait();
    LOCAL_BARRIER(); /* Q is complete */
#if Q_RESIDENT
    UNROLL
    for (int d = 0; d < PART_DEPTHS; d++)
        load_queries(l->q_tile, d, q_words[d], lane);
    LOCAL_BARRIER(); /* Q's local memory may be overwritten */
#endif
}

#define STAGE_KEYS(keys, part)                                                                     \
    FILL_KEYS(l.k_tile, l.k_factors,                                                               \
              k_place(m.k, from_key((keys).j0, args->shape->k_stride) +                            \
                               (part)*PART_COLUMNS * k_step(args)),                                \
              args->shape->k_stride[2], places_of(places, (keys).number, 0), (keys).count,         \
              DIM_QK - (part)*PART_COLUMNS, m.k_aligned,                                           \
              k_scales_from(args, task.b, task.kv_head, (keys).j0))
#define STAGE_VALUES(keys, part, finite)                                                           \
    if (FILL_VALUES(l.v_tile, l.v_factors,                                                         \
                    v_place(m.v, from_key((keys).j0 + (part)*PART_KEYS, args->shape->v_stride)),   \
                    args->shape->v_stride[2],                                                      \
                    PAGE_SIZE ? places_of(places, (keys).number, 1) + (part)*PART_KEYS : 0,        \
                    (keys).count - (part)*PART_KEYS, m.v_aligned, finite,                          \
                    v_scales_from(args, task.b, task.kv_head, (keys).j0 + (part)*PART_KEYS)))      \
    atomic_or(v_nonfinite, 1)

/* ---- scores ---------------------------------------------------------------------------------- */

/* Turns the products of the sub-group's keys into scores; highest: the highest score of each row,
 * of this tile and earlier ones. */
INLINE void find_scores(const struct arguments *args, const struct task *task,
                        const struct keys *keys,
                        const struct lane_row rows[M_FRAGMENTS][LANE_QUERIES],
                        struct fragment_state state[M_FRAGMENTS], float s[M_FRAGMENTS][KEY_SUMS],
                        float highest[M_FRAGMENTS][LANE_QUERIES], const int lane,
                        __local float *exchange)
{
    const int before = (int)(keys->j0 - task->begin), first = group_key() + lane_key(lane);

    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        struct score_tile tiles[LANE_QUERIES];
        int see_from[LANE_QUERIES], see_to[LANE_QUERIES];

        UNROLL
        for (int n = 0; n < LANE_QUERIES; n++) {
            const struct lane_row row = rows[f][n];
            tiles[n] = score_tile_at(args, task->e, task->b, row.h, row.i, keys->j0, 1, keys->count,
                                     BLOCK_N);
#if HAS_BLOCKS
            find_blocks(block_bits_of(args, task->bits, task->b, row.h), row.i, keys->j0, false,
                        &tiles[n]);
#endif
            see_from[n] = row.first - before - first;
            see_to[n] = min(row.end - before, keys->count) - first;
            highest[f][n] = state[f].row_max[n];
        }
        finish_fragment_scores(args, tiles, keys->partial, see_from, see_to, f * FRAGMENT_QUERIES,
                               s[f], highest[f], state[f].seen, lane, exchange);
    }
}

/* Stores one number for each row of the sub-group to local memory. */
INLINE void store_statistics(const struct shared *l, float x[M_FRAGMENTS][LANE_QUERIES],
                             const int lane)
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        UNROLL
    for (int n = 0; n < LANE_QUERIES && first_of_query(lane); n++)
        l->statistics[sub_group_n() * BLOCK_M + f * FRAGMENT_QUERIES + lane_query(lane, n)] =
            x[f][n];
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* The factors of a fragment's rows. */
INLINE void find_scales(const struct arguments *args, const struct lane_row rows[LANE_QUERIES],
                        float scales[LANE_QUERIES])
{
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        scales[n] = score_scale(args, rows[n].h);
}

#if !OWN_KEYS
/* Turns scores into weights relative to the highest score that any sub-group found. */
INLINE void weigh_tile(const struct arguments *args, const struct shared *l,
                       const struct lane_row rows[M_FRAGMENTS][LANE_QUERIES],
                       float s[M_FRAGMENTS][KEY_SUMS], struct fragment_state state[M_FRAGMENTS],
                       const float weight_exponent, const int lane)
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        const int fragment_row = f * FRAGMENT_QUERIES;
        float highest[LANE_QUERIES], scales[LANE_QUERIES];

        find_scales(args, rows[f], scales);
        UNROLL
        for (int n = 0; n < LANE_QUERIES; n++) {
            highest[n] = -INFINITY;
            UNROLL
            for (int m = 0; m < SUB_GROUPS; m++)
                highest[n] = fmax(highest[n],
                                  l->statistics[m * BLOCK_M + lane_row_of(fragment_row, lane, n)]);
        }
        weigh(fragment_row, lane, scales, s[f], highest, &state[f], weight_exponent, 0);
        store_weights(fragment_row, lane, s[f], l->p_tile);
    }
}

#endif

/* ---- store ----------------------------------------------------------------------------------- */

/* Returns the sum of the range's weights of a row, over all sub-groups. */
INLINE float total_of(const struct shared *l, const int row)
{
    float total = 0.0f;

    for (int m = 0; m < SUB_GROUPS; m++)
        total += l->statistics[m * BLOCK_M + row];
    return total;
}

#if !OWN_KEYS
/* Stores the partial results of a fragment's rows. */
INLINE void store_fragment_results(const struct arguments *args, const struct task *task,
                                   const struct shared *l, const int fragment_row,
                                   const struct fragment_state *state, __global float *results,
                                   const float weight_exponent, const int lane)
{
    __global float *to[LANE_QUERIES];

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        long h, i;
        find_row(args, task, lane_row_of(fragment_row, lane, n), &h, &i);
        to[n] = results + result_of(args, task, h, i) * DIM_V;
        if (sub_group_n() == 0 && first_of_query(lane) &&
            lane_row_of(fragment_row, lane, n) < task->rows)
            vstore2((float2)(state->row_max[n], total_of(l, lane_row_of(fragment_row, lane, n))),
                    result_of(args, task, h, i), STATISTICS(args, results));
    }
    UNROLL
    for (int x = 0; x < DIM_SUMS; x++) {
        const int here = sum_query(x % FRAGMENT_SUMS);
        if (lane_row_of(fragment_row, lane, here) < task->rows && dim_of(lane, x) < DIM_V)
            to[here][dim_of(lane, x)] = state->out[x] * (1.0f / weight_scale_of(weight_exponent));
    }
}

/* Stores all rows, from the sums of weights of the lanes and sub-groups that share them. */
INLINE void store_results(const struct arguments *args, const struct task *task,
                          const struct shared *l,
                          const struct lane_row rows[M_FRAGMENTS][LANE_QUERIES],
                          struct fragment_state state[M_FRAGMENTS], __global float *results,
                          const float weight_exponent, const int lane, __local float *exchange)
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        float scales[LANE_QUERIES];

        find_scales(args, rows[f], scales);
        query_sum(state[f].row_sum, lane, exchange);
        scale_rows(scales, &state[f], weight_exponent);
        UNROLL
        for (int n = 0; n < LANE_QUERIES && first_of_query(lane); n++)
            l->statistics[sub_group_n() * BLOCK_M + f * FRAGMENT_QUERIES + lane_query(lane, n)] =
                state[f].row_sum[n];
    }
    LOCAL_BARRIER(); /* the sums are complete */
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        store_fragment_results(args, task, l, f * FRAGMENT_QUERIES, &state[f], results,
                               weight_exponent, lane);
}

#endif

/* Adds to the range's sums the Infs and NaNs of V that were staged as 0, in rows that see them. */
INLINE void add_nonfinite_to_results(const struct arguments *args, const struct task *task,
                                     const struct matrices *m, const struct shared *l,
                                     __global float *results)
{
    for (int x = get_local_id(0); x < task->rows * DIM_V; x += THREADS) {
        const int d = x % DIM_V;
        float extra = 0.0f;
        long h, i;

        find_row(args, task, x / DIM_V, &h, &i);
        for (long j = task->begin; j < task->end; j++) {
            if (!has_row(args, task->b, j))
                continue;
            const float here =
                load_v(m->v, key_row(args, task->b, j, args->shape->v_stride), d * v_step(args));
            if (here * 0.0f != 0.0f && visible(args, task->e, first_key(args, task->e, i),
                                               end_key(args, task->e, i), task->b, h, i, j))
                extra += here;
        }
        if (extra != 0.0f && total_of(l, x / DIM_V) != 0.0f)
            results[result_of(args, task, h, i) * DIM_V + d] += extra;
    }
}

/* ---- the loop over tiles --------------------------------------------------------------------- */

#if OWN_KEYS
#include "mma/split_decoded.h"
#elif BYTES
#include "mma/split_bytes.h"
#else
/* Attends to the tiles of a range, from the first one on. */
INLINE void attend_tiles(const struct arguments *args, const struct task task,
                         const struct matrices m, const struct shared l, struct keys keys,
                         const struct lane_row rows[M_FRAGMENTS][LANE_QUERIES],
                         const volatile __local uint *seen_tiles, __local long *places,
                         const bool again, volatile __local int *v_nonfinite,
                         uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS],
                         struct fragment_state state[M_FRAGMENTS], const float weight_exponent,
                         const int lane, __local float *exchange)
{
    struct keys next;

    if (COPIES_AHEAD && keys.j0 < task.end)
        STAGE_KEYS(keys, 0);
    for (; keys.j0 < task.end; keys = next) {
        float s[M_FRAGMENTS][KEY_SUMS], highest[M_FRAGMENTS][LANE_QUERIES];

        /* scores */
        clear_products(s);
#pragma unroll 1
        for (int part = 0; part < PARTS; part++) {
            if (!COPIES_AHEAD) {
                LOCAL_BARRIER(); /* K and V may be overwritten */
                STAGE_KEYS(keys, part);
                if (!KV_PARTS)
                    STAGE_VALUES(keys, 0, again);
            }
            copies_wait();
            /* K is complete; without COPIES_AHEAD V is complete, too, with it V may be overwritten
             * */
            LOCAL_BARRIER();
            if (COPIES_AHEAD)
                STAGE_VALUES(keys, 0, again);
            multiply_qk(l.q_tile + part * PART_COLUMNS, l.k_tile, l.k_factors, q_words, s, lane,
                        exchange);
        }
        next = find_tile_of_keys(args, &task, keys.j0 + keys.count, 1 - keys.number, seen_tiles);
        list_places(args, task.b, next.j0, next.count, next.number, places);
        find_scores(args, &task, &keys, rows, state, s, highest, lane, exchange);
        store_statistics(&l, highest, lane);
        copies_wait();
        LOCAL_BARRIER(); /* maxima, V and the next addresses are complete, K may be overwritten */
        if (COPIES_AHEAD && next.j0 < task.end)
            STAGE_KEYS(next, 0);
        if (KV_PARTS)
            STAGE_VALUES(keys, 0, again);
        /* softmax */
        weigh_tile(args, &l, rows, s, state, weight_exponent, lane);
        /* values */
#pragma unroll 1
        for (int part = 0; part < PARTS && part * PART_KEYS < keys.count; part++) {
            if (part > 0) {
                LOCAL_BARRIER(); /* V may be overwritten */
                STAGE_VALUES(keys, part, again);
            }
            if (KV_PARTS)
                copies_wait();
            LOCAL_BARRIER(); /* weights are complete, V's part as well */
            multiply_pv(l.v_tile, l.v_factors, l.p_tile + part * PART_KEYS, state, lane, exchange);
        }
    }
}
#endif

#if !OWN_KEYS
/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
split(PARAMETERS_split)
{
    struct arguments arguments = ARGUMENTS_split;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / ROW_BLOCKS(&arguments) / count_ranges(&arguments) /
                       arguments.shape->kv_heads);
    __local uint4 tiles[LOCAL_ELEMENTS / 8], weights[WEIGHT_ELEMENTS / 8];
    __local float k_factors[K_FACTORS], v_factors[V_FACTORS];
    __local float statistics[SUB_GROUPS * BLOCK_M];
    __local long q_places[BLOCK_M], places[PLACES];
    __local uint seen_tiles[SEEN_WORDS];
    DECLARE_BYTES();
    __local int not_finite;  /* is nonzero once an output is Inf or NaN */
    __local int v_nonfinite; /* is nonzero once an Inf or NaN of V became 0 */
    DECLARE_EXCHANGE(SUB_GROUPS);
    __local ushort *const q_tile = (__local ushort *)tiles;
    const struct shared l = {
        q_tile,    q_tile + K_AT, q_tile + V_AT, (__local weight_storage *)weights,
        k_factors, v_factors,     statistics,    q_places BYTES_OF_TILE};
    const int lane = THIS_THREAD % FRAGMENT_LANES;
    LEAVE_IF_BEYOND(get_group_id(0) % ROW_BLOCKS(args) * BLOCK_M,
                    args->shape->group * args->shape->seq_q);
    const struct task task = find_range_task(args);
    const struct matrices m = find_matrices(args, &task);
    struct lane_row rows[M_FRAGMENTS][LANE_QUERIES];
    struct fragment_state state[M_FRAGMENTS];
    uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS];
    bool again = false; /* the second pass */

    /* load */
    mark_tiles(args, &task, seen_tiles);
    find_lane_rows(args, &task, rows, lane);
    if (get_local_id(0) == 0)
        not_finite = v_nonfinite = 0;
    load_q(args, &task, &m, &l, q_words, lane);

    do {
        const float weight_exponent = weight_exponent_of(again);
        struct keys keys = find_tile_of_keys(args, &task, task.begin, 0, seen_tiles);
        clear_rows(state);
        list_first_places(args, task.b, keys.j0, keys.count, places);
#if BYTES
        attend_tiles_of_bytes(args, task, m, l, keys, rows, seen_tiles, places, again, &v_nonfinite,
                              q_words, state, weight_exponent, lane, exchange);
#else
        attend_tiles(args, task, m, l, keys, rows, seen_tiles, places, again, &v_nonfinite, q_words,
                     state, weight_exponent, lane, exchange);
#endif
        if (!all_finite(state))
            atomic_or(&not_finite, 1);
        LOCAL_BARRIER(); /* not_finite is final; nobody reads K, V and maxima any more */
        again = !again && not_finite;
    } while (again);

    __global float *const results = args->workspace;
    const float weight_exponent = weight_exponent_of(not_finite);
    store_results(args, &task, &l, rows, state, results, weight_exponent, lane, exchange);
    barrier(CLK_GLOBAL_MEM_FENCE); /* the partial results are complete */
    if (v_nonfinite)               /* V's Infs and NaNs were 0 in the products */
        add_nonfinite_to_results(args, &task, &m, &l, results);
    END_KERNEL();
}
#endif
