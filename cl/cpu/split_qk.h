/* SPDX-License-Identifier: Apache-2.0 */
/* The product Q K^T of split_cpu, register-blocked. Needs BLOCK_M, QK_ROWS, QK_DEPTH, BLOCK_N and
 * PREFETCH_TILES.
 *
 * An accumulator has QK_DEPTH partial sums along the depth for each of SIMD_WIDTH / QK_DEPTH rows;
 * a register tile has QK_VECTORS of them for QK_KEYS keys, SIMD_WIDTH in all. An element of a key
 * is the same for each row of the vector. The smaller QK_DEPTH, the fewer steps across lanes remain
 * in the end, and the more rows there must be. */
#pragma once
#include "cpu/split_keys.h"
#include "cpu/split_rows.h"
#include "score/key_lanes.h"

#if !OPERAND_PAIRS /* else: bf16/split_pairs.h */
enum {
    QK_VECTORS = QK_ROWS * QK_DEPTH / SIMD_WIDTH,
    QK_KEYS = SIMD_WIDTH / QK_VECTORS,
    QUERY_VECTORS = VECTORS(DIM_QK) * QK_ROWS,          /* that QK_ROWS queries take */
    QK_TILES = BLOCK_N / QK_KEYS * (BLOCK_M / QK_ROWS), /* register tiles in a tile of keys */
    /* Values are prefetched once in this many steps along the depth (64 multiply-adds), and this often in a register
     * tile, since each prefetch also computes an address. */
    QK_PREFETCH_STEPS =
        64 * QK_DEPTH > SIMD_WIDTH *SIMD_WIDTH ? 64 * QK_DEPTH / (SIMD_WIDTH * SIMD_WIDTH) : 1,
    QK_PREFETCHES = (VECTORS(DIM_QK) + QK_PREFETCH_STEPS - 1) / QK_PREFETCH_STEPS,
    /* 1: whole keys are read one after the other, the order that hardware prefetchers follow, rather than a vector of
     * each of QK_KEYS keys: with one row only memory limits the product. */
    KEY_AFTER_KEY = (STAGES_K == 0) & (K_CACHE == 0) & (QK_ROWS == 1) & (QK_DEPTH == SIMD_WIDTH) &
                    (VECTORS(DIM_QK) <= 8)
};
/* The number of steps along the depth that are unrolled: several if each has few products. */
#if QK_DEPTH == SIMD_WIDTH
#define UNROLL_DEPTH UNROLL_BY_8
#else
#define UNROLL_DEPTH
#endif

/* The index of element d of row r (of QK_ROWS) in the packed queries. */
INLINE int packed_index(const int r, const int d)
{
    const int in_vector = SIMD_WIDTH / QK_DEPTH;

    return ((d / QK_DEPTH * QK_VECTORS + r / in_vector) * in_vector + r % in_vector) * QK_DEPTH +
           d % QK_DEPTH;
}

/* repeat_fours() repeats four elements of a key for each row of a vector. Each is named, since Oclgrind 21.10
 * reports uninitialized values beyond the end of shorter vectors. */
#if SIMD_WIDTH == 16
#define STORE_HALF_OF_LANES(x, p) vstore8((x), 0, (p))
#define STORE_QUARTER_OF_LANES(x, p) vstore4((x), 0, (p))
INLINE lanes repeat_fours(const float4 x)
{
    return (lanes)(x.x, x.y, x.z, x.w, x.x, x.y, x.z, x.w, x.x, x.y, x.z, x.w, x.x, x.y, x.z, x.w);
}
#elif SIMD_WIDTH == 8
#define STORE_HALF_OF_LANES(x, p) vstore4((x), 0, (p))
#define STORE_QUARTER_OF_LANES(x, p) vstore2((x), 0, (p))
INLINE lanes repeat_fours(const float4 x)
{
    return (lanes)(x.x, x.y, x.z, x.w, x.x, x.y, x.z, x.w);
}
#else
#define STORE_HALF_OF_LANES(x, p) vstore2((x), 0, (p))
#define STORE_QUARTER_OF_LANES(x, p) (*(p) = (x))
INLINE lanes repeat_fours(const float4 x)
{
    return x;
}
#endif

/* Each four lanes have the sums of the same four lanes of four vectors. */
INLINE lanes sum_of_fours(const lanes a, const lanes b, const lanes c, const lanes d)
{
    const lanes even = LOW_IN_FOURS(a, c) + HIGH_IN_FOURS(a, c);
    const lanes odd = LOW_IN_FOURS(b, d) + HIGH_IN_FOURS(b, d);

    return LOW_IN_FOURS(even, odd) + HIGH_IN_FOURS(even, odd);
}

#if QK_DEPTH == SIMD_WIDTH
/* Stores s[r * BLOCK_N + n] = the sum of the lanes of sum[n][r], in the unit of numbers, by transposing and adding in
 * turns. Vectors of eight exchange halves once, since AVX2 has no shuffle of two vectors across these. */
INLINE void store_sums(lanes sum[QK_KEYS][QK_VECTORS], float *s)
{
    lanes x[SIMD_WIDTH];

    UNROLL
    for (int n = 0; n < SIMD_WIDTH; n++)
        x[n] = sum[n % QK_KEYS][n / QK_KEYS];
#if SIMD_WIDTH == 8
    UNROLL
    for (int n = 0; n < 4; n++)
        x[n] = OUTER_HALVES(x[n], x[n + 4]) + INNER_HALVES(x[n], x[n + 4]);
    x[0] = sum_of_fours(x[0], x[1], x[2], x[3]);
#else
    UNROLL
    for (int stage = 0; stage < LOG2_WIDTH; stage++) {
        UNROLL
        for (int c = 0; c < SIMD_WIDTH / 2; c++) {
            const int half_way = SIMD_WIDTH >> (stage + 1);
            if (c < half_way)
                x[c] = LOW_PAIRS(x[c], x[c + half_way]) + HIGH_PAIRS(x[c], x[c + half_way]);
        }
    }
#endif
    x[0] *= unit_of_lanes(K_CACHE);
#if QK_ROWS == 1
    VECTOR(vstore)(x[0], 0, s);
#elif QK_ROWS == 2
    STORE_HALF_OF_LANES(x[0].lo, s);
    STORE_HALF_OF_LANES(x[0].hi, s + BLOCK_N);
#else
    STORE_QUARTER_OF_LANES(x[0].lo.lo, s);
    STORE_QUARTER_OF_LANES(x[0].lo.hi, s + BLOCK_N);
    STORE_QUARTER_OF_LANES(x[0].hi.lo, s + 2 * BLOCK_N);
    STORE_QUARTER_OF_LANES(x[0].hi.hi, s + 3 * BLOCK_N);
#endif
}
#else
/* Stores the sums if a row has four lanes in sum[n]. */
INLINE void store_sums(lanes sum[QK_KEYS][QK_VECTORS], float *s)
{
    UNROLL
    for (int n = 0; n < QK_KEYS; n += 4) {
        UNROLL
        for (int m = 0; m < QK_VECTORS; m++) {
            float *to = s + m * (SIMD_WIDTH / QK_DEPTH) * BLOCK_N + n;
            const lanes x = sum_of_fours(sum[n][m], sum[n + 1][m], sum[n + 2][m], sum[n + 3][m]) *
                            unit_of_lanes(K_CACHE);
#if SIMD_WIDTH == 16
            vstore4(x.lo.lo, 0, to);
            vstore4(x.lo.hi, 0, to + BLOCK_N);
            vstore4(x.hi.lo, 0, to + 2 * BLOCK_N);
            vstore4(x.hi.hi, 0, to + 3 * BLOCK_N);
#else
            vstore4(x.lo, 0, to);
            vstore4(x.hi, 0, to + BLOCK_N);
#endif
        }
    }
}
#endif

/* Returns vector d of the tile's key n, in `row`; scales has those of the tile if keys are
 * quantized. */
INLINE lanes key_columns(const struct arguments *args, const __global k_storage *row, const int n,
                         const int d, const float *scales)
{
#if K_CACHE
    return columns_of_numbers(K_CACHE, DIM_QK, quantized_lanes(K_CACHE, row, d * SIMD_WIDTH),
                              scales, n, d);
#else
    return new_columns(load_columns(K_DTYPE, row, k_step(args), DIM_QK, d), DIM_QK, d);
#endif
}

/* Stages a tile of count keys as f32, in groups of QK_KEYS, the last key repeated: vector d of the
 * group's key n is at d * QK_KEYS + n. Staging runs ahead of the loads: a load of a few columns of
 * a stored vector waits until the store has reached L1. If quantized keys are converted on load,
 * only their scales are staged: that of block c of key n is float c * BLOCK_N + n. Offsets follow the scales. */
NOINLINE void stage_keys(const struct arguments *restrict args, const struct key_range keys,
                         const int count, lanes *staged)
{
    lanes own[STAGES_K ? K_SCALES : 1], *scales = STAGES_K ? own : staged;

#if K_CACHE
    load_factors(K_CACHE, keys.k, keys.k_row, listed_k(keys), count, BLOCKS(DIM_QK), BLOCK_N,
                 (float *)scales);
#endif
    for (int n = 0; STAGES_K && n < (count + QK_KEYS - 1) / QK_KEYS * QK_KEYS; n++) {
        const int key = min(n, count - 1);
        lanes *to = staged + n / QK_KEYS * QK_KEYS * VECTORS(DIM_QK) + n % QK_KEYS;
        const __global k_storage *row = k_of_tile(keys, key);
        UNROLL_BY_8
        for (int d = 0; d < VECTORS(DIM_QK); d += 2) { /* two loads first: they may share one */
            const int next = min(d + 1, VECTORS(DIM_QK) - 1);
            const lanes x = key_columns(args, row, key, d, (const float *)scales);
            const lanes y = key_columns(args, row, key, next, (const float *)scales);
            to[d * QK_KEYS] = x;
            to[next * QK_KEYS] = y;
        }
    }
}

/* Adds q . key n over vector d to sum[n]. x has each key's staged vector, or else the tile's
 * scales. */
INLINE void multiply_depth_vector(const struct arguments *args, const struct key_range keys,
                                  const int *key, const int d, const lanes *x, const lanes *q,
                                  lanes sum[QK_KEYS][QK_VECTORS])
{
    UNROLL
    for (int c = 0; c < SIMD_WIDTH; c += QK_DEPTH) {
        const lanes *y = q + (d * SIMD_WIDTH + c) / QK_DEPTH * QK_VECTORS;
        lanes z[QK_KEYS];
        UNROLL
        for (int n = 0; n < QK_KEYS; n++) {
            const __global k_storage *row = k_of_tile(keys, key[n]);
            z[n] =
                (QK_DEPTH < SIMD_WIDTH) & STAGES_K
                    ? repeat_fours(vload4(0, (const float *)(x + n) + c))
                : QK_DEPTH < SIMD_WIDTH
                    ? repeat_fours(vload4_of(K_DTYPE, place_of(K_DTYPE, row, d * SIMD_WIDTH + c)))
                : STAGES_K ? x[n]
                           : key_columns(args, row, key[n], d, (const float *)x);
        }
        UNROLL
        for (int m = 0; m < QK_VECTORS; m++) {
            UNROLL
            for (int n = 0; n < QK_KEYS; n++)
                sum[n][m] = FMA(y[m], z[n], sum[n][m]);
        }
    }
}

/* s[r * BLOCK_N + n] = q[r] . k[n] for QK_ROWS rows and keys n0 .. n0 + QK_KEYS - 1, the index'th
 * of QK_TILES register tiles. */
INLINE void multiply_register_tile(const int index, const struct arguments *args,
                                   const struct key_range keys, const int n0, const int count,
                                   const lanes *staged, const lanes *q, float *s)
{
    lanes sum[QK_KEYS][QK_VECTORS];
    int key[QK_KEYS];

    UNROLL
    for (int n = 0; n < QK_KEYS; n++)
        key[n] = min(n0 + n, count - 1);
    UNROLL
    for (int n = 0; n < SIMD_WIDTH; n++)
        sum[n % QK_KEYS][n / QK_KEYS] = 0.0f;
    UNROLL
    for (int n = 0; KEY_AFTER_KEY && n < QK_KEYS; n++) {
        const __global k_storage *row = k_of_tile(keys, key[n]);
        prefetch_values(args, keys, index * QK_KEYS + n, QK_TILES * QK_KEYS);
        UNROLL
        for (int d = 0; d < VECTORS(DIM_QK); d++)
            sum[n][0] = FMA(q[d], key_columns(args, row, key[n], d, 0), sum[n][0]);
    }
    UNROLL_DEPTH
    for (int step = 0; !KEY_AFTER_KEY && step < VECTORS(DIM_QK); step++) {
        const int d = vector_in_order(K_CACHE, step);
        if (step % QK_PREFETCH_STEPS == 0)
            prefetch_values(args, keys, index * QK_PREFETCHES + step / QK_PREFETCH_STEPS,
                            QK_TILES * QK_PREFETCHES);
        multiply_depth_vector(args, keys, key, d, staged + (STAGES_K ? d * QK_KEYS : 0), q, sum);
    }
    store_sums(sum, s);
}

/* Computes s[r * BLOCK_N + n] = q[r] . k[n] for count keys, staged if STAGES_K; the scores after
 * them repeat the last. */
NOINLINE void multiply_qk(const struct arguments *restrict args, const struct key_range keys,
                          const int count, const struct row_block *block, const lanes *staged,
                          const lanes *q, float *s)
{
    for (int n = 0; n < count; n += QK_KEYS) {
        for (int r = 0; r < block->rows; r += QK_ROWS)
            multiply_register_tile(n / QK_KEYS * (BLOCK_M / QK_ROWS) + r / QK_ROWS, args, keys, n,
                                   count, staged + (STAGES_K ? n * VECTORS(DIM_QK) : 0),
                                   q + r / QK_ROWS * QUERY_VECTORS, s + r * BLOCK_N + n);
    }
}

/* Packs the block's queries, scaled, with zeros for rows beyond the last. */
NOINLINE void pack_queries(const struct arguments *restrict args, struct row_block *block,
                           lanes *packed)
{
    for (int r = 0; r < BLOCK_M; r++) {
        const float scale = score_scale(args, block->head[r]) * SCALE_UNIT;
        const __global storage *row =
            args->q + row_offset(args->shape->q_stride, block->b, block->head[r], block->query[r]);
        float *to = (float *)(packed + r / QK_ROWS * QUERY_VECTORS);
        for (int d = 0; d < VECTORS(DIM_QK); d++) {
            const lanes x =
                new_columns(load_columns(DTYPE, row, q_step(args), DIM_QK, d), DIM_QK, d) * scale;
            float each[SIMD_WIDTH];
            VECTOR(vstore)(r < block->rows ? x : (lanes)(0.0f), 0, each);
            for (int c = 0; c < SIMD_WIDTH; c++)
                to[packed_index(r % QK_ROWS, d * SIMD_WIDTH + c)] = each[c];
        }
    }
}
#endif
