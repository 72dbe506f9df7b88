/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of split_gpu_mma.cl's arrays, for the kernels and, with the names of families/names.h and families/fragment_names.h, for
 * the host. */
#define SUB_GROUPS_N SUB_GROUPS
#define BLOCK_M (M_FRAGMENTS * FRAGMENT_QUERIES / (HALF_ROWS ? 2 : 1))
#include "families/fragment_attention_sizes.h"
#include "families/split_gpu/split_gpu_sizes.h"

#define THREADS (FRAGMENT_LANES * SUB_GROUPS)
#define COMBINE_THREADS ROUND_UP(THREADS, 32)

/* Local memory, counted in elements. If Q stays in registers, it is loaded through the buffer of K
 * and V. */
#define K_AT (Q_RESIDENT ? 0 : BLOCK_M * ROW_STRIDE)
#define K_END (K_AT + BLOCK_N * K_STRIDE)
#define V_AT (KV_PARTS ? K_AT : K_END)
#define V_END (V_AT + PART_KEYS * V_STRIDE)
#define KV_END MAX(K_END, V_END)
#define LOCAL_ELEMENTS MAX(KV_END, BLOCK_M *ROW_STRIDE)
#define WEIGHT_ELEMENTS ((V_CACHE ? 2 : WEIGHT_PARTS) * BLOCK_M * P_STRIDE)

/* With BYTES of 2 each sub-group has local memory of its own: the bytes of its keys and values, and
 * their scales in the order of lanes. Q and the final sums pass through the memory of all bytes; in
 * between Q's operands are in local memory. */
#define TILE_KEYS (BLOCK_N / SUB_GROUPS)
#define TILE_K_BYTES ROUND_UP(TILE_KEYS *ROUND_UP(K_ROW_BYTES, 4), 16)
#define TILE_V_BYTES ROUND_UP(TILE_KEYS *ROUND_UP(V_ROW_BYTES, 4), 16)
#define GROUP_PIECES                                                                               \
    (MAX(SUB_GROUPS * (TILE_K_BYTES + TILE_V_BYTES),                                               \
         BLOCK_M * MAX(ROW_STRIDE * ELEMENT_BYTES, DIM_V * FLOAT_BYTES)) /                         \
     16)
#define TILE_FACTORS MAX(TILE_KEYS *DIM_QK / 32 / 4, TILE_KEYS * DIM_V / 32 / 2) /* in 16 bytes */
#define Q_PIECES (DIM_QK / FRAGMENT_DEPTH * FRAGMENT_LANES)
#define OWN_PLACES (PAGE_SIZE ? SUB_GROUPS * 2 * TILE_KEYS : 1)
#define OWN_KEYS_BYTES                                                                             \
    ((GROUP_PIECES + SUB_GROUPS * TILE_FACTORS + Q_PIECES) * 16 + OWN_PLACES * LONG_BYTES +        \
     (EMULATE ? SUB_GROUPS * EXCHANGE_WORDS * FLOAT_BYTES : 0))

/* A statistic of each row and sub-group, the addresses of the rows, and two flags follow the tiles.
 * */
#define SPLIT_BYTES                                                                                \
    ((BYTES == 2 ? OWN_KEYS_BYTES                                                                  \
                 : (LOCAL_ELEMENTS + WEIGHT_ELEMENTS) * ELEMENT_BYTES + BESIDE_BYTES) +            \
     SUB_GROUPS * BLOCK_M * FLOAT_BYTES + BLOCK_M * LONG_BYTES + (SEEN_WORDS + 2) * INT_BYTES)
