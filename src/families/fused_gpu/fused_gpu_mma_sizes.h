/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of fused_gpu_mma.cl's arrays, for the kernel and, with the names of families/names.h and families/fragment_names.h, for
 * the host. */
#define SUB_GROUPS_N 1
#define KV_PARTS 0
SIZE(BLOCK_M, (SUB_GROUPS * M_FRAGMENTS * FRAGMENT_QUERIES))
#include "families/fragment_attention_sizes.h"

/* Local memory, counted in elements. If Q stays in registers, it is loaded through the place of
 * K and V, a warpgroup's rows at a time. */
SIZE(STAGED_ROWS, (HAS_TILE_PRODUCTS && Q_RESIDENT && !PRODUCER ? 4 * FRAGMENT_QUERIES : BLOCK_M))
SIZE(K_AT, (Q_RESIDENT ? 0 : OPERAND_PARTS * BLOCK_M * ROW_STRIDE))
SIZE(V_AT, (K_AT + OPERAND_PARTS * BLOCK_N * K_STRIDE))
SIZE(STAGE_ELEMENTS, (OPERAND_PARTS * BLOCK_N * (K_STRIDE + V_STRIDE)))
/* A producer of planes has places for one plane each, of K or V. */
SIZE(STREAMS_PLANES, (OPERAND_PARTS > 1 && HAS_TILE_PRODUCTS))
SIZE(PLANE_PLACES, (STAGES * OPERAND_PARTS))
SIZE(PLACE_ELEMENTS, (BLOCK_N * MAX(K_STRIDE, V_STRIDE)))
SIZE(STREAMED_ELEMENTS, (STREAMS_PLANES ? PLANE_PLACES * PLACE_ELEMENTS : STAGES * STAGE_ELEMENTS))
SIZE(LOCAL_ELEMENTS, (MAX(K_AT + STREAMED_ELEMENTS, OPERAND_PARTS *STAGED_ROWS *ROW_STRIDE)))

/* The scales of rows of bytes, and their products with the mean of keys (cl/gpu/byte_rows.h). */
SIZE(Q_FACTORS, (HAS_INT8 ? 2 * BLOCK_M : 0))

/* Dropout's bits: a producer draws them ahead, as words of lanes (cl/mma/fragment_dropout.h). */
SIZE(TILE_KEPT_BYTES,
     (PRODUCER ? STAGES * DRAWERS * KEPT_ROW_BYTES * BLOCK_M : BLOCK_M * (BLOCK_N / 4)))

/* Beside the tiles are two flags, and one flag for each row. */
SIZE(LOCAL_BYTES, (LOCAL_ELEMENTS * ELEMENT_BYTES + (HAS_TILE_PRODUCTS ? SWIZZLE_BYTES : 0) +
                   BESIDE_BYTES + Q_FACTORS * FLOAT_BYTES + (BLOCK_M + 2) * INT_BYTES +
                   (PRODUCER ? OPERAND_PARTS * STAGES * PLACE_BARRIERS * LONG_BYTES : 0) +
                   (HAS_DROPOUT ? TILE_KEPT_BYTES : 0) + SPARE_BYTES))
