/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values as operands (cpu/operands.h) of the two products of fused_cpu with UNIT=vector
 * and UNIT=pairs: a pair holds neighbouring dims in Q K^T, neighbouring keys in P V. With UNIT=bytes keys are
 * words of four bytes (cpu/key_bytes.h).
 *
 *   source                    operands of keys or values, where they are or staged
 *   stage_tile()              keys and values as operands
 *   value_of()                a staged value
 *   KEY_OPERANDS              from a staged key to the next
 *   KEYS_TOGETHER             keys whose values one step of P V multiplies
 *   OPERANDS_BEFORE(n)        how many operands there are, where n keys come before
 *
 * A tile begins with a whole step of P V; zeros fill up its last step. */
#pragma once
#include "common/key_rows.h"
#include "cpu/operands.h"
#include "cpu/key_bytes.h"
#include "cpu/quantized_simd.h"
#if OPERAND_PAIRS
#include "bf16/parts.h"
#include "bf16/stage_pairs.h"
#endif

/* Keys and values are read where they are, or from copies. */
#if STAGED
typedef const operand *source;

INLINE source source_of(const operand *copy, const __global void *place)
{
    return copy;
}
#else
typedef const __global float *source;

INLINE source source_of(const operand *copy, const __global float *place)
{
    return place;
}
#endif

/* The step from a key's value to the next; values of tiles are transposed (bf16/fused_operands.h). */
INLINE long k_column(const struct arguments *args)
{
    return STAGED ? 1 : k_step(args);
}

INLINE long v_column(const struct arguments *args)
{
    return !STAGED ? v_step(args) : OPERAND_TILES ? BLOCK_N / 2 : 1;
}

enum {
    KEYS_TOGETHER = OPERAND_TILES ? STEP_KEYS /* a tile of the depth of P V */ : VALUES_IN_OPERAND
};
/* The number of keys in the steps of P V over n keys, with the last step counted as whole. */
#define WHOLE_STEPS(n) (((n) + KEYS_TOGETHER - 1) / KEYS_TOGETHER * KEYS_TOGETHER)

/* Value d of key n. */
INLINE float value_of(source v, const int n, const int d, const long v_row, const long v_column)
{
#if OPERAND_PAIRS
    return sum_of_parts(V_PARTS, v + n / 2 * v_row + d * v_column, VALUE_PART, n % 2);
#else
    return v[n * v_row + d * v_column];
#endif
}

/* stage_tile() stages keys and values j .. j + count - 1 of a batch and kv head, whose rows begin at k and v. */
#if OPERAND_TILES
#include "bf16/fused_operands.h"

INLINE void stage_tile(const struct arguments *args, const long b, const long kv_head, const long j,
                       const int count, const __global k_storage *k, const __global v_storage *v,
                       operand *k_staged, operand *v_staged)
{
    for (int n = 0; n < WHOLE_STEPS(count); n++) {
        const __global k_storage *const row =
            n < count ? k_place(k, key_row(args, b, j + n, args->shape->k_stride)) : 0;
#if OPERAND_BYTES
        stage_tile_bytes(k_staged + n * KEY_OPERANDS, row, k_step(args),
                         n < count ? scale_of_row(k_scales_from(args, b, kv_head, j), n) : 0.0f,
                         key_mean(args, b, kv_head));
        continue;
#endif
        if (K_PARTS > 1)
            stage_parts(k_staged + n * KEY_OPERANDS, K_PARTS, K_CACHE, K_DTYPE, row, k_step(args),
                        DIM_QK);
        else
            stage_whole_pairs(k_staged + n * KEY_OPERANDS, K_CACHE, row, k_step(args), DIM_QK);
    }
    for (int n0 = 0; n0 < count; n0 += KEYS_TOGETHER)
        for (int part = 0; part < V_PARTS; part++)
            stage_transposed_values(part, args, b, j, n0, count, v, v_staged + part * VALUE_PART);
}
#elif OPERAND_PAIRS
/* Stages the values of two keys as pairs; the second key may be 0. */
INLINE void stage_value_pairs(uint *to, const __global v_storage *first_row,
                              const __global v_storage *second_row, const long step)
{
    const __global ushort *first = (const __global ushort *)first_row,
                          *second = (const __global ushort *)second_row;
    int d = 0;

    for (; V_CACHE && d < DIM_V; d += SIMD_WIDTH)
        store_operands(pairs_of_rows(V_CACHE, first_row, second_row, step, d, DIM_V), to + d);
    if (step == 1 && second)
        for (; d + SIMD_WIDTH <= DIM_V; d += SIMD_WIDTH) {
            VECTOR(vstore)(interleave(first + d, second + d), 0, to + d);
        }
    for (; d < DIM_V; d++)
        to[d] = (uint)first[d * step] | (second ? (uint)second[d * step] << 16 : 0);
}

INLINE void stage_tile(const struct arguments *args, const long b, const long kv_head, const long j,
                       const int count, const __global k_storage *k, const __global v_storage *v,
                       operand *k_staged, operand *v_staged)
{
    const long *k_stride = args->shape->k_stride, *v_stride = args->shape->v_stride;

    for (int n = 0; n < count; n++)
        stage_row_pairs(k_staged + n * OPERANDS(DIM_QK), K_CACHE,
                        k_place(k, key_row(args, b, j + n, k_stride)), k_step(args), DIM_QK);
    for (int n = 0; n < count; n += 2)
        stage_value_pairs(v_staged + n / 2 * DIM_V, v_place(v, key_row(args, b, j + n, v_stride)),
                          n + 1 < count ? v_place(v, key_row(args, b, j + n + 1, v_stride)) : 0,
                          v_step(args));
}
#else
INLINE void stage_tile(const struct arguments *args, const long b, const long kv_head, const long j,
                       const int count, const __global k_storage *k, const __global v_storage *v,
                       operand *k_staged, operand *v_staged)
{
    const long *k_stride = args->shape->k_stride, *v_stride = args->shape->v_stride;

    for (int n = 0; n < count; n++) {
        const __global k_storage *const key = k_place(k, key_row(args, b, j + n, k_stride));
        const float scale = scale_of_row(k_scales_from(args, b, kv_head, j), n);
#if OPERAND_BYTES
        stage_key_bytes(k_staged + n * KEY_OPERANDS, key, k_step(args), scale,
                        key_mean(args, b, kv_head));
#else
        stage_key(k_staged + n * KEY_OPERANDS, key, k_step(args), scale);
#endif
        stage_value(v_staged + n * DIM_V, v_place(v, key_row(args, b, j + n, v_stride)),
                    v_step(args), scale_of_row(v_scales_from(args, b, kv_head, j), n));
    }
}
#endif
