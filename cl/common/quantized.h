/* Keys and values that may be quantized: how one of them is found and read.
 *
 * K_CACHE and V_CACHE say how k and v are stored. A quantized tensor consists of blocks of 32
 * values, neighbours along dim, which start with a binary16 scale d:
 *   q8_0    34 bytes: d, 32 signed bytes; value n is d * byte n
 *   q4_0    18 bytes: d, 16 bytes; value n < 16 is d * (low half of byte n - 8), value n >= 16
 *           is d * (high half of byte n - 16, - 8)
 * Positions are counted in values, as those of other tensors: rows start at multiples of 32. Blocks
 * are aligned to 2 bytes only. Values are exact in f32. */
#ifndef CLATTN_QUANTIZED_H
#define CLATTN_QUANTIZED_H
#include "common/common.h"

#define CACHE_PLAIN 0
#define CACHE_Q8_0 1
#define CACHE_Q4_0 2
#define BLOCK_VALUES 32
#define BLOCK_BYTES(cache) ((cache) == CACHE_Q8_0 ? 34 : 18)

/* Where position n of k lies, which in a quantized one is a multiple of 32. */
#if K_CACHE
#define K_PLACE(k, n) ((k) + ((n) >> 5) * BLOCK_BYTES(K_CACHE))
#else
#define K_PLACE(k, n) ((k) + (n))
#endif
#if V_CACHE
#define V_PLACE(v, n) ((v) + ((n) >> 5) * BLOCK_BYTES(V_CACHE))
#else
#define V_PLACE(v, n) ((v) + (n))
#endif

/* Likewise of any tensor, where cache and dtype (constants) say how it is stored. */
static inline const __global void *element_at(const int cache, const int dtype,
                                              const __global void *p, const long n)
{
    if (cache)
        return (const __global uchar *)p + (n >> 5) * BLOCK_BYTES(cache);
    return place_of(dtype, p, n);
}

static inline float block_scale(const __global uchar *block)
{
    return vload_half(0, (const __global half *)block);
}

/* Value d of a row, if cache (constant) is quantized. */
static inline float quantized1(const int cache, const __global uchar *row, const long d)
{
    const __global uchar *block = row + (d >> 5) * BLOCK_BYTES(cache);
    const int n = d & 31;

    if (cache == CACHE_Q8_0)
        return block_scale(block) * (float)as_char(block[2 + n]);
    return block_scale(block) * (float)((block[2 + (n & 15)] >> (n < 16 ? 0 : 4) & 15) - 8);
}

/* Value d of the row of k, or of v, that starts at n; of a plain one d is a step. */
static inline float load_k(const __global k_storage *k, const long n, const long d)
{
#if K_CACHE
    return quantized1(K_CACHE, K_PLACE(k, n), d);
#else
    return LOAD_K(k, n + d);
#endif
}

static inline float load_v(const __global v_storage *v, const long n, const long d)
{
#if V_CACHE
    return quantized1(V_CACHE, V_PLACE(v, n), d);
#else
    return LOAD_V(v, n + d);
#endif
}

/* Values d .. d + 3, for d a multiple of 4. */
static inline float4 quantized4(const int cache, const __global uchar *row, const long d)
{
    const __global uchar *block = row + (d >> 5) * BLOCK_BYTES(cache);
    const int n = d & 31;

    if (cache == CACHE_Q8_0)
        return block_scale(block) *
               convert_float4(vload4(0, (const __global char *)block + 2 + n));
    const uchar4 pair = vload4(0, block + 2 + (n & 15));
    return block_scale(block) *
           (convert_float4(pair >> (uchar4)(n < 16 ? 0 : 4) & (uchar4)15) - 8.0f);
}

/* Where what is stored of value d of a block begins, for d a multiple of 4: two words for four values. */
static inline const __global ushort *words_at(const int cache, const __global uchar *block,
                                              const int d)
{
    return (const __global ushort *)(block + 2 + (cache == CACHE_Q8_0 ? d & 31 : d & 15));
}

/* Values d .. d + 3 of a block without their scale. */
INLINE float4 integers4_of_words(const int cache, const ushort2 words, const int d)
{
    if (cache == CACHE_Q8_0)
        return convert_float4(as_char4(words));
    return convert_float4(as_uchar4(words) >> (uchar4)((d & 16) / 4) & (uchar4)15) - 8.0f;
}

/* Likewise; half as many loads as of bytes, which a compiler for GPUs may load one by one. */
INLINE float4 integers4_by_words(const int cache, const __global uchar *block, const int d)
{
    const __global ushort *p = words_at(cache, block, d);

    return integers4_of_words(cache, (ushort2)(p[0], p[1]), d);
}

INLINE float4 quantized4_by_words(const int cache, const __global uchar *row, const int d)
{
    const __global uchar *block = row + (d >> 5) * BLOCK_BYTES(cache);

    return block_scale(block) * integers4_by_words(cache, block, d);
}

#endif
