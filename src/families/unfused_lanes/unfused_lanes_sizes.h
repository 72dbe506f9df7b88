/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of unfused_lanes' arrays, for the kernels and, with the names of families/names.h, for the host. */
#include "families/operand_sizes.h"

#define PANEL (SIMD_WIDTH * REGISTER_VECTORS)
#define K_PANELS DIVIDE_UP(BLOCK_N, PANEL)
#define V_VECTORS VECTORS(DIM_V)
#define V_PANELS DIVIDE_UP(V_VECTORS, REGISTER_VECTORS)
#define STRIPS DIVIDE_UP(BLOCK_M, REGISTER_ROWS)
#define STRIP_ROW (MAX(DIM_QK, BLOCK_N) + 2 * SIMD_WIDTH)

/* The vectors of packed keys, or of packed values and the sums of all strips. */
#define K_PANEL_VECTORS (K_PANELS * DIM_QK * REGISTER_VECTORS)
#define V_PANEL_VECTORS (V_PANELS * BLOCK_N * REGISTER_VECTORS)
#define STRIP_SUMS (V_PANELS * REGISTER_ROWS * REGISTER_VECTORS)
#define SUM_VECTORS (STRIPS * STRIP_SUMS)
/* The floats of a strip of queries or weights that must be packed. */
#define STRIP_FLOATS (REGISTER_ROWS * STRIP_ROW)

#define PRIVATE_BYTES                                                                              \
    (MAX(K_PANEL_VECTORS, V_PANEL_VECTORS + SUM_VECTORS) * SIMD_WIDTH * FLOAT_BYTES +              \
     STRIP_FLOATS * FLOAT_BYTES)
