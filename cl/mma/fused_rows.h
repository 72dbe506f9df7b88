/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of fused forward attention by matrix instructions: tiles are staged, products become weights, and rows
 * are stored. weigh() is that of the unit (fragment_products.h, warpgroup_products.h). */
#pragma once
#include "mma/fused_fragments.h"

/* ---- load ------------------------------------------------------------------------------------ */

/* The elements of 16 bits of a line of q or k. */
#if HAS_INT8
#define QK_LINE (2 * LINE_FLOATS)
#else
#define QK_LINE PART_LINE(DIM_QK)
#endif

/* The step of rows of q, k and v, or of their planes and lines. */
INLINE long q_row_step(const struct arguments *args)
{
    return QK_IN_LINES ? QK_LINE : args->shape->q_stride[2];
}

INLINE long k_row_step(const struct arguments *args)
{
    return QK_IN_LINES ? QK_LINE : args->shape->k_stride[2];
}

INLINE long v_row_step(const struct arguments *args)
{
    return OPERAND_PARTS > 1 ? PART_LINE(DIM_V) : args->shape->v_stride[2];
}

/* Where plane n of the task's q, k or v begins, or its first line of bytes. */
#if HAS_INT8
#define STAGED_Q(t, n) ((const __global element *)(t).q_lines)
#define STAGED_K(t, n, j0) ((const __global element *)(t).k_lines + (j0)*k_row_step(args))
#define STAGED_V(t, n, j0) v_place((t).v, from_key(j0, args->shape->v_stride))
#elif OPERAND_PARTS > 1
#define STAGED_Q(t, n) ((t).parts.q + (n) * (t).parts.q_plane)
#define STAGED_K(t, n, j0) ((t).parts.k + (n) * (t).parts.k_plane + (j0)*k_row_step(args))
#define STAGED_V(t, n, j0) ((t).parts.v + (n) * (t).parts.v_plane + (j0)*v_row_step(args))
#else
#define STAGED_Q(t, n) ((t).q)
#define STAGED_K(t, n, j0) k_place((t).k, from_key(j0, args->shape->k_stride))
#define STAGED_V(t, n, j0) v_place((t).v, from_key(j0, args->shape->v_stride))
#endif

/* Fills a tile of `rows` rows with queries from `first` of the task's block on. */
INLINE void fill_queries(const struct arguments *args, const struct task *t, const int first,
                         __local ushort *tile, const int rows)
{
    for (int plane = 0; plane < OPERAND_PARTS; plane++)
        fill_rows(tile + plane * BLOCK_M * ROW_STRIDE, ROW_STRIDE, rows, COLUMNS,
                  STAGED_Q(*t, plane) + first * q_row_step(args), q_row_step(args), 0,
                  fill_step(QK_IN_LINES, q_step(args)), t->block.queries - first,
                  fill_dim(QK_IN_LINES, QK_ELEMENTS), fill_width(QK_IN_LINES, UNIT_Q, DIM_QK),
                  QK_IN_LINES || t->q_aligned, false);
}

/* Loads Q to local memory and, with Q_RESIDENT, on to registers. */
INLINE void load_all_queries(const struct arguments *args, const struct task *t,
                             const int first_row, __local ushort *q_tile,
                             uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS], const int lane)
{
    for (int first = 0; first < BLOCK_M; first += STAGED_ROWS) {
        if (t->block.begin < t->block.end && (first == 0 || first < t->block.queries))
            fill_queries(args, t, first, q_tile, STAGED_ROWS);
        copies_wait();
        LOCAL_BARRIER(); /* q is complete */
#if Q_RESIDENT
        if (first_row / STAGED_ROWS * STAGED_ROWS == first) {
            UNROLL
            for (int d = 0; d < PART_DEPTHS; d++)
                load_queries(q_tile + (first_row - first) * ROW_STRIDE, d, q_words[d], lane);
        }
        LOCAL_BARRIER(); /* the place of q may be overwritten */
#endif
    }
}

/* The places of K and V of a tile; number: 0 for an even tile, 1 for an odd one. */
INLINE __local ushort *k_tile_at(__local ushort *q_tile, const int number)
{
    return q_tile + K_AT + (STAGES > 1 ? number * STAGE_ELEMENTS : 0);
}

INLINE __local ushort *v_tile_at(__local ushort *q_tile, const int number)
{
    return q_tile + V_AT + (STAGES > 1 ? number * STAGE_ELEMENTS : 0);
}

#if HAS_INT8
/* Loads the scales of the block's queries, and their products with the mean; 0 for rows beyond the last one. */
INLINE void load_query_factors(const struct task *t, __local float *factors)
{
    for (int row = get_local_id(0); row < BLOCK_M; row += THREADS) {
        const __global float *const line = t->q_lines + row * LINE_FLOATS + BYTE_WORDS;
        factors[row] = row < t->block.queries ? line[0] : 0.0f;
        factors[BLOCK_M + row] = row < t->block.queries ? line[1] : 0.0f;
    }
}

/* Copies the scales of a tile's keys, 0 for keys beyond the last one. */
INLINE void copy_key_scales(const struct task *t, const struct keys keys, __local float *scales)
{
    for (int n = get_local_id(0); n < BLOCK_N; n += THREADS)
#if !HAS_COPIES
        scales[n] = n < keys.count ? t->k_lines[(keys.j0 + n) * LINE_FLOATS + BYTE_WORDS] : 0.0f;
#else
        copy_piece((__local uchar *)(scales + n),
                   (const __global uchar *)(t->k_lines + (keys.j0 + n) * LINE_FLOATS + BYTE_WORDS),
                   4, n < keys.count ? 4 : 0);
#endif
}

/* Stages K of a tile of keys; number: 0 for an even tile, 1 for an odd one. */
#define STAGE_KEYS(keys, number)                                                                   \
    do {                                                                                           \
        FILL_KEYS(k_tile_at(q_tile, number), k_factors, STAGED_K(t, 0, (keys).j0),                 \
                  k_row_step(args), (const __local long *)0, (keys).count, QK_ELEMENTS, true, 0);  \
        copy_key_scales(&t, keys, k_factors + (number)*BLOCK_N);                                   \
    } while (0)
#else
/* Stages K of a tile of keys; number selects the list of rows in pages. */
#define STAGE_KEYS(keys, number)                                                                   \
    for (int plane = 0; plane < OPERAND_PARTS; plane++)                                            \
    FILL_KEYS(k_tile_at(q_tile, number) + plane * BLOCK_N * K_STRIDE, k_factors,                   \
              STAGED_K(t, plane, (keys).j0), k_row_step(args), places_of(places, number, 0),       \
              (keys).count, DIM_QK, t.k_aligned,                                                   \
              k_scales_from(args, t.block.b, t.block.h / args->shape->group, (keys).j0))
#endif
/* The same of V. */
#define STAGE_VALUES(keys, number, finite, nonfinite)                                              \
    for (int plane = 0; plane < OPERAND_PARTS; plane++)                                            \
        if (FILL_VALUES(                                                                           \
                v_tile_at(q_tile, number) + plane * BLOCK_N * V_STRIDE, v_factors,                 \
                STAGED_V(t, plane, (keys).j0), v_row_step(args), places_of(places, number, 1),     \
                (keys).count, t.v_aligned, finite,                                                 \
                v_scales_from(args, t.block.b, t.block.h / args->shape->group, (keys).j0)))        \
    atomic_or(nonfinite, 1)

#if OPERAND_PARTS > 1
/* Computes scores that are NaNs as floats. */
INLINE void take_exact_scores(const struct arguments *args, const struct task *t,
                              const struct keys *keys, const int first_row,
                              float s[M_FRAGMENTS][KEY_SUMS], const int lane)
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        exact_scores(args, t->q, t->k + keys->j0 * args->shape->k_stride[2], t->block.queries,
                     keys->count, first_row + f * FRAGMENT_QUERIES, s[f], lane);
}
#endif

/* ---- softmax --------------------------------------------------------------------------------- */

/* The keys that are visible to each of the lane's rows of a fragment (finish_fragment_scores()). */
INLINE void find_window(const struct score_tile *tile, const int fragment_row, const int lane,
                        int see_from[LANE_QUERIES], int see_to[LANE_QUERIES])
{
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        see_from[n] = HAS_WINDOW_LEFT ? lane_row_of(fragment_row, lane, n) + tile->window_begin -
                                            sum_other(lane, 0)
                                      : -BLOCK_N;
        see_to[n] = lane_row_of(fragment_row, lane, n) < tile->rows
                        ? tile->keys - sum_other(lane, 0)
                        : -BLOCK_N;
        if (HAS_WINDOW_RIGHT)
            see_to[n] = min(see_to[n], lane_row_of(fragment_row, lane, n) + tile->window_end -
                                           sum_other(lane, 0));
    }
}

/* Products of all of the sub-group's queries become scores, and these weights. */
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
        finish_fragment_scores(args, &tile, keys->partial, see_from, see_to, fragment_row, s[f],
                               highest, state[f].seen, lane, exchange);
        weigh(fragment_row, lane, scale, s[f], highest, &state[f], weight_exponent, kept);
    }
}

/* ---- store ----------------------------------------------------------------------------------- */

/* Element n of an array of one for each of a lane's queries. Intel's compiler unrolls no loop over eight queries that stores
 * all their sums, and keeps in memory what the loop indexes. There a vector in registers is indexed, one query after the
 * other. */
#if LOOPS_ARE_TEXT && !EMULATE
#define QUERIES_IN_TURN 1
#define OF_QUERY(x, n) ((float8)((x)[0], (x)[1], (x)[2], (x)[3], (x)[4], (x)[5], (x)[6], (x)[7]))[n]
#define UNROLL_QUERIES _Pragma("unroll 1")
#else
#define QUERIES_IN_TURN 0
#define OF_QUERY(x, n) (x)[n]
#define UNROLL_QUERIES UNROLL
#endif

/* Stores lse of the lane's n-th query of a fragment, and returns the factor of its sums; row_sum is that of all lanes that
 * share the row. */
INLINE float finish_query(const struct arguments *args, const struct query_block block,
                          const int fragment_row, const int n, const struct fragment_state *state,
                          __local int *row_is_zero, const float weight_exponent, const int lane)
{
    const int row = lane_row_of(fragment_row, lane, n);
    const long i = block.i0 + row;
    bool sees_any = first_key(args, block.e, i) < end_key(args, block.e, i);

    if (TRACKS_SEEN)
        sees_any = sees_any && OF_QUERY(state->seen, n) > 0.0f;
    const struct row_end ended = finish_row(args, block.h, sees_any, OF_QUERY(state->row_max, n),
                                            OF_QUERY(state->row_sum, n));
    float factor = ended.zero ? 0.0f : ended.factor * (1.0f / weight_scale_of(weight_exponent));
    if (HAS_DROPOUT)
        factor *= args->shape->keep;
    if (first_of_query(lane)) {
        row_is_zero[row] = ended.zero;
        if (i < args->shape->seq_q)
            store_lse(args, ended, block.bh, block.h, i);
    }
    return factor;
}

/* Stores the row of o of the lane's n-th query. */
INLINE void store_query(const struct arguments *args, const struct query_block block,
                        const int fragment_row, const int n, const struct fragment_state *state,
                        const float factor, const int lane)
{
    const long i = block.i0 + lane_row_of(fragment_row, lane, n);
    __global o_storage *const rows = args->o + head_offset(args->shape->o_stride, block.b, block.h);
    __global o_storage *const to = rows + i * args->shape->o_stride[2];

    if (i >= args->shape->seq_q)
        return;
    UNROLL
    for (int m = 0; m < DIM_TILES * SUMS_OF_QUERY; m++) {
        const float *const sums = state->out + m / SUMS_OF_QUERY * FRAGMENT_SUMS;
        const int e = n * SUMS_OF_QUERY + m % SUMS_OF_QUERY;
        const int d = dim_of(lane, m / SUMS_OF_QUERY * FRAGMENT_SUMS + e);
        if (d >= DIM_V)
            continue;
#if KEYS_OF_SUMS % 2 == 0 && UNIT_O && O_DTYPE && DIM_V % 2 == 0 /* one store takes two sums */
        if (m % 2 == 0)
            store_pair(factor == 0.0f ? 0 : pack_pair(sums[e] * factor, sums[e + 1] * factor),
                       rows_aligned(rows, args->shape->o_stride[2], 2), to + d);
#else
        store1_of(O_DTYPE, factor == 0.0f ? 0.0f : OF_QUERY(sums, e) * factor, to,
                  d * o_step(args));
#endif
    }
}

/* Stores the rows of a fragment, o and lse. */
INLINE void store_fragment(const struct arguments *args, const struct query_block block,
                           const int fragment_row, const struct fragment_state *state,
                           __local int *row_is_zero, const float weight_exponent, const int lane)
{
    float factor[LANE_QUERIES];

    UNROLL_QUERIES
    for (int n = 0; n < LANE_QUERIES; n++) {
        factor[n] =
            finish_query(args, block, fragment_row, n, state, row_is_zero, weight_exponent, lane);
#if QUERIES_IN_TURN
        store_query(args, block, fragment_row, n, state, factor[n], lane);
#endif
    }
    UNROLL
    for (int n = 0; n < (QUERIES_IN_TURN ? 0 : LANE_QUERIES); n++)
        store_query(args, block, fragment_row, n, state, factor[n], lane);
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
                       weight_exponent, lane);
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
        const long at_o =
            row_offset(args->shape->o_stride, block->b, block->h, i) + d * o_step(args);
        float extra = 0.0f;
        for (long j = block->begin; j < block->end; j++) {
            if (!has_row(args, block->b, j))
                continue;
            const float here =
                load_v(t->v, key_row(args, block->b, j, args->shape->v_stride), d * v_step(args));
            if (here * 0.0f != 0.0f &&
                visible(args, block->e, first_key(args, block->e, i), end_key(args, block->e, i),
                        block->b, block->h, i, j))
                extra += here * dropout_factor(args, block->b, block->h, i, j);
        }
        if (extra != 0.0f && !row_is_zero[x / DIM_V])
            store1_of(O_DTYPE, load1_of(O_DTYPE, args->o, at_o) + extra, args->o, at_o);
    }
}
