/* SPDX-License-Identifier: Apache-2.0 */
/* What projections by matrix instructions share: the tile of a work-group, its sums, and how it is stored.
 *
 * The kernel's file includes the header of its instruction first. M_FRAGMENTS by N_FRAGMENTS fragments of sums are a
 * sub-group's. Their kernels take the arguments of DECLARE_ARGUMENTS() and end with STORE_SUMS().
 *
 * Tunables   src/families/projection_gpu/projection_gpu_mma.def, or what a unit defines instead. */
#pragma once
#include "common/projection.h"
#include "mma/fragment.h"
#include "families/projection_gpu/projection_gpu_mma_sizes.h"

#define THREADS (FRAGMENT_LANES * SUB_GROUPS_M * SUB_GROUPS_N)
#define LOAD_WIDTH 4
#include "gpu/tile_load.h"
#if DTYPE == DTYPE_F32
#define BY_PARTS 1
#include "mma/projection_parts.h"
/* From here on x and w are planes. */
#undef UNIT_X_COLUMN
#undef UNIT_X_ROW
#undef UNIT_W_COLUMN
#undef UNIT_W_ROW
#define UNIT_X_COLUMN 1
#define UNIT_X_ROW 0
#define UNIT_W_COLUMN 0
#define UNIT_W_ROW 1
#else
#define DECLARE_ARGUMENTS(own) const struct projection_arguments arguments = own
#define IS_COMPUTED_HERE(row) true
#endif
#include "gpu/projection_task.h"
#include "mma/fragment_tile.h"
#include "mma/projection_stages.h"

#define M_FRAGMENTS (BLOCK_M / SUB_GROUPS_M / FRAGMENT_QUERIES)
#define N_FRAGMENTS (BLOCK_N / SUB_GROUPS_N / FRAGMENT_OTHERS)
#define SUMS (N_FRAGMENTS * FRAGMENT_SUMS)
/* The row and column, in the block, of sum x of a fragment of rows that begins at `row`. */
#define ROW(row, x) ((row) + lane_query(lane, sum_query((x) % FRAGMENT_SUMS)))
#define COLUMN(column, x)                                                                          \
    ((column) + (x) / FRAGMENT_SUMS * FRAGMENT_OTHERS + sum_other(lane, (x) % FRAGMENT_SUMS))

/* statement(f) for each fragment of rows. */
#if LOOPS_ARE_TEXT
#define EACH_FRAGMENT(statement)                                                                   \
    statement(0);                                                                                  \
    if (M_FRAGMENTS > 1)                                                                           \
        statement(MIN(1, M_FRAGMENTS - 1));                                                        \
    if (M_FRAGMENTS > 2)                                                                           \
        statement(MIN(2, M_FRAGMENTS - 1));                                                        \
    if (M_FRAGMENTS > 3)                                                                           \
        statement(MIN(3, M_FRAGMENTS - 1));                                                        \
    UNROLL                                                                                         \
    for (int more = 4; more < M_FRAGMENTS; more++)                                                 \
    statement(more)
#else
#define EACH_FRAGMENT(statement)                                                                   \
    UNROLL                                                                                         \
    for (int f = 0; f < M_FRAGMENTS; f++)                                                          \
    statement(f)
#endif

INLINE void clear_block_sums(float sums[M_FRAGMENTS][SUMS])
{
#define CLEAR_SUMS(f)                                                                              \
    UNROLL                                                                                         \
    for (int n = 0; n < SUMS; n++)                                                                 \
    sums[f][n] = 0.0f
    EACH_FRAGMENT(CLEAR_SUMS);
}

/* ---- store ----------------------------------------------------------------------------------- */

#if SPLIT_K > 1
/* Stores the lane's sums to the workspace. */
INLINE void store_part_of_fragments(const struct projection_arguments *args, const struct task *t,
                                    const int first_row, const int first_column, const int lane,
                                    float sums[M_FRAGMENTS][SUMS])
{
    __global float *const part = args->workspace + get_group_id(1) * t->rows * t->columns;

#define STORE_PART(f)                                                                              \
    UNROLL                                                                                         \
    for (int x = 0; x < SUMS; x++) {                                                               \
        const long i = t->row + ROW(first_row + (f)*FRAGMENT_QUERIES, x);                          \
        const long j = t->column + COLUMN(first_column, x);                                        \
        if (i < t->rows && j < t->columns)                                                         \
            part[i * t->columns + j] = sums[f][x];                                                 \
    }
    EACH_FRAGMENT(STORE_PART);
}
#else
/* Finds the offsets of the tile's rows and columns in y. */
INLINE void find_results(const struct projection_arguments *args, const struct task *t,
                         __local long *y_rows, __local long *y_columns)
{
    for (int n = get_local_id(0); n < BLOCK_M; n += THREADS)
        y_rows[n] = place(
            (struct pair){args->shape->rows, args->shape->y_stride[0], args->shape->y_stride[2]},
            clamped(t->row + n, t->rows));
    for (int n = get_local_id(0); n < BLOCK_N; n += THREADS)
        y_columns[n] =
            place((struct pair){args->shape->y_dim, args->shape->y_stride[1], Y_COLUMN_STEP},
                  clamped(t->column + n, t->columns));
}

#if KEYS_OF_SUMS % 2 == 0 && UNIT_Y_COLUMN && DTYPE != DTYPE_F32
/* Returns whether two neighbouring columns can be stored at once. */
INLINE bool stores_pairs(const struct projection_arguments *args)
{
    return ((args->shape->y_dim | args->shape->y_stride[0] | args->shape->y_stride[1] |
             args->shape->y_stride[2]) &
            1) == 0 &&
           ((size_t)args->y & 3) == 0;
}

INLINE void store_pairs(const struct projection_arguments *args, const struct task *t,
                        const int first_row, const int first_column, const int lane,
                        float sums[M_FRAGMENTS][SUMS], const __local long *y_rows,
                        const __local long *y_columns)
{
    UNROLL
    for (int x = 0; x < SUMS; x += 2) {
        const int column = COLUMN(first_column, x);
        const long place = y_columns[column], e = t->column + column;
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++) {
            const int row = ROW(first_row + f * FRAGMENT_QUERIES, x);
            __global storage *const to = args->y + y_rows[row] + place;
            if (t->row + row < t->rows && e < t->columns)
                *(__global uint *)to = pack_pair(COMPLETE_Y(sums[f][x], to, 0, 0, e),
                                                 COMPLETE_Y(sums[f][x + 1], to, 1, 0, e + 1));
        }
    }
}
#endif

/* Stores the lane's elements of y. */
INLINE void store_fragments(const struct projection_arguments *args, const struct task *t,
                            const int first_row, const int first_column, const int lane,
                            float sums[M_FRAGMENTS][SUMS], const __local long *y_rows,
                            const __local long *y_columns)
{
#if KEYS_OF_SUMS % 2 == 0 && UNIT_Y_COLUMN && DTYPE != DTYPE_F32
    if (stores_pairs(args)) {
        store_pairs(args, t, first_row, first_column, lane, sums, y_rows, y_columns);
        return;
    }
#endif
#define STORE_FRAGMENT(f)                                                                          \
    UNROLL                                                                                         \
    for (int x = 0; x < SUMS; x++) {                                                               \
        const int row = ROW(first_row + (f)*FRAGMENT_QUERIES, x);                                  \
        const int column = COLUMN(first_column, x);                                                \
        if (t->row + row < t->rows && t->column + column < t->columns &&                           \
            IS_COMPUTED_HERE(y_rows[row]))                                                         \
            STORE_Y(sums[f][x], args->y + y_rows[row], y_columns[column], 0, t->column + column);  \
    }
    EACH_FRAGMENT(STORE_FRAGMENT);
}

/* Lanes have pairs of columns: the f32 pairs of four lanes fill a sector. */
#if BY_PARTS && UNIT_Y_COLUMN && !HAS_ACCUMULATE && KEYS_OF_SUMS % 2 == 0
INLINE bool y_has_pairs(const struct projection_arguments *args)
{
    return ((args->shape->y_stride[0] | args->shape->y_stride[1] | args->shape->y_stride[2] |
             args->shape->y_dim) &
            1) == 0 &&
           ((size_t)args->y & 7) == 0;
}

INLINE void store_pairs(const struct projection_arguments *args, const struct task *t,
                        const int first_row, const int first_column, const int lane,
                        float sums[M_FRAGMENTS][SUMS], const __local long *y_rows,
                        const __local long *y_columns)
{
    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        UNROLL
    for (int x = 0; x < SUMS; x += 2) {
        const int row = ROW(first_row + f * FRAGMENT_QUERIES, x);
        const int column = COLUMN(first_column, x);
        const long n = t->column + column;
        if (t->row + row < t->rows && n < t->columns)
            *(__global float2 *)(args->y + y_rows[row] + y_columns[column]) =
                (float2)(sums[f][x] + BIAS_OF(0, n), sums[f][x + 1] + BIAS_OF(0, n + 1));
    }
}
#define STORES_PAIRS 1
#endif
#endif

/* A kernel's end. */
#if STORES_PAIRS
#define Y_HAS_PAIRS y_has_pairs
#define STORE_PAIRS store_pairs
#else
#define Y_HAS_PAIRS(args) false
#define STORE_PAIRS store_fragments
#endif
#if BY_PARTS
#define LEAVE_FLAGGED() leave_flagged(&parts, t.row, t.rows, x_rows, BLOCK_M, THREADS, &any_flag)
#else
#define LEAVE_FLAGGED()
#endif
#if SPLIT_K > 1
#define STORE_SUMS(first_row, first_column)                                                        \
    do {                                                                                           \
        LEAVE_FLAGGED();                                                                           \
        store_part_of_fragments(args, &t, first_row, first_column, lane, sums);                    \
    } while (0)
#else
#define STORE_SUMS(first_row, first_column)                                                        \
    do {                                                                                           \
        LOCAL_BARRIER(); /* the offsets of x and w are no longer read */                           \
        find_results(args, &t, x_rows, w_columns);                                                 \
        LEAVE_FLAGGED();                                                                           \
        LOCAL_BARRIER(); /* places of y are complete */                                            \
        if (Y_HAS_PAIRS(args))                                                                     \
            STORE_PAIRS(args, &t, first_row, first_column, lane, sums, x_rows, w_columns);         \
        else                                                                                       \
            store_fragments(args, &t, first_row, first_column, lane, sums, x_rows, w_columns);     \
    } while (0)
#endif
