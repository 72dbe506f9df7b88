/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of projection_gpu_mma.cl's and projection_gpu_warpgroup.cl's arrays, for the kernels and, with the names of
 * families/names.h and families/fragment_names.h, for the host. */
#include "families/fragment_sizes.h"
#include "families/projection_gpu/projection_gpu_sizes.h"

/* A tile's row or column along the depth, in elements. If w is copied in its own layout, lines may
 * be the columns of a depth. */
#define STRIDE (BLOCK_K + (HAS_TILE_PRODUCTS ? 0 : ROW_PADDING))
#define W_LIES_ACROSS (COPIES && UNIT_W_COLUMN && DTYPE != DTYPE_F32)
#define W_LINES (W_LIES_ACROSS ? BLOCK_K : BLOCK_N)
#define W_STRIDE (W_LIES_ACROSS ? BLOCK_N + ROW_PADDING : STRIDE)
#define W_ELEMENTS (W_LINES * W_STRIDE)
#define STAGE_ELEMENTS (BLOCK_M * STRIDE + W_ELEMENTS)

/* Copies, and tiles that the tensor cores read, need only the offsets of rows and columns. */
#define LOCAL_BYTES                                                                                \
    (STAGES * STAGE_ELEMENTS * ELEMENT_BYTES + (HAS_TILE_PRODUCTS ? SWIZZLE_BYTES : 0) +           \
     (COPIES || HAS_TILE_PRODUCTS ? (BLOCK_M + BLOCK_N) * LONG_BYTES : PLACES_BYTES) +             \
     (DTYPE == DTYPE_F32 ? SPARE_BYTES : 0) +                                                      \
     (EMULATE ? SUB_GROUPS_M * SUB_GROUPS_N * EXCHANGE_WORDS * FLOAT_BYTES : 0))
