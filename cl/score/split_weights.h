/* From the scores of split_lanes' rows at a tile's keys to weights. Needs BLOCK_M and BLOCK_N. */
#ifndef CLATTN_SPLIT_WEIGHTS_H
#define CLATTN_SPLIT_WEIGHTS_H
#include "score/lane_scores.h"
#include "cpu/split_place.h"
#if HAS_DROPOUT
#define RANDOM_LANES SIMD_WIDTH
#include "common/philox.h"
#endif

/* Rows whose maxima and factors are lanes of a vector; with fewer than SIMD_WIDTH, lane n is row
 * n % BLOCK_M. */
#define TOGETHER (BLOCK_M < SIMD_WIDTH ? BLOCK_M : SIMD_WIDTH)

#if HAS_DROPOUT
/* The weights of keys j .. j + count - 1 of one row after dropout; one of -0 stays one. */
INLINE void drop_weights(SHAPE_PARAMS, const struct place *place, const int r, const long j,
                         const int count, float *p)
{
    for (int n0 = 0; n0 < count; n0 += 4 * SIMD_WIDTH) {
        lanes x[4];
        dropout_factors(a, at, place->b * a.heads + place->head[r], (uint)place->query[r],
                        (uint)((j + n0) / 4) + VECTOR(convert_uint)(COUNT_UP), x);
        const lanes even_low = LOW_PAIRS(x[0], x[2]), odd_low = LOW_PAIRS(x[1], x[3]);
        const lanes even_high = HIGH_PAIRS(x[0], x[2]), odd_high = HIGH_PAIRS(x[1], x[3]);
        x[0] = LOW_PAIRS(even_low, odd_low);
        x[1] = HIGH_PAIRS(even_low, odd_low);
        x[2] = LOW_PAIRS(even_high, odd_high);
        x[3] = HIGH_PAIRS(even_high, odd_high);
        UNROLL
        for (int c = 0; c < 4; c++) {
            float *weights = p + n0 + c * SIMD_WIDTH;
            if (n0 + c * SIMD_WIDTH < BLOCK_N)
                VECTOR(vstore)(VECTOR(vload)(0, weights) * x[c], 0, weights);
        }
    }
}
#endif

/* Finishes the scores of row r and keys j .. j + count - 1, in s; returns the largest of each lane.
 * hides (constant): some may be hidden, which become -inf. */
INLINE lanes finish_row(const int hides, SHAPE_PARAMS, const struct place *place, const int r,
                        const long j, const int count,
                        float *s BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    const int begins = (int)clamp(place->first[r] - j, 0L, (long)BLOCK_N);
    const int ends = (int)clamp(place->end[r] - j, 0L, (long)count);
    lanes tops = -INFINITY;

    for (int n = 0; n < count; n += SIMD_WIDTH) {
        lanes x = VECTOR(vload)(0, s + n);
        if (hides || CHANGES_SCORES)
            x = finish_scores(a, at, x, place->b, place->head[r], place->query[r], j + n,
                              place->e.diagonal, count - n BIAS_ARG MASK_ARG SLOPES_ARG);
        if (hides) {
            const lanes key = COUNT_UP + (float)n;
            const ints outside = (key < (float)begins) | (key >= (float)ends);
            x = outside ? (lanes)(-INFINITY) : x;
        }
        if (hides || CHANGES_SCORES)
            VECTOR(vstore)(x, 0, s + n);
        tops = x > tops ? x : tops;
    }
    return tops;
}

/* Lane n is the largest lane of x[n % TOGETHER]. */
INLINE lanes largest_of_rows(const lanes *x)
{
    lanes y[SIMD_WIDTH];

    UNROLL
    for (int n = 0; n < SIMD_WIDTH; n++)
        y[n] = x[n % TOGETHER];
    UNROLL
    for (int stage = 0; stage < LOG2_WIDTH; stage++) {
        UNROLL
        for (int c = 0; c < SIMD_WIDTH / 2; c++) {
            const int half_way = SIMD_WIDTH >> (stage + 1);
            if (c < half_way) {
                const lanes low = LOW_PAIRS(y[c], y[c + half_way]);
                const lanes high = HIGH_PAIRS(y[c], y[c + half_way]);
                y[c] = low > high ? low : high;
            }
        }
    }
    return y[0];
}

/* One row's scores become weights, with hides those of hidden keys -0; returns their sums and adds
 * to *gone which lanes hid a key. */
INLINE lanes weigh_row(const int hides, const float base, const int count, float *s, ints *gone)
{
    lanes sums = 0.0f;

    for (int n = 0; n < count; n += SIMD_WIDTH) {
        const lanes x = VECTOR(vload)(0, s + n);
        lanes p = EXPONENTIAL(x - base);
        if (hides) {
            const ints none = x == -INFINITY;
            p = none ? (lanes)(-0.0f) : p;
            *gone |= none & (COUNT_UP + (float)n < (float)count);
        }
        sums += p;
        VECTOR(vstore)(p, 0, s + n);
    }
    return sums;
}

/* The scores of all rows and keys j .. j + count - 1 become weights. What top and total hold is
 * updated; factor: of older weights. Returns whether a pair is hidden, which has a weight of -0. */
NOINLINE int weigh_rows(const int hides, SHAPE_PARAMS, const struct place *place, const long j,
                        const int count, float *s, lanes *top, lanes *total,
                        lanes *factor BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    ints gone = 0;

    for (int r0 = 0; r0 < place->rows; r0 += TOGETHER) {
        const int rows = min(place->rows - r0, TOGETHER);
        float base[SIMD_WIDTH], factors[SIMD_WIDTH];
        lanes tops[TOGETHER];
        UNROLL
        for (int r = 0; r < TOGETHER; r++)
            tops[r] = -INFINITY;
        for (int r = 0; r < rows; r++)
            tops[r] = finish_row(hides, a, at, place, r0 + r, j, count,
                                 s + (r0 + r) * BLOCK_N BIAS_ARG MASK_ARG SLOPES_ARG);
        const lanes old_top = top[r0 / SIMD_WIDTH], new = largest_of_rows(tops);
        const lanes new_top = new > old_top ? new : old_top;
        const lanes bases = new_top == -INFINITY ? (lanes)(0.0f) : new_top;
        top[r0 / SIMD_WIDTH] = new_top;
        factor[r0 / SIMD_WIDTH] = EXPONENTIAL(old_top - bases);
        VECTOR(vstore)(bases, 0, base);
        VECTOR(vstore)(factor[r0 / SIMD_WIDTH], 0, factors);
        for (int r = 0; r < rows; r++) {
            const lanes sums = weigh_row(hides, base[r], count, s + (r0 + r) * BLOCK_N, &gone);
            total[r0 + r] = fma(total[r0 + r], (lanes)(factors[r]), sums);
#if HAS_DROPOUT
            drop_weights(a, at, place, r0 + r, j, count, s + (r0 + r) * BLOCK_N);
#endif
        }
    }
    return hides && any_lane(gone);
}

#endif
