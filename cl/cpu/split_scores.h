/* Products of split_lanes' queries and a tile's keys. Needs ROWS, SCORE_ROWS, SCORE_COLUMNS, BN and
 * AHEAD.
 *
 * A vector has SCORE_COLUMNS columns of WIDTH / SCORE_COLUMNS rows, one row after the other. So
 * much of a key, the same for each row of the vector, is multiplied with SCORE_VECTORS of them. The
 * fewer columns, the fewer steps across lanes in the end, and the more rows must there be. */
#ifndef CLATTN_SPLIT_SCORES_H
#define CLATTN_SPLIT_SCORES_H
#include "cpu/split_keys.h"

#define SCORE_VECTORS (SCORE_ROWS * SCORE_COLUMNS / WIDTH)
#define SCORE_KEYS (WIDTH / SCORE_VECTORS)
/* The steps along a row: some at a time if there are few products in each. */
#if SCORE_COLUMNS == WIDTH
#define STEPS_ALONG BY_EIGHTS
#else
#define STEPS_ALONG
#endif
/* Vectors of SCORE_ROWS queries. */
#define QUERY_VECTORS (VECTORS(DIM_QK) * SCORE_ROWS)
#define KEPT_KEYS (KEEP_K ? BN * VECTORS(DIM_QK) : 1) /* vectors of a tile's keys */

/* Turns in which rows and keys of a tile are multiplied. */
#define SCORE_TURNS (BN / SCORE_KEYS * (ROWS / SCORE_ROWS))

/* Where column d of row r (of SCORE_ROWS) is among the floats of the packed queries. */
INLINE int packed_place(const int r, const int d)
{
    const int in_vector = WIDTH / SCORE_COLUMNS;

    return ((d / SCORE_COLUMNS * SCORE_VECTORS + r / in_vector) * in_vector + r % in_vector) *
               SCORE_COLUMNS +
           d % SCORE_COLUMNS;
}

#if SCORE_COLUMNS == WIDTH
/* s[r * BN + n] = the sum of the lanes of sum[n][r]. */
INLINE void store_sums(lanes sum[SCORE_KEYS][SCORE_VECTORS], float *s)
{
    lanes x[WIDTH];

    UNROLL
    for (int n = 0; n < WIDTH; n++)
        x[n] = sum[n % SCORE_KEYS][n / SCORE_KEYS];
    UNROLL
    for (int stage = 0; stage < LOG2_WIDTH; stage++) {
        UNROLL
        for (int c = 0; c < WIDTH / 2; c++) {
            const int half_way = WIDTH >> (stage + 1);
            if (c < half_way)
                x[c] = LOW_PAIRS(x[c], x[c + half_way]) + HIGH_PAIRS(x[c], x[c + half_way]);
        }
    }
#if SCORE_ROWS == 1
    VECTOR(vstore)(x[0], 0, s);
#elif SCORE_ROWS == 2
    STORE_HALF_OF_LANES(x[0].lo, s);
    STORE_HALF_OF_LANES(x[0].hi, s + BN);
#else
    STORE_QUARTER_OF_LANES(x[0].lo.lo, s);
    STORE_QUARTER_OF_LANES(x[0].lo.hi, s + BN);
    STORE_QUARTER_OF_LANES(x[0].hi.lo, s + 2 * BN);
    STORE_QUARTER_OF_LANES(x[0].hi.hi, s + 3 * BN);
#endif
}
#else
/* Likewise of the four lanes that a row has in sum[n]. */
INLINE void store_sums(lanes sum[SCORE_KEYS][SCORE_VECTORS], float *s)
{
    UNROLL
    for (int n = 0; n < SCORE_KEYS; n += 4) {
        UNROLL
        for (int m = 0; m < SCORE_VECTORS; m++) {
            float *to = s + m * (WIDTH / SCORE_COLUMNS) * BN + n;
            const lanes even = LOW_IN_FOURS(sum[n][m], sum[n + 2][m]) +
                               HIGH_IN_FOURS(sum[n][m], sum[n + 2][m]);
            const lanes odd = LOW_IN_FOURS(sum[n + 1][m], sum[n + 3][m]) +
                              HIGH_IN_FOURS(sum[n + 1][m], sum[n + 3][m]);
            const lanes x = LOW_IN_FOURS(even, odd) + HIGH_IN_FOURS(even, odd);
#if WIDTH == 16
            vstore4(x.lo.lo, 0, to);
            vstore4(x.lo.hi, 0, to + BN);
            vstore4(x.hi.lo, 0, to + 2 * BN);
            vstore4(x.hi.hi, 0, to + 3 * BN);
#else
            vstore4(x.lo, 0, to);
            vstore4(x.hi, 0, to + BN);
#endif
        }
    }
}
#endif

#if SCORE_COLUMNS < WIDTH
/* The same columns of a key for each row of a vector; each named, since Oclgrind 21.10 looks for
 * uninitialized values beyond the end of shorter vectors. */
INLINE lanes spread(const float4 x)
{
#if WIDTH == 16
    return (lanes)(x.x, x.y, x.z, x.w, x.x, x.y, x.z, x.w, x.x, x.y, x.z, x.w, x.x, x.y, x.z, x.w);
#else
    return (lanes)(x.x, x.y, x.z, x.w, x.x, x.y, x.z, x.w);
#endif
}
#endif

/* Copies a tile of count keys, in groups of SCORE_KEYS, the last key repeated: vector d of the
 * group's key n is at d * SCORE_KEYS + n. Some time before they are read: what is stored as a
 * vector and read a few columns at a time is read slowly until it has reached the cache. */
NOINLINE void keep_keys(const struct attention_shape a, const struct keys keys, const int count,
                        lanes *kept)
{
#if K_CACHE
    lanes scales[BN / WIDTH * BLOCKS(DIM_QK)];
    load_scales(K_CACHE, keys.k, keys.k_row, count, BLOCKS(DIM_QK), BN, (float *)scales);
#endif
    for (int n = 0; n < (count + SCORE_KEYS - 1) / SCORE_KEYS * SCORE_KEYS; n++) {
        const int key = min(n, count - 1);
        const __global k_storage *row = keys.k + key * keys.k_row;
        lanes *to = kept + n / SCORE_KEYS * SCORE_KEYS * VECTORS(DIM_QK) + n % SCORE_KEYS;
        BY_EIGHTS
        for (int d = 0; d < VECTORS(DIM_QK); d++) {
#if K_CACHE
            to[d * SCORE_KEYS] = quantized_lanes(K_CACHE, row, d * WIDTH) *
                                 ((const float *)scales)[d * WIDTH / BLOCK_VALUES * BN + key];
#else
            to[d * SCORE_KEYS] = load_new_columns(row, K_STEP, DIM_QK, d);
#endif
        }
    }
}

/* sum[n] += q . key n, of vectors d of both; that of key n is x[n], if kept. */
INLINE void multiply_vector(const struct attention_shape a, const struct keys keys, const int *key,
                            const int d, const lanes *x, const lanes *q,
                            lanes sum[SCORE_KEYS][SCORE_VECTORS])
{
    UNROLL
    for (int c = 0; c < WIDTH; c += SCORE_COLUMNS) {
        const lanes *y = q + (d * WIDTH + c) / SCORE_COLUMNS * SCORE_VECTORS;
        UNROLL
        for (int n = 0; n < SCORE_KEYS; n++) {
#if KEEP_K && SCORE_COLUMNS == WIDTH
            const lanes z = x[n];
#elif KEEP_K
            const lanes z = spread(vload4(0, (const float *)(x + n) + c));
#elif SCORE_COLUMNS == WIDTH
            const lanes z = load_new_columns(keys.k + key[n] * keys.k_row, K_STEP, DIM_QK, d);
#else
            const lanes z = spread(vload4(0, keys.k + key[n] * keys.k_row + d * WIDTH + c));
#endif
            UNROLL
            for (int m = 0; m < SCORE_VECTORS; m++)
                sum[n][m] = fma(y[m], z, sum[n][m]);
        }
    }
}

/* s[r * BN + n] = q[r] . k[n] of SCORE_ROWS rows and keys n0 .. n0 + SCORE_KEYS - 1, in one of
 * SCORE_TURNS turns. */
INLINE void multiply_some(const int turn, const struct attention_shape a, const struct keys keys,
                          const int n0, const int count, const lanes *kept, const lanes *q,
                          float *s)
{
    lanes sum[SCORE_KEYS][SCORE_VECTORS];
    int key[SCORE_KEYS];

    UNROLL
    for (int n = 0; n < SCORE_KEYS; n++)
        key[n] = min(n0 + n, count - 1);
    UNROLL
    for (int n = 0; n < WIDTH; n++)
        sum[n % SCORE_KEYS][n / SCORE_KEYS] = 0.0f;
    STEPS_ALONG
    for (int d = 0; d < VECTORS(DIM_QK); d++) {
        ask_for_values(a, keys, turn * VECTORS(DIM_QK) + d, SCORE_TURNS * VECTORS(DIM_QK));
        multiply_vector(a, keys, key, d, kept + d * SCORE_KEYS, q, sum);
    }
    store_sums(sum, s);
}

/* s[r * BN + n] = q[r] . k[n] for count keys, kept if KEEP_K; the scores after them repeat the
 * last. */
NOINLINE void multiply_keys(const struct attention_shape a, const struct keys keys,
                            const int count, const int rows, const lanes *kept, const lanes *q,
                            float *s)
{
    for (int n = 0; n < count; n += SCORE_KEYS) {
        for (int r = 0; r < rows; r += SCORE_ROWS)
            multiply_some(n / SCORE_KEYS * (ROWS / SCORE_ROWS) + r / SCORE_ROWS, a, keys, n, count,
                          kept + (KEEP_K ? n * VECTORS(DIM_QK) : 0),
                          q + r / SCORE_ROWS * QUERY_VECTORS, s + r * BN + n);
    }
}

#endif
