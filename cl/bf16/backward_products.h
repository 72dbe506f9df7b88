/* SPDX-License-Identifier: Apache-2.0 */
/* The products of backward_cpu UNIT=amx between a tile of queries and a block of keys, by tiles of
 * a matrix unit (bf16/tiles.h). One operand is pairs along the depth, the other vectors of pairs:
 *
 *   Q K^T, dO V^T   pairs of the dim; queries by keys
 *   dV, dK          pairs of queries: dO and Q transposed, P and dS; columns by keys
 *   dQ              pairs of keys, of two vectors; queries by columns
 *
 * A step of the depth is 16 pairs. Rows that fill up the last step are 0 in P and dS; dims and keys
 * that do so are 0 in both operands.
 *
 * Included by cpu/backward_products.h, which declares what these functions do. */
#pragma once

#define BLOCK_ROW_BYTES ROW_BYTES_OF(BLOCK_N)

/* Computes c = a b, where b is the block of keys, with keys as columns. */
NOINLINE void multiply_by_keys(const int rows, const int steps, const operand *a, const int a_row,
                               const lanes *b, lanes *c)
{
    multiply_all_tiles(rows, BLOCK_VECTORS, true, steps, a, ROW_BYTES_OF(a_row), b, BLOCK_ROW_BYTES,
                       c, BLOCK_ROW_BYTES);
}

INLINE void multiply_rows_by_tiles(const int become, const float scale, const int depth,
                                   const operand *rows, const int row, const lanes *columns,
                                   const float *start, const int begin, const int end,
                                   const float *by_distance, const lanes *factors, lanes *products)
{
    const int first = begin - begin % TILE;

    multiply_by_keys(TILES(end - first), TILES(depth), rows + first * row, row, columns,
                     products + first * BLOCK_VECTORS);
    for (int n = begin; n < end; n++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            const int at = n * BLOCK_VECTORS + m;
            const lanes x = fma(products[at], (lanes)(scale),
                                first_of_sum(become, start[n], by_distance - n, m));
            products[at] = become == EXPONENTIALS ? exponential(x)
                           : become == MULTIPLES  ? x * factors[at]
                                                  : x;
        }
    }
}

/* sums[d] += sum_n w[n] columns[d][n] for all `dim` columns, over pairs of rows begin .. end - 1 and those that
 * share a step with them. */
NOINLINE void add_rows_by_tiles(const int dim, const lanes *w, const operand *columns,
                                const int row, const int begin, const int end, lanes *sums)
{
    const int first = begin - begin % TILE;

    multiply_all_tiles(TILES(dim), BLOCK_VECTORS, false, TILES(end - first), columns + first,
                       ROW_BYTES_OF(row), w + first * BLOCK_VECTORS, BLOCK_ROW_BYTES, sums,
                       BLOCK_ROW_BYTES);
}

/* dQ += dS K for rows begin .. end - 1 and those that share a tile with them. */
NOINLINE void add_query_gradients_by_tiles(const operand *w, const lanes *k, const int keys,
                                           const int begin, const int end, lanes *to)
{
    const int first = begin - begin % TILE;

    multiply_all_tiles(TILES(end - first), VECTORS_QK, false, TILES(OPERANDS(keys)),
                       w + first * DQ_ROW, ROW_BYTES_OF(DQ_ROW), k, ROW_BYTES_OF(ROW_QK),
                       to + first * VECTORS_QK, ROW_BYTES_OF(ROW_QK));
}
