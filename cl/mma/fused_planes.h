/* SPDX-License-Identifier: Apache-2.0 */
/* The loop over tiles of keys of floats in three planes (fragment_planes.h), with a producer that copies planes
 * (warpgroup_producer.h): those of K, then those of V, the smallest parts first. A place holds one plane.
 * Each warpgroup waits for the plane that it needs next, and gives it back once its products are complete;
 * one's softmax overlaps with another's products.
 *
 * Turns      with PRODUCER 2 warpgroups ask for scores one after the other. */
#pragma once
#include "mma/fragment_planes.h"
#include "mma/fused_rows.h"
#include "mma/warpgroup_producer.h"
#include "mma/warpgroup_products.h"

/* s (+)= the warpgroup's rows of the queries' planes times a plane of K. Asynchronous until
 * products_wait(); the smallest plane comes first. */
INLINE void begin_plane_scores(const __local ushort *q_rows, const __local ushort *k_plane,
                               const int plane, float s[KEY_SUMS], const int lane,
                               __local float *exchange)
{
    products_begin();
    UNROLL
    for (int part = OPERAND_PARTS - 1; part >= 0; part--)
        if (part < plane_parts(plane))
            ask_tile_products(q_rows + part * Q_TILE_PLANE, 0, 64, PART_COLUMNS, k_plane, BLOCK_N,
                              plane < OPERAND_PARTS - 1, s, lane, exchange);
    products_under_way();
}

/* Likewise begins sums (+)= the weights' parts times a plane of V. */
INLINE void begin_plane_sums(uint weights[][QUERY_WORDS], const __local ushort *v_plane,
                             const int plane, float sums[DIM_SUMS], const int lane,
                             __local float *exchange)
{
    products_begin();
    UNROLL
    for (int part = OPERAND_PARTS - 1; part >= 0; part--)
        UNROLL
    for (int slab = 0; slab < PART_SLABS; slab++)
        UNROLL
    for (int d = 0; d < DIMS; d += DIMS - d < 128 ? 64 : 128) /* one product has 64 or 128 dims */
        if (part < plane_parts(plane))
            multiply_tile(sums + d / FRAGMENT_OTHERS * FRAGMENT_SUMS, DIMS - d < 128 ? 64 : 128,
                          weights[slab * WEIGHT_PARTS + part], v_plane,
                          tile_descriptor(v_plane, BLOCK_N,
                                          d / 64 * BLOCK_N * 128 + slab * FRAGMENT_DEPTH * 128),
                          true, plane < OPERAND_PARTS - 1 || slab > 0, lane, exchange);
    products_under_way();
}

/* The place of a use's plane. */
INLINE __local ushort *plane_at(__local ushort *q_tile, const struct use u)
{
    return q_tile + K_AT + u.place * PLACE_ELEMENTS;
}

#define STAGE_K_PLANE(keys, plane, u)                                                              \
    FILL_KEYS(plane_at(q_tile, u), 0, STAGED_K(t, plane, (keys).j0), k_row_step(args),             \
              (const __local long *)0, (keys).count, DIM_QK, true, 0)
#define STAGE_V_PLANE(keys, plane, u, finite, nonfinite)                                           \
    if (FILL_VALUES(plane_at(q_tile, u), 0, STAGED_V(t, plane, (keys).j0), v_row_step(args),       \
                    (const __local long *)0, (keys).count, true, finite, 0))                       \
    atomic_or(nonfinite, 1)

#if !EMULATE
/* The producer's whole work, in both passes if there are two. */
INLINE void produce_planes(const struct arguments *args, const struct query_block block,
                           const struct task t, __local ushort *q_tile,
                           volatile __local int *not_finite, volatile __local int *v_nonfinite,
                           const kept_rows kept, __local ulong *barriers)
{
    struct use u = {0, 0};
    bool again = false;

    do {
        for (struct keys keys = find_keys(args, block, block.begin); keys.j0 < block.end;
             keys = find_keys(args, block, after_keys(keys))) {
            for (int plane = OPERAND_PARTS - 1; plane >= 0; plane--, u = next_use(u)) {
                wait_for_place(barriers, u, 0);
                STAGE_K_PLANE(keys, plane, u);
                copies_asked(barriers, u, 0, true);
            }
            for (int plane = OPERAND_PARTS - 1; plane >= 0; plane--, u = next_use(u)) {
                wait_for_place(barriers, u, 0);
                STAGE_V_PLANE(keys, plane, u, again, v_nonfinite);
                copies_asked(barriers, u, 0, !again);
            }
        }
        group_barrier(); /* not_finite is final */
        again = !again && *not_finite;
    } while (again);
}
#endif

/* Releases the buffer of the plane before once at most `latest` groups of products are incomplete. */
INLINE void plane_read(__local ulong *barriers, const struct use before, const int latest,
                       const int lane)
{
    products_wait(latest);
    half_read(barriers, before, 0, lane);
}

/* Attends to the tiles whose planes the producer copies. At the end stream->next is the use that
 * follows the last one. */
INLINE void attend_planes(const struct arguments *args, const struct query_block block,
                          const struct task t, const int first_row, __local ushort *q_tile,
                          uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS], const bool again,
                          volatile __local int *v_nonfinite, const kept_rows kept,
                          struct fragment_state state[M_FRAGMENTS], struct stream *stream,
                          const int lane, __local float *exchange)
{
    const __local ushort *const own_q = own_queries(q_tile, first_row);
    __local ulong *const barriers = stream->barriers;
    const int warpgroup = warpgroup_rows(first_row) / 64;
    struct use now = stream->next, before = now;
    float s[M_FRAGMENTS][KEY_SUMS], sums[DIM_SUMS];
    tile_weights weights;

    for (struct keys keys = find_keys(args, block, block.begin); keys.j0 < block.end;
         keys = find_keys(args, block, after_keys(keys))) {
        take_turn(warpgroup);
        sums_here(s[0], KEY_SUMS);
        UNROLL
        for (int plane = OPERAND_PARTS - 1; plane >= 0; plane--) {
            HALF_HERE(now, 0, STAGE_K_PLANE(keys, plane, now));
            begin_plane_scores(own_q, plane_at(q_tile, now), plane, s[0], lane, exchange);
            if (plane < OPERAND_PARTS - 1)
                plane_read(barriers, before, 1, lane);
            before = now;
            now = next_use(now);
        }
        give_turn(warpgroup + 1);
        plane_read(barriers, before, 0, lane);
        sums_here(s[0], KEY_SUMS);
        if (again)
            take_exact_scores(args, &t, &keys, first_row, s, lane);
        softmax_of_tile(args, &block, &keys, first_row, s, state, weight_exponent_of(false), 0,
                        lane, exchange);
        round_weights(weights, 0, s, lane, exchange);
        sums_here(sums, DIM_SUMS);
        operands_here(weights, PART_SLABS * WEIGHT_PARTS);
        UNROLL
        for (int plane = OPERAND_PARTS - 1; plane >= 0; plane--) {
            HALF_HERE(now, 0, STAGE_V_PLANE(keys, plane, now, again, v_nonfinite));
            begin_plane_sums(weights, plane_at(q_tile, now), plane, sums, lane, exchange);
            if (plane < OPERAND_PARTS - 1)
                plane_read(barriers, before, 1, lane);
            before = now;
            now = next_use(now);
        }
        plane_read(barriers, before, 0, lane);
        sums_here(sums, DIM_SUMS);
        UNROLL
        for (int x = 0; x < DIM_SUMS; x++)
            state[0].out[x] += sums[x];
    }
    stream->next = now;
}
