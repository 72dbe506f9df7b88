/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of double_backward's arrays, for the kernels and, with the names of families/names.h, for the host. */
#include "families/sizes.h"

/* The products of a pair, its weights, and the numbers of a query. */
enum { SCORE, GRADIENT, TANGENT, CROSS, NUM_PRODUCTS };
enum { OF_OTHER, OF_OTHER_GRADIENT, OF_VALUE, OF_VALUE_GRADIENT, NUM_WEIGHTS };
enum { MAXIMUM, INVERSE, MEAN_TANGENT, MEAN_GRADIENT, MEAN_ALL, NUM_SUMS };

#define COLUMNS (ROW_ITEMS * SIMD_WIDTH) /* columns of a block, one vector for each item */
#define QK_BLOCKS DIVIDE_UP(DIM_QK, COLUMNS)
#define V_BLOCKS DIVIDE_UP(DIM_V, COLUMNS)

/* An item's vectors of the rows that a tile owns. */
#define OWNED_QK (OWNED * QK_BLOCKS)
#define OWNED_V (OWNED * V_BLOCKS)

/* The floats that the items of a tile share: each item's part of the products, and the weights. A word for each owned
 * row says which of its pairs see each other. */
#define PAIRS (OWNED * SIMD_WIDTH)
#define PRODUCT_PARTS (NUM_PRODUCTS * PAIRS * ROW_ITEMS)
#define PAIR_WEIGHTS (NUM_WEIGHTS * PAIRS)
#define AREA_BYTES ((PRODUCT_PARTS + PAIR_WEIGHTS) * FLOAT_BYTES + OWNED * INT_BYTES)
#define LOCAL_BYTES (ROW_ITEMS == 1 ? 0 : GROUP_TILES * AREA_BYTES)

/* A tile of keys has its rows of k and v, those of ggk and ggv, and the sums of gk and gv. Tiles of queries have fewer. */
#define PRIVATE_BYTES                                                                              \
    (3 * (OWNED_QK + OWNED_V) * SIMD_WIDTH * FLOAT_BYTES + (ROW_ITEMS == 1 ? AREA_BYTES : 0))
