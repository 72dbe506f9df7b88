/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of split_gpu_mma.cl's arrays, for the kernels and, with the names of families/names.h and families/fragment_names.h,
 * for the host. */
#define SUB_GROUPS_N SUB_GROUPS
SIZE(BLOCK_M, (M_FRAGMENTS * FRAGMENT_QUERIES / (HALF_ROWS ? 2 : 1)))
#include "families/fragment_attention_sizes.h"

SIZE(THREADS, (FRAGMENT_LANES * SUB_GROUPS))
SIZE(COMBINE_THREADS, ROUND_UP(THREADS, 32))

/* Local memory, counted in elements. If Q stays in registers, it is loaded through the place of
 * K and V. */
SIZE(K_AT, (Q_RESIDENT ? 0 : BLOCK_M * ROW_STRIDE))
SIZE(K_END, (K_AT + BLOCK_N * K_STRIDE))
SIZE(V_AT, KV_PARTS ? K_AT : K_END)
SIZE(V_END, (V_AT + PART_KEYS * V_STRIDE))
SIZE(KV_END, MAX(K_END, V_END))
SIZE(LOCAL_ELEMENTS, (MAX(KV_END, BLOCK_M *ROW_STRIDE)))
SIZE(WEIGHT_ELEMENTS, ((V_CACHE ? 2 : WEIGHT_PARTS) * BLOCK_M * P_STRIDE))

/* With BYTES of 2 each sub-group has local memory of its own: the bytes of its keys and values, and what their scales
 * become. Q comes and sums leave through the place of all bytes; in between Q's operands are in local memory. */
SIZE(TILE_KEYS, BLOCK_N / SUB_GROUPS)
SIZE(TILE_K_BYTES, (ROUND_UP(TILE_KEYS * ROUND_UP(K_ROW_BYTES, 4), 16)))
SIZE(TILE_V_BYTES, (ROUND_UP(TILE_KEYS * ROUND_UP(V_ROW_BYTES, 4), 16)))
SIZE(GROUP_PIECES, (MAX(SUB_GROUPS * (TILE_K_BYTES + TILE_V_BYTES),
                        BLOCK_M *MAX(ROW_STRIDE *ELEMENT_BYTES, DIM_V *FLOAT_BYTES)) /
                    16))
SIZE(TILE_FACTORS, (MAX(TILE_KEYS * DIM_QK / 32 / 4, TILE_KEYS *DIM_V / 32 / 2))) /* in 16 bytes */
SIZE(Q_PIECES, (DIM_QK / FRAGMENT_DEPTH * FRAGMENT_LANES))
SIZE(OWN_PLACES, (PAGE_SIZE ? SUB_GROUPS * 2 * TILE_KEYS : 1))
SIZE(OWN_KEYS_BYTES,
     ((GROUP_PIECES + SUB_GROUPS * TILE_FACTORS + Q_PIECES) * 16 + OWN_PLACES * LONG_BYTES +
      (EMULATE ? SUB_GROUPS * EXCHANGE_WORDS * FLOAT_BYTES : 0)))

/* Beside the tiles are a statistic of each row and sub-group, the places of the rows, and two
 * flags. */
SIZE(SPLIT_BYTES,
     ((BYTES == 2 ? OWN_KEYS_BYTES
                  : (LOCAL_ELEMENTS + WEIGHT_ELEMENTS) * ELEMENT_BYTES + BESIDE_BYTES) +
      SUB_GROUPS * BLOCK_M * FLOAT_BYTES + BLOCK_M * LONG_BYTES + (SEEN_WORDS + 2) * INT_BYTES))
