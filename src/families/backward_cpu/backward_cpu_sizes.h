/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of backward_cpu's arrays, for the kernels and, with the names of families/names.h, for the host. */
#include "families/operand_sizes.h"

#define BLOCK_N (SIMD_WIDTH * BLOCK_VECTORS)
/* Elements of a row in private memory and in the workspace. */
#define ROW_OF(dim) (OPERAND_TILES ? ROUND_UP(dim, 32) : ROUNDED(dim))
#define ROW_QK ROW_OF(DIM_QK)
#define ROW_V ROW_OF(DIM_V)
/* Each head's sums of dq end with unused rows, since register tiles of DQ_ROWS rows are read and
 * written. AMX tiles need none, since they are added up elsewhere first. */
#define ROWS_AFTER (OPERAND_TILES ? 0 : DQ_ROWS)

/* The number of vectors of a block of keys: packed keys, or values; their gradients; keys in rows.
 * */
#define BLOCK_OPERANDS(row) (OPERANDS(row) * BLOCK_VECTORS)
#define BLOCK_SUMS(row) ((row)*BLOCK_VECTORS)
#define BLOCK_ROWS (OPERANDS(BLOCK_N) * ROW_QK / SIMD_WIDTH)
#define KEY_BLOCK_VECTORS                                                                          \
    (BLOCK_OPERANDS(ROW_QK) + BLOCK_OPERANDS(ROW_V) + BLOCK_SUMS(ROW_QK) + BLOCK_SUMS(ROW_V) +     \
     BLOCK_ROWS)

/* The number of vectors of a tile of queries: rows as operands; P, or dS. With pairs these are in
 * pairs of rows, and dS also in pairs of keys; with AMX tiles there are sums of dq over a chunk's
 * blocks. */
#define TILE_OPERANDS(row) (BLOCK_M * OPERANDS(row) / SIMD_WIDTH)
#define TILE_PAIRS(row) (BLOCK_M / 2 * (row) / SIMD_WIDTH)
#define TILE_WEIGHTS (BLOCK_M * BLOCK_VECTORS)
#define TILE_PAIR_KEYS (BLOCK_M * OPERANDS(BLOCK_N) / SIMD_WIDTH)
#define TILE_SUMS (BLOCK_M * ROW_QK / SIMD_WIDTH)
#define QUERY_TILE_VECTORS                                                                         \
    (TILE_OPERANDS(ROW_QK) + TILE_OPERANDS(ROW_V) + 2 * TILE_WEIGHTS +                             \
     (OPERAND_PAIRS ? TILE_PAIRS(ROW_QK) + TILE_PAIRS(ROW_V) + TILE_PAIR_KEYS : 0) +               \
     (OPERAND_TILES ? TILE_SUMS : 0))

/* The vectors above, and three statistics of each query. */
#define PRIVATE_BYTES                                                                              \
    ((BLOCKS_PER_TILE * KEY_BLOCK_VECTORS + QUERY_TILE_VECTORS) * SIMD_WIDTH * FLOAT_BYTES +       \
     3 * BLOCK_M * FLOAT_BYTES)
