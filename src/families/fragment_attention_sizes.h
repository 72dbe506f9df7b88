/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of forward attention by matrix instructions (cl/mma/fragment_attention.h), for kernels and the host.
 *
 * Before including this: SUB_GROUPS_N, the sub-groups that share rows, or 1; KV_PARTS; BLOCK_M, the rows of the work-group. */
#ifndef CLATTN_FRAGMENT_ATTENTION_SIZES_H
#define CLATTN_FRAGMENT_ATTENTION_SIZES_H
#include "families/fragment_sizes.h"

#define PARTS MAX(KV_PARTS, 1)
/* Planes of q, k and v: a float is three parts of bf16 (cl/mma/fragment_planes.h). */
#define PLANES (DTYPE == DTYPE_F32 ? 3 : 1)
/* The steps of the depth whose products with a key have a common factor. */
#define SCALED_DEPTHS (K_CACHE ? 32 / FRAGMENT_DEPTH : 1)
#define PART_DEPTHS (DIVIDE_UP(DIM_QK, PARTS * SCALED_DEPTHS * FRAGMENT_DEPTH) * SCALED_DEPTHS)
#define PART_COLUMNS (PART_DEPTHS * FRAGMENT_DEPTH)
#define COLUMNS (PARTS * PART_COLUMNS)
#define DIMS ROUND_UP(DIM_V, SUB_GROUPS_N *OTHERS_AT_ONCE *FRAGMENT_OTHERS)
#define PART_KEYS (BLOCK_N / PARTS)

/* The tiles in local memory, in elements: a row of each. */
#define SWIZZLED_STRIDE(columns) ROUND_UP(columns, 64)
#define ROW_STRIDE                                                                                 \
    (HAS_TILE_PRODUCTS && !Q_RESIDENT ? SWIZZLED_STRIDE(COLUMNS) : COLUMNS + ROW_PADDING)
#define K_STRIDE (HAS_TILE_PRODUCTS ? SWIZZLED_STRIDE(PART_COLUMNS) : PART_COLUMNS + ROW_PADDING)
#define V_STRIDE                                                                                   \
    (HAS_TILE_PRODUCTS ? SWIZZLED_STRIDE(DIMS) : DIMS + (PACKED_VALUES ? 0 : ROW_PADDING))
#define P_STRIDE (BLOCK_N + ROW_PADDING)

/* Factors of a tile of quantized keys or values (cl/mma/fragment_tile.h); a plain tile has none. */
#define K_FACTORS (K_CACHE ? PART_COLUMNS / 32 * BLOCK_N : 1)
#define V_FACTORS (V_CACHE ? DIVIDE_UP(DIMS, 32) * PART_KEYS : 1)
/* The addresses of the rows of paged K and V: of this tile and of the next. */
#define PLACES (PAGE_SIZE ? 4 * BLOCK_N : 1)
/* The bytes of quantized keys and values before they are decoded, in pieces of 16. */
#define K_PIECES DIVIDE_UP(BLOCK_N *K_ROW_BYTES, 16)
#define V_PIECES DIVIDE_UP(BLOCK_N *V_ROW_BYTES, 16)

/* The 16-bit parts that a weight is rounded to. */
#define WEIGHT_PARTS (DTYPE == DTYPE_F32 ? 3 : !HAS_STRICT ? 1 : DTYPE == DTYPE_F16 ? 2 : 3)

#define BESIDE_BYTES                                                                               \
    ((K_FACTORS + V_FACTORS) * FLOAT_BYTES + (BYTES ? (K_PIECES + V_PIECES) * 16 : 0) +            \
     PLACES * LONG_BYTES + (EMULATE ? SUB_GROUPS * EXCHANGE_WORDS * FLOAT_BYTES : 0))

#endif
