/* SPDX-License-Identifier: Apache-2.0 */
/* projection_gpu_mma: y = x w with heads in its addressing, by matrix instructions. Formula: clattn/problem.h.
 *
 * Words      a row of y is (batch, row), a column (head of y, y_dim), the depth that is summed over
 *            (head of x, x_dim). Each is a pair of indices with a step for each.
 * Stages     projection_gpu_mma     a work-group owns BLOCK_M x BLOCK_N of y, and one of SPLIT_K parts of the
 *                               depth, which it walks through BLOCK_K at a time
 *            projection_sum     with SPLIT_K > 1: y from the parts, an element for each thread
 *            The order in which an element is summed depends on the depth and the tunables alone.
 * Sub-groups SUB_GROUPS_M x SUB_GROUPS_N of them share the tile; each has M_FRAGMENTS x N_FRAGMENTS fragments
 *            (cl/mma/fragment.h) of sums in registers. Rows are the fragments' queries, columns the others.
 * Local      both tiles lie row by row, or column by column, along the depth, in 16 bits as they are stored;
 *            where a matrix lies across the depth, blocks of 4 x 4 are turned around on their way in. The
 *            next stage is loaded to registers while this one is multiplied. With COPIES stages are copied in the
 *            background instead, all but one of them ahead, and operands of a step are loaded between the products
 *            of the one before (cl/mma/projection_copies.h).
 * Places     of rows, columns and depths: cl/gpu/projection_task.h.
 * Sums       f32; products of 16-bit operands are exact. An f32 problem is one of bf16 with a depth six times as long
 *            (cl/mma/projection_parts.h), between two stages of its own.
 * NDRange    local THREADS; a group for each tile and split, as in projection_gpu_item.cl.
 * Ragged     Rows and columns beyond the last repeat it and are not stored; the depth ends with zeros.
 * Barriers   Every thread reaches every barrier; only the instructions' own lockstep is relied on.
 * Workspace  with SPLIT_K > 1: [SPLIT_K][rows][columns] sums; then the parts of f32
 * Tunables   src/families/projection_gpu/projection_gpu_mma.def, all defined by the host; no fallbacks here. */
#include "common/projection.h"

#if !defined(INSTRUCTION) || !defined(EMULATE) || !defined(BLOCK_M) || !defined(BLOCK_N) ||        \
    !defined(SUB_GROUPS_M) || !defined(SUB_GROUPS_N) || !defined(BLOCK_K) || !defined(STAGES) ||   \
    !defined(GROUP_M) || !defined(SPLIT_K)
#error "projection_gpu_mma.cl must be built with all of its tunables defined"
#endif

#include "mma/any_instruction.h"
#include "mma/projection_tile.h"

#if COPIES
#include "mma/projection_copies.h"

/* ---- the kernel ------------------------------------------------------------------------------ */

#define PLACE_OF_STAGE(n) ((__local ushort *)tiles + (n)*STAGE_ELEMENTS)

/* Ends the copies of the stage `ahead` and moves on by one. */
#define END_COPIES(tile)                                                                           \
    do {                                                                                           \
        const struct stage behind = ahead;                                                         \
        if (!pieces) {                                                                             \
            copies_wait(); /* its zeros */                                                         \
            copy_elements(args, &t, &copies, ahead.k, x_rows, w_columns, tile);                    \
        }                                                                                          \
        copies_end_set();                                                                          \
        ahead = next_stage(args, &t, ahead);                                                       \
        copies.x_step = ahead.x - behind.x;                                                        \
        copies.w_step = ahead.w - behind.w;                                                        \
        copies.left = pieces ? (int)clamp(t.end - ahead.k, 0L, (long)BLOCK_K) : 0;                 \
    } while (0)

/* The number of pieces that are copied by the end of step n of the `all` steps before the last. */
#define PIECES_BY(n) ((X_COPIES + W_COPIES) * MIN(n, STEPS - 1) / (STEPS - 1))

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
projection_gpu_mma(PARAMETERS_projection_gpu_mma)
{
    DECLARE_ARGUMENTS(ARGUMENTS_projection_gpu_mma);
    const struct projection_arguments *const args = &arguments;
    __local uint4 tiles[STAGES * STAGE_ELEMENTS / 8];
    __local long x_rows[BLOCK_M], w_columns[BLOCK_N];
    DECLARE_EXCHANGE(SUB_GROUPS_M * SUB_GROUPS_N);
    const int sub = THIS_THREAD / FRAGMENT_LANES;
    const int first_row = sub / SUB_GROUPS_N * (BLOCK_M / SUB_GROUPS_M);
    const int first_column = sub % SUB_GROUPS_N * (BLOCK_N / SUB_GROUPS_N);
    int lane = THIS_THREAD % FRAGMENT_LANES;
    const struct operand_starts starts = find_starts(first_row, first_column, lane);
    const struct task t = find_output_task(args);
    const bool pieces = has_pieces(args);
    struct stage ahead = first_stage(args, &t);
    struct operands operands[2];
    float sums[M_FRAGMENTS][SUMS];
    int now = 0; /* the number of the current stage */

    find_rows_and_columns(args, &t, x_rows, w_columns);
    clear_block_sums(sums);
    LOCAL_BARRIER(); /* the places are complete */
    struct copies copies = find_copies(args, ahead, x_rows, w_columns);
    copies.left = pieces ? (int)clamp(t.end - ahead.k, 0L, (long)BLOCK_K) : 0;
    for (int n = 0; n < STAGES - 1; n++) {
        UNROLL
        for (int x = 0; x < X_COPIES + W_COPIES; x++)
            copy_piece_of_stage(&t, &copies, PLACE_OF_STAGE(n), x);
        END_COPIES(PLACE_OF_STAGE(n));
    }
    COPIES_WAIT_BUT_SETS(STAGES - 2);
    LOCAL_BARRIER(); /* the first stage is complete */
    UNROLL
    for (int n = 0; n < STEP_LOADS; n++)
        load_operand(&operands[0], PLACE_OF_STAGE(0), starts, 0, n, lane);
    for (long k = t.begin; k < t.end; k += BLOCK_K) {
        __local ushort *const later = PLACE_OF_STAGE(now == 0 ? STAGES - 1 : now - 1);
        const __local ushort *stage = PLACE_OF_STAGE(now);
        now = now + 1 == STAGES ? 0 : now + 1;
        UNROLL
        for (int step = 0; step < STEPS; step++) {
            if (step == STEPS - 1) {
                END_COPIES(later);
                COPIES_WAIT_BUT_SETS(STAGES - 2);
                LOCAL_BARRIER(); /* the next stage is complete, all have read this one */
                stage = PLACE_OF_STAGE(now);
            }
            multiply_step(&operands[step % 2], &operands[(step + 1) % 2], stage, (step + 1) % STEPS,
                          starts, &t, &copies, later, PIECES_BY(step), PIECES_BY(step + 1), sums,
                          lane, exchange);
        }
    }
    copies_wait();
    LATER(lane);
    STORE_SUMS(first_row, first_column);
}
#else
/* The number of 4 x 4 blocks that a thread loads of a tile of `block` rows or columns. */
#define LOADS(block) (((block)*BLOCK_K / 16 + THREADS - 1) / THREADS)
#define IS_IN_STAGE(t, block) ((block)*BLOCK_K / 16 % THREADS == 0 || (t) < (block)*BLOCK_K / 16)
/* ---- load ------------------------------------------------------------------------------------ */

/* The position of block t in a tile: its row or column (across), and its depth (along). */
struct slot {
    int across, along;
    int turn; /* the thread's row or column number i of four is i ^ turn */
};

/* Neighbouring threads load neighbours along the depth: a sub-group reads whole sectors of 32 bytes
 * for either layout. Stores have no bank conflicts (tests/offline/bank_conflicts.sh): rows of two
 * adjacent threads are eight apart where four would share banks. With rows of 48 bytes every second
 * pair of threads stores its four from the third on. */
INLINE struct slot block_slot(const int t)
{
    const int four = t / (BLOCK_K / 4);
    struct slot s;

    s.along = t % (BLOCK_K / 4) * 4;
#if BLOCK_K == 32 && ROW_PADDING == 4
    s.across = ((four & ~3) | (four & 1) << 1 | (four & 2) >> 1) * 4;
#else
    s.across = four * 4;
#endif
#if BLOCK_K == 16 && ROW_PADDING == 8
    s.turn = four & 2;
#else
    s.turn = 0;
#endif
    return s;
}

/* Loads four neighbours from `from` on; the first `count` exist, the others are 0. */
INLINE ushort4 load_four(const __global element *from, const __local long *places, const long count,
                         const bool quads)
{
    if (quads) { /* all four exist, or none */
        const ushort4 x = load_elements(from + places[0], true);
        return count > 0 ? x : (ushort4)0;
    }
    return (ushort4)(count > 0 ? load_element(from + places[0]) : (ushort)0,
                     count > 1 ? load_element(from + places[1]) : (ushort)0,
                     count > 2 ? load_element(from + places[2]) : (ushort)0,
                     count > 3 ? load_element(from + places[3]) : (ushort)0);
}

/* Loads this thread's share of a stage of a matrix to registers. left: the remaining depth, at
 * least 1. Registers without a load are 0: undefined ones gave wrong results on PoCL 3.1 if tiles
 * have as many rows as columns. */
INLINE void load_blocks(const __global element *matrix, const int block, const bool depth_first,
                        const bool quads, const __local long *across, const __local long *along,
                        const long left, ushort4 loaded[][4])
{
    UNROLL
    for (int n = 0; n < LOADS(block); n++) {
        const int t = get_local_id(0) + n * THREADS;
        const struct slot s = block_slot(t);
        UNROLL
        for (int i = 0; i < 4; i++)
            loaded[n][i] = 0;
        if (!IS_IN_STAGE(t, block))
            continue;
        UNROLL
        for (int i = 0; i < 4; i++)
            loaded[n][i] = depth_first ? load_four(matrix + across[s.across + (i ^ s.turn)],
                                                   along + s.along, left - s.along, quads)
                                       : load_four(matrix + along[s.along + i], across + s.across,
                                                   s.along + i < left ? 4 : 0, quads);
    }
}

/* The i-th row that the thread stores, and the address of that store. */
#define TURNED(i) (s.turn && !depth_first ? loaded[n][i].zwxy : loaded[n][i])
#define STAGE_FOUR(i) ((__local ushort4 *)(tile + (s.across + ((i) ^ s.turn)) * STRIDE + s.along))

/* Stores registers to a tile, along the depth. */
INLINE void stage_blocks(ushort4 loaded[][4], const int block, const bool depth_first,
                         __local ushort *tile)
{
    UNROLL
    for (int n = 0; n < LOADS(block); n++) {
        const int t = get_local_id(0) + n * THREADS;
        if (!IS_IN_STAGE(t, block))
            continue;
        const struct slot s = block_slot(t);
        const ushort4 x = TURNED(0), y = TURNED(1), z = TURNED(2), w = TURNED(3);
        *STAGE_FOUR(0) = depth_first ? x : (ushort4)(x.x, y.x, z.x, w.x);
        *STAGE_FOUR(1) = depth_first ? y : (ushort4)(x.y, y.y, z.y, w.y);
        *STAGE_FOUR(2) = depth_first ? z : (ushort4)(x.z, y.z, z.z, w.z);
        *STAGE_FOUR(3) = depth_first ? w : (ushort4)(x.w, y.w, z.w, w.w);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Adds the products of a stage to sums, from the sub-group's first row and column on. */
INLINE void multiply_blocks(const __local ushort *x_rows, const __local ushort *w_columns,
                            float sums[M_FRAGMENTS][SUMS], const int lane, __local float *exchange)
{
    UNROLL
    for (int d = 0; d < BLOCK_K; d += FRAGMENT_DEPTH) {
        uint x_words[M_FRAGMENTS][QUERY_WORDS];
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            load_query(x_words[f], x_rows + f * FRAGMENT_QUERIES * STRIDE + d, STRIDE, lane);
        UNROLL
        for (int n = 0; n < N_FRAGMENTS; n += OTHERS_AT_ONCE) {
            uint w_words[OTHERS_AT_ONCE * OTHER_WORDS];
            load_keys(w_words, w_columns + n * FRAGMENT_OTHERS * STRIDE + d, STRIDE, lane);
            UNROLL
            for (int m = 0; m < OTHERS_AT_ONCE; m++)
                UNROLL
            for (int f = 0; f < M_FRAGMENTS; f++)
                multiply_add(sums[f] + (n + m) * FRAGMENT_SUMS, x_words[f],
                             w_words + m * OTHER_WORDS, lane, exchange);
        }
        in_order();
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
projection_gpu_mma(PARAMETERS_projection_gpu_mma)
{
    DECLARE_ARGUMENTS(ARGUMENTS_projection_gpu_mma);
    const struct projection_arguments *const args = &arguments;
    __local uint4 x_tile[STAGES][BLOCK_M * STRIDE / 8], w_tile[STAGES][W_ELEMENTS / 8];
    __local long x_rows[BLOCK_M], w_columns[BLOCK_N];
    __local long x_depths[2][BLOCK_K], w_depths[2][BLOCK_K], inner[BLOCK_K];
    DECLARE_EXCHANGE(SUB_GROUPS_M * SUB_GROUPS_N);
    const int lane = THIS_THREAD % FRAGMENT_LANES, sub = THIS_THREAD / FRAGMENT_LANES;
    const int first_row = sub / SUB_GROUPS_N * (BLOCK_M / SUB_GROUPS_M);
    const int first_column = sub % SUB_GROUPS_N * (BLOCK_N / SUB_GROUPS_N);
    const struct task t = find_output_task(args);
    ushort4 x_loaded[LOADS(BLOCK_M)][4], w_loaded[LOADS(BLOCK_N)][4];
    float sums[M_FRAGMENTS][SUMS];
    int now = 0; /* the number of the current stage, 0 or 1 */

    find_places(args, &t, x_rows, w_columns, x_depths[0], w_depths[0], inner);
    clear_block_sums(sums);
    LOCAL_BARRIER(); /* the places are complete */
    if (t.begin < t.end) {
        load_blocks(ELEMENTS_OF_X(args), BLOCK_M, UNIT_X_COLUMN, t.x_quads, x_rows, x_depths[0],
                    t.end - t.begin, x_loaded);
        load_blocks(ELEMENTS_OF_W(args), BLOCK_N, !UNIT_W_COLUMN, t.w_quads, w_columns, w_depths[0],
                    t.end - t.begin, w_loaded);
    }
    for (long k = t.begin; k < t.end; k += BLOCK_K) {
        __local ushort *const x_now = (__local ushort *)x_tile[STAGES == 1 ? 0 : now];
        __local ushort *const w_now = (__local ushort *)w_tile[STAGES == 1 ? 0 : now];
        const long next = k + BLOCK_K;
        now = 1 - now;
        stage_blocks(x_loaded, BLOCK_M, UNIT_X_COLUMN, x_now);
        stage_blocks(w_loaded, BLOCK_N, !UNIT_W_COLUMN, w_now);
        step_places(args, &t, next, x_depths[1 - now], w_depths[1 - now], x_depths[now],
                    w_depths[now], inner);
        LOCAL_BARRIER(); /* the stage and the next one's offsets are complete */
        if (next < t.end) {
            load_blocks(ELEMENTS_OF_X(args), BLOCK_M, UNIT_X_COLUMN, t.x_quads, x_rows,
                        x_depths[now], t.end - next, x_loaded);
            load_blocks(ELEMENTS_OF_W(args), BLOCK_N, !UNIT_W_COLUMN, t.w_quads, w_columns,
                        w_depths[now], t.end - next, w_loaded);
        }
        multiply_blocks(x_now + first_row * STRIDE, w_now + first_column * STRIDE, sums, lane,
                        exchange);
        if (STAGES == 1)
            LOCAL_BARRIER(); /* the stage may be overwritten */
    }
    STORE_SUMS(first_row, first_column);
}
#endif
