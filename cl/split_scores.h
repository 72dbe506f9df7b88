/* Products of split_lanes' queries and a tile's keys. Needs ROWS, SCORE_ROWS, SCORE_COLUMNS, BN and
 * AHEAD.
 *
 * A vector has SCORE_COLUMNS columns of WIDTH / SCORE_COLUMNS rows, one row after the other. So
 * much of a key, the same for each row of the vector, is multiplied with SCORE_VECTORS of them. The
 * fewer columns, the fewer steps across lanes in the end, and the more rows must there be. */
#ifndef CLATTN_SPLIT_SCORES_H
#define CLATTN_SPLIT_SCORES_H
#include "split_keys.h"

#define SCORE_VECTORS (SCORE_ROWS * SCORE_COLUMNS / WIDTH)
#define SCORE_KEYS (WIDTH / SCORE_VECTORS)
/* The steps along a row: unrolled if there are few products in each. */
#if SCORE_COLUMNS == WIDTH
#define STEPS_ALONG UNROLL
#else
#define STEPS_ALONG
#endif
/* Vectors of SCORE_ROWS queries. */
#define QUERY_VECTORS (VECTORS(DIM_QK) * SCORE_ROWS)
/* Whether keys are kept as f32 for the next rows, or to be read a few columns at a time. */
#if SCORE_COLUMNS == WIDTH
#define KEEP_K (STAGED && ROWS > SCORE_ROWS)
#else
#define KEEP_K (STAGED || !UNIT_K || DIM_QK % WIDTH)
#endif

/* Moments at which values are asked for. */
#define SCORE_MOMENTS (BN / SCORE_KEYS * (ROWS / SCORE_ROWS) * VECTORS(DIM_QK))

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

/* sum[n] += q . key n, of vectors d of both. */
INLINE void multiply_vector(const struct attention_shape a, const struct keys keys, const int d,
                            const int *key, const lanes *kept, const lanes *q,
                            lanes sum[SCORE_KEYS][SCORE_VECTORS])
{
    UNROLL
    for (int c = 0; c < WIDTH; c += SCORE_COLUMNS) {
        const lanes *y = q + (d * WIDTH + c) / SCORE_COLUMNS * SCORE_VECTORS;
        UNROLL
        for (int n = 0; n < SCORE_KEYS; n++) {
#if KEEP_K && SCORE_COLUMNS == WIDTH
            const lanes x = kept[n * VECTORS(DIM_QK) + d];
#elif KEEP_K
            const float *columns = (const float *)(kept + n * VECTORS(DIM_QK) + d) + c;
            const lanes x = spread(vload4(0, columns));
#elif SCORE_COLUMNS == WIDTH
            const lanes x = key_columns(a, keys, key[n], d);
#else
            const lanes x = spread(vload4(0, keys.k + key[n] * a.k_stride[2] + d * WIDTH + c));
#endif
            UNROLL
            for (int m = 0; m < SCORE_VECTORS; m++)
                sum[n][m] = fma(y[m], x, sum[n][m]);
        }
    }
}

/* s[r * BN + n] = q[r] . k[n] for count keys; the scores after them repeat the last. */
INLINE void multiply_keys(const struct attention_shape a, const struct keys keys, const int count,
                          const int rows, const lanes *q, float *s)
{
    for (int n0 = 0; n0 < count; n0 += SCORE_KEYS) {
        int key[SCORE_KEYS];
        lanes kept[KEEP_K ? SCORE_KEYS * VECTORS(DIM_QK) : 1];
        UNROLL
        for (int n = 0; n < SCORE_KEYS; n++)
            key[n] = min(n0 + n, count - 1);
        for (int n = 0; KEEP_K && n < SCORE_KEYS; n++) {
            UNROLL
            for (int d = 0; d < VECTORS(DIM_QK); d++)
                kept[n * VECTORS(DIM_QK) + d] = key_columns(a, keys, key[n], d);
        }
        for (int r0 = 0; r0 < rows; r0 += SCORE_ROWS) {
            lanes sum[SCORE_KEYS][SCORE_VECTORS];
            UNROLL
            for (int n = 0; n < WIDTH; n++)
                sum[n % SCORE_KEYS][n / SCORE_KEYS] = 0.0f;
            STEPS_ALONG
            for (int d = 0; d < VECTORS(DIM_QK); d++) {
                ask_for(V_CACHE, keys.v, a.v_stride[2], V_STEP, keys.left,
                        (n0 / SCORE_KEYS * (ROWS / SCORE_ROWS) + r0 / SCORE_ROWS) *
                                VECTORS(DIM_QK) + d,
                        SCORE_MOMENTS, AHEAD - 1, BYTES(V_CACHE, DIM_V));
                multiply_vector(a, keys, d, key, kept, q + r0 / SCORE_ROWS * QUERY_VECTORS, sum);
            }
            store_sums(sum, s + r0 * BN + n0);
        }
    }
}

#endif
