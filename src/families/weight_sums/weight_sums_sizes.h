/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the arrays of weight_sums, for the kernels and, with the names of families/names.h, for the host. */
#define WIDE_DIM ((DIM_QK + SIMD_WIDTH - 1) / SIMD_WIDTH * SIMD_WIDTH)
#define TILE_KEYS (ITEMS * KEY_VECTORS * SIMD_WIDTH) /* of a group */
#define ROWS 4                                       /* queries that are multiplied at once */
#define MEAN_ROWS 32 /* queries of a group of mean_weights: a multiple of ROWS */
#define DEPTH 16     /* columns in local memory, of work-items that share queries and keys */

/* Packed keys, some of their rows, queries, and means. */
#define PRIVATE_BYTES                                                                              \
    ((WIDE_DIM * (KEY_VECTORS * SIMD_WIDTH + SIMD_WIDTH + ROWS) +                                  \
      MEAN_ROWS * KEY_VECTORS * SIMD_WIDTH) *                                                      \
     4)
#define LOCAL_BYTES (ITEMS == 1 ? 0 : DEPTH * (ITEMS + 1 + ROWS) * 4)
