/* SPDX-License-Identifier: Apache-2.0 */
/* The mean of a kv head's keys in the workspace (cl/cpu/key_bytes.h, cl/gpu/byte_rows.h), and rows of bytes, for kernels and,
 * with DIM_QK, for the host. */
#pragma once
#include "families/sizes.h"

/* The floats of a mean: whole vectors. */
#define MEAN_FLOATS ROUND_UP(DIM_QK, 16)

/* Is 1 if the program has the stage that finds means. */
#ifdef PARAMETERS_key_means
#define HAS_KEY_MEANS 1
#else
#define HAS_KEY_MEANS 0
#endif

/* On GPUs: the parts of a kv head's keys, the floats of a part's sum and weight; the words of a row of bytes, the floats
 * of its line; the work-items of a group that makes lines, and the rows of a head that it has. */
#define MEAN_PARTS 16
#define PART_FLOATS (MEAN_FLOATS + 4)
#define BYTE_WORDS (MEAN_FLOATS / 4)
#define LINE_FLOATS (BYTE_WORDS + 4)
#define BYTE_ITEMS 64
#define BYTE_ROWS 64
