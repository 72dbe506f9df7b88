/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout's random numbers: Philox 4x32-10 (J. Salmon et al., 2011), as clattn/dropout.h says.
 *
 * RANDOM_LANES counters are computed at a time, one in each lane of a vector: 1, 4, 8 or 16. These are a processor's
 * SIMD_WIDTH, or one on GPUs, unless the program says otherwise. */
#pragma once

#ifndef RANDOM_LANES
#ifdef SIMD_WIDTH
#define RANDOM_LANES SIMD_WIDTH
#else
#define RANDOM_LANES 1
#endif
#endif

#if RANDOM_LANES == 16
typedef uint16 words;
typedef ulong8 products;
typedef float16 factors;
#define AS_WORDS as_uint16
#define AS_PRODUCTS as_ulong8
#define EVENS(a, b)                                                                                \
    (uint16)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6, a.s8, b.s8, a.sa, b.sa, a.sc, b.sc,   \
             a.se, b.se)
#define ODDS(a, b)                                                                                 \
    (uint16)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7, a.s9, b.s9, a.sb, b.sb, a.sd, b.sd,   \
             a.sf, b.sf)
#elif RANDOM_LANES == 8
typedef uint8 words;
typedef ulong4 products;
typedef float8 factors;
#define AS_WORDS as_uint8
#define AS_PRODUCTS as_ulong4
#define EVENS(a, b) (uint8)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6)
#define ODDS(a, b) (uint8)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7)
#elif RANDOM_LANES == 4
typedef uint4 words;
typedef ulong2 products;
typedef float4 factors;
#define AS_WORDS as_uint4
#define AS_PRODUCTS as_ulong2
#define EVENS(a, b) (uint4)(a.s0, b.s0, a.s2, b.s2)
#define ODDS(a, b) (uint4)(a.s1, b.s1, a.s3, b.s3)
#elif RANDOM_LANES == 1
typedef uint words;
typedef float factors;
#else
#error "RANDOM_LANES must be 1, 4, 8 or 16"
#endif

/* Join the lower, or the upper, halves of 64 bits: the inputs of EVENS and ODDS are a's neighbours
 * and b's. */
#ifdef __ENDIAN_LITTLE__
#define LOWER_HALVES(a, b) EVENS(a, b)
#define UPPER_HALVES(a, b) ODDS(a, b)
#else
#define LOWER_HALVES(a, b) ODDS(b, a)
#define UPPER_HALVES(a, b) EVENS(b, a)
#endif

/* Computes both halves of *x * m; pointers are used since clang warns of vectors by value that the
 * processor has no registers for. mul_hi of vectors is slow on CPUs, so even and odd words are
 * multiplied as 64-bit numbers. Shuffles take the products apart: with `and` and shifts LLVM would
 * choose a slower multiplication. */
__attribute__((always_inline)) static inline void multiply_wide(const words *x, const uint m,
                                                                words *low, words *high)
{
#if RANDOM_LANES == 1
    const ulong product = (ulong)*x * m; /* NVIDIA's GPUs have one instruction for both halves */

    *high = (uint)(product >> 32);
    *low = (uint)product;
#else
    const words of_lower = AS_WORDS((AS_PRODUCTS(*x) & 0xffffffffUL) * (ulong)m);
    const words of_upper = AS_WORDS((AS_PRODUCTS(*x) >> 32) * (ulong)m);

    *high = UPPER_HALVES(of_lower, of_upper);
    *low = LOWER_HALVES(of_lower, of_upper);
#endif
}

/* Computes round `round` (constant) on the four words of each counter, in place. */
__attribute__((always_inline)) static inline void philox_round(const int round, words *counter,
                                                               const ulong seed)
{
    const uint key_0 = (uint)seed + round * 0x9e3779b9u;
    const uint key_1 = (uint)(seed >> 32) + round * 0xbb67ae85u;
    words low_0, low_2, high_0, high_2;

    multiply_wide(&counter[0], 0xd2511f53u, &low_0, &high_0);
    multiply_wide(&counter[2], 0xcd9e8d57u, &low_2, &high_2);
    counter[0] = high_2 ^ counter[1] ^ key_0;
    counter[2] = high_0 ^ counter[3] ^ key_1;
    counter[1] = low_2;
    counter[3] = low_0;
}

/* Computes the four random words of each counter, in place. */
__attribute__((always_inline)) static inline void philox(words *counter, const ulong seed)
{
#pragma unroll
    for (int round = 0; round < 10; round++)
        philox_round(round, counter, seed);
}

/* The first three rounds of counters that differ in their second word alone: only two of the six
 * products differ, and that of the second round does not depend on the first word. */
enum { PHILOX_ROUNDS_OF_ROW = 3 };
__attribute__((always_inline)) static inline void philox_begin_row(const uint x0, const words x1,
                                                                   const uint x2, const uint x3,
                                                                   const ulong seed, words *counter)
{
    const uint m0 = 0xd2511f53u, m2 = 0xcd9e8d57u, step_0 = 0x9e3779b9u, step_1 = 0xbb67ae85u;
    const uint key_0 = (uint)seed, key_1 = (uint)(seed >> 32);
    words low_a, low_b, high_a, high_b;

    const words a = x1 ^ (mul_hi(x2, m2) ^ key_0); /* after a round: a, b, c, d */
    const uint b = x2 * m2, c = mul_hi(x0, m0) ^ x3 ^ key_1, d = x0 * m0;
    multiply_wide(&a, m0, &low_a, &high_a); /* after two: e, f, g, low_a */
    const uint e = mul_hi(c, m2) ^ b ^ (key_0 + step_0), f = c * m2;
    const words g = high_a ^ (d ^ (key_1 + step_1));
    multiply_wide(&g, m2, &low_b, &high_b);

    counter[0] = high_b ^ (f ^ (key_0 + 2 * step_0));
    counter[1] = low_b;
    counter[2] = low_a ^ (mul_hi(e, m0) ^ (key_1 + 2 * step_1));
    counter[3] = (words)(e * m0);
}

/* philox() of such counters. */
__attribute__((always_inline)) static inline void philox_of_row(const uint x0, const words x1,
                                                                const uint x2, const uint x3,
                                                                const ulong seed, words *counter)
{
    philox_begin_row(x0, x1, x2, x3, seed, counter);
#pragma unroll
    for (int round = PHILOX_ROUNDS_OF_ROW; round < 10; round++)
        philox_round(round, counter, seed);
}
