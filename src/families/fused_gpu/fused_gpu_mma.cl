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
 * Bytes     With precision=int8 q and k are rounded to bytes by stages before (gpu/byte_rows.h). Two bytes are an element of
 *           their tiles, and instructions for bytes add their products as integers.
 * NDRange   local THREADS = FRAGMENT_LANES * SUB_GROUPS; one group for each block of queries of each
 *           (batch, head).
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Pages     Local memory lists the places of a tile's rows in the pool (mma/key_places.h).
 * Masked    A weight of 0 does not silence an Inf or NaN of V. If some output becomes one, all
 *           is computed again with 0 in the place of V's, and these are added at the end to
 *           rows that see them.
 * Barriers  Every thread reaches every barrier; only the instructions' own lockstep is relied on.
 * Hopper    products of warpgroups: src/families/fused_gpu/fused_gpu_warpgroup.cl.
 * Tunables  src/families/fused_gpu/fused_gpu_mma.def, all defined by the host; no fallbacks here. */
#include "score/score.h"
#if !defined(INSTRUCTION) || !defined(EMULATE) || !defined(SUB_GROUPS) || !defined(M_FRAGMENTS) || \
    !defined(BLOCK_N) || !defined(Q_RESIDENT) || !defined(STAGES) || !defined(BYTES) ||            \
    !defined(EXP)
#error "fused_gpu_mma.cl must be built with all of its tunables defined"
#endif

#define PRODUCER 0
#define DRAWERS 0
#include "mma/any_instruction.h"
#include "gpu/byte_products.h"
#include "mma/fragment.h"
#include "gpu/byte_rows.h"
#include "mma/fused_fragments.h"
#include "mma/fragment_products.h"
#include "mma/fused_rows.h"
#if BYTES
#include "mma/quantized_bytes.h"
#include "mma/fused_bytes.h"
#else
#define DECLARE_BYTES()
#endif

/* What is staged while scores are computed: the next tile with two STAGES; V with one. Without
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
#if OPERAND_PARTS > 1
#define MULTIPLY_QK(k_tile, s)                                                                     \
    multiply_qk_planes(q_rows, k_tile, s, lane, exchange);                                         \
    if (again)                                                                                     \
    take_exact_scores(args, &t, &keys, first_row, s, lane)
#define MULTIPLY_PV(v_tile, s) multiply_pv_planes(v_tile, s, state, lane, exchange)
#else
#if HAS_INT8
#define MULTIPLY_QK(k_tile, s)                                                                     \
    multiply_qk(q_rows, k_tile, 0, q_words, s, lane, exchange);                                    \
    scale_byte_products(k_factors + number * BLOCK_N, q_factors, first_row, s, lane)
#else
#define MULTIPLY_QK(k_tile, s) multiply_qk(q_rows, k_tile, k_factors, q_words, s, lane, exchange)
#endif
#define MULTIPLY_PV(v_tile, s) multiply_pv(v_tile, v_factors, s, state, lane, exchange)
#endif

/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
fused_gpu_mma(PARAMETERS_fused_gpu_mma)
{
    struct arguments arguments = ARGUMENTS_fused_gpu_mma;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / query_blocks(&arguments) / arguments.shape->heads);
    __local uint4 tiles[LOCAL_ELEMENTS / 8] TILES_ATTRIBUTE;
    __local float k_factors[K_FACTORS], v_factors[V_FACTORS];
#if HAS_INT8
    __local float q_factors[Q_FACTORS];
#endif
    DECLARE_BYTES();
    __local long places[PLACES];
    __local int row_is_zero[BLOCK_M], not_finite,
        v_nonfinite; /* not 0 once an output is Inf or NaN; once an Inf or NaN of V became 0 */
    DECLARE_KEPT(TILE_KEPT_BYTES);
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

#if BYTES
    MARK_ALIGNED(t);
#endif
    /* load */
    if (get_local_id(0) == 0)
        not_finite = v_nonfinite = 0;
    load_all_queries(args, &t, first_row, q_tile, q_words, lane);
#if HAS_INT8
    load_query_factors(&t, q_factors);
#endif
    do {
        const float weight_exponent = weight_exponent_of(again);
        clear_rows(state);
#if BYTES
        attend_bytes(args, block, t, first_row, q_rows, q_words, again, &v_nonfinite, places,
                     k_bytes, v_bytes, k_factors, v_factors, q_tile, state, weight_exponent, lane,
                     exchange);
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
            STAGE_BESIDE();
            /* scores */
            clear_products(s);
            MULTIPLY_QK(k_tile_at(q_tile, number), s);
#if STAGES == 1
            if (HAS_DROPOUT)
                draw_kept_pairs(args, dropout_head(args, block.b, block.h), block.i0, keys.j0,
                                BLOCK_M, BLOCK_N, kept);
            next = find_keys(args, block, after_keys(keys));
            list_places(args, block.b, next.j0, next.count, 1 - number, places);
            if (HAS_COPIES || HAS_DROPOUT) {
                copies_wait();
                /* V, dropout's bits and the next addresses are complete; K may be overwritten */
                LOCAL_BARRIER();
            }
            if (HAS_COPIES && next.j0 < block.end)
                STAGE_KEYS(next, 1 - number);
#endif
            /* softmax */
            softmax_of_tile(args, &block, &keys, first_row, s, state, weight_exponent, kept, lane,
                            exchange);
            /* values */
            MULTIPLY_PV(v_tile_at(q_tile, number), s);
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
