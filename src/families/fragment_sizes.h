/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that kernels of matrix instructions have in common, for them and, with the names of families/names.h and
 * families/fragment_names.h, for the host. */
#pragma once
#include "families/sizes.h"

#define INSTRUCTION_MMA_SYNC 1
#define INSTRUCTION_WMMA 2
#define INSTRUCTION_MFMA_32 3
#define INSTRUCTION_MFMA_16 4
#define INSTRUCTION_DPAS_8 5
#define INSTRUCTION_DPAS_16 6
#define INSTRUCTION_WGMMA 7

/* f32 is multiplied in parts of bf16, whose sum it is; elements of 16 bits have one part. */
#define OPERAND_PARTS (DTYPE == DTYPE_F32 ? 3 : 1)

/* With EMULATE, the words that a sub-group exchanges between its lanes. */
#define EXCHANGE_WORDS                                                                             \
    (REPLICAS * (FRAGMENT_QUERIES * FRAGMENT_DEPTH + FRAGMENT_OTHERS * FRAGMENT_DEPTH))

/* With tiles that tensor cores read themselves, the swizzle depends on addresses and repeats after
 * this many bytes. */
#define SWIZZLE_BYTES 1024
/* The row of such a tile. */
#define SWIZZLED_STRIDE(columns) ROUND_UP(columns, 64)
/* A producer's mbarriers of a place (cl/mma/warpgroup_producer.h). */
#define PLACE_BARRIERS (HAS_DROPOUT ? 6 : 4)

/* Dropout's bits of a tile, in bytes for four keys each. */
#define KEPT_BYTES(queries, keys) ((queries) * ((keys) / 4))
/* The same in words for the lanes of NVIDIA's instructions: four for each row, of up to 32 columns each. */
enum { KEPT_ROW_BYTES = 16 };
