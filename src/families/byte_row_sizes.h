/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of bytes and sums of keys in the workspace (cl/gpu/byte_rows.h), for kernels and, with DIM_QK, for the host. */
#pragma once
#include "families/key_mean_sizes.h"

/* The parts of a kv head's keys, and the floats of a part's sum and weight. */
#define MEAN_PARTS 16
#define PART_FLOATS (MEAN_FLOATS + 4)
/* The words of a row of bytes, and the floats of its line. */
#define BYTE_WORDS (MEAN_FLOATS / 4)
#define LINE_FLOATS (BYTE_WORDS + 4)
/* The work-items of a group that makes lines, and the rows of a head that it has. */
#define BYTE_ITEMS 64
#define BYTE_ROWS 64
