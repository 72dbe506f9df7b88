/* SPDX-License-Identifier: Apache-2.0 */
/* The five products of backward_cpu with UNIT=vector and UNIT=pairs between a tile of queries and a
 * block of keys, register-blocked (UNIT=amx: bf16/backward_products.h). SIMD lanes are keys, but
 * columns in dq.
 *
 * Broadcast operands (cpu/operands.h) are floats or pairs: pairs of neighbouring dims in Q K^T and
 * dO V^T, of rows in dk and dv, of keys in dq. Products of pairs are scaled at their end; products
 * of floats use keys that are scaled already.
 *
 * A tile has BLOCK_M rows, `row` operands apart; a block BLOCK_N keys in BLOCK_VECTORS vectors.
 * Register tiles: QK_ROWS * BLOCK_VECTORS of Q K^T and dO V^T, DKV_COLUMNS * BLOCK_VECTORS of dk
 * and dv, DQ_ROWS * DQ_VECTORS of dq. Loops over columns, rows or keys take two steps at a time:
 * PoCL's LLVM unrolls none.
 *
 * Tunables   BLOCK_VECTORS, QK_ROWS, DKV_COLUMNS, DQ_ROWS, DQ_VECTORS. A row of k has ROW_QK floats. */
#pragma once
#include "cpu/operands.h"
#include "score/key_lanes.h"

#define VECTORS_QK (ROW_QK / SIMD_WIDTH)
/* The number of rows that a step of dk and dv sums over. */
#define ROWS_OF_STEP (OPERAND_TILES ? 32 : VALUES_IN_OPERAND)
#define DQ_ROW OPERANDS(BLOCK_N)                    /* the operands of keys in a row of dS */
#define KEYS_APART (OPERAND_TILES ? SIMD_WIDTH : 1) /* the distance of a pair's two keys, in keys */
/* The bits of -0, the weight of a masked pair; a NaN may have the sign bit, too. */
#define HIDDEN_BITS INT_MIN

/* The operation on a finished sum of products that is still in an accumulator. */
enum { PRODUCTS, EXPONENTIALS, MULTIPLES };
/* Is 1 if the start of a sum is added at its end. Products of pairs are scaled first; starting from
 * a large -lse would round a score at that size in each step. */
#define STARTS_LAST(become) (OPERAND_PAIRS || (become) == EXPONENTIALS)

/* What is added to the sum of vector m of a row: its start and, with ADDS_DISTANCES, what a function of the distance gives. */
INLINE lanes first_of_sum(const int become, const float start, const float *by_distance,
                          const int m)
{
    return ADDS_DISTANCES && become == EXPONENTIALS ? VECTOR(vload)(m, by_distance) + start
                                                    : (lanes)(start);
}

/* Products by AMX tiles, or by multiply-adds of vectors. */
#if OPERAND_TILES
#include "bf16/backward_products.h"
#define MULTIPLY_ROWS multiply_rows_by_tiles
#define ADD_ROWS add_rows_by_tiles
#else
#define MULTIPLY_ROWS multiply_rows
#define ADD_ROWS add_rows
/* One step of multiply_rows() along the depth. */
INLINE void add_products_of_depth(const operand *x, const int row, const lanes *column,
                                  lanes sum[QK_ROWS][BLOCK_VECTORS])
{
    lanes y[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        y[m] = column[m];
    UNROLL
    for (int n = 0; n < QK_ROWS; n++) {
        const spread z = SPREAD(x + n * row);
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            sum[n][m] = MULTIPLY(y[m], z, sum[n][m]);
    }
}

/* products[n] = start[n] + rows[n] . columns (times scale), for rows begin .. end - 1 and the rest
 * of their register tiles. With `become` (constant) the result is its exponential, or is multiplied
 * by factors[n]. With ADDS_DISTANCES an exponential is of the sum with the floats from by_distance - n on. */
INLINE void multiply_rows(const int become, const float scale, const int depth, const operand *rows,
                          const int row, const lanes *columns, const float *start, const int begin,
                          const int end, const float *by_distance, const lanes *factors,
                          lanes *products)
{
    for (int n0 = begin - begin % QK_ROWS; n0 < end; n0 += QK_ROWS) {
        const operand *x = rows + n0 * row;
        lanes *to = products + n0 * BLOCK_VECTORS;
        lanes sum[QK_ROWS][BLOCK_VECTORS];
        UNROLL
        for (int n = 0; n < QK_ROWS; n++) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                sum[n][m] = STARTS_LAST(become) ? 0.0f : start[n0 + n];
        }
        for (int d = 0; d + 2 <= depth; d += 2) {
            add_products_of_depth(x + d, row, columns + d * BLOCK_VECTORS, sum);
            add_products_of_depth(x + d + 1, row, columns + (d + 1) * BLOCK_VECTORS, sum);
        }
        if (depth % 2)
            add_products_of_depth(x + depth - 1, row, columns + (depth - 1) * BLOCK_VECTORS, sum);
        UNROLL
        for (int n = 0; n < QK_ROWS; n++) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++) {
                const int at = n * BLOCK_VECTORS + m;
                const lanes first = first_of_sum(become, start[n0 + n], by_distance - n0 - n, m);
                if (OPERAND_PAIRS)
                    sum[n][m] = FMA(sum[n][m], (lanes)(scale), first);
                else if (STARTS_LAST(become))
                    sum[n][m] += first;
                to[at] = become == EXPONENTIALS ? exponential(sum[n][m])
                         : become == MULTIPLES  ? sum[n][m] * factors[n0 * BLOCK_VECTORS + at]
                                                : sum[n][m];
            }
        }
    }
}

/* One step of add_operand_columns() along the rows. */
INLINE void add_operand_row(const int columns, const lanes *w, const operand *row,
                            lanes sum[DKV_COLUMNS][BLOCK_VECTORS])
{
    lanes x[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        x[m] = w[m];
    UNROLL
    for (int c = 0; c < DKV_COLUMNS; c++) {
        if (c < columns) {
            const spread y = SPREAD(row + c);
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                sum[c][m] = MULTIPLY(x[m], y, sum[c][m]);
        }
    }
}

/* sums[d] += sum_n w[n] rows[n][d] for `columns` (constant, at most DKV_COLUMNS) columns d. */
INLINE void add_operand_columns(const int columns, const lanes *w, const operand *rows,
                                const int row, const int count, lanes *sums)
{
    lanes sum[DKV_COLUMNS][BLOCK_VECTORS];

    UNROLL
    for (int c = 0; c < DKV_COLUMNS; c++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            sum[c][m] = c < columns ? sums[c * BLOCK_VECTORS + m] : (lanes)(0.0f);
    }
    for (int n = 0; n + 2 <= count; n += 2) {
        add_operand_row(columns, w + n * BLOCK_VECTORS, rows + n * row, sum);
        add_operand_row(columns, w + (n + 1) * BLOCK_VECTORS, rows + (n + 1) * row, sum);
    }
    if (count % 2)
        add_operand_row(columns, w + (count - 1) * BLOCK_VECTORS, rows + (count - 1) * row, sum);
    UNROLL
    for (int c = 0; c < DKV_COLUMNS; c++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            if (c < columns)
                sums[c * BLOCK_VECTORS + m] = sum[c][m];
    }
}

/* sums[d] += sum_n w[n] rows[n][d] for all `dim` columns, over rows of operands begin .. end - 1: dV += P^T dO
 * and dK += dS^T Q. */
INLINE void add_rows(const int dim, const lanes *w, const operand *rows, const int row,
                     const int begin, const int end, lanes *sums)
{
    w += begin * BLOCK_VECTORS;
    rows += begin * row;
    for (int d = 0; d + DKV_COLUMNS <= dim; d += DKV_COLUMNS)
        add_operand_columns(DKV_COLUMNS, w, rows + d, row, end - begin, sums + d * BLOCK_VECTORS);
    if (dim % DKV_COLUMNS)
        add_operand_columns(dim % DKV_COLUMNS, w, rows + dim / DKV_COLUMNS * DKV_COLUMNS, row,
                            end - begin, sums + dim / DKV_COLUMNS * DKV_COLUMNS * BLOCK_VECTORS);
}

/* One step of add_query_columns() along the keys. */
INLINE void add_query_key(const int vectors, const operand *w, const lanes *k,
                          lanes sum[DQ_ROWS][DQ_VECTORS])
{
    lanes y[DQ_VECTORS];

    UNROLL
    for (int c = 0; c < DQ_VECTORS; c++)
        y[c] = c < vectors ? k[c] : (lanes)(0.0f);
    UNROLL
    for (int n = 0; n < DQ_ROWS; n++) {
        const spread z = SPREAD(w + n * DQ_ROW);
        UNROLL
        for (int c = 0; c < DQ_VECTORS; c++)
            if (c < vectors)
                sum[n][c] = MULTIPLY(y[c], z, sum[n][c]);
    }
}

/* to[n][..] += sum_j w[n][j] k[j][..] over `keys` keys, for DQ_ROWS rows and `vectors` (constant,
 * at most DQ_VECTORS) vectors of columns. */
INLINE void add_query_columns(const int vectors, const operand *w, const lanes *k, const int keys,
                              __global float *to)
{
    lanes sum[DQ_ROWS][DQ_VECTORS];

    UNROLL
    for (int n = 0; n < DQ_ROWS; n++) {
        UNROLL
        for (int c = 0; c < DQ_VECTORS; c++)
            sum[n][c] = c < vectors ? VECTOR(vload)(n * VECTORS_QK + c, to) : (lanes)(0.0f);
    }
    for (int j = 0; j + 2 <= keys; j += 2) {
        add_query_key(vectors, w + j, k + j * VECTORS_QK, sum);
        add_query_key(vectors, w + j + 1, k + (j + 1) * VECTORS_QK, sum);
    }
    if (keys % 2)
        add_query_key(vectors, w + keys - 1, k + (keys - 1) * VECTORS_QK, sum);
    UNROLL
    for (int n = 0; n < DQ_ROWS; n++) {
        UNROLL
        for (int c = 0; c < DQ_VECTORS; c++)
            if (c < vectors)
                VECTOR(vstore)(sum[n][c], n * VECTORS_QK + c, to);
    }
}

/* Adds dS K to dQ for all columns and rows begin .. end - 1. Other rows in the same register tiles
 * change too, by their weights in w. */
NOINLINE void add_query_gradients(const operand *w, const lanes *k, const int keys, const int begin,
                                  const int end, __global float *to)
{
    const int rest = VECTORS_QK / DQ_VECTORS * DQ_VECTORS, steps = OPERANDS(keys);

    for (int n = begin - begin % DQ_ROWS; n < end; n += DQ_ROWS) {
        for (int c = 0; c < rest; c += DQ_VECTORS)
            add_query_columns(DQ_VECTORS, w + n * DQ_ROW, k + c, steps,
                              to + n * ROW_QK + c * SIMD_WIDTH);
        if (VECTORS_QK % DQ_VECTORS)
            add_query_columns(VECTORS_QK % DQ_VECTORS, w + n * DQ_ROW, k + rest, steps,
                              to + n * ROW_QK + rest * SIMD_WIDTH);
    }
}
#endif

/* Returns value n of operands that are `step` apart; each holds values n and n + apart. */
INLINE float value_along(const operand *p, const int step, const int apart, const int n)
{
    const int together = VALUES_IN_OPERAND * apart;
    const operand values = p[(n / together * apart + n % apart) * step];

    return n / apart % VALUES_IN_OPERAND ? second_value(values) : first_value(values);
}

/* Like add_rows(), but leaves out pairs that p masks by a weight of -0; rows are those of q or do.
 * */
NOINLINE void add_visible_rows(const int dim, const lanes *p, const lanes *w, const operand *rows,
                               const int row, const int begin, const int end, lanes *sums)
{
    for (int d = 0; d < dim; d++) {
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes sum = sums[d * BLOCK_VECTORS + m];
            for (int n = begin; n < end; n++) {
                const lanes y = value_along(rows + n * row, 1, 1, d);
                const ints hidden = VECTOR(as_int)(p[n * BLOCK_VECTORS + m]) == HIDDEN_BITS;
                sum = hidden ? sum : FMA(w[n * BLOCK_VECTORS + m], y, sum);
            }
            sums[d * BLOCK_VECTORS + m] = sum;
        }
    }
}

/* Like add_query_gradients(), but leaves out pairs that p masks, and changes no other row. */
NOINLINE void add_visible_query_gradients(const float *p, const float *w, const operand *k,
                                          const int keys, const int begin, const int end,
                                          __global float *to)
{
    for (int n = begin; n < end; n++) {
        for (int j = 0; j < keys; j++) {
            if (as_int(p[n * BLOCK_N + j]) == HIDDEN_BITS)
                continue;
            for (int d = 0; d < DIM_QK; d++)
                to[n * ROW_QK + d] =
                    FMA(w[n * BLOCK_N + j], value_along(k + d, ROW_QK, KEYS_APART, j),
                        to[n * ROW_QK + d]);
        }
    }
}
