/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of indexer_cpu.cl's arrays, for the kernels and, with the names of families/names.h, for the host. */
#include "families/operand_sizes.h"

#define PANEL (SIMD_WIDTH * REGISTER_VECTORS)
#define BLOCK_KEYS (BLOCK_PANELS * PANEL)
#define LANES SIMD_WIDTH
#define GROUP_ROWS QUERIES
#include "families/indexer/indexer_sizes.h"

/* The operands of a packed row of q, or of a packed column of k: whole vectors. A row of q has another vector behind it, so
 * that rows lie in different sets of the cache. */
#define DEPTH ROUND_UP(OPERANDS(DIM_QK), SIMD_WIDTH)
#define Q_ROW (DEPTH + SIMD_WIDTH)
#define PANEL_VECTORS (DEPTH * REGISTER_VECTORS)

/* Tiles have whole rows. */
#define HEAD_ROWS (OPERAND_TILES ? ROUND_UP(HEADS, TILE) : HEADS)
#define SUM_VECTORS ((OPERAND_TILES ? HEAD_ROWS : REGISTER_ROWS) * REGISTER_VECTORS)

#define PRIVATE_BYTES                                                                              \
    ((BLOCK_PANELS * PANEL_VECTORS + SUM_VECTORS) * SIMD_WIDTH * FLOAT_BYTES +                     \
     QUERIES * HEAD_ROWS * (Q_ROW + 1) * FLOAT_BYTES +                                             \
     2 * (BLOCK_KEYS * (LONG_BYTES + INT_BYTES) + LONG_BYTES) +                                    \
     QUERIES * (2 * LONG_BYTES + INT_BYTES))
