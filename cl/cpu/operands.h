/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of products on CPUs: vectors of elements of one matrix (lanes) are multiplied with
 * broadcast elements of the other (operand). With OPERAND_PAIRS an operand, and each lane of a
 * vector, is a pair of bf16 values (bf16/pairs.h) that are neighbours along the depth; else a
 * float.
 *
 *   OPERANDS(n)               in which n values are
 *   spread, SPREAD(p)         *p as MULTIPLY() takes it
 *   stored_operand, SPREAD_STORED(p)   the same of a tensor, where a pair begins at any value
 *   MULTIPLY(x, y, sum)       sum + x y
 *   load_operands(), store_operands()   SIMD_WIDTH neighbours along the depth; zeros follow the `left` values
 */
#pragma once
#include "cpu/simd_storage.h"
#include "families/operand_sizes.h"

/* Broadcasts an element once for all vectors that it is multiplied with. A broadcast from memory in
 * each instruction would be a load each, and loads would bound the product on processors that load
 * no more vectors in a cycle than they multiply (Zen 5: two). */
typedef lanes spread;

#if OPERAND_PAIRS
#include "bf16/pairs.h"

typedef uint operand;
typedef struct __attribute__((packed)) {
    uint pair;
} stored_operand;

INLINE float first_value(const operand x)
{
    return first_of_word(x);
}

INLINE float second_value(const operand x)
{
    return second_of_word(x);
}

#define SPREAD(p) as_float(*(p))
#define SPREAD_STORED(p) as_float((p)->pair)
#define MULTIPLY(x, y, sum) dot_pairs(x, y, sum)

struct __attribute__((packed)) unaligned_pairs {
    pair_words x;
};
#define UNALIGNED_PAIRS(p) (((const __global struct unaligned_pairs *)(p))->x)

#include "bf16/pair_tiles.h"
#if OPERAND_TILES
#include "bf16/tiles.h"
#endif

/* Packs two neighbours along the depth; `left` of them exist. */
INLINE uint load_pair(const __global ushort *p, const long step, const int left)
{
    return (left > 0 ? (uint)p[0] : 0) | (left > 1 ? (uint)p[step] << 16 : 0);
}

/* Loads at most SIMD_WIDTH pairs of neighbours; `left` values exist, zeros follow. */
INLINE lanes load_pairs_of_row(const __global ushort *p, const long step, const int left)
{
    uint x[SIMD_WIDTH];

    if (step == 1 && left >= 2 * SIMD_WIDTH)
        return VECTOR(as_float)(UNALIGNED_PAIRS(p));
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = load_pair(p + 2 * c * step, step, left - 2 * c);
    return VECTOR(as_float)(VECTOR(vload)(0, x));
}

INLINE lanes load_operands(const __global ushort *p, const long step, const int left)
{
    return load_pairs_of_row(p, step, left);
}

INLINE void store_operands(const lanes x, operand *to)
{
    VECTOR(vstore)(VECTOR(as_uint)(x), 0, to);
}

/* Packs pairs of neighbouring columns, a value of `first` with one of `second`, which may be 0. */
INLINE pair_words interleave(const __global ushort *first, const __global ushort *second)
{
    const pair_words x = VECTOR(convert_uint)(VECTOR(vload)(0, first));

    return second ? x | VECTOR(convert_uint)(VECTOR(vload)(0, second)) << 16 : x;
}

/* clang keeps vectors of 512 bits whole only in functions that pass one by value. */
INLINE void store_words(const pair_words x, uint *to)
{
    VECTOR(vstore)(x, 0, to);
}

/* Packs a row of dim values as pairs of neighbours. */
INLINE void stage_pairs(uint *to, const __global ushort *p, const long step, const int dim)
{
    int d = 0;

    if (step == 1)
        for (; d + 2 * SIMD_WIDTH <= dim; d += 2 * SIMD_WIDTH)
            store_words(UNALIGNED_PAIRS(p + d), to + d / 2);
    for (; d < dim; d += 2)
        to[d / 2] = load_pair(p + d * step, step, dim - d);
}

/* Packs pairs of at most SIMD_WIDTH values of two rows; `second` may be 0. `left` columns exist,
 * then zeros follow. */
INLINE lanes load_pairs_of_rows(const __global ushort *first, const __global ushort *second,
                                const long step, const int left)
{
    uint x[SIMD_WIDTH];

    if (step == 1 && left >= SIMD_WIDTH)
        return VECTOR(as_float)(interleave(first, second));
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = c < left ? (uint)first[c * step] | (second ? (uint)second[c * step] << 16 : 0) : 0;
    return VECTOR(as_float)(VECTOR(vload)(0, x));
}
#else
typedef float operand;
typedef float stored_operand;
/* An operand of floats has only one value, which both functions return. */
INLINE float first_value(const operand x)
{
    return x;
}

INLINE float second_value(const operand x)
{
    return x;
}

#define SPREAD(p) (*(p))
#define SPREAD_STORED SPREAD
#define MULTIPLY(x, y, sum) FMA(x, y, sum)

INLINE lanes load_operands(const __global storage *p, const long step, const int left)
{
    return load_row(p, step, left);
}

INLINE void store_operands(const lanes x, operand *to)
{
    VECTOR(vstore)(x, 0, to);
}
#endif
