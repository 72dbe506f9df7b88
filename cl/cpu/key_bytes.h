/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and keys as bytes, for products of integers (precision=int8, clattn/problem.h), and the instruction for these.
 *
 * Keys     The first stage, key_means, writes a mean of each kv head's keys to the workspace. It weighs a key by the
 *          inverse square of its largest magnitude, so that huge ones behind a mask hardly move it. A staged key has its
 *          distance from the mean as words of four signed bytes, then its scale, and -128 times the sum of its bytes, at
 *          which its products begin. A cache of int8 has its bytes and scales already, and no mean. With AMX zeros fill
 *          up whole tiles.
 * Queries  A packed query has words of four bytes that are larger by 128; behind the block's words lie its
 *          scales and its products with the mean, both times the scale of scores.
 *
 * The instruction is AVX512-VNNI's or AVX-VNNI's VPDPBUSD (Intel, Software Developer's Manual, volume 2): it adds the four
 * products of bytes without and bytes with a sign to each sum of 32 bits. It is written as assembler for the reason that
 * bf16/pairs.h gives. With EMULATE it is computed in plain C, to the bit. UNIT=amx multiplies tiles of the same words
 * (bf16/tiles.h), and adds -128 times the sum of a key's bytes to their sums.
 *
 * Tunables   EMULATE; SIMD_WIDTH, which is that of the instruction's registers unless emulated. */
#pragma once
#include "common/key_rows.h"
#include "common/sequence.h"
#include "cpu/quantized_simd.h"
#include "families/key_mean_sizes.h"
#include "score/score_scale.h"
#include "score/score_unit.h"

#ifdef PARAMETERS_key_means
#define HAS_KEY_MEANS 1
#else
#define HAS_KEY_MEANS 0
#endif

/* The floats of all means, which begin the workspace, and a head's mean. */
INLINE long key_means_floats(const struct arguments *args)
{
    return HAS_KEY_MEANS ? args->shape->batch * args->shape->kv_heads * MEAN_FLOATS : 0;
}

INLINE __global float *key_mean(const struct arguments *args, const long b, const long kv_head)
{
    return args->workspace + (b * args->shape->kv_heads + kv_head) * MEAN_FLOATS;
}

#if OPERAND_BYTES
/* ---- the instruction ------------------------------------------------------------------------ */

#if OPERAND_TILES /* bf16/tiles.h has it */
#elif EMULATE
INLINE lanes dot_bytes(const lanes x, const lanes y, const lanes sum)
{
    ints total = VECTOR(as_int)(sum);

    UNROLL
    for (int c = 0; c < 4; c++)
        total += (VECTOR(as_int)(x) >> 8 * c & 255) * (VECTOR(as_int)(y) << (24 - 8 * c) >> 24);
    return VECTOR(as_float)(total);
}
#elif SIMD_WIDTH == 16 && defined(__AVX512F__)
INLINE lanes dot_bytes(const lanes x, const lanes y, lanes sum)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
#elif SIMD_WIDTH == 8 && defined(__AVX2__)
INLINE lanes dot_bytes(const lanes x, const lanes y, lanes sum)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
    return sum;
}
#else
#error "the instruction is used with whole registers, and with a compiler that has them"
#endif

/* ---- rounding ------------------------------------------------------------------------------- */

/* Rounds numbers from -127 to 127 to integers, which become the last bits of floats from 1.5 * 2^23 on. */
INLINE ints rounded_to_bytes(const lanes x)
{
    return VECTOR(as_int)(x + 12582912.0f);
}

/* The larger magnitudes as integers: those of infinities and NaNs are the largest. */
INLINE ints larger_magnitude(const ints most, const lanes x)
{
    const ints y = VECTOR(as_int)(x) & 0x7fffffff;

    return y > most ? y : most;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* The largest of a row's magnitudes, NaN if it has an infinity or a NaN. One below 2^-100 is 0, and so are its bytes. */
INLINE float largest_magnitude(const float *row)
{
    ints most = 0;

    for (int d = 0; d < MEAN_FLOATS; d += SIMD_WIDTH)
        most = larger_magnitude(most, VECTOR(vload)(0, row + d));
    if (any_lane(most >= 0x7f800000))
        return NAN;
    const float largest = max_lanes(VECTOR(as_float)(most), 0.0f);
    return largest < 0x1p-100f ? 0.0f : largest;
}

/* The mean of a kv head's keys that are in use and in a page. */
NOINLINE void find_key_mean(const struct arguments *restrict args, const long b, const long kv_head,
                            __global float *mean)
{
    const __global k_storage *const k =
        k_place(args->k, head_offset(args->shape->k_stride, cache_batch(b), kv_head));
    const struct extent e = extent_of(args, b);
    float key[MEAN_FLOATS], sum[MEAN_FLOATS], weights = 0.0f;

    for (int d = 0; d < MEAN_FLOATS; d++)
        key[d] = sum[d] = 0.0f;
    for (long j = 0; j < e.keys; j++) {
        if (!has_row(args, b, j))
            continue;
        stage_key(key, k_place(k, key_row(args, b, j, args->shape->k_stride)), k_step(args),
                  scale_of_row(k_scales_from(args, b, kv_head, j), 0));
        const float most = largest_magnitude(key);
        if (!(most >= 0x1p-40f &&
              most <= 0x1p+40f)) /* its square, or the inverse, could be infinite */
            continue;
        const float weight = 1.0f / (most * most);
        weights += weight;
        for (int d = 0; d < MEAN_FLOATS; d += SIMD_WIDTH) {
            const lanes x = VECTOR(vload)(0, key + d), before = VECTOR(vload)(0, sum + d);
            VECTOR(vstore)(FMA(x, (lanes)(weight), before), 0, sum + d);
        }
    }
    for (int d = 0; d < MEAN_FLOATS; d++)
        mean[d] = weights > 0.0f ? sum[d] / weights : 0.0f;
}

#if HAS_KEY_MEANS
/* The global range is (kv heads, batches). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void key_means(PARAMETERS_key_means)
{
    struct arguments arguments = ARGUMENTS_key_means;
    const long kv_head = get_global_id(0), b = get_global_id(1);
    ENTER_SEQUENCE(args, &arguments, b);

    find_key_mean(args, b, kv_head, key_mean(args, b, kv_head));
}
#endif

/* Stages a key: `mean` is that of its head, row_scale what a row of k is multiplied with. */
INLINE void stage_key_bytes(operand *to, const __global k_storage *row, const long step,
                            const float row_scale, const __global float *mean)
{
    uchar *const bytes = (uchar *)to;
    float scale = row_scale;
    ints total = 0;

    if (HAS_KEY_MEANS) {
        float key[MEAN_FLOATS];
        for (int d = DIM_QK; d < MEAN_FLOATS; d++)
            key[d] = 0.0f;
        stage_key(key, row, step, row_scale);
        for (int d = 0; d < MEAN_FLOATS; d += SIMD_WIDTH) {
            const lanes x = VECTOR(vload)(0, key + d), center = VECTOR(vload)(0, mean + d);
            VECTOR(vstore)(x - center, 0, key + d);
        }
        const float most = largest_magnitude(key), inverse = most == 0.0f ? 0.0f : 127.0f / most;
        scale = most / 127.0f;
        for (int d = 0; d < MEAN_FLOATS; d += SIMD_WIDTH) {
            const ints x = rounded_to_bytes(VECTOR(vload)(0, key + d) * inverse) & 255;
            VECTOR(vstore)(VECTOR(convert_uchar)(x), 0, bytes + d);
            total += x << 24 >> 24;
        }
    } else { /* rows of int8 have whole blocks */
        for (int d = 0; d < DIM_QK; d += SIMD_WIDTH) {
            const VECTOR(char) x = VECTOR(vload)(0, (const __global char *)row + d);
            VECTOR(vstore)(x, 0, (char *)bytes + d);
            total += VECTOR(convert_int)(x);
        }
    }
    ((float *)to)[KEY_OPERANDS - 2] = scale;
    ((int *)to)[KEY_OPERANDS - 1] = -128 * (int)sum_lanes(VECTOR(convert_float)(total));
}

/* The same with zeros up to whole tiles; a null row is all zeros. */
INLINE void stage_tile_bytes(operand *to, const __global k_storage *row, const long step,
                             const float row_scale, const __global float *mean)
{
    for (int n = row ? MEAN_FLOATS / 4 : 0; n < KEY_OPERANDS; n++)
        to[n] = 0;
    if (row)
        stage_key_bytes(to, row, step, row_scale, mean);
}

/* ---- products ------------------------------------------------------------------------------- */

/* The scale of a block's vector m of queries, and its product with the mean. */
INLINE lanes query_factor(const lanes *packed, const int m)
{
    return packed[QUERY_OPERANDS * BLOCK_VECTORS + m];
}

INLINE lanes query_shift(const lanes *packed, const int m)
{
    return packed[(QUERY_OPERANDS + 1) * BLOCK_VECTORS + m];
}

/* The product of queries and a key from the sum of integers. */
INLINE lanes product_of_bytes(const lanes *packed, const int m, const operand *key, const lanes sum)
{
    return FMA(VECTOR(convert_float)(VECTOR(as_int)(sum)) * ((const float *)key)[KEY_OPERANDS - 2],
               query_factor(packed, m), query_shift(packed, m));
}
#endif
