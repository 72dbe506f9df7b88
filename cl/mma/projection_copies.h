/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of a projection's x and w are copied to local memory in the background, 16 bytes a piece;
 * each work-item keeps its addresses. x is stored in rows along the depth, w in columns or in rows.
 *
 * Pieces are copied where a stage is part of one head of x, and heads, rows and columns are whole
 * pieces: the host's condition for this way. Other problems of the program copy elements.
 *
 * Who includes this defines STRIDE. */
#pragma once
#include "gpu/projection_task.h"
#include "mma/fragment_tile.h"
#include "mma/projection_stages.h"

/* Pieces of a line, and how many lines the work-items copy at once. */
#define X_PIECES (BLOCK_K / 8)
#define W_PIECES (UNIT_W_COLUMN ? BLOCK_N / 8 : BLOCK_K / 8)
#define X_COPIES DIVIDE_UP(BLOCK_M *X_PIECES, THREADS)
#define W_COPIES DIVIDE_UP(W_LINES *W_PIECES, THREADS)

/* What a work-item copies of each stage: its first line and piece of a line, and where its lines are. */
struct copies {
    int x_line, x_column, w_line, w_column;
    long x[X_COPIES], w[W_COPIES];
};

INLINE struct copies find_copies(const struct projection_arguments *args,
                                 const __local long *x_rows, const __local long *w_columns)
{
    const uint thread = THIS_THREAD;
    struct copies c;

    c.x_line = thread / X_PIECES;
    c.x_column = thread % X_PIECES * 8;
    c.w_line = thread / W_PIECES;
    c.w_column = thread % W_PIECES * 8;
    UNROLL
    for (int n = 0; n < X_COPIES; n++)
        c.x[n] = x_rows[min(c.x_line + n * (THREADS / X_PIECES), BLOCK_M - 1)] + c.x_column;
    UNROLL
    for (int n = 0; n < W_COPIES; n++) {
        const int line = c.w_line + n * (THREADS / W_PIECES);
#if UNIT_W_COLUMN
        c.w[n] = w_columns[c.w_column] + line * W_ROW_STEP;
#else
        c.w[n] = w_columns[min(line, BLOCK_N - 1)] + c.w_column;
#endif
    }
    return c;
}

/* Asks for the copies of a stage. */
INLINE void copy_stage(const struct projection_arguments *args, const struct task *t,
                       const struct stage s, const struct copies *c, const __local long *x_rows,
                       const __local long *w_columns, const bool pieces, __local ushort *x_tile)
{
    __local ushort *const w_tile = x_tile + BLOCK_M * STRIDE;
    const int left = (int)min(t->end - s.k, (long)BLOCK_K);

    if (pieces) {
        UNROLL
        for (int n = 0; n < X_COPIES; n++) {
            const int line = c->x_line + n * (THREADS / X_PIECES);
            if (X_COPIES * THREADS == BLOCK_M * X_PIECES || line < BLOCK_M)
                copy_chunk(x_tile + line * STRIDE + c->x_column,
                           ELEMENTS_OF_X(args) + s.x + c->x[n], c->x_column < left);
        }
        UNROLL
        for (int n = 0; n < W_COPIES; n++) {
            const int line = c->w_line + n * (THREADS / W_PIECES);
            if (W_COPIES * THREADS == W_LINES * W_PIECES || line < W_LINES)
                copy_chunk(w_tile + line * W_STRIDE + c->w_column,
                           ELEMENTS_OF_W(args) + s.w + c->w[n],
                           UNIT_W_COLUMN ? line < left && c->w_column < t->columns - t->column
                                         : c->w_column < left);
        }
        return;
    }
#pragma unroll 1
    for (int n = THIS_THREAD; n < BLOCK_M * BLOCK_K; n += THREADS) {
        const int line = n / BLOCK_K, d = n % BLOCK_K;
        x_tile[line * STRIDE + d] =
            d < left ? load_element(ELEMENTS_OF_X(args) + x_rows[line] + place_in_x(t, s.k + d))
                     : (ushort)0;
    }
#pragma unroll 1
    for (int n = THIS_THREAD; n < BLOCK_N * BLOCK_K; n += THREADS) {
        const int column = n / BLOCK_K, d = n % BLOCK_K;
        w_tile[UNIT_W_COLUMN ? d * W_STRIDE + column : column * W_STRIDE + d] =
            d < left
                ? load_element(ELEMENTS_OF_W(args) + w_columns[column] + place_in_w(t, s.k + d))
                : (ushort)0;
    }
}

/* Operands of two tiles of columns at a step of the depth, from the sub-group's first column on. */
INLINE void load_columns(uint *words, const __local ushort *w_tile, const int column, const int d,
                         const int lane)
{
#if UNIT_W_COLUMN
    load_values(words, w_tile + d * W_STRIDE + column, W_STRIDE, lane);
#else
    load_keys(words, w_tile + column * W_STRIDE + d, W_STRIDE, lane);
#endif
}

/* sums += the products of a stage; operands are loaded a step before they are multiplied. */
INLINE void multiply_stage(const __local ushort *x_tile, const int first_row,
                           const int first_column, float sums[M_FRAGMENTS][SUMS], const int lane,
                           __local float *exchange)
{
    const int steps = N_FRAGMENTS / OTHERS_AT_ONCE, all = BLOCK_K / FRAGMENT_DEPTH * steps;
    const __local ushort *const x_rows = x_tile + first_row * STRIDE;
    const __local ushort *const w_tile = x_tile + BLOCK_M * STRIDE;
    uint x_words[2][M_FRAGMENTS][QUERY_WORDS], w_words[2][OTHERS_AT_ONCE * OTHER_WORDS];

    UNROLL
    for (int f = 0; f < M_FRAGMENTS; f++)
        load_query(x_words[0][f], x_rows + f * FRAGMENT_QUERIES * STRIDE, STRIDE, lane);
    load_columns(w_words[0], w_tile, first_column, 0, lane);
    UNROLL
    for (int t = 0; t < all; t++) {
        const int step = t / steps, n = t % steps * OTHERS_AT_ONCE, next = t + 1;
        if (next < all)
            load_columns(w_words[next % 2], w_tile,
                         first_column + next % steps * OTHERS_AT_ONCE * FRAGMENT_OTHERS,
                         next / steps * FRAGMENT_DEPTH, lane);
        UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            if (f % steps == t % steps && step + 1 < BLOCK_K / FRAGMENT_DEPTH)
                load_query(x_words[(step + 1) % 2][f],
                           x_rows + f * FRAGMENT_QUERIES * STRIDE + (step + 1) * FRAGMENT_DEPTH,
                           STRIDE, lane);
        UNROLL
        for (int m = 0; m < OTHERS_AT_ONCE; m++)
            UNROLL
        for (int f = 0; f < M_FRAGMENTS; f++)
            multiply_add(sums[f] + (n + m) * FRAGMENT_SUMS, x_words[step % 2][f],
                         w_words[t % 2] + m * OTHER_WORDS, lane, exchange);
    }
}
