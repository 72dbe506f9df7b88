/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of fused_gpu_mma.cl's arrays, for the kernel and, with the names of families/names.h and families/fragment_names.h, for the
 * host. */
#define SUB_GROUPS_N 1
#define KV_PARTS 0
#define BLOCK_M (SUB_GROUPS * M_FRAGMENTS * FRAGMENT_QUERIES)
#include "families/fragment_attention_sizes.h"

/* Local memory, counted in elements. If Q stays in registers, it is loaded through the buffers of K
 * and V, a warpgroup's rows at a time. */
#define STAGED_ROWS (HAS_TILE_PRODUCTS && Q_RESIDENT && !PRODUCER ? 4 * FRAGMENT_QUERIES : BLOCK_M)
#define K_AT (Q_RESIDENT ? 0 : PLANES * BLOCK_M * ROW_STRIDE)
#define V_AT (K_AT + PLANES * BLOCK_N * K_STRIDE)
#define STAGE_ELEMENTS (PLANES * BLOCK_N * (K_STRIDE + V_STRIDE))
/* A producer of planes has buffers for one plane each, of K or V. */
#define STREAMS_PLANES (PLANES > 1 && HAS_TILE_PRODUCTS)
#define PLANE_PLACES (STAGES * PLANES)
#define PLACE_ELEMENTS (BLOCK_N * MAX(K_STRIDE, V_STRIDE))
#define STREAMED_ELEMENTS (STREAMS_PLANES ? PLANE_PLACES * PLACE_ELEMENTS : STAGES * STAGE_ELEMENTS)
#define LOCAL_ELEMENTS MAX(K_AT + STREAMED_ELEMENTS, PLANES * STAGED_ROWS * ROW_STRIDE)

/* Dropout's bits: a producer draws them ahead, as words of lanes (cl/mma/fragment_dropout.h). */
#define TILE_KEPT_BYTES                                                                            \
    (PRODUCER ? STAGES * DRAWERS * KEPT_ROW_BYTES * BLOCK_M : KEPT_BYTES(BLOCK_M, BLOCK_N))

/* Two flags, and one flag for each row, follow the tiles. */
#define LOCAL_BYTES                                                                                \
    (LOCAL_ELEMENTS * ELEMENT_BYTES + (HAS_TILE_PRODUCTS ? SWIZZLE_BYTES : 0) + BESIDE_BYTES +     \
     (BLOCK_M + 2) * INT_BYTES + (PRODUCER ? PLANES * STAGES * PLACE_BARRIERS * LONG_BYTES : 0) +  \
     (HAS_DROPOUT ? TILE_KEPT_BYTES : 0) + SPARE_BYTES)
