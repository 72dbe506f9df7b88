/* SPDX-License-Identifier: Apache-2.0 */
/* The two products of fused_cpu UNIT=amx between a block of queries and a tile of keys and values, by tiles of a
 * matrix unit (bf16/tiles.h). Columns of the products are queries, so that the softmax between them goes over
 * vectors of queries as in fused_cpu: Q K^T has keys as rows, and its tiles are stored as scores; O has
 * columns of v as rows, and is kept in memory between tiles of keys.
 *
 * While tiles are multiplied the scores of the tiles before them are finished.
 *
 * Where an operand in parts may be infinite, products are computed value by value (by_values). */
#pragma once

#define BLOCK_ROW_BYTES ROW_BYTES_OF(BLOCK_M)
enum {
    CHECKS_PRODUCTS = IN_PARTS & !OPERAND_BYTES
}; /* 1 if products may be computed value by value */

/* Returns whether any of keys n0 .. n0 + QK_KEYS - 1 needs more than its product times the deferred
 * scale (DEFERS_SCALE). */
INLINE bool changes_scores(const struct score_tile *tile, const int n0, const int count)
{
    bool changes =
        !DEFERS_SCALE || HAS_MASK_FUNCTION || tile->scale != 1.0f || n0 + QK_KEYS > count;

    if (HIDES_ANYWHERE)
        changes |= tile->hides != 0;
    if (HAS_WINDOW)
        changes |= n0 < tile->all_begin || n0 + QK_KEYS > tile->all_end;
    return changes;
}

/* The arguments are vectors by value. clang uses registers of 512 bits only in functions that have or pass such arguments, and
 * splits vectors in all others. */
INLINE lanes larger_of_lanes(const lanes x, const lanes y)
{
    return x > y ? x : y;
}

/* Raises `most` to the maximum of the scores of QK_KEYS keys. */
INLINE void take_maximum(const lanes *s, lanes *most)
{
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        lanes x = most[m];
        UNROLL
        for (int n = 0; n < QK_KEYS; n++)
            x = larger_of_lanes(s[n * BLOCK_VECTORS + m], x);
        most[m] = x;
    }
}

#if OPERAND_BYTES
INLINE lanes product_of_tiles(const struct score_tile *tile, const lanes *q, const int m, source k,
                              const int n, const lanes product)
{
    const operand *const key = k + n * KEY_OPERANDS;

    return product_of_bytes(
        q, m, key,
        VECTOR(as_float)(VECTOR(as_int)(product) + ((const int *)key)[KEY_OPERANDS - 1]));
}
#else
INLINE lanes product_of_tiles(const struct score_tile *tile, const lanes *q, const int m, source k,
                              const int n, const lanes product)
{
    return product * scale_of_products(tile, n);
}
#endif

/* Turns the products of QK_KEYS keys from n0 on into scores. */
NOINLINE void change_scores(const struct score_tile *tile, const lanes *q, source k,
                            const lanes *products, const int n0, const int count, lanes *s)
{
    lanes x[QK_KEYS][BLOCK_VECTORS];

    EACH_SCORE(x[n][m] = product_of_tiles(tile, q, m, k, n0 + n, products[n * BLOCK_VECTORS + m]))
    finish_tile_scores(tile, n0, count, x);
    EACH_SCORE(s[n * BLOCK_VECTORS + m] = x[n][m])
}

/* Turns the products of STEP_KEYS keys from n0 on into scores, and raises `most` to their maximum.
 * */
INLINE void finish_step(const struct score_tile *tile, const lanes *q, source k,
                        const lanes *products, const int n0, const int count,
                        struct prefetch_streams *streams, lanes *s, lanes *most)
{
    for (int n1 = n0; n1 < min(n0 + STEP_KEYS, count); n1 += QK_KEYS) {
        lanes *to = s + n1 * BLOCK_VECTORS;
        prefetch_step(streams);
        if (changes_scores(tile, n1, count))
            change_scores(tile, q, k, products + (n1 - n0) * BLOCK_VECTORS, n1, count, to);
        take_maximum(to, most);
    }
}

/* Returns whether a first part of the block's queries or of count keys is infinite or NaN. */
NOINLINE bool meet_nonfinite(const lanes *q, source k, const long k_row, const int count)
{
    const uint first = 0x7f80u, second = 0x7f800000u;
    bool some = false;

    if (!CHECKS_PRODUCTS)
        return false;
    for (int n = 0; n < count; n++)
        for (int d = 0; d < KEY_PART; d++) {
            const uint x = k[n * k_row + d];
            some |= (x & first) == first || (x & second) == second;
        }
    for (int n = 0; n < KEY_PART * BLOCK_VECTORS; n++)
        some |= any_lane((VECTOR(as_int)(first_of(q[n])) & 0x7f800000) == 0x7f800000 |
                         (VECTOR(as_int)(second_of(q[n])) & 0x7f800000) == 0x7f800000);
    return some;
}

/* Computes s[n], the score of key n, from k[n] . q for `count` keys; the scale is deferred. Raises row_max to their maximum.
 * s may overlap the tile's biases. */
NOINLINE void multiply_qk(const struct score_tile *tile, const lanes *q, source k, const long k_row,
                          const long k_column, const int count, struct prefetch_streams *streams,
                          lanes *s, lanes *row_max)
{
    const struct parts parts = {K_PARTS,
                                OPERAND_BYTES ? 1 : Q_PARTS,
                                QK_ORDERS,
                                ROW_BYTES_OF(KEY_PART),
                                QUERY_OPERANDS * BLOCK_ROW_BYTES,
                                OPERAND_BYTES};
    lanes most[BLOCK_VECTORS];
#if HAS_BIAS /* the biases share the memory of the scores */
    lanes products[2][STEP_PRODUCTS / 2];
#define PRODUCTS_OF(n0) products[(n0) / STEP_KEYS % 2]
#else
#define PRODUCTS_OF(n0) (s + (n0)*BLOCK_VECTORS)
#endif

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        most[m] = -INFINITY;
    for (int n0 = 0; n0 < count + STEP_KEYS; n0 += STEP_KEYS) {
        if (CHECKS_PRODUCTS && tile->by_values && n0 < count)
            multiply_values(BLOCK_VECTORS, q, k + n0 * k_row, PRODUCTS_OF(n0));
        else if (n0 < count)
            multiply_all_parts(STEP_KEYS / TILE, BLOCK_VECTORS, true, TILES(KEY_PART), parts,
                               k + n0 * k_row, ROW_BYTES_OF(k_row), q, BLOCK_ROW_BYTES,
                               PRODUCTS_OF(n0), BLOCK_ROW_BYTES);
        if (n0 > 0)
            finish_step(tile, q, k, PRODUCTS_OF(n0 - STEP_KEYS), n0 - STEP_KEYS, count, streams, s,
                        most);
    }
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        const lanes x = most[m] * tile->deferred_scale;
        row_max[m] = x > row_max[m] ? x : row_max[m];
    }
}

/* o = o * rescale + sum_n p[n] v[n]; the weights of keys that round count up to whole tiles become 0. */
NOINLINE void multiply_pv(const struct score_tile *tile, const lanes *rescale, lanes *p, source v,
                          const long v_row, const long v_column, const int count, lanes *o)
{
    const struct parts parts = {V_PARTS, Q_PARTS, PV_ORDERS, ROW_BYTES_OF(VALUE_PART),
                                SECOND_WEIGHTS * (long)sizeof(lanes)};
    const int pairs = PAIRS_OF(count), steps = TILES(pairs);
    ints rescales = 0;

    for (int part = 0; part < Q_PARTS; part++)
        for (int n = pairs * BLOCK_VECTORS; n < steps * TILE * BLOCK_VECTORS; n++)
            p[part * SECOND_WEIGHTS + n] = 0.0f;
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        rescales |= rescale[m] != 1.0f;
    if (any_lane(rescales)) {
        for (int d = 0; d < DIM_V; d++) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                o[d * BLOCK_VECTORS + m] *= rescale[m];
        }
    }
    multiply_all_parts(TILES(DIM_V), BLOCK_VECTORS, false, steps, parts, v, ROW_BYTES_OF(v_column),
                       p, BLOCK_ROW_BYTES, o, BLOCK_ROW_BYTES);
}
