/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of indexer_item.cl's arrays, for the kernels and, with the names of families/names.h, for the host. */
#define BLOCK_KEYS (ITEMS * KEYS)
#define LANES 1
#define GROUP_ROWS 1
#include "families/indexer/indexer_sizes.h"

/* A tile of q: heads, and columns of each. */
#define HEAD_STEP 8
#define DIM_STEP 64
#define WORDS DIVIDE_UP(ITEMS, 32)

/* struct area: the tile and its heads' w, a bit of each item twice, and a sum of each. */
#define LOCAL_BYTES ((HEAD_STEP * (DIM_STEP + 1)) * FLOAT_BYTES + (2 * WORDS + ITEMS) * INT_BYTES)
