/* SPDX-License-Identifier: Apache-2.0 */
/* A running selection of the largest of many scores on CPUs. Candidates are kept side by side, as integers of the
 * scores' order (ranks) and the numbers of their keys, which rise. When there are many, those that cannot be among the
 * largest leave, and their order stays; a threshold keeps out what cannot be among them later.
 *
 * A list has room for a vector more than it holds. Ranks are above INT_MIN, which stands for none. */
#pragma once
#include "cpu/simd.h"

/* Stores those of a vector whose rank is above a threshold, and returns how many there are. All lanes of the two places are
 * overwritten. */
#if SIMD_WIDTH == 16 && defined(__AVX512F__)
INLINE int keep_above(const ints rank, const ints number, const int threshold, __global int *ranks,
                      __global int *numbers)
{
    const ints limit = threshold;
    ints packed_ranks, packed_numbers;
    uint kept;

    __asm__("vpcmpgtd %3, %4, %%k1\n\t"
            "vpcompressd %4, %0%{%%k1%}%{z%}\n\t"
            "vpcompressd %5, %1%{%%k1%}%{z%}\n\t"
            "kmovw %%k1, %2"
            : "=&v"(packed_ranks), "=&v"(packed_numbers), "=r"(kept)
            : "v"(limit), "v"(rank), "v"(number)
            : "k1");
    if (kept == 0)
        return 0;
    VECTOR(vstore)(packed_ranks, 0, ranks);
    VECTOR(vstore)(packed_numbers, 0, numbers);
    return popcount(kept);
}
#else
INLINE int keep_above(const ints rank, const ints number, const int threshold, __global int *ranks,
                      __global int *numbers)
{
    const ints above = rank > (ints)(threshold);
    int count = 0;

    if (!any_lane(above))
        return 0;
    int kept[SIMD_WIDTH], all_ranks[SIMD_WIDTH], all_numbers[SIMD_WIDTH];
    VECTOR(vstore)(above, 0, kept);
    VECTOR(vstore)(rank, 0, all_ranks);
    VECTOR(vstore)(number, 0, all_numbers);
    UNROLL
    for (int c = 0; c < SIMD_WIDTH; c++) {
        ranks[count] = all_ranks[c];
        numbers[count] = all_numbers[c];
        count -= kept[c];
    }
    return count;
}
#endif

/* Counts the ranks of whole vectors that are at least `least`. */
INLINE long count_from(const __global int *ranks, const long vectors, const int least)
{
    ints even = 0, odd = 0;
    long v = 0;

    for (; v + 2 <= vectors; v += 2) {
        even -= VECTOR(vload)(v, ranks) >= (ints)(least);
        odd -= VECTOR(vload)(v + 1, ranks) >= (ints)(least);
    }
    if (v < vectors)
        even -= VECTOR(vload)(v, ranks) >= (ints)(least);
    const ints sums = even + odd;
    int sum[SIMD_WIDTH];
    long count = 0;
    VECTOR(vstore)(sums, 0, sum);
    for (int c = 0; c < SIMD_WIDTH; c++)
        count += sum[c];
    return count;
}

/* Leaves the candidates of the `wanted` largest ranks, of equal ones the first, in their order; all if they are fewer.
 * Ranks of none leave as well. Returns how many remain, and raises the threshold: a later candidate that is not above
 * it is not among the largest. */
NOINLINE long select_largest(__global int *ranks, __global int *numbers, const long count,
                             const long wanted, int *threshold)
{
    const long vectors = (count + SIMD_WIDTH - 1) / SIMD_WIDTH;
    long low = (long)INT_MIN + 1, high = INT_MAX, left = 0;

    for (long n = count; n < vectors * SIMD_WIDTH; n++) {
        ranks[n] = INT_MIN;
        numbers[n] = -1;
    }
    const long all = count_from(ranks, vectors, (int)low);
    long from_low = all;
    /* `wanted` or more ranks are at least `low`, and fewer are above `high`. */
    while (low < high && from_low > wanted) {
        const long middle = low + (high - low + 1) / 2,
                   from = count_from(ranks, vectors, (int)middle);
        if (from >= wanted) {
            low = middle;
            from_low = from;
        } else {
            high = middle - 1;
        }
    }
    /* Of those that equal `low` there may be too many. */
    long equals = from_low > wanted
                      ? wanted - (low < INT_MAX ? count_from(ranks, vectors, (int)low + 1) : 0)
                      : count;
    if (from_low <= wanted) {
        for (long v = 0; v < vectors; v++)
            left += keep_above(VECTOR(vload)(v, ranks), VECTOR(vload)(v, numbers), (int)(low - 1),
                               ranks + left, numbers + left);
    } else {
        for (long n = 0; n < count; n++) {
            const int rank = ranks[n], number = numbers[n];
            const bool kept = rank > low || (rank == low && equals > 0);
            equals -= rank == low && kept;
            ranks[left] = rank;
            numbers[left] = number;
            left += kept;
        }
    }
    if (all >= wanted)
        *threshold = (int)(from_low > wanted ? low : low - 1);
    return left;
}
