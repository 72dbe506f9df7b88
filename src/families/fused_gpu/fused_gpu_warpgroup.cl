/* SPDX-License-Identifier: Apache-2.0 */
/* fused_gpu_warpgroup: forward attention as in fused_gpu_mma.cl, by products of warpgroups (cl/mma/warpgroup_products.h):
 * NVIDIA's wgmma, of Hopper.
 *
 * A sub-group has 16 query rows, and four of them are a warpgroup. Queries are operands in registers (Q_RESIDENT), or
 * lie in local memory, where the tensor cores read them. Copies are requested while products run; with OVERLAP the
 * softmax of the tile before runs then, too (cl/mma/fused_overlap.h). With PRODUCER another warpgroup copies
 * (cl/mma/fused_producer.h).
 *
 * Dims      multiples of 8, and rows of tiles have whole blocks of 64 columns.
 * f32       Planes stream through local memory one by one (cl/mma/fused_planes.h); dims are then multiples of 64.
 * NDRange   local THREADS; one group for each block of queries of each (batch, head).
 * Tunables  src/families/fused_gpu/fused_gpu_warpgroup.def, all defined by the host; no fallbacks here. */
#include "score/score.h"
#define INSTRUCTION 7
#include "mma/fragment_wgmma.h"
#define M_FRAGMENTS 1
#define BYTES 0 /* wgmma multiplies with no quantized tiles */
#if !defined(EMULATE) || !defined(SUB_GROUPS) || !defined(BLOCK_N) || !defined(Q_RESIDENT) ||      \
    !defined(STAGES) || !defined(OVERLAP) || !defined(PRODUCER) || !defined(DRAWERS) ||            \
    !defined(EXP)
#error "fused_gpu_warpgroup.cl must be built with all of its tunables defined"
#endif

#include "mma/fused_fragments.h"
#include "mma/warpgroup_products.h"
#include "mma/fused_rows.h"

/* The array's size is -1, which does not compile, if a tile does not begin at a multiple of the swizzle's bytes. */
typedef char tiles_are_swizzled[(V_AT | STAGE_ELEMENTS) * 2 % SWIZZLE_BYTES ? -1 : 1];

#if PRODUCER
#include "mma/fused_producer.h"
#else
#define STREAM ((void)0)
#define LOAD_QUERIES() load_all_queries(args, &t, first_row, q_tile, q_words, lane)
#endif
#if OVERLAP && !PRODUCER
#include "mma/fused_overlap.h"
#endif

/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
fused_gpu_warpgroup(PARAMETERS_fused_gpu_warpgroup)
{
    struct arguments arguments = ARGUMENTS_fused_gpu_warpgroup;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / query_blocks(&arguments) / arguments.shape->heads);
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local float k_factors[K_FACTORS], v_factors[V_FACTORS];
    __local long places[PLACES];
    STREAM;
    __local int row_is_zero[BLOCK_M];
    __local int not_finite;  /* not 0 once an output is Inf or NaN */
    __local int v_nonfinite; /* not 0 once an Inf or NaN of V was replaced by 0 */
#if PRODUCER && HAS_DROPOUT
    __local uint4 kept[TILE_KEPT_BYTES / KEPT_ROW_BYTES];
#elif PRODUCER
    __local uint4 *const kept = 0;
#else
    DECLARE_KEPT(TILE_KEPT_BYTES);
#endif
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

    registers_for_groups();
    LEAVE_FIRST_ASSEMBLY();
    /* load */
    if (get_local_id(0) == 0)
        not_finite = v_nonfinite = 0;
    LOAD_QUERIES();
    do {
        const float weight_exponent = weight_exponent_of(again);
        clear_rows(state);
#if PRODUCER && OPERAND_PARTS > 1
        attend_planes(args, block, t, first_row, q_tile, q_words, again, &v_nonfinite, kept, state,
                      &stream, lane, exchange);
#elif PRODUCER
        attend_produced(args, block, t, first_row, q_tile, q_words, again, &v_nonfinite, kept,
                        state, &stream, lane, exchange);
#elif OVERLAP
        attend_overlapped(args, block, t, first_row, q_tile, q_words, again, &v_nonfinite, state,
                          lane, exchange);
#else
        struct keys keys = find_keys(args, block, block.begin), next;
        int number = 0; /* the tile's number modulo 2 */
        list_first_places(args, block.b, keys.j0, keys.count, places);
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
            /* these products overlap with the requests for copies */
            begin_qk(q_tile, warpgroup_rows(first_row), BLOCK_M, k_tile_at(q_tile, number), q_words,
                     s, lane, exchange);
            /* the next tile with two STAGES; V with one */
#if STAGES > 1
            next = find_keys(args, block, after_keys(keys));
            if (next.j0 < block.end) {
                STAGE_KEYS(next, 1 - number);
                STAGE_VALUES(next, 1 - number, again, &v_nonfinite);
            }
#else
            STAGE_VALUES(keys, number, again, &v_nonfinite);
#endif
            /* scores */
            finish_qk(q_words, s, 0);
#if STAGES == 1
            if (HAS_DROPOUT)
                draw_kept_pairs(args, dropout_head(args, block.b, block.h), block.i0, keys.j0,
                                BLOCK_M, BLOCK_N, kept);
            next = find_keys(args, block, after_keys(keys));
            list_places(args, block.b, next.j0, next.count, 1 - number, places);
            copies_wait();
            LOCAL_BARRIER(); /* V, dropout's bits, next places complete; K may be overwritten */
            if (HAS_COPIES && next.j0 < block.end)
                STAGE_KEYS(next, 1 - number);
#endif
            /* softmax */
            softmax_of_tile(args, &block, &keys, first_row, s, state, weight_exponent, kept, lane,
                            exchange);
            /* values */
            multiply_pv(v_tile_at(q_tile, number), 0, s, state, lane, exchange);
        }
#endif
        if (!all_finite(state))
            atomic_or(&not_finite, 1);
        group_barrier(); /* not_finite is final; nobody reads K and V any more */
        again = !again && not_finite;
    } while (again);

    /* store */
    const float weight_exponent = weight_exponent_of(not_finite);
    store_fragment_rows(args, block, first_row, state, row_is_zero, score_scale(args, block.h),
                        weight_exponent, lane, exchange);
    computing_barrier(); /* the outputs are complete */
    if (v_nonfinite)     /* only non-finite values count here */
        add_nonfinite_to_o(args, &t, row_is_zero);
    END_KERNEL();
}
