/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of fused_cpu's arrays, for the kernel and, with the names of families/names.h, for the host. Both include
 * families/operand_sizes.h and families/key_mean_sizes.h before. */
#include "families/part_sizes.h"

SIZE(BLOCK_M, (BLOCK_VECTORS * SIMD_WIDTH))
/* The operands of a key: whole tiles with AMX, part by part; else whole vectors of bytes. Behind bytes are two words
 * (cl/cpu/key_bytes.h), the last of a line of a cache with AMX. */
SIZE(KEY_PART, ROUNDED_TO_TILES(QK_OPERANDS(DIM_QK)))
SIZE(KEY_OPERANDS, (OPERAND_TILES   ? K_PARTS * KEY_PART + (OPERAND_BYTES ? TILE : 0)
                    : OPERAND_BYTES ? MEAN_FLOATS / 4 + 2
                                    : OPERANDS(DIM_QK)))
#define OPERANDS_BEFORE(n) ((n) / VALUES_IN_OPERAND)

/* The vectors of a block: its packed queries, part by part, and outputs; and of a tile: its scores, whose place weights take,
 * and behind them the second parts of weights. */
SIZE(QUERY_OPERANDS, ROUNDED(QK_OPERANDS(DIM_QK)))
SIZE(PACKED_Q, ((OPERAND_BYTES ? QUERY_OPERANDS + 2 : Q_PARTS * QUERY_OPERANDS) * BLOCK_VECTORS))
SIZE(PACKED_O, (ROUNDED(DIM_V) * BLOCK_VECTORS))
SIZE(SECOND_WEIGHTS, (ROUNDED(BLOCK_N) * BLOCK_VECTORS))
SIZE(TILE_SCORES, (SECOND_WEIGHTS + (Q_PARTS - 1) * (SECOND_WEIGHTS / 2)))
/* The operands of a tile: keys and values, if they are copied. */
SIZE(STAGED_K, (BLOCK_N * KEY_OPERANDS))
SIZE(VALUE_PART, (OPERANDS_BEFORE(BLOCK_N) * ROUNDED(DIM_V)))
SIZE(STAGED_V, (V_PARTS * VALUE_PART))
/* With AMX tiles: products before they become scores. */
SIZE(STEP_PRODUCTS, (OPERAND_TILES ? 2 * STEP_KEYS * BLOCK_VECTORS : 0))
/* Before they are rounded to bytes: a vector of queries. */
SIZE(UNROUNDED_Q, (OPERAND_BYTES ? ROUNDED(DIM_QK) : 0))

SIZE(PRIVATE_BYTES, ((BLOCKS_PER_TILE * (PACKED_Q + PACKED_O + 2 * BLOCK_VECTORS) + TILE_SCORES +
                      STEP_PRODUCTS + UNROUNDED_Q) *
                         SIMD_WIDTH * FLOAT_BYTES +
                     (STAGED_K + STAGED_V + (OPERAND_PAIRS ? 2 * BLOCK_N : 0)) * FLOAT_BYTES))
