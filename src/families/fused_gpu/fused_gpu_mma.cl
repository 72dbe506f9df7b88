/* SPDX-License-Identifier: Apache-2.0 */
/* fused_gpu_mma: forward attention by matrix instructions; the scores never reach global memory.
 *
 * A work-group of SUB_GROUPS sub-groups owns BLOCK_M query rows of one (batch, head), M_FRAGMENTS
 * fragments for each sub-group. It walks over the keys that any of them may see, BLOCK_N
 * at a time:
 *   1. s = q k^T, fragment by fragment, with K in local memory;
 *   2. online softmax in registers: a row's maximum over the lanes that share it, weights;
 *   3. o += p v, with the weights as operands in the same registers, and V in local memory.
 * Where the device copies to local memory in the background (HAS_COPIES), V arrives during 1. and
 * the next K during 2. and 3. With two STAGES local memory holds two tiles of keys: one arrives
 * while the other is computed. There is one barrier a tile, so that sub-groups may be at different steps of it. With BYTES
 * quantized keys and values arrive as bytes while the tile before is computed, and are then decoded together.
 *
 * Fragments cl/mma/fragment.h: the layouts of an instruction, which EMULATE replaces by local memory.
 * Sums      f32. Weights are rounded to 16 bits once (f16: scaled by 2^15, so that small weights are
 *           not subnormal), as in FlashAttention. Strict: the rounding error is rounded
 *           as well, and two parts of f16 or three of bf16 are multiplied one after the other, which
 *           keeps the accuracy of f32.
 *           f32 is multiplied as parts of bf16 (mma/fragment_planes.h): planes of q, k and v that a stage makes in the
 *           workspace (mma/attention_parts.h), and three parts of each weight.
 * NDRange   local THREADS = FRAGMENT_LANES * SUB_GROUPS; one group for each block of queries of each
 *           (batch, head).
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Pages     Local memory lists the places of a tile's rows in the pool (mma/key_places.h).
 * Masked    A weight of 0 does not silence an Inf or NaN of V. If some output becomes one, all
 *           is computed again with 0 in the place of V's, and these are added at the end to
 *           rows that see them.
 * Barriers  Every thread reaches every barrier; only the instructions' own lockstep is relied on.
 * Units     mma: fragments of a sub-group. warpgroup: products of warpgroups (cl/mma/warpgroup_products.h), NVIDIA's wgmma, of
 *           Hopper. Head dims are multiples of 8 then, and rows of tiles have whole blocks of 64 columns. Queries are operands
 *           in registers (Q_RESIDENT), or lie in local memory, where the tensor cores read them. Copies are requested while
 *           products run; with OVERLAP the softmax of the tile before runs then, too (cl/mma/fused_overlap.h).
 *           Planes of f32 stream through local memory one by one (cl/mma/fused_planes.h); dims are then multiples of 64.
 * Tunables  src/families/fused_gpu/fused_gpu_mma.def or fused_gpu_warpgroup.def, all defined by the host; no fallbacks here. */
#include "score/score.h"
#include "families/units.h"
#if UNIT == UNIT_WARPGROUP
#define INSTRUCTION 7
#define M_FRAGMENTS 1
#endif
#if !defined(INSTRUCTION) || !defined(EMULATE) || !defined(SUB_GROUPS) || !defined(M_FRAGMENTS) || \
    !defined(BLOCK_N) || !defined(Q_RESIDENT) || !defined(STAGES) || !defined(EXP)
#error "fused_gpu_mma.cl must be built with all of its tunables defined"
#endif
#if K_DTYPE != DTYPE || V_DTYPE != DTYPE || SCORES ||                                              \
    (DTYPE == DTYPE_F32 && (K_CACHE || V_CACHE || PAGE_SIZE))
#error                                                                                             \
    "fused_gpu_mma.cl takes operands of one dtype, and quantized keys and values, not with floats"
#endif

#include "mma/fragment.h"
#include "gpu/tile_exp.h"
#ifndef BYTES /* wgmma multiplies with no quantized tiles */
#define BYTES 0
#endif
#if !HAS_TILE_PRODUCTS
#define PRODUCER 0
#define DRAWERS 0
#endif
#if STAGES > 1 && (!HAS_COPIES || PAGE_SIZE || (HAS_DROPOUT && !PRODUCER) || K_CACHE || V_CACHE)
#error "what a tile needs besides, places, factors and what is kept, is there once"
#endif

#define COMPUTING (FRAGMENT_LANES * SUB_GROUPS)
#define PLACES_OF_STAGES (DTYPE == DTYPE_F32 ? PLANE_PLACES : STAGES)
#include "mma/computing.h"
#define LOAD_WIDTH 8
#define HAS_ROW_TILES 0
#include "families/fused_gpu/fused_gpu_mma_sizes.h"

#include "gpu/tile_load.h"
#define MARK_ITEMS THREADS
#define HAS_PARTS (DTYPE == DTYPE_F32)
#include "mma/attention_parts.h"
#define BLOCK_BITS_BEGIN(args) (HAS_PARTS ? PARTS_END(args) / FLOAT_BYTES : 0)
#include "gpu/query_block.h"
#include "gpu/fused_task.h"
#include "gpu/row_end.h"
#include "score/mark_blocks.h"
#include "common/quantized.h"
#define PLACES_IN_BYTES BYTES
#include "mma/key_places.h"
#include "mma/fragment_attention.h"
#include "mma/fragment_planes.h"
#if BYTES
#include "mma/quantized_bytes.h"
#else
#define DECLARE_BYTES()
#endif

#if HAS_TILE_PRODUCTS && (V_AT * 2 % SWIZZLE_BYTES || STAGE_ELEMENTS * 2 % SWIZZLE_BYTES)
#error "a tile does not begin where the swizzle does"
#endif

/* ---- load ------------------------------------------------------------------------------------ */

/* The address of plane n of the task's q, k or v, and the step between its rows. */
#if PLANES > 1
#define STAGED_Q(t, n) ((t).parts.q + (n) * (t).parts.q_plane)
#define STAGED_K(t, n, j0) ((t).parts.k + (n) * (t).parts.k_plane + (j0)*K_ROW_STEP)
#define STAGED_V(t, n, j0) ((t).parts.v + (n) * (t).parts.v_plane + (j0)*V_ROW_STEP)
#define Q_ROW_STEP PART_LINE(DIM_QK)
#define K_ROW_STEP PART_LINE(DIM_QK)
#define V_ROW_STEP PART_LINE(DIM_V)
#else
#define STAGED_Q(t, n) ((t).q)
#define STAGED_K(t, n, j0) K_PLACE((t).k, FROM_KEY(j0, args->shape->k_stride))
#define STAGED_V(t, n, j0) V_PLACE((t).v, FROM_KEY(j0, args->shape->v_stride))
#define Q_ROW_STEP args->shape->q_stride[2]
#define K_ROW_STEP args->shape->k_stride[2]
#define V_ROW_STEP args->shape->v_stride[2]
#endif

/* Fills a tile of `rows` rows with queries from `first` of the task's block on. */
#define FILL_QUERIES(tile, rows, first)                                                            \
    for (int plane = 0; plane < PLANES; plane++)                                                   \
    fill_rows((tile) + plane * BLOCK_M * ROW_STRIDE, ROW_STRIDE, rows, COLUMNS,                    \
              STAGED_Q(*t, plane) + (first)*Q_ROW_STEP, Q_ROW_STEP, 0, FILL_STEP(Q_STEP),          \
              t->block.queries - (first), FILL_DIM(DIM_QK), FILL_WIDTH(UNIT_Q, DIM_QK),            \
              t->q_aligned, false)
INLINE void stage_queries(const struct arguments *args, const struct task *t, const int first,
                          __local ushort *q_tile)
{
    FILL_QUERIES(q_tile, STAGED_ROWS, first);
}

/* Loads Q to local memory and, with Q_RESIDENT, on to registers. */
INLINE void load_all_queries(const struct arguments *args, const struct task *t,
                             const int first_row, __local ushort *q_tile,
                             uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS], const int lane)
{
    for (int first = 0; first < BLOCK_M; first += STAGED_ROWS) {
        if (t->block.begin < t->block.end && (first == 0 || first < t->block.queries))
            stage_queries(args, t, first, q_tile);
        copies_wait();
        LOCAL_BARRIER(); /* q is complete */
#if Q_RESIDENT
        if (first_row / STAGED_ROWS * STAGED_ROWS == first) {
            UNROLL
            for (int d = 0; d < PART_DEPTHS; d++)
                load_queries(q_tile + (first_row - first) * ROW_STRIDE, d, q_words[d], lane);
        }
        LOCAL_BARRIER(); /* q's local memory may be overwritten */
#endif
    }
}

/* The addresses of K and V of a tile; number: 0 for an even tile, 1 for an odd one. */
#define K_TILE(number) (q_tile + K_AT + (STAGES > 1 ? (number)*STAGE_ELEMENTS : 0))
#define V_TILE(number) (q_tile + V_AT + (STAGES > 1 ? (number)*STAGE_ELEMENTS : 0))

/* Stages K and V of a tile of keys; number selects the list of rows in pages. */
#define STAGE_KEYS(keys, number)                                                                   \
    for (int plane = 0; plane < PLANES; plane++)                                                   \
    FILL_KEYS(K_TILE(number) + plane * BLOCK_N * K_STRIDE, k_factors,                              \
              STAGED_K(t, plane, (keys).j0), K_ROW_STEP, KV_PLACES(places, number, 0),             \
              (keys).count, DIM_QK, t.k_aligned)
#define STAGE_VALUES(keys, number, finite, nonfinite)                                              \
    for (int plane = 0; plane < PLANES; plane++)                                                   \
        if (FILL_VALUES(V_TILE(number) + plane * BLOCK_N * V_STRIDE, v_factors,                    \
                        STAGED_V(t, plane, (keys).j0), V_ROW_STEP, KV_PLACES(places, number, 1),   \
                        (keys).count, t.v_aligned, finite))                                        \
    atomic_or(nonfinite, 1)

/* Stages tiles while scores are computed: the next tile with two STAGES; V with one. Without
 * background copies K and V are both staged before the scores. */
#if STAGES > 1
#define STAGE_BESIDE()                                                                             \
    do {                                                                                           \
        next = find_keys(args, block, after_keys(keys));                                           \
        if (next.j0 < block.end) {                                                                 \
            STAGE_KEYS(next, 1 - number);                                                          \
            STAGE_VALUES(next, 1 - number, again, &v_nonfinite);                                   \
        }                                                                                          \
    } while (0)
#elif HAS_COPIES
#define STAGE_BESIDE() STAGE_VALUES(keys, number, again, &v_nonfinite)
#else
#define STAGE_BESIDE()                                                                             \
    do {                                                                                           \
        STAGE_KEYS(keys, number);                                                                  \
        STAGE_VALUES(keys, number, again, &v_nonfinite);                                           \
        LOCAL_BARRIER(); /* K and V are complete */                                                \
    } while (0)
#endif

/* Products of a tile. */
#if PLANES > 1
/* Computes scores that are NaNs as floats. */
#define EXACT_SCORES(keys, s)                                                                      \
    do {                                                                                           \
        UNROLL                                                                                     \
        for (int f = 0; f < M_FRAGMENTS; f++)                                                      \
            exact_scores(args, t.q, t.k + (keys).j0 * args->shape->k_stride[2], block.queries,     \
                         (keys).count, first_row + f * FRAGMENT_QUERIES, s[f], lane);              \
    } while (0)
#define MULTIPLY_QK(k_tile, s)                                                                     \
    multiply_qk_planes(q_rows, k_tile, s, lane, exchange);                                         \
    if (again)                                                                                     \
    EXACT_SCORES(keys, s)
#define MULTIPLY_PV(v_tile, s) multiply_pv_planes(v_tile, s, state, lane, exchange)
#else
#define MULTIPLY_QK(k_tile, s) multiply_qk(q_rows, k_tile, k_factors, q_words, s, lane, exchange)
#define MULTIPLY_PV(v_tile, s) multiply_pv(v_tile, v_factors, s, state, lane, exchange)
#endif

/* ---- softmax --------------------------------------------------------------------------------- */

/* The keys that are visible to each of the lane's rows of a fragment (finish_scores()). */
INLINE void find_window(const struct score_tile *tile, const int fragment_row, const int lane,
                        int see_from[LANE_QUERIES], int see_to[LANE_QUERIES])
{
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        see_from[n] = HAS_WINDOW_LEFT ? ROW(n) + tile->window_begin - sum_other(lane, 0) : -BLOCK_N;
        see_to[n] = ROW(n) < tile->rows ? tile->keys - sum_other(lane, 0) : -BLOCK_N;
        if (HAS_WINDOW_RIGHT)
            see_to[n] = min(see_to[n], ROW(n) + tile->window_end - sum_other(lane, 0));
    }
}

/* Turns products of all of the sub-group's queries into scores, and these into weights. */
INLINE void softmax_of_tile(const struct arguments *args, const struct query_block *block,
                            const struct keys *keys, const int first_row,
                            float s[M_FRAGMENTS][KEY_SUMS],
                            struct fragment_state state[M_FRAGMENTS], const float weight_exponent,
                            const __local uchar *kept, const int lane, __local float *exchange)
{
    const struct score_tile tile = score_tile_of(args, *block, *keys);

    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        const int fragment_row = first_row + f * FRAGMENT_QUERIES;
        int see_from[LANE_QUERIES], see_to[LANE_QUERIES];
        float highest[LANE_QUERIES], scale[LANE_QUERIES];

        UNROLL
        for (int n = 0; n < LANE_QUERIES; n++) {
            highest[n] = state[f].row_max[n];
            scale[n] = tile.scale;
        }
        find_window(&tile, fragment_row, lane, see_from, see_to);
        finish_scores(args, &tile, keys->partial, see_from, see_to, fragment_row, s[f], highest,
                      state[f].seen, lane, exchange);
        weigh(fragment_row, lane, scale, s[f], highest, &state[f], weight_exponent, kept);
    }
}

/* ---- store ----------------------------------------------------------------------------------- */

/* 1 if two neighbouring sums of a lane are neighbours in o, so that one store takes both. */
#define STORES_PAIRS (KEYS_OF_SUMS % 2 == 0 && UNIT_O && O_DTYPE && DIM_V % 2 == 0)

/* Stores the rows of a fragment, o and lse; row_sum is that of all lanes that share a row. */
INLINE void store_fragment(const struct arguments *args, const struct query_block block,
                           const int fragment_row, const struct fragment_state *state,
                           __local int *row_is_zero, const float weight_exponent, const int lane,
                           __local float *exchange)
{
    float factor[LANE_QUERIES];

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        const int row = ROW(n);
        const long i = block.i0 + row;
        bool sees_any = first_key(args, block.e, i) < end_key(args, block.e, i);

        if (TRACKS_SEEN)
            sees_any = sees_any && state->seen[n] > 0.0f;
        const struct row_end ended =
            finish_row(args, block.h, sees_any, state->row_max[n], state->row_sum[n]);
        factor[n] = ended.zero ? 0.0f : ended.factor * (1.0f / weight_scale_of(weight_exponent));
        if (HAS_DROPOUT)
            factor[n] *= args->shape->keep;
        if (FIRST_OF_QUERY(lane)) {
            row_is_zero[row] = ended.zero;
            if (i < args->shape->seq_q)
                store_lse(args, ended, block.bh, block.h, i);
        }
    }
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        const long i = block.i0 + ROW(n);
        __global o_storage *const rows =
            args->o + head_offset(args->shape->o_stride, block.b, block.h);
        __global o_storage *const to = rows + i * args->shape->o_stride[2];
        if (i >= args->shape->seq_q)
            continue;
        UNROLL
        for (int x = 0; x < DIM_SUMS; x++) {
            if (SUM_QUERY(x % FRAGMENT_SUMS) != n || DIM(x) >= DIM_V)
                continue;
#if STORES_PAIRS
            if (x % 2 == 0)
                store_pair(factor[n] == 0.0f ? 0
                                             : pack_pair(state->out[x] * factor[n],
                                                         state->out[x + 1] * factor[n]),
                           rows_aligned(rows, args->shape->o_stride[2], 2), to + DIM(x));
#else
            STORE_O(factor[n] == 0.0f ? 0.0f : state->out[x] * factor[n], to, DIM(x) * O_STEP);
#endif
        }
    }
}

/* Stores all rows of the sub-group. */
INLINE void store_fragment_rows(const struct arguments *args, const struct query_block block,
                                const int first_row, struct fragment_state state[M_FRAGMENTS],
                                __local int *row_is_zero, const float scale,
                                const float weight_exponent, const int lane,
                                __local float *exchange)
{
    float scales[LANE_QUERIES];

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        scales[n] = scale;
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++) {
        query_sum(state[f].row_sum, lane, exchange);
        scale_rows(scales, &state[f], weight_exponent);
        if (TRACKS_SEEN)
            query_maximum(state[f].seen, lane, exchange);
        store_fragment(args, block, first_row + f * FRAGMENT_QUERIES, &state[f], row_is_zero,
                       weight_exponent, lane, exchange);
    }
}

/* Adds to o the Infs and NaNs of V that were staged as 0, in rows that see them. */
INLINE void add_nonfinite_to_o(const struct arguments *args, const struct task *t,
                               const __local int *row_is_zero)
{
    const struct query_block *block = &t->block;

    for (int x = get_local_id(0); x < block->queries * DIM_V; x += COMPUTING) {
        const long i = block->i0 + x / DIM_V;
        const int d = x % DIM_V;
        const long at_o = row_offset(args->shape->o_stride, block->b, block->h, i) + d * O_STEP;
        float extra = 0.0f;
        for (long j = block->begin; j < block->end; j++) {
            if (!HAS_ROW(block->b, j))
                continue;
            const float here =
                load_v(t->v, KEY_ROW(block->b, j, args->shape->v_stride), d * V_STEP);
            if (here * 0.0f != 0.0f &&
                visible(args, block->e, first_key(args, block->e, i), end_key(args, block->e, i),
                        block->b, block->h, i, j))
                extra += here * dropout_factor(args, block->b, block->h, i, j);
        }
        if (extra != 0.0f && !row_is_zero[x / DIM_V])
            STORE_O(LOAD_O(args->o, at_o) + extra, args->o, at_o);
    }
}

#if PRODUCER
#include "mma/fused_producer.h"
#else
#define STREAM ((void)0) /* a producer's stream needs state; without a producer there is none */
#define LOAD_QUERIES() load_all_queries(args, &t, first_row, q_tile, q_words, lane)
#endif
#if OVERLAP && !PRODUCER
#include "mma/fused_overlap.h"
#elif BYTES
#include "mma/fused_bytes.h"
#endif

/* Declares dropout's bits of a tile. */
#if HAS_DROPOUT && PRODUCER
#define DECLARE_TILE_KEPT() __local uint4 kept[TILE_KEPT_BYTES / KEPT_ROW_BYTES]
#else
#define DECLARE_TILE_KEPT() DECLARE_KEPT(TILE_KEPT_BYTES)
#endif

/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
fused_gpu_mma(PARAMETERS_fused_gpu_mma)
{
    struct arguments arguments = ARGUMENTS_fused_gpu_mma;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / QUERY_BLOCKS(&arguments) / arguments.shape->heads);
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local float k_factors[K_FACTORS], v_factors[V_FACTORS];
    DECLARE_BYTES();
    __local long places[PLACES];
    STREAM;
    /* are nonzero once an output is Inf or NaN; once an Inf or NaN of V became 0 */
    __local int row_is_zero[BLOCK_M], not_finite, v_nonfinite;
    DECLARE_TILE_KEPT();
    DECLARE_EXCHANGE(SUB_GROUPS);
    const int lane = THIS_THREAD % FRAGMENT_LANES,
              first_row = THIS_THREAD / FRAGMENT_LANES * TILE_ROWS;
    __local ushort *const q_tile = (__local ushort *)tiles;
    __local ushort *const q_rows = q_tile + first_row % STAGED_ROWS * ROW_STRIDE;
    const struct query_block block = find_query_block(args);
    LEAVE_IF_BEYOND(block.i0, args->shape->seq_q);
    struct task t = find_task(args, block);
    struct fragment_state state[M_FRAGMENTS];
    uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS];
    bool again = false; /* the second pass */

    REGISTERS_FOR_GROUPS();
    LEAVE_FIRST_ASSEMBLY();
#if BYTES
    MARK_ALIGNED(t);
#endif
    /* load */
    if (get_local_id(0) == 0)
        not_finite = v_nonfinite = 0;
    LOAD_QUERIES();
    do {
        const float weight_exponent = weight_exponent_of(again);
        clear_rows(state);
#if PRODUCER
        attend_produced(args, block, t, first_row, q_tile, q_words, again, &v_nonfinite, kept,
                        state, &stream, lane, exchange);
#elif OVERLAP
        attend_overlapped(args, block, t, first_row, q_tile, q_words, again, &v_nonfinite, state,
                          lane, exchange);
#elif BYTES
        attend_bytes(args, block, t, first_row, q_rows, q_words, again, &v_nonfinite, places,
                     k_bytes, v_bytes, k_factors, v_factors, q_tile, state, weight_exponent, lane,
                     exchange);
#else
        struct keys keys = find_keys(args, block, block.begin), next;
        int number = 0; /* the tile's number modulo 2 */
        LIST_FIRST_PLACES(block.b, keys, number);
        if (HAS_COPIES && keys.j0 < block.end)
            STAGE_KEYS(keys, number);
#if STAGES > 1
        if (keys.j0 < block.end)
            STAGE_VALUES(keys, number, again, &v_nonfinite);
#endif
        for (; keys.j0 < block.end; keys = next, number = 1 - number) {
            float s[M_FRAGMENTS][KEY_SUMS];

            copies_wait();
            LOCAL_BARRIER(); /* copies are complete, old tiles may be overwritten */
#if HAS_TILE_PRODUCTS /* these products overlap with the requests for copies */
            begin_qk(q_tile, warpgroup_rows(first_row), BLOCK_M, K_TILE(number), q_words, s, lane,
                     exchange);
#endif
            STAGE_BESIDE();
            /* scores */
#if HAS_TILE_PRODUCTS
            FINISH_QK(q_words, s, 0);
#else
            clear_products(s);
            MULTIPLY_QK(K_TILE(number), s);
#endif
#if STAGES == 1
#if HAS_DROPOUT
            draw_kept_pairs(args, dropout_head(args, block.b, block.h), block.i0, keys.j0, BLOCK_M,
                            BLOCK_N, kept);
#endif
            next = find_keys(args, block, after_keys(keys));
            LIST_PLACES(block.b, next, 1 - number);
#if HAS_COPIES || HAS_DROPOUT
            copies_wait();
            /* V, dropout's bits and the next addresses are complete; K may be overwritten */
            LOCAL_BARRIER();
#endif
            if (HAS_COPIES && next.j0 < block.end)
                STAGE_KEYS(next, 1 - number);
#endif
            /* softmax */
            softmax_of_tile(args, &block, &keys, first_row, s, state, weight_exponent, kept, lane,
                            exchange);
            /* values */
            MULTIPLY_PV(V_TILE(number), s);
        }
#endif
        if (!all_finite(state))
            atomic_or(&not_finite, 1);
        GROUP_BARRIER(); /* not_finite is final; nobody reads K and V any more */
        again = !again && not_finite;
    } while (again);

    /* store */
    const float weight_exponent = weight_exponent_of(not_finite);
    store_fragment_rows(args, block, first_row, state, row_is_zero, score_scale(args, block.h),
                        weight_exponent, lane, exchange);
    COMPUTING_BARRIER(); /* the outputs are complete */
    if (v_nonfinite)     /* only non-finite values count here */
        add_nonfinite_to_o(args, &t, row_is_zero);
    END_KERNEL();
}
