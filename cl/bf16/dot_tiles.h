/* SPDX-License-Identifier: Apache-2.0 */
/* Products of tiles of pairs (bf16/pair_tiles.h) by the instruction for pairs (bf16/pairs.h): each
 * word of a is broadcast and multiplied with a few vectors of b; sums stay in registers over the
 * whole depth. */
#pragma once
#include "cpu/operands.h"
#include "bf16/pair_tiles.h"

#if SIMD_WIDTH != 16
#error "a row of a tile is a vector of 16"
#endif

/* c = (zero ? 0 : c) + a b over `depth` words, for this many rows and vectors of columns. The sums
 * and vectors of b fit in registers, and there are enough sums to hide the latency of one. Rows of
 * a are
 * a_row words apart, those of b and c b_row and c_row vectors. The sizes must be constants when
 * loops are unrolled: sums would be in memory otherwise. */
#define DEFINE_REGISTER_TILE(rows, vectors)                                                        \
    INLINE void multiply_##rows##_rows(const bool zero, const int depth, const uint *a,            \
                                       const long a_row, const lanes *b, const long b_row,         \
                                       lanes *c, const long c_row)                                 \
    {                                                                                              \
        lanes sum[rows][vectors];                                                                  \
                                                                                                   \
        UNROLL                                                                                     \
        for (int n = 0; n < rows * vectors; n++)                                                   \
            sum[n / vectors][n % vectors] =                                                        \
                zero ? (lanes)(0.0f) : c[n / vectors * c_row + n % vectors];                       \
        for (int k = 0; k < depth; k++) {                                                          \
            UNROLL                                                                                 \
            for (int r = 0; r < rows; r++) {                                                       \
                const spread x = SPREAD(a + r * a_row + k);                                        \
                UNROLL                                                                             \
                for (int v = 0; v < vectors; v++)                                                  \
                    sum[r][v] = MULTIPLY(x, b[k * b_row + v], sum[r][v]);                          \
            }                                                                                      \
        }                                                                                          \
        UNROLL                                                                                     \
        for (int n = 0; n < rows * vectors; n++)                                                   \
            c[n / vectors * c_row + n % vectors] = sum[n / vectors][n % vectors];                  \
    }
DEFINE_REGISTER_TILE(4, 4)
DEFINE_REGISTER_TILE(8, 2)
DEFINE_REGISTER_TILE(16, 1)

/* Does so for `rows` tiles of rows and `columns` vectors of columns (constants), over `steps` tiles
 * of the depth. Steps between rows are in bytes. */
INLINE void multiply_dot_tiles(const int rows, const int columns, const bool zero, const int steps,
                               const uint *a, const long a_row, const lanes *b, const long b_row,
                               lanes *c, const long c_row)
{
    const long a_words = a_row / (long)sizeof(uint), b_lanes = b_row / (long)sizeof(lanes);
    const long c_lanes = c_row / (long)sizeof(lanes);
    int v = 0;

#define MULTIPLY_COLUMNS(tile_rows, vectors)                                                       \
    for (; v + vectors <= columns; v += vectors) {                                                 \
        NO_UNROLL                                                                                  \
        for (int r = 0; r < rows * TILE; r += tile_rows)                                           \
            multiply_##tile_rows##_rows(zero, steps *TILE, a + r * a_words, a_words, b + v,        \
                                        b_lanes, c + r * c_lanes + v, c_lanes);                    \
    }
    MULTIPLY_COLUMNS(4, 4)
    MULTIPLY_COLUMNS(8, 2)
    MULTIPLY_COLUMNS(16, 1)
#undef MULTIPLY_COLUMNS
}
