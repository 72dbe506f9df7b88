/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of projection_cpu's arrays, for the kernels and, with the names of families/names.h, for the host.
 *
 * Before including this: REGISTER_ROWS and REGISTER_VECTORS, tunables or not. */
#include "families/operand_sizes.h"

#define PANEL (SIMD_WIDTH * REGISTER_VECTORS)
#define MOST_ROWS ROUND_UP(BLOCK_M, REGISTER_ROWS)
#define MOST_COLUMNS ROUND_UP(BLOCK_N, PANEL)

/* The vectors of packed w, one panel of columns after the other. */
#define PANEL_VECTORS (OPERANDS(BLOCK_K) * REGISTER_VECTORS)
#define PANELS_VECTORS (MOST_COLUMNS / PANEL * PANEL_VECTORS)
/* Two offsets for each of the block's rows and columns, a bias for each column, and offsets of a
 * part of the depth in x and w. */
#define PLACES_BYTES                                                                               \
    (2 * (MOST_ROWS + MOST_COLUMNS + BLOCK_K) * LONG_BYTES + MOST_COLUMNS * FLOAT_BYTES)

/* UNIT=amx: sums of SUMS_M rows, and a strip of x. */
#define TILE_SUM_VECTORS (SUMS_M * MOST_COLUMNS / SIMD_WIDTH)
#define TILE_STRIP_ROW (STRIP_K / 2)
#define TILE_STRIP (REGISTER_ROWS * TILE_STRIP_ROW)

/* UNIT=vector and pairs: sums, of the whole block if they wait for the next part of the depth; SLAB
 * packed strips of x. The size is not a power of two, so that rows lie in different sets of the
 * cache. */
#define KEEP_SUMS (SPLIT_K == 1 && DTYPE != DTYPE_F32)
#define SUM_VECTORS ((KEEP_SUMS ? MOST_ROWS * MOST_COLUMNS : REGISTER_ROWS * PANEL) / SIMD_WIDTH)
#define SLAB 8
#define STRIP (REGISTER_ROWS * (OPERANDS(BLOCK_K) + SIMD_WIDTH) + SIMD_WIDTH)

#define PRIVATE_BYTES                                                                              \
    (((PANELS_VECTORS + SUM_VECTORS) * SIMD_WIDTH + SLAB * STRIP) * FLOAT_BYTES + PLACES_BYTES)
#define TILE_PRIVATE_BYTES                                                                         \
    (((PANELS_VECTORS + TILE_SUM_VECTORS) * SIMD_WIDTH + TILE_STRIP) * FLOAT_BYTES + PLACES_BYTES)
