/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of pairs of bf16 values, and products of them: c += a b, where
 *
 *   a   16 rows of the one matrix; a row is 16 words, pairs of bf16 values that are neighbours along the
 *       depth, the first in the lower half of the word
 *   b   16 pairs of rows of the other: word n of row k is the pair of rows 2 k and 2 k + 1 in column n. So
 *       a row of b is a vector of pairs (bf16/pairs.h) with columns in SIMD lanes
 *   c   16 rows of 16 floats
 *
 * Each has any stride between rows, in bytes. All elements must be defined: a zero in a or b does not
 * keep a NaN in the other out of c.
 *
 * multiply_all_tiles() is in bf16/tiles.h, by a matrix unit; multiply_dot_tiles() in bf16/dot_tiles.h, by the instruction for pairs. */
#pragma once
#include "families/operand_sizes.h"
#define PAIRS_OF(n) (((n) + 1) / 2)
#define ROW_BYTES_OF(words) ((long)(words) * (long)sizeof(uint))
