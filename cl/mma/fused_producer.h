/* SPDX-License-Identifier: Apache-2.0 */
/* The loop over tiles of keys with a producer that copies K and V (warpgroup_producer.h). Softmax
 * overlaps with products as in fused_overlap.h. This is FlashAttention-3's method (arXiv
 * 2407.08608, section 3), with cp.async for copies.
 *
 * Local      halves of a place are K and V of a tile.
 * Turns      with PRODUCER 2 warpgroups ask for products one after the other, so that one's softmax overlaps with
 *            another's products. */
#pragma once
#include "mma/fused_rows.h"
#include "mma/warpgroup_products.h"
#include "mma/warpgroup_producer.h"

/* Both halves of a word for a pair of weights that are kept, 0 for those that are not: `bits` is a word of a
 * lane, shifted for the 16 keys; odd: the second pair of these. */
INLINE uint kept_halves(const uint bits, const int odd)
{
#if EMULATE
    const uint first = bits >> (odd ? 7 : 15) & 1;
    const uint second = bits >> (odd ? 23 : 31) & 1;
    return (first ? 0xffffu : 0) | (second ? 0xffff0000u : 0);
#else
    uint halves;
    __asm("prmt.b32 %0, %1, 0, %2;" : "=r"(halves) : "r"(bits), "n"(odd ? 0xaa88 : 0xbb99));
    return halves;
#endif
}

INLINE void take_turn(const int warpgroup)
{
#if PRODUCER == 2 && !EMULATE
    __asm volatile("bar.sync %0, 256;" : : "r"(2 + warpgroup) : "memory");
#endif
}

INLINE void give_turn(const int warpgroup)
{
#if PRODUCER == 2 && !EMULATE
    __asm volatile("bar.arrive %0, 256;" : : "r"(2 + warpgroup % (SUB_GROUPS / 4)) : "memory");
#endif
}

/* Lets the first warpgroup begin: the last one gives it its first turn. */
INLINE void give_first_turn(const int warpgroup)
{
    if (warpgroup + 1 == SUB_GROUPS / 4)
        give_turn(0);
}

enum { DRAWN_KEYS = BLOCK_N / MAX(DRAWERS, 1) }; /* of a tile, by each drawer */

/* The bits that drawer number n has drawn; null without dropout. */
typedef __local uint4 *kept_rows;
INLINE kept_rows kept_of(const kept_rows kept, const struct use u, const int n)
{
    return kept + (u.place * DRAWERS + n) * BLOCK_M;
}

INLINE void draw_kept(const struct arguments *args, const struct query_block *block,
                      const struct keys *keys, const struct use u, const int n,
                      const kept_rows kept)
{
    draw_kept_words(args, dropout_head(args, block->b, block->h), block->i0,
                    keys->j0 + n * DRAWN_KEYS, BLOCK_M, DRAWN_KEYS, kept_of(kept, u, n));
}

/* Loads the lane's words of kept weights, for each of its rows. */
INLINE void load_kept(const __local uint4 *kept, const int first_row, const int lane,
                      uint words[LANE_QUERIES])
{
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        const __local uint *word =
            (const __local uint *)(kept + first_row + lane_query(lane, n)) + lane % 4;
        words[n] = *word;
        if (DRAWERS == 2)
            words[n] = words[n] << BLOCK_N / 32 | word[4 * BLOCK_M];
    }
}

/* The same of a tile that others draw. */
INLINE void load_drawn(const struct arguments *args, const struct query_block *block,
                       const struct keys *keys, __local ulong *barriers, const struct use u,
                       const kept_rows kept, const int first_row, const int lane,
                       uint words[LANE_QUERIES])
{
    if (!HAS_DROPOUT)
        return;
    STORES_HERE(u, 2, for (int n = 0; n < DRAWERS; n++) draw_kept(args, block, keys, u, n, kept));
    load_kept(kept_of(kept, u, 0), first_row, lane, words);
}

/* Zeroes rounded weights that dropout drops. */
INLINE void drop_rounded_weights(tile_weights weights, const uint kept_words[LANE_QUERIES])
{
    UNROLL
    for (int slab = 0; slab < PART_SLABS; slab++)
        UNROLL
    for (int w = 0; w < QUERY_WORDS; w++) {
        const uint halves = kept_halves(kept_words[w % 2] << (slab + 8 - PART_SLABS), w / 2);
        UNROLL
        for (int part = 0; part < WEIGHT_PARTS; part++)
            weights[slab * WEIGHT_PARTS + part][w] &= halves;
    }
}

/* The same with the bits of a tile, which may then be overwritten. */
INLINE void drop_drawn_weights(__local ulong *barriers, const struct use u, tile_weights weights,
                               const uint kept_words[LANE_QUERIES], const int lane)
{
    if (!HAS_DROPOUT)
        return;
    drop_rounded_weights(weights, kept_words);
    half_read(barriers, u, 2, lane);
}

/* A warpgroup's queries in local memory. */
INLINE __local ushort *own_queries(__local ushort *q_tile, const int first_row)
{
    return q_tile + first_row / 64 * 64 * ROW_STRIDE;
}

#if OPERAND_PARTS > 1
#include "mma/fused_planes.h"
#else
#if !EMULATE
/* Draws part n of the keys of a tile. */
INLINE void produce_drawn(const struct arguments *args, const struct query_block *block,
                          const struct keys *keys, __local ulong *barriers, const struct use u,
                          const int n, const kept_rows kept)
{
    if (!HAS_DROPOUT)
        return;
    wait_for_place(barriers, u, 2);
    draw_kept(args, block, keys, u, n, kept);
    stored(barriers, u, 2);
}

/* The producer's whole work, in both passes if there are two. */
INLINE void produce(const struct arguments *args, const struct query_block block,
                    const struct task t, __local ushort *q_tile, volatile __local int *not_finite,
                    volatile __local int *v_nonfinite, const kept_rows kept,
                    __local ulong *barriers)
{
    __local long *const places = 0; /* rows in pages have no producer */
    struct use u = {0, 0};
    bool again = false;

    do {
        for (struct keys keys = find_keys(args, block, block.begin); keys.j0 < block.end;
             keys = find_keys(args, block, after_keys(keys))) {
            wait_for_place(barriers, u, 0);
            STAGE_KEYS(keys, u.place);
            copies_asked(barriers, u, 0, WIDTH(UNIT_K, DIM_QK) == 8 && t.k_aligned);
            produce_drawn(args, &block, &keys, barriers, u, 0, kept);
            wait_for_place(barriers, u, 1);
            STAGE_VALUES(keys, u.place, again, v_nonfinite);
            copies_asked(barriers, u, 1, WIDTH(UNIT_V, DIM_V) == 8 && t.v_aligned && !again);
            u = next_use(u);
        }
        group_barrier(); /* not_finite is final */
        again = !again && *not_finite;
    } while (again);
}

/* The whole work of the warpgroup that only draws random numbers. */
INLINE void draw(const struct arguments *args, const struct query_block block,
                 volatile __local int *not_finite, const kept_rows kept, __local ulong *barriers)
{
    struct use u = {0, 0};
    bool again = false;

    do {
        for (struct keys keys = find_keys(args, block, block.begin); keys.j0 < block.end;
             keys = find_keys(args, block, after_keys(keys))) {
            produce_drawn(args, &block, &keys, barriers, u, 1, kept);
            u = next_use(u);
        }
        group_barrier(); /* not_finite is final */
        again = !again && *not_finite;
    } while (again);
}
#endif

#endif

#if !EMULATE
/* The whole work of a thread that does not compute. */
INLINE void serve(const struct arguments *args, const struct query_block block, const struct task t,
                  __local ushort *q_tile, volatile __local int *not_finite,
                  volatile __local int *v_nonfinite, const kept_rows kept, __local ulong *barriers)
{
#if OPERAND_PARTS > 1
    produce_planes(args, block, t, q_tile, not_finite, v_nonfinite, kept, barriers);
#else
    if (DRAWERS == 2 && THIS_THREAD >= COMPUTING + FILL_THREADS)
        draw(args, block, not_finite, kept, barriers);
    else
        produce(args, block, t, q_tile, not_finite, v_nonfinite, kept, barriers);
#endif
}
#endif

/* Each warpgroup loads its queries to a tile of their own. With Q_RESIDENT the whole work-group
 * does, and the queries go on to registers, since the producer overwrites their place; else the
 * computing threads do, while the first keys arrive. */
INLINE void load_own_queries(const struct arguments *args, const struct task *t,
                             const int first_row, __local ushort *own_q,
                             uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS], const int lane)
{
    const int first = first_row / 64 * 64;

    if (THIS_THREAD < COMPUTING && t->block.begin < t->block.end)
        fill_queries(args, t, first, own_q, 64);
    copies_wait();
#if Q_RESIDENT
    LOCAL_BARRIER(); /* q is complete */
    if (THIS_THREAD < COMPUTING) {
        UNROLL
        for (int d = 0; d < PART_DEPTHS; d++)
            load_queries(own_q + first_row % 64 * ROW_STRIDE, d, q_words[d], lane);
    }
    LOCAL_BARRIER(); /* the place of q may be overwritten */
#else
    computing_barrier(); /* q is complete */
#endif
}

/* Loads queries for the computing threads. The producer then does all of its work, and returns. */
#if EMULATE
#define LOAD_QUERIES()                                                                             \
    load_own_queries(args, &t, first_row, own_queries(q_tile, first_row), q_words, lane)
#else
#define LOAD_QUERIES()                                                                             \
    if (get_local_id(0) == 0)                                                                      \
        start_barriers(barriers);                                                                  \
    if (Q_RESIDENT)                                                                                \
        load_own_queries(args, &t, first_row, own_queries(q_tile, first_row), q_words, lane);      \
    else                                                                                           \
        LOCAL_BARRIER(); /* the mbarriers are there */                                             \
    if (THIS_THREAD >= COMPUTING) {                                                                \
        take_fewer_registers();                                                                    \
        serve(args, block, t, q_tile, &not_finite, &v_nonfinite, kept, barriers);                  \
        return;                                                                                    \
    }                                                                                              \
    take_more_registers();                                                                         \
    give_first_turn(warpgroup_rows(first_row) / 64);                                               \
    if (!Q_RESIDENT)                                                                               \
    load_own_queries(args, &t, first_row, own_queries(q_tile, first_row), q_words, lane)
#endif

#if OPERAND_PARTS == 1
/* Attends to the tiles that the producer copies. At the end stream->next is the use that follows
 * the last one. */
INLINE void attend_produced(const struct arguments *args, const struct query_block block,
                            const struct task t, const int first_row, __local ushort *q_tile,
                            uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS], const bool finite,
                            volatile __local int *v_nonfinite, const kept_rows kept,
                            struct fragment_state state[M_FRAGMENTS], struct stream *stream,
                            const int lane, __local float *exchange)
{
    __local long *const places = 0; /* rows in pages have no producer */
    const __local ushort *const own_q = own_queries(q_tile, first_row);
    __local ulong *const barriers = stream->barriers;
    const int warpgroup = warpgroup_rows(first_row) / 64;
    struct keys keys = find_keys(args, block, block.begin);
    struct use now = stream->next;
    float s[M_FRAGMENTS][KEY_SUMS];
    tile_weights weights;
    uint kept_words[LANE_QUERIES];

    if (keys.j0 >= block.end)
        return;
    HALF_HERE(now, 0, STAGE_KEYS(keys, now.place));
    begin_qk(own_q, 0, 64, k_tile_at(q_tile, now.place), q_words, s, lane, exchange);
    finish_qk(q_words, s, 0);
    half_read(barriers, now, 0, lane);
    load_drawn(args, &block, &keys, barriers, now, kept, first_row, lane, kept_words);
    softmax_of_tile(args, &block, &keys, first_row, s, state, weight_exponent_of(false), 0, lane,
                    exchange);
    round_weights(weights, 0, s, lane, exchange);
    drop_drawn_weights(barriers, now, weights, kept_words, lane);
    for (;;) {
        const struct keys after = find_keys(args, block, after_keys(keys));
        const struct use then = next_use(now);
        if (after.j0 >= block.end)
            break;
        take_turn(warpgroup);
        HALF_HERE(then, 0, STAGE_KEYS(after, then.place));
        begin_qk(own_q, 0, 64, k_tile_at(q_tile, then.place), q_words, s, lane, exchange);
        HALF_HERE(now, 1, STAGE_VALUES(keys, now.place, finite, v_nonfinite));
        begin_sums_of_tile(weights, WEIGHT_PARTS, PART_KEYS, v_tile_at(q_tile, now.place), DIMS,
                           state[0].out, lane, exchange);
        give_turn(warpgroup + 1);
        finish_qk(q_words, s, 1);
        half_read(barriers, then, 0, lane);
        load_drawn(args, &block, &after, barriers, then, kept, first_row, lane, kept_words);
        softmax_of_tile(args, &block, &after, first_row, s, state, weight_exponent_of(false), 0,
                        lane, exchange);
        half_read(barriers, now, 1, lane);
        round_weights(weights, 0, s, lane, exchange);
        drop_drawn_weights(barriers, then, weights, kept_words, lane);
        keys = after;
        now = then;
    }
    HALF_HERE(now, 1, STAGE_VALUES(keys, now.place, finite, v_nonfinite));
    add_rows_of_tile(weights, WEIGHT_PARTS, PART_KEYS, v_tile_at(q_tile, now.place), DIMS,
                     state[0].out, lane, exchange);
    half_read(barriers, now, 1, lane);
    stream->next = next_use(now);
}
#endif
