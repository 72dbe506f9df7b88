/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that all units of backward_gpu have in common, for kernels and the host. */
#ifndef CLATTN_BACKWARD_GPU_SIZES_H
#define CLATTN_BACKWARD_GPU_SIZES_H
#include "families/sizes.h"

/* Work-items that share a row in backward_rows. */
#define ROW_LANES MIN(THREADS, 8)
/* Pairs of a mark of a mask or a bias (cl/score/mark_pairs.h). */
#define MARK_M MIN(BLOCK_OWNED, BLOCK_STREAMED)
#define MARK_N MARK_M

#endif
