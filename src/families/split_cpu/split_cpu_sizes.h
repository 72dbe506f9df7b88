/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of split_cpu's arrays, for the kernels and, with the names of families/names.h, for the host. STAGES_K: 1 if keys
 * of a tile may be converted. */

#include "families/part_sizes.h"

/* Whether a block's values are its scale times their numbers alone: sums of products may then be scaled instead. */
#define CA_ONLY_SCALED(format) (CA_SCALE_AT(format) >= 0 && CA_OFFSET_AT(format) == 0)

/* The operands of a part of a key, and of all its parts, where pairs are multiplied: whole tiles. */
SIZE(KEY_PART, ROUNDED_TO_TILES(OPERANDS(DIM_QK)))
SIZE(KEY_OPERANDS, (K_PARTS * KEY_PART))

/* The vectors of a block's state between tiles: queries, outputs, a sum of each row, maxima. */
SIZE(PACKED_Q_VECTORS,
     (OPERAND_PAIRS ? Q_PARTS * KEY_PART * TILES(BLOCK_M) : BLOCK_M * VECTORS(DIM_QK)))
SIZE(O_VECTORS, (BLOCK_M * VECTORS(DIM_V)))
SIZE(ROW_VECTORS, DIVIDE_UP(BLOCK_M, SIMD_WIDTH))
SIZE(STATE_VECTORS, (PACKED_Q_VECTORS + O_VECTORS + BLOCK_M + ROW_VECTORS))

/* Vectors of a tile: scores; weights times the scales of quantized values, for each format block; keys, or their scales and
 * offsets; scales and offsets of values; values of a register tile. */
#define BLOCKS(dim) ((dim) / BLOCK_VALUES) /* the format blocks of a quantized row */
SIZE(SCALES_BLOCKS, (!OPERAND_PAIRS && CA_ONLY_SCALED(V_CACHE)))
SIZE(WEIGHT_BLOCKS, (SCALES_BLOCKS ? BLOCKS(DIM_V) : 1))
SIZE(SCALES_WEIGHTS, (SCALES_BLOCKS || HAS_V_SCALES)) /* instead of values */
SIZE(SCORE_VECTORS, (BLOCK_M * BLOCK_N / SIMD_WIDTH))
SIZE(SCALED_VECTORS, (SCALES_WEIGHTS ? SCORE_VECTORS * WEIGHT_BLOCKS : 1))
/* A scale and an offset of each row and block, as far as the format has them; or a scale of each row. */
#define FACTOR_VECTORS(cache, dim)                                                                 \
    (BLOCK_N / SIMD_WIDTH *                                                                        \
     (CA_SCALE_AT(cache) < 0 ? 1 : BLOCKS(dim) * (CA_OFFSET_AT(cache) ? 2 : 1)))
SIZE(K_SCALES, FACTOR_VECTORS(K_CACHE, DIM_QK))
SIZE(STAGED_K_VECTORS, (OPERAND_PAIRS ? BLOCK_N * TILES(KEY_OPERANDS)
                        : STAGES_K    ? BLOCK_N * VECTORS(DIM_QK)
                        : K_CACHE     ? K_SCALES
                                      : 1))
SIZE(V_SCALE_VECTORS, FACTOR_VECTORS(V_CACHE, DIM_V))
/* Units that multiply pairs keep here the products of a step before they are summed to scores, and
 * weights and values as pairs, part by part. */
SIZE(STEP_PRODUCTS, (STEP_KEYS * TILES(BLOCK_M)))
SIZE(WEIGHT_PART, (BLOCK_M * BLOCK_N / 2 / SIMD_WIDTH))
SIZE(VALUE_PART, (BLOCK_N / 2 * VECTORS(DIM_V)))
SIZE(PAIR_WEIGHTS, (Q_PARTS * WEIGHT_PART))
SIZE(PAIR_VALUES, (V_PARTS * VALUE_PART))
SIZE(TILE_VECTORS,
     (ROW_VECTORS + SCORE_VECTORS + SCALED_VECTORS + STAGED_K_VECTORS + V_SCALE_VECTORS +
      BLOCK_N / SIMD_WIDTH + (OPERAND_PAIRS ? STEP_PRODUCTS + PAIR_WEIGHTS + PAIR_VALUES : 0)))

/* The rows of a tile's paged keys and values are listed, and those of the next tile. */
SIZE(LISTED_ROWS, BLOCK_N)
SIZE(PRIVATE_BYTES, ((STATE_VECTORS * KV_HEADS + TILE_VECTORS) * SIMD_WIDTH * FLOAT_BYTES +
                     (PAGE_SIZE ? 2 * 4 * LISTED_ROWS * LONG_BYTES : 0)))
