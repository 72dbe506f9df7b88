/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values that may be quantized: addresses and loads of a row's values.
 *
 * K_CACHE and V_CACHE are the storage of k and v: 0, or the number of a format of blocks
 * (src/problem/formats.def). Positions count values, as in other tensors: rows start at multiples
 * of 32. Blocks are aligned to 2 bytes only. Values are exact in f32, but rounded once where their format has an offset. */
#pragma once
#include "common/common.h"
#include "formats/blocks.h"

/* The address of position n of k, which is a multiple of 32 if k is quantized. */
INLINE const __global k_storage *k_place(const __global k_storage *k, const long n)
{
    return K_CACHE ? k + (n >> 5) * BLOCK_BYTES(K_CACHE) : k + n;
}

INLINE const __global v_storage *v_place(const __global v_storage *v, const long n)
{
    return V_CACHE ? v + (n >> 5) * BLOCK_BYTES(V_CACHE) : v + n;
}

/* The bytes of a quantized row. */
enum {
    K_ROW_BYTES = DIM_QK / BLOCK_VALUES * BLOCK_BYTES(K_CACHE),
    V_ROW_BYTES = DIM_V / BLOCK_VALUES * BLOCK_BYTES(V_CACHE)
};

/* The address of element n in a tensor of the format `cache`, or of `dtype` if it is plain; both are constant. In blocks it is
 * the address of the element's block. */
static inline const __global void *element_at(const int cache, const int dtype,
                                              const __global void *p, const long n)
{
    if (cache)
        return (const __global uchar *)p + (n >> 5) * BLOCK_BYTES(cache);
    return place_of(dtype, p, n);
}

static inline float block_scale(const int cache, const __global uchar *block)
{
    const int at = layout_of(cache).scale;

    return at < 0 ? 1.0f : vload_half(0, (const __global half *)(block + at));
}

/* 0 where the format has none. */
static inline float block_offset(const int cache, const __global uchar *block)
{
    const int at = layout_of(cache).offset;

    return at ? vload_half(0, (const __global half *)(block + at)) : 0.0f;
}

/* The values of numbers in a block. */
static inline float value_of_number(const int cache, const __global uchar *block,
                                    const float number)
{
    if (layout_of(cache).offset)
        return FMA(number, block_scale(cache, block), block_offset(cache, block));
    return block_scale(cache, block) * number;
}

static inline float4 values_of_numbers(const int cache, const __global uchar *block,
                                       const float4 numbers)
{
    if (layout_of(cache).offset)
        return FMA(numbers, (float4)(block_scale(cache, block)),
                   (float4)(block_offset(cache, block)));
    return block_scale(cache, block) * numbers;
}

/* The fifth bits of a block's codes, that of value n in bit n; 0 if its format has none. */
static inline uint fifth_bits(const int cache, const __global uchar *block)
{
    const int at = layout_of(cache).fifth;
    const __global ushort *const words = (const __global ushort *)(block + at);

    return at ? words[0] | (uint)words[1] << 16 : 0;
}

/* The block of value d of a row. */
static inline const __global uchar *format_block(const int cache, const __global uchar *row,
                                                 const long d)
{
    return row + (d >> 5) * BLOCK_BYTES(cache);
}

/* Value d of a row in the quantized format `cache` (constant). */
static inline float quantized1(const int cache, const __global uchar *row, const long d)
{
    const __global uchar *block = format_block(cache, row, d);
    const int n = d & 31;

    return value_of_number(cache, block,
                           number_of_code(cache, block[codes_at(cache) + code_byte(cache, n)],
                                          code_shift(cache, n), fifth_bits(cache, block) >> n & 1));
}

/* Value d of the row of k, or of v, that starts at n. If the tensor is not quantized, d is an
 * offset in memory. */
static inline float load_k(const __global k_storage *k, const long n, const long d)
{
    if (K_CACHE)
        return quantized1(K_CACHE, (const __global uchar *)k_place(k, n), d);
    return load1_of(K_DTYPE, k, n + d);
}

static inline float load_v(const __global v_storage *v, const long n, const long d)
{
    if (V_CACHE)
        return quantized1(V_CACHE, (const __global uchar *)v_place(v, n), d);
    return load1_of(V_DTYPE, v, n + d);
}

/* Values d .. d + 3, for d a multiple of 4. */
static inline float4 quantized4(const int cache, const __global uchar *row, const long d)
{
    const __global uchar *block = format_block(cache, row, d);
    const int n = d & 31;

    return values_of_numbers(
        cache, block,
        numbers_of_four(cache, vload4(0, block + codes_at(cache) + code_byte(cache, n)),
                        code_shift(cache, n), fifth_bits(cache, block) >> n));
}

/* The address of the codes of value d of a block, for d a multiple of 4; two words hold four
 * values. */
static inline const __global ushort *words_at(const int cache, const __global uchar *block,
                                              const int d)
{
    return (const __global ushort *)(block + codes_at(cache) + code_byte(cache, d));
}

/* The numbers of values d .. d + 3 of a block; fifth are the block's fifth bits. */
INLINE float4 numbers4_of_words(const int cache, const ushort2 words, const uint fifth, const int d)
{
    return numbers_of_four(cache, as_uchar4(words), code_shift(cache, d), fifth >> (d & 31));
}

/* Values d .. d + 3 of a row: words need half the loads of bytes, which compilers for GPUs may not
 * join. */
INLINE float4 quantized4_by_words(const int cache, const __global uchar *row, const int d)
{
    const __global uchar *block = row + (d >> 5) * BLOCK_BYTES(cache);
    const __global ushort *p = words_at(cache, block, d);

    return values_of_numbers(
        cache, block, numbers4_of_words(cache, (ushort2)(p[0], p[1]), fifth_bits(cache, block), d));
}
