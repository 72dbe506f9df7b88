/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of forward attention by matrix instructions (cl/mma/fragment_attention.h), of the lists of sizes in
 * fused_gpu_mma_sizes.h and split_gpu_mma_sizes.h. These have SUB_GROUPS_N, the sub-groups that share rows, KV_PARTS and
 * BLOCK_M. */

/* Keys are staged as codes of their format, unless q and k become bytes (byte_row_sizes.h). */
#define STAGES_CODES (K_CACHE && !HAS_INT8)

SIZE(PARTS, MAX(KV_PARTS, 1))
/* The elements of 16 bits of a staged row of q and k; two bytes of a line (families/byte_row_sizes.h) are one. */
SIZE(QK_ELEMENTS, (HAS_INT8 ? ROUND_UP(DIM_QK, 16) / 2 : DIM_QK))
/* Steps of the depth with a common factor of their products with a key. */
SIZE(SCALED_DEPTHS, STAGES_CODES ? 32 / FRAGMENT_DEPTH : 1)
SIZE(PART_DEPTHS, (DIVIDE_UP(QK_ELEMENTS, PARTS *SCALED_DEPTHS *FRAGMENT_DEPTH) * SCALED_DEPTHS))
SIZE(PART_COLUMNS, (PART_DEPTHS * FRAGMENT_DEPTH))
SIZE(COLUMNS, (PARTS * PART_COLUMNS))
SIZE(DIMS, (ROUND_UP(DIM_V, SUB_GROUPS_N *OTHERS_AT_ONCE *FRAGMENT_OTHERS)))
SIZE(PART_KEYS, BLOCK_N / PARTS)

/* Tiles in local memory, in elements: a row of each. */
SIZE(ROW_STRIDE, (HAS_TILE_PRODUCTS && !Q_RESIDENT ? ROUND_UP(COLUMNS, 64) : COLUMNS + ROW_PADDING))
SIZE(K_STRIDE, HAS_TILE_PRODUCTS ? ROUND_UP(PART_COLUMNS, 64) : PART_COLUMNS + ROW_PADDING)
SIZE(V_STRIDE, HAS_TILE_PRODUCTS ? ROUND_UP(DIMS, 64) : DIMS + (PACKED_VALUES ? 0 : ROW_PADDING))
SIZE(P_STRIDE, BLOCK_N + ROW_PADDING)

/* Factors of a tile of quantized keys or values (cl/mma/fragment_tile.h); a plain tile has none. Rows of bytes have a scale
 * each, for two tiles. */
SIZE(K_FACTORS, (HAS_INT8 ? 2 * BLOCK_N : STAGES_CODES ? PART_COLUMNS / 32 * BLOCK_N : 1))
SIZE(V_FACTORS, (V_CACHE ? DIVIDE_UP(DIMS, 32) * PART_KEYS : 1))
/* Places of the rows of paged K and V: of this tile and of the next. */
SIZE(PLACES, (PAGE_SIZE ? 4 * BLOCK_N : 1))
/* Quantized keys and values as they arrive, in pieces of 16 bytes. */
SIZE(K_PIECES, (DIVIDE_UP(BLOCK_N * K_ROW_BYTES, 16)))
SIZE(V_PIECES, (DIVIDE_UP(BLOCK_N * V_ROW_BYTES, 16)))

/* Parts of 16 bits that a weight is rounded to. */
SIZE(WEIGHT_PARTS, DTYPE == DTYPE_F32 ? 3 : !HAS_STRICT ? 1 : DTYPE == DTYPE_F16 ? 2 : 3)

SIZE(BESIDE_BYTES,
     ((K_FACTORS + V_FACTORS) * FLOAT_BYTES + (BYTES ? (K_PIECES + V_PIECES) * 16 : 0) +
      PLACES * LONG_BYTES + (EMULATE ? SUB_GROUPS * EXCHANGE_WORDS * FLOAT_BYTES : 0)))
