/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of backward_gpu_mma.cl's arrays, for the kernels and, with the names of families/names.h and families/fragment_names.h,
 * for the host. */
SIZE(BLOCK_OWNED, SUB_GROUPS *M_FRAGMENTS *FRAGMENT_QUERIES)
/* Two wide sub-groups have the same keys, and pass weights through local memory, which also has the
 * statistics of queries. */
SIZE(OWNED_KEYS, BLOCK_OWNED / (M_FRAGMENTS > 1 ? 2 : 1))
SIZE(WIDE_BYTES,
     (M_FRAGMENTS > 1 ? MAX(OWNED_KEYS * BLOCK_STREAMED * FLOAT_BYTES, BLOCK_OWNED *FLOAT4_BYTES)
                      : 0))

/* For rows of dim elements: a sub-group's tiles of dims, and the dims of all sub-groups together.
 * */
#define DIM_TILES(dim)                                                                             \
    (ROUND_UP(dim, DIM_GROUPS * OTHERS_AT_ONCE * FRAGMENT_OTHERS) / DIM_GROUPS / FRAGMENT_OTHERS)
#define DIMS(dim) (DIM_TILES(dim) * DIM_GROUPS * FRAGMENT_OTHERS)

/* Local memory, counted in elements; each part of a matrix has a tile of its own. Streamed rows are stored row-major
 * for the first product and, with PACKED_VALUES, repacked in the same memory for the second. */
#define COLUMNS(dim) ROUND_UP(dim, FRAGMENT_DEPTH)
#define OWNED_STRIDE(dim) (COLUMNS(dim) + (HAS_TILE_PRODUCTS ? 0 : ROW_PADDING))
#define STREAMED_COLUMNS(dim) (PACKED_VALUES ? COLUMNS(dim) : MAX(COLUMNS(dim), DIMS(dim)))
#define STREAMED_STRIDE(dim) (STREAMED_COLUMNS(dim) + (HAS_TILE_PRODUCTS ? 0 : ROW_PADDING))
#define STREAMED_ELEMENTS(dim)                                                                     \
    (BLOCK_STREAMED * (PACKED_VALUES ? MAX(STREAMED_STRIDE(dim), DIMS(dim)) : STREAMED_STRIDE(dim)))
#define OWNED_ELEMENTS(dim) (BLOCK_OWNED * OWNED_STRIDE(dim))
/* With two STAGES a tile of streamed rows is copied while another is multiplied. */
SIZE(STAGE_ELEMENTS, OPERAND_PARTS *(STREAMED_ELEMENTS(DIM_QK) + STREAMED_ELEMENTS(DIM_V)))
SIZE(LOCAL_ELEMENTS,
     (OPERAND_PARTS * (OWNED_ELEMENTS(DIM_QK) + OWNED_ELEMENTS(DIM_V)) + STAGES * STAGE_ELEMENTS))

/* What dropout keeps: each stage's words of owned rows, or of one stage bytes of four keys. */
SIZE(TILE_KEPT_BYTES,
     (HAS_COPIES ? STAGES * KEPT_ROW_BYTES * BLOCK_OWNED : BLOCK_OWNED * (BLOCK_STREAMED / 4)))

/* The statistics of streamed rows and two flags follow the tiles. */
SIZE(LOCAL_BYTES,
     (LOCAL_ELEMENTS * ELEMENT_BYTES + WIDE_BYTES + (HAS_TILE_PRODUCTS ? SWIZZLE_BYTES : 0) +
      STAGES * BLOCK_STREAMED * FLOAT4_BYTES + 2 * INT_BYTES +
      (PRODUCER ? STAGES * PLACE_BARRIERS * LONG_BYTES : 0) + (HAS_DROPOUT ? TILE_KEPT_BYTES : 0) +
      (EMULATE ? SUB_GROUPS * DIM_GROUPS * EXCHANGE_WORDS * FLOAT_BYTES : 0) + SPARE_BYTES))
