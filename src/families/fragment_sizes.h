/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that kernels of matrix instructions have in common, for them and, with the names of families/names.h and
 * families/fragment_names.h, for the host. */
#pragma once
#include "families/sizes.h"

/* f32 is multiplied in parts of bf16, whose sum it is; elements of 16 bits have one part. */
#define OPERAND_PARTS (DTYPE == DTYPE_F32 ? 3 : 1)

/* With EMULATE, the words that a sub-group exchanges between its lanes. */
#define EXCHANGE_WORDS                                                                             \
    (REPLICAS * (FRAGMENT_QUERIES * FRAGMENT_DEPTH + FRAGMENT_OTHERS * FRAGMENT_DEPTH))

enum {
    /* With tiles that tensor cores read themselves, whose rows are multiples of 64 elements, the swizzle depends on
     * addresses and repeats after this many bytes. */
    SWIZZLE_BYTES = 1024,
    /* Dropout's bits of a row in words for the lanes of NVIDIA's instructions: four, of up to 32 columns each. Else a
     * tile has a byte for each four keys of a row. */
    KEPT_ROW_BYTES = 16
};
/* A producer's mbarriers of a place (cl/mma/warpgroup_producer.h). */
#define PLACE_BARRIERS (HAS_DROPOUT ? 6 : 4)
