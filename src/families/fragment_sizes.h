/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that kernels of matrix instructions have in common, for them and, with the names of families/names.h and
 * families/fragment_names.h, for the host. */
#ifndef CLATTN_FRAGMENT_SIZES_H
#define CLATTN_FRAGMENT_SIZES_H
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

/* With EMULATE, the words that the lanes of a sub-group exchange. */
#define EXCHANGE_QUERY (FRAGMENT_QUERIES * FRAGMENT_DEPTH)
#define EXCHANGE_OTHER (FRAGMENT_OTHERS * FRAGMENT_DEPTH)
#define EXCHANGE_WORDS (REPLICAS * (EXCHANGE_QUERY + EXCHANGE_OTHER))

/* With tiles that tensor cores read themselves, the swizzle depends on addresses and repeats after
 * this many bytes. */
#define SWIZZLE_BYTES 1024
/* The bytes of a producer's mbarriers for a buffer (cl/mma/warpgroup_producer.h). */
#define PLACE_BARRIERS (HAS_DROPOUT ? 6 : 4)

/* Dropout's bits of a tile, in bytes for four keys each. */
#define KEPT_BYTES(queries, keys) ((queries) * ((keys) / 4))
/* The same with a producer: each warpgroup that draws has four words of up to 32 keys for each row.
 * */
#define KEPT_ROW_BYTES 16

#endif
