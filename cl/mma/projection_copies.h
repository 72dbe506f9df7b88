/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of a projection's x and w are copied to local memory in the background, 16 bytes a piece;
 * each work-item keeps its addresses and moves them on by a stage. x is stored in rows along the depth, w in
 * columns or in rows. Pieces of a later stage are copied, and operands of the next step loaded, between the
 * products of a step.
 *
 * Pieces are copied where a stage is part of one head of x, and heads, rows and columns are whole
 * pieces: the host's condition for this way. Other problems of the program copy elements. */
#pragma once
#include "families/projection_gpu/projection_gpu_mma_sizes.h"
#include "gpu/projection_task.h"
#include "mma/fragment_tile.h"
#include "mma/projection_stages.h"

/* The number of pieces of a line, and of lines that the work-items copy at once. */
#define X_PIECES (BLOCK_K / 8)
#define W_PIECES (UNIT_W_COLUMN ? BLOCK_N / 8 : BLOCK_K / 8)
#define X_COPIES DIVIDE_UP(BLOCK_M *X_PIECES, THREADS)
#define W_COPIES DIVIDE_UP(W_LINES *W_PIECES, THREADS)
#define X_LINES_AT_ONCE (THREADS / X_PIECES)
#define W_LINES_AT_ONCE (THREADS / W_PIECES)

/* A work-item's share of a stage: its first line and piece of a line, and the addresses of its
 * pieces in x and w. */
struct copies {
    int x_line, x_column, w_line, w_column;
    int x_start, w_start; /* the first pieces in a stage's tiles */
    const __global element *x[X_COPIES], *w[W_COPIES];
    long x_step, w_step; /* from the stage before */
    int left;            /* the depth that is left at the stage */
};

INLINE struct copies find_copies(const struct projection_arguments *args, const struct stage first,
                                 const __local long *x_rows, const __local long *w_columns)
{
    const uint thread = THIS_THREAD;
    struct copies c;

    c.x_line = thread / X_PIECES;
    c.x_column = thread % X_PIECES * 8;
    c.w_line = thread / W_PIECES;
    c.w_column = thread % W_PIECES * 8;
    c.x_start = c.x_line * STRIDE + c.x_column;
    c.w_start = BLOCK_M * STRIDE + c.w_line * W_STRIDE + c.w_column;
    LATER(c.x_start);
    LATER(c.w_start);
    c.x_step = c.w_step = 0;
    UNROLL
    for (int n = 0; n < X_COPIES; n++)
        c.x[n] = ELEMENTS_OF_X(args) + first.x +
                 x_rows[min(c.x_line + n * X_LINES_AT_ONCE, BLOCK_M - 1)] + c.x_column;
    UNROLL
    for (int n = 0; n < W_COPIES; n++) {
        const int line = c.w_line + n * W_LINES_AT_ONCE;
#if UNIT_W_COLUMN
        c.w[n] = ELEMENTS_OF_W(args) + first.w + w_columns[c.w_column] + line * W_ROW_STEP;
#else
        c.w[n] = ELEMENTS_OF_W(args) + first.w + w_columns[min(line, BLOCK_N - 1)] + c.w_column;
#endif
    }
    return c;
}

/* Whether the work-item's n-th piece belongs to a line of the tile. The first condition is constant, and true if all do. */
#define IS_X_LINE(c, n)                                                                            \
    (X_COPIES * THREADS == BLOCK_M * X_PIECES || (c)->x_line + (n)*X_LINES_AT_ONCE < BLOCK_M)
#define IS_W_LINE(c, n)                                                                            \
    (W_COPIES * THREADS == W_LINES * W_PIECES || (c)->w_line + (n)*W_LINES_AT_ONCE < W_LINES)

/* Starts the copy of piece n of a work-item in the next stage, pieces of x first. Pieces beyond the
 * end of the depth are zeros. */
INLINE void copy_piece_of_stage(const struct task *t, struct copies *c, __local ushort *stage,
                                const int n)
{
    if (n < X_COPIES) {
        c->x[n] += c->x_step;
        if (IS_X_LINE(c, n))
            copy_chunk(stage + c->x_start + n * X_LINES_AT_ONCE * STRIDE, c->x[n],
                       c->x_column < c->left);
    } else if (n < X_COPIES + W_COPIES) {
        const int m = n - X_COPIES;
        c->w[m] += c->w_step;
        if (IS_W_LINE(c, m))
            copy_chunk(stage + c->w_start + m * W_LINES_AT_ONCE * W_STRIDE, c->w[m],
                       UNIT_W_COLUMN ? m * W_LINES_AT_ONCE < c->left - c->w_line &&
                                           c->w_column < t->columns - t->column
                                     : c->w_column < c->left);
    }
}

/* Copies a work-item's elements of the stage from depth k on, if these are not whole pieces. */
INLINE void copy_elements(const struct projection_arguments *args, const struct task *t,
                          const struct copies *c, const long k, const __local long *x_rows,
                          const __local long *w_columns, __local ushort *stage)
{
#pragma unroll 1
    for (int n = 0; n < X_COPIES * 8; n++) {
        const int line = c->x_line + n / 8 * X_LINES_AT_ONCE;
        const long depth = k + c->x_column + n % 8;
        if (IS_X_LINE(c, n / 8))
            stage[line * STRIDE + c->x_column + n % 8] =
                depth < t->end
                    ? load_element(ELEMENTS_OF_X(args) + x_rows[line] + place_in_x(t, depth))
                    : (ushort)0;
    }
#pragma unroll 1
    for (int n = 0; n < W_COPIES * 8; n++) {
        const int line = c->w_line + n / 8 * W_LINES_AT_ONCE, other = c->w_column + n % 8;
        const int column = UNIT_W_COLUMN ? other : line;
        const long depth = k + (UNIT_W_COLUMN ? line : other);
        if (IS_W_LINE(c, n / 8))
            stage[BLOCK_M * STRIDE + line * W_STRIDE + other] =
                depth < t->end
                    ? load_element(ELEMENTS_OF_W(args) + w_columns[column] + place_in_w(t, depth))
                    : (ushort)0;
    }
}

/* The operands of a step of the depth, in STEP_LOADS loads: the fragments of rows, then two of
 * columns at a time. */
#define STEPS (BLOCK_K / FRAGMENT_DEPTH)
#define W_LOADS (N_FRAGMENTS / OTHERS_AT_ONCE)
#define STEP_LOADS (M_FRAGMENTS + W_LOADS)
struct operands {
    uint x[M_FRAGMENTS][QUERY_WORDS], w[W_LOADS][OTHERS_AT_ONCE * OTHER_WORDS];
};

/* The offsets of a lane's operands in a stage. */
struct operand_starts {
    int x, w;
};

INLINE struct operand_starts find_starts(const int first_row, const int first_column,
                                         const int lane)
{
    struct operand_starts s = {
        first_row * STRIDE + rows_start(STRIDE, lane),
        BLOCK_M * STRIDE + (UNIT_W_COLUMN ? first_column + rows_start(W_STRIDE, lane)
                                          : first_column * W_STRIDE + keys_start(W_STRIDE, lane))};

    LATER(s.x);
    LATER(s.w);
    return s;
}

/* Loads the n-th operand of step `step` of a stage. */
INLINE void load_operand(struct operands *to, const __local ushort *stage,
                         const struct operand_starts starts, const int step, const int n,
                         const int lane)
{
    const int d = step * FRAGMENT_DEPTH,
              column = (n - M_FRAGMENTS) * OTHERS_AT_ONCE * FRAGMENT_OTHERS;

    if (n < M_FRAGMENTS)
        load_query_from(to->x[n], stage + starts.x + n * FRAGMENT_QUERIES * STRIDE + d, STRIDE,
                        lane);
    else if (n < STEP_LOADS)
#if UNIT_W_COLUMN
        load_values_from(to->w[n - M_FRAGMENTS], stage + starts.w + d * W_STRIDE + column, W_STRIDE,
                         lane);
#else
        load_keys_from(to->w[n - M_FRAGMENTS], stage + starts.w + column * W_STRIDE + d, W_STRIDE,
                       lane);
#endif
}

/* Adds the products of a step to sums. Between them it loads the operands of step `next_step` of a
 * stage, and starts the copies of pieces first_piece to end_piece of a later stage. */
INLINE void multiply_step(const struct operands *now, struct operands *next,
                          const __local ushort *stage, const int next_step,
                          const struct operand_starts starts, const struct task *t,
                          struct copies *copies, __local ushort *later, const int first_piece,
                          const int end_piece, float sums[M_FRAGMENTS][SUMS], const int lane,
                          __local float *exchange)
{
    UNROLL
    for (int n = 0; n < N_FRAGMENTS; n++) {
        UNROLL
        for (int x = STEP_LOADS * n / N_FRAGMENTS; x < STEP_LOADS * (n + 1) / N_FRAGMENTS; x++)
            load_operand(next, stage, starts, next_step, x, lane);
        UNROLL
        for (int x = first_piece; x < end_piece; x++)
            if (n == N_FRAGMENTS / 2)
                copy_piece_of_stage(t, copies, later, x);
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            multiply_add(sums[f] + n * FRAGMENT_SUMS, now->x[f],
                         now->w[n / OTHERS_AT_ONCE] + n % OTHERS_AT_ONCE * OTHER_WORDS, lane,
                         exchange);
    }
}
