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
 * multiply_all_tiles() is in bf16/tiles.h, by a matrix unit; multiply_dot_tiles() in bf16/dot_tiles.h, by the instruction for
 * pairs. */
#pragma once
#include "families/operand_sizes.h"
#define PAIRS_OF(n) (((n) + 1) / 2)
#define ROW_BYTES_OF(words) ((long)(words) * (long)sizeof(uint))

/* Matrices that are sums of matrices in bf16, their parts, each of which is at most 2^-7 of the part before. Their product
 * is the sum of the products of parts i and j with i + j < orders. */
struct parts {
    int of_a, of_b; /* their numbers */
    int orders;     /* at most of_a + of_b - 1 */
    long a, b;      /* from a part to the next, in bytes */
    bool bytes;     /* the products are of bytes, four in a word instead of a pair */
};

INLINE struct parts one_part(void)
{
    return (struct parts){1, 1, 1, 0, 0, false};
}
