/* SPDX-License-Identifier: Apache-2.0 */
/* Operands that are sums of parts in bf16 (families/operand_sizes.h), for products of tiles (bf16/tiles.h). A part takes the
 * first eight significant bits of what the parts before have left. Of an infinity or a NaN only the first part is defined.
 *
 * Needs K_PARTS and the like, KEY_PART and KEY_OPERANDS. */
#pragma once
#include "bf16/pairs.h"
#include "cpu/quantized_simd.h"
#include "bf16/pair_tiles.h"

/* Returns the next part of *rest, and takes it away. */
INLINE lanes next_part(lanes *rest)
{
    const lanes part = second_of(*rest);

    *rest -= part;
    return part;
}

/* Values d .. d + SIMD_WIDTH - 1 of a row of dim values, in the format `cache` or else of `dtype` (constants). Zeros follow
 * value dim - 1, and make up a null row. */
INLINE lanes values_of_row(const int cache, const int dtype, const __global void *row,
                           const long step, const int d, const int dim)
{
    if (!row || d >= dim)
        return 0.0f;
    return cache ? quantized_columns(cache, (const __global uchar *)row, d)
                 : load_row_of(dtype, place_of(dtype, row, d * step), step, dim - d);
}

/* Packs a row as `parts` (constant) parts of pairs of neighbours, with zeros up to whole tiles: operand a of a product. */
INLINE void stage_parts(uint *to, const int parts, const int cache, const int dtype,
                        const __global void *row, const long step, const int dim)
{
    const int words = ROUNDED_TO_TILES(OPERANDS(dim));

    for (int d = 0; d < 2 * words; d += 2 * SIMD_WIDTH) {
        lanes x = values_of_row(cache, dtype, row, step, d, dim);
        lanes y = values_of_row(cache, dtype, row, step, d + SIMD_WIDTH, dim);
        UNROLL
        for (int n = 0; n < parts; n++) {
            const lanes x_part = next_part(&x), y_part = next_part(&y);
            store_exact(x_part, y_part, to + n * words + d / 2);
        }
    }
}

/* Part number `part` of the pairs of SIMD_WIDTH values of two rows, from value d on. */
INLINE lanes part_of_rows(const int part, const int cache, const int dtype,
                          const __global void *first, const __global void *second, const long step,
                          const int d, const int dim)
{
    lanes x = values_of_row(cache, dtype, first, step, d, dim), x_part = next_part(&x);
    lanes y = values_of_row(cache, dtype, second, step, d, dim), y_part = next_part(&y);

    for (int n = 0; n < part; n++) {
        x_part = next_part(&x);
        y_part = next_part(&y);
    }
    return pack_exact_pairs(x_part, y_part);
}

/* Returns a value as the sum of its parts. words[n * step] has part n of a pair of values; `second` selects the pair's second
 * one. An Inf or NaN is its first part. */
INLINE float sum_of_parts(const int parts, const uint *words, const long step, const int second)
{
    const float first = second ? second_of_word(words[0]) : first_of_word(words[0]);
    float sum = first;

    for (int n = 1; n < parts; n++)
        sum += second ? second_of_word(words[n * step]) : first_of_word(words[n * step]);
    return (as_int(first) & 0x7f800000) == 0x7f800000 ? first : sum;
}

/* The same of vectors. */
INLINE lanes sums_of_parts(const int parts, const lanes *words, const long step, const int second)
{
    const lanes first = second ? second_of(words[0]) : first_of(words[0]);
    lanes sum = first;

    for (int n = 1; n < parts; n++)
        sum += second ? second_of(words[n * step]) : first_of(words[n * step]);
    return (VECTOR(as_int)(first) & 0x7f800000) == 0x7f800000 ? first : sum;
}

/* products[n * vectors + m] = k[n] . q[m] of STEP_KEYS keys and vectors of queries, value by value. Tiles would make a NaN of
 * an infinity and a part that is 0. */
NOINLINE void multiply_values(const int vectors, const lanes *q, const uint *k, lanes *products)
{
    for (int n = 0; n < STEP_KEYS; n++) {
        for (int m = 0; m < vectors; m++) {
            lanes sum = 0.0f;
            for (int d = 0; d < DIM_QK; d++) {
                const float x =
                    sum_of_parts(K_PARTS, k + n * KEY_OPERANDS + d / 2, KEY_PART, d % 2);
                const lanes y =
                    sums_of_parts(Q_PARTS, q + d / 2 * vectors + m, KEY_PART * vectors, d % 2);
                sum = fma(y, (lanes)(x), sum);
            }
            products[n * vectors + m] = sum;
        }
    }
}
