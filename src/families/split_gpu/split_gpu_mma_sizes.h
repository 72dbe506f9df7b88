/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of split_gpu_mma.cl's arrays, for the kernels and, with the names of families/names.h and families/fragment_names.h, for
 * the host. */
#define SUB_GROUPS_N SUB_GROUPS
#define BLOCK_M (M_FRAGMENTS * FRAGMENT_QUERIES)
#include "families/fragment_attention_sizes.h"
#include "families/split_gpu/split_gpu_sizes.h"

#define THREADS (FRAGMENT_LANES * SUB_GROUPS)
#define COMBINE_THREADS ROUND_UP(THREADS, 32)

/* Local memory, counted in elements. If Q stays in registers, it is loaded through the place of
 * K and V. */
#define K_AT (Q_RESIDENT ? 0 : BLOCK_M * ROW_STRIDE)
#define K_END (K_AT + BLOCK_N * K_STRIDE)
#define V_AT (KV_PARTS ? K_AT : K_END)
#define V_END (V_AT + PART_KEYS * V_STRIDE)
#define KV_END MAX(K_END, V_END)
#define LOCAL_ELEMENTS MAX(KV_END, BLOCK_M *ROW_STRIDE)
#define WEIGHT_ELEMENTS ((V_CACHE ? 2 : WEIGHT_PARTS) * BLOCK_M * P_STRIDE)

/* Beside the tiles are a statistic of each row and sub-group, the places of the rows, and two
 * flags. */
#define SPLIT_BYTES                                                                                \
    ((LOCAL_ELEMENTS + WEIGHT_ELEMENTS) * ELEMENT_BYTES + BESIDE_BYTES +                           \
     SUB_GROUPS * BLOCK_M * FLOAT_BYTES + BLOCK_M * LONG_BYTES + (SEEN_WORDS + 2) * INT_BYTES)
