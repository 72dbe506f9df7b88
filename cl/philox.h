/* Dropout's random numbers: Philox 4x32-10 (J. Salmon et al., 2011), as clattn/dropout.h says.
 *
 * Before including this: arguments.h; RANDOM_LANES, 1, 4, 8 or 16, the counters to be computed at a
 * time, one in each lane of a vector. Here `a` and `at` are those of a kernel. */
#ifndef CLATTN_PHILOX_H
#define CLATTN_PHILOX_H

#if RANDOM_LANES == 16
typedef uint16 words;
typedef ulong8 products;
typedef float16 factors;
#define AS_WORDS as_uint16
#define AS_PRODUCTS as_ulong8
#elif RANDOM_LANES == 8
typedef uint8 words;
typedef ulong4 products;
typedef float8 factors;
#define AS_WORDS as_uint8
#define AS_PRODUCTS as_ulong4
#elif RANDOM_LANES == 4
typedef uint4 words;
typedef ulong2 products;
typedef float4 factors;
#define AS_WORDS as_uint4
#define AS_PRODUCTS as_ulong2
#elif RANDOM_LANES == 1
typedef uint words;
typedef float factors;
#else
#error "RANDOM_LANES must be 1, 4, 8 or 16"
#endif

/* Both halves of x * m. mul_hi of vectors is slow on CPUs: here even and odd lanes are multiplied
 * apart, as halves of 64 bits (which is which is for the byte order to say, and does not matter). */
__attribute__((always_inline)) static inline words multiply_wide(const words x, const uint m,
                                                                 words *high)
{
#if RANDOM_LANES == 1
    *high = mul_hi(x, m);
    return x * m;
#else
    const ulong low = 0xffffffffUL;
    const products even = (AS_PRODUCTS(x) & low) * (ulong)m;
    const products odd = (AS_PRODUCTS(x) >> 32) * (ulong)m;

    *high = AS_WORDS((odd & ~low) | (even >> 32));
    return AS_WORDS((odd << 32) | (even & low));
#endif
}

/* The four words of each counter, in its place. */
__attribute__((always_inline)) static inline void philox(words *counter, const ulong seed)
{
    uint key_0 = (uint)seed, key_1 = (uint)(seed >> 32);
    words x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];

#pragma unroll
    for (int round = 0; round < 10; round++) {
        words high_0, high_2;
        const words low_0 = multiply_wide(x0, 0xd2511f53u, &high_0);
        const words low_2 = multiply_wide(x2, 0xcd9e8d57u, &high_2);
        x0 = high_2 ^ x1 ^ key_0;
        x2 = high_0 ^ x3 ^ key_1;
        x1 = low_2;
        x3 = low_0;
        key_0 += 0x9e3779b9u;
        key_1 += 0xbb67ae85u;
    }
    counter[0] = x0;
    counter[1] = x1;
    counter[2] = x2;
    counter[3] = x3;
}

/* What dropout multiplies weights with: x[n] is 0 or a.keep for query i and key 4 * j4 + n, where
 * lanes differ in i or j4 or both; bh = b * heads + h. */
__attribute__((always_inline)) static inline void dropout_factors(const struct attention_shape a,
                                                                  const struct attention_offsets at,
                                                                  const long bh, const words i,
                                                                  const words j4, factors *x)
{
    words counter[4] = {j4, i, (words)(uint)bh, (words)(uint)at.stream};

    philox(counter, at.seed);
#pragma unroll
    for (int n = 0; n < 4; n++)
        x[n] = counter[n] < a.drop_below ? (factors)0.0f : (factors)a.keep;
}

#endif
