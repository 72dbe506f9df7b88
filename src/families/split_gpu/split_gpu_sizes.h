/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that all units of split_gpu have in common, for kernels and, with the names of families/names.h, for the host. */
#ifndef CLATTN_SPLIT_GPU_SIZES_H
#define CLATTN_SPLIT_GPU_SIZES_H
#include "families/sizes.h"

/* Bits in local memory mark tiles of keys that a mask, a bias and a mask function hide from all rows. */
#define MARKS_TILES (!HAS_BLOCKS && (HAS_MASK || HAS_BIAS || HAS_MASK_FUNCTION))
#define SEEN_WORDS (MARKS_TILES ? 32 : 1)

/* The combine kernel has a maximum, a sum and a factor of each range, and a sum for each of
 * COMBINE_THREADS; in an invariant problem, of any number of ranges, a maximum for each of these as well. */
#define COMBINED_COLUMNS 32 /* the columns that a work-group combines */
#define COMBINE_BYTES                                                                              \
    (((HAS_INVARIANT ? COMBINE_THREADS : 3 * SPLIT_K) + COMBINE_THREADS) * FLOAT_BYTES)

/* The local memory of the stage that needs more; compilers align variables beside the tiles. */
#define LOCAL_BYTES (MAX(SPLIT_BYTES, COMBINE_BYTES) + 64)

#endif
