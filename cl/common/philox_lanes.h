/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of RANDOM_LANES (4, 8 or 16) counters for common/philox.h: a processor's SIMD_WIDTH, unless the program says
 * otherwise. */
#pragma once

#ifndef RANDOM_LANES
#define RANDOM_LANES SIMD_WIDTH
#endif

/* join() interleaves the even elements of a and b, and their odd elements. It takes pointers, since clang warns of vectors by
 * value that are wider than the processor's registers. */
#if RANDOM_LANES == 16
typedef uint16 words;
typedef ulong8 products;
typedef float16 factors;
__attribute__((always_inline)) static inline void join(const words *a, const words *b, words *evens,
                                                       words *odds)
{
    *evens = (words)(a->s0, b->s0, a->s2, b->s2, a->s4, b->s4, a->s6, b->s6, a->s8, b->s8, a->sa,
                     b->sa, a->sc, b->sc, a->se, b->se);
    *odds = (words)(a->s1, b->s1, a->s3, b->s3, a->s5, b->s5, a->s7, b->s7, a->s9, b->s9, a->sb,
                    b->sb, a->sd, b->sd, a->sf, b->sf);
}
#elif RANDOM_LANES == 8
typedef uint8 words;
typedef ulong4 products;
typedef float8 factors;
__attribute__((always_inline)) static inline void join(const words *a, const words *b, words *evens,
                                                       words *odds)
{
    *evens = (words)(a->s0, b->s0, a->s2, b->s2, a->s4, b->s4, a->s6, b->s6);
    *odds = (words)(a->s1, b->s1, a->s3, b->s3, a->s5, b->s5, a->s7, b->s7);
}
#else
typedef uint4 words;
typedef ulong2 products;
typedef float4 factors;
__attribute__((always_inline)) static inline void join(const words *a, const words *b, words *evens,
                                                       words *odds)
{
    *evens = (words)(a->s0, b->s0, a->s2, b->s2);
    *odds = (words)(a->s1, b->s1, a->s3, b->s3);
}
#endif

/* Computes both halves of *x * m. mul_hi of vectors is slow on CPUs, so even and odd words are multiplied as 64-bit
 * numbers. Shuffles take the products apart: with `and` and shifts LLVM would choose a slower multiplication. */
__attribute__((always_inline)) static inline void multiply_wide(const words *x, const uint m,
                                                                words *low, words *high)
{
    const products of_first = (*(const products *)x & 0xffffffffUL) * (ulong)m;
    const products of_second = (*(const products *)x >> 32) * (ulong)m;
    const words *const first = (const words *)&of_first, *const second = (const words *)&of_second;

#ifdef __ENDIAN_LITTLE__ /* the lower word of a number comes first */
    join(first, second, low, high);
#else
    join(second, first, high, low);
#endif
}
