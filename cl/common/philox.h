/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout's random numbers: Philox 4x32-10 (J. Salmon et al., 2011), as clattn/dropout.h says.
 *
 * One counter is computed at a time, or several, one in each lane of a vector, where common/philox_lanes.h comes
 * first. */
#pragma once

#ifndef RANDOM_LANES
typedef uint words;
typedef float factors;

/* Computes both halves of *x * m; NVIDIA's GPUs have one instruction for them. */
__attribute__((always_inline)) static inline void multiply_wide(const words *x, const uint m,
                                                                words *low, words *high)
{
    const ulong product = (ulong)*x * m;

    *high = (uint)(product >> 32);
    *low = (uint)product;
}
#endif

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
