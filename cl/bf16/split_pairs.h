/* SPDX-License-Identifier: Apache-2.0 */
/* The two products of split_cpu UNIT=amx and split_cpu UNIT=pairs between a block of rows and a tile of keys and values, by
 * tiles of pairs (bf16/pair_tiles.h). Q K^T has keys as rows and the block's rows as columns, so that keys are multiplied as
 * they are staged, and is transposed; P V has the block's rows as rows, and values are multiplied as pairs of
 * neighbouring keys. Operands that are no bf16 have parts (bf16/parts.h).
 *
 * Needs BLOCK_M, a multiple of 16, BLOCK_N, a multiple of 32, and PREFETCH_TILES. */
#pragma once
#include "bf16/parts.h"
#include "bf16/stage_pairs.h"
#include "score/key_lanes.h"
#if OPERAND_TILES
#define MULTIPLY_PAIR_TILES multiply_all_parts
#else /* there are no parts */
#include "bf16/dot_tiles.h"
#define MULTIPLY_PAIR_TILES(rows, columns, zero, steps, parts, ...)                                \
    multiply_dot_tiles(rows, columns, zero, steps, __VA_ARGS__)
#endif

#define WHOLE_STEPS(n) (((n) + STEP_KEYS - 1) / STEP_KEYS * STEP_KEYS)

/* Loads pairs n .. n + TILE - 1 of a part of a query. */
INLINE lanes query_pairs(const int part, const struct arguments *args, const __global storage *row,
                         const int n)
{
    uint words[Q_PARTS][TILE];

    if (DTYPE == DTYPE_BF16)
        return load_pairs_of_row((const __global ushort *)row + 2 * n * q_step(args), q_step(args),
                                 DIM_QK - 2 * n);
    lanes x = values_of_row(0, DTYPE, row, q_step(args), 2 * n, DIM_QK);
    lanes y = values_of_row(0, DTYPE, row, q_step(args), 2 * n + SIMD_WIDTH, DIM_QK);
    for (int c = 0; c < Q_PARTS; c++) {
        const lanes x_part = next_part(&x), y_part = next_part(&y);
        store_exact(x_part, y_part, words[c]);
    }
    return VECTOR(as_float)(VECTOR(vload)(0, words[part]));
}

/* Packs the block's queries with rows in SIMD lanes (packed[n] has pair n of each row), part by part, and sets
 * their scales; rows beyond the last become zeros. */
NOINLINE void pack_query_pairs(const struct arguments *restrict args, struct row_block *block,
                               lanes *packed)
{
    for (int r = 0; r < BLOCK_M; r++)
        block->scale[r] = r < block->rows ? score_scale(args, block->head[r]) * SCALE_UNIT : 0.0f;
    for (int r0 = 0; r0 < BLOCK_M; r0 += TILE) {
        for (int at = 0; at < Q_PARTS * KEY_PART; at += TILE) {
            lanes x[TILE];
            UNROLL
            for (int r = 0; r < TILE; r++) {
                const __global storage *row =
                    args->q + row_offset(args->shape->q_stride, block->b, block->head[r0 + r],
                                         block->query[r0 + r]);
                x[r] = r0 + r < block->rows ? query_pairs(at / KEY_PART, args, row, at % KEY_PART)
                                            : (lanes)(0.0f);
            }
            transpose(x);
            UNROLL
            for (int c = 0; c < TILE; c++)
                packed[(at + c) * TILES(BLOCK_M) + r0 / TILE] = x[c];
        }
    }
}

/* Stages a tile of count keys. */
NOINLINE void stage_keys(const struct arguments *restrict args, const struct key_range keys,
                         const int count, lanes *staged)
{
    for (int n = 0; n < WHOLE_STEPS(count); n++) {
        const __global k_storage *const row = n < count ? k_of_tile(keys, n) : 0;
        uint *to = (uint *)staged + n * KEY_OPERANDS;
        if (K_PARTS > 1)
            stage_parts(to, K_PARTS, K_CACHE, K_DTYPE, row, k_step(args), DIM_QK);
        else
            stage_whole_pairs(to, K_CACHE, row, k_step(args), DIM_QK);
    }
}

/* Computes the products of a step anew, value by value, where one is not finite. */
INLINE void check_products(const uint *k, const lanes *q, lanes *products)
{
    lanes zero = 0.0f;

    for (int n = 0; n < STEP_PRODUCTS; n++)
        zero = fma(products[n], (lanes)(0.0f), zero);
    if (any_lane(zero != 0.0f))
        multiply_values(TILES(BLOCK_M), q, k, products);
}

/* Computes s[r * BLOCK_N + n] = q[r] . k[n], scaled, for count keys; the scores after them are of
 * zeros. */
NOINLINE void multiply_qk(const struct arguments *restrict args, const struct key_range keys,
                          const int count, const struct row_block *block, const lanes *staged,
                          const lanes *q, float *s)
{
    const long row = ROW_BYTES_OF(BLOCK_M);
    const struct parts parts = {K_PARTS, Q_PARTS, QK_ORDERS, ROW_BYTES_OF(KEY_PART),
                                KEY_PART * row};

    for (int n0 = 0; n0 < count; n0 += STEP_KEYS) {
        const uint *k = (const uint *)staged + n0 * KEY_OPERANDS;
        lanes products[STEP_PRODUCTS];
        MULTIPLY_PAIR_TILES(STEP_KEYS / TILE, TILES(BLOCK_M), true, TILES(KEY_PART), parts, k,
                            ROW_BYTES_OF(KEY_OPERANDS), q, row, products, row);
        if (IN_PARTS)
            check_products(k, q, products);
        for (int r0 = 0; r0 < block->rows; r0 += TILE) {
            const lanes scale = VECTOR(vload)(0, block->scale + r0);
            for (int n1 = 0; n1 < STEP_KEYS; n1 += TILE) {
                lanes x[TILE];
                if (r0 == 0) {
                    UNROLL
                    for (int n = 0; n < TILE; n++)
                        prefetch_values(args, keys, n0 + n1 + n, BLOCK_N);
                }
                UNROLL
                for (int n = 0; n < TILE; n++)
                    x[n] = products[(n1 + n) * TILES(BLOCK_M) + r0 / TILE] * scale;
                transpose(x);
                UNROLL
                for (int r = 0; r < TILE; r++)
                    VECTOR(vstore)(x[r], 0, s + (r0 + r) * BLOCK_N + n0 + n1);
            }
        }
    }
}

/* Packs a vector of values of two neighbouring keys as pairs, part by part. */
INLINE void stage_pair_of_vectors(const __global v_storage *first, const __global v_storage *second,
                                  const long step, const int d, lanes *to)
{
    if (V_PARTS == 1) {
        *to = pairs_of_rows(V_CACHE, first, second, step, d, DIM_V);
        return;
    }
    lanes x = values_of_row(V_CACHE, V_DTYPE, first, step, d, DIM_V);
    lanes y = values_of_row(V_CACHE, V_DTYPE, second, step, d, DIM_V);
    for (int part = 0; part < V_PARTS; part++) {
        const lanes x_part = next_part(&x), y_part = next_part(&y);
        to[part * VALUE_PART] = pack_exact_pairs(x_part, y_part);
    }
}

/* Packs the values of two neighbouring keys as pairs, with columns in SIMD lanes. */
INLINE void stage_value_pairs_of_range(const struct arguments *args, const struct key_range keys,
                                       const int count, lanes *staged)
{
    int n = 0;

    for (; n < count; n += 2) {
        const __global v_storage *first = v_of_tile(keys, n);
        const __global v_storage *second = n + 1 < count ? v_of_tile(keys, n + 1) : 0;
        lanes *to = staged + n / 2 * VECTORS(DIM_V);
        prefetch_keys(args, keys, n, BLOCK_N);
        prefetch_keys(args, keys, n + 1, BLOCK_N);
        UNROLL_BY_8
        for (int c = 0; c < VECTORS(DIM_V); c++)
            stage_pair_of_vectors(first, second, v_step(args), column_of(c, DIM_V), to + c);
    }
    for (n = n / 2 * VECTORS(DIM_V); n < WHOLE_STEPS(count) / 2 * VECTORS(DIM_V); n++)
        for (int part = 0; part < V_PARTS; part++)
            staged[part * VALUE_PART + n] = 0.0f;
}

/* Returns whether a first part of count keys' values is infinite or NaN. */
INLINE bool holds_nonfinite_parts(const int count, const lanes *staged)
{
    lanes zero = 0.0f;

    for (int n = 0; n < (count + 1) / 2 * VECTORS(DIM_V); n++)
        zero += first_of(staged[n]) * 0.0f + second_of(staged[n]) * 0.0f;
    return any_lane(zero != 0.0f);
}

/* Rounds weights, times the values' scales, to their parts; each of the block's rows becomes a row of pairs of keys. After the
 * vector of the last key no weights were made: there are products with an infinite q, which times zeros would be NaN. */
INLINE void stage_weight_pairs(const int count, const float *p, const float *v_scales,
                               ushort *staged)
{
    for (int r = 0; r < BLOCK_M; r++)
        for (int n = 0; n < WHOLE_STEPS(count); n += SIMD_WIDTH) {
            lanes x = n < count ? VECTOR(vload)(0, p + r * BLOCK_N + n) : (lanes)(0.0f);
            if (HAS_V_SCALES && n < count) /* there are scales up to a whole vector */
                x *= VECTOR(vload)(0, v_scales + n);
            for (int part = 0; part < Q_PARTS; part++) {
                const ushorts rounded = round_any(x);
                VECTOR(vstore)(rounded, 0, staged + part * (BLOCK_M * BLOCK_N) + r * BLOCK_N + n);
                x -= bf16_load_lanes(rounded);
            }
        }
}

/* o = o * rescale + sum_n p[n] v[n] of all rows and columns. */
NOINLINE void multiply_pv(const struct arguments *restrict args, const struct key_range keys,
                          const int count, const int rows, const float *rescale, const float *p,
                          lanes *scaled, lanes *o)
{
    lanes weights[PAIR_WEIGHTS], values[PAIR_VALUES];
    const long row = ROW_BYTES_OF(SIMD_WIDTH * VECTORS(DIM_V)), vector = sizeof(lanes);
    const struct parts parts = {Q_PARTS, V_PARTS, PV_ORDERS, WEIGHT_PART * vector,
                                VALUE_PART * vector};

    stage_value_pairs_of_range(args, keys, count, values);
    if (IN_PARTS && holds_nonfinite_parts(count, values)) {
        add_visible_values(args, keys, count, rows, rescale, p, o);
        return;
    }
    stage_weight_pairs(count, p, keys.v_scales, (ushort *)weights);
    for (int r = 0; r < rows; r++) {
        const lanes x = rescale[r];
        for (int c = 0; c < VECTORS(DIM_V) && rescale[r] != 1.0f; c++)
            o[r * VECTORS(DIM_V) + c] *= x;
    }
    MULTIPLY_PAIR_TILES(TILES(BLOCK_M), VECTORS(DIM_V), false, WHOLE_STEPS(count) / STEP_KEYS,
                        parts, (const uint *)weights, ROW_BYTES_OF(BLOCK_N / 2), values, row, o,
                        row);
}
