/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that all units of backward_gpu have in common, for kernels and the host. */
#pragma once
#include "families/f32_part_sizes.h"
#include "families/sizes.h"

/* The work-items that share a row in backward_rows. */
#define ROW_LANES_OF(threads) MIN(threads, 8)
#define ROW_LANES ROW_LANES_OF(THREADS)
/* The queries and keys of a mark of a mask or a bias (cl/score/mark_pairs.h). */
#define MARK_OF(owned, streamed) MIN(owned, streamed)
#define MARK_M MARK_OF(OWNED_KEYS, BLOCK_STREAMED)
#define MARK_N MARK_M

/* The words of the parts of `rows` rows of q and do, and of k and v, in whole pieces of 16 bytes;
 * and the words before the first piece, since a workspace may begin at any word. */
#define PARTS_WORDS(rows) (3 + (rows)*3 * (PART_LINE(DIM_QK) + PART_LINE(DIM_V)) / 2)
