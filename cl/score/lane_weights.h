/* Scores of a tile become weights, and the gradients of weights those of scores; lanes are keys.
 * Here is all that changes scores: softcap, bias, ALiBi, masks; and dropout.
 *
 * Before including this: lane_blocks.h. */
#ifndef CLATTN_LANE_WEIGHTS_H
#define CLATTN_LANE_WEIGHTS_H
#include "cpu/lane_blocks.h"
#if HAS_DROPOUT
#define RANDOM_LANES SIMD_WIDTH
#include "common/philox.h"
#endif

/* Whether weights follow from the sums of products alone, but where pairs are hidden. */
#if CHANGES_SCORES || HAS_DROPOUT || HAS_DSLOPES
#define PLAIN 0
#else
#define PLAIN 1
#endif

#if HAS_DROPOUT
/* x[n][m]: what the weights of query i + n and the keys of vector m are multiplied by. The random
 * numbers of four queries are computed at once, since four neighbouring keys share a counter. */
INLINE void four_rows_of_factors(SHAPE_PARAMS, const struct place place, const long j,
                                 const long i, lanes x[4][BLOCK_VECTORS])
{
    const words lane = VECTOR(convert_uint)(COUNT_UP);

    for (int m = 0; m < BLOCK_VECTORS; m++) {
        lanes y[4];
        dropout_factors(a, at, place.b * a.heads + place.h, (uint)i + (lane & 3u),
                        (uint)((j + m * SIMD_WIDTH) / 4) + (lane >> 2), y);
        transpose_fours(y);
        UNROLL
        for (int n = 0; n < 4; n++)
            x[n][m] = y[n];
    }
}
#endif

/* p and ds of some rows of a tile, p after dropout; -0 in p where a pair is hidden, and 0 in ds.
 * True if one is. hides: whether one may be. ds of the rows that share DQ_ROWS with these is 0.
 * slope_sums collects ds times the distance. ds_is_raw: without softcap's derivative, as the bias
 * wants it. */
NOINLINE int weigh_tile(const int hides, const int ds_is_raw, SHAPE_PARAMS,
                        const struct place place, const struct block *block,
                        const struct rows rows, struct tile *tile,
                        lanes *slope_sums BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    const float none[BLOCK_M] = {0.0f};
    lanes *p = tile->p, *ds = tile->ds;
    ints hidden = 0;

    multiply_rows(PLAIN ? EXPONENTIALS : PRODUCTS, DIM_QK, (const float *)tile->q, ROW_QK,
                  block->k, CHANGES_SCORES ? none : tile->base, rows.begin, rows.end, p, p);
    multiply_rows(PLAIN ? MULTIPLES : PRODUCTS, DIM_V, (const float *)tile->d_o, ROW_V, block->v,
                  HAS_DROPOUT ? none : tile->delta, rows.begin, rows.end, p, ds);
    if (PLAIN && !hides)
        return 0;
#if HAS_DROPOUT
    lanes kept[4][BLOCK_VECTORS];
#endif
    for (int n = rows.begin; n < rows.end; n++) {
        const long i = tile->i + n;
#if HAS_DROPOUT
        if (n % 4 == 0 || n == rows.begin)
            four_rows_of_factors(a, at, place, block->j, i - n % 4, kept);
#endif
        const float begins = (float)clamp(first_key(a, place.e, i) - block->j, 0L, (long)BLOCK_N);
        const float ends = (float)clamp(end_key(a, place.e, i) - block->j, 0L, (long)block->keys);
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            const lanes key = COUNT_UP + (float)(m * SIMD_WIDTH);
            lanes x = p[n * BLOCK_VECTORS + m];
            lanes slack = 1.0f;
            ints gone = 0;
            if (hides)
                gone = key < begins | key >= ends;
#if HAS_SOFTCAP
            const lanes t = hyperbolic_tangent(x * min(1.0f / a.softcap, FLT_MAX));
            slack = fma(-t, t, (lanes)(1.0f));
            x = t * (a.softcap * UNIT);
#endif
#if HAS_BIAS
            const lanes extra = load_biases(
                bias + at.bias + place.b * a.bias_stride[0] + place.h * a.bias_stride[1] +
                    i * a.bias_stride[2] + (block->j + m * SIMD_WIDTH) * a.bias_stride[3],
                a.bias_stride[3], block->keys - m * SIMD_WIDTH);
            gone |= extra == -INFINITY;
            x += extra;
#endif
#if HAS_ALIBI
            const lanes distance = key + (float)(block->j - i - place.e.diagonal);
            x = fma((lanes)(slopes[at.slopes + place.h] * UNIT), distance, x);
#endif
#if HAS_MASK
            gone |= load_mask(mask + at.mask + place.b * a.mask_stride[0] +
                                  place.h * a.mask_stride[1] + i * a.mask_stride[2] +
                                  (block->j + m * SIMD_WIDTH) * a.mask_stride[3],
                              a.mask_stride[3], block->keys - m * SIMD_WIDTH) == 0.0f;
#endif
            if (CHANGES_SCORES)
                x += tile->base[n];
            lanes weight = PLAIN ? x : EXPONENTIAL(x);
#if HAS_DROPOUT
            lanes gradient =
                weight * fma(kept[n % 4][m], ds[n * BLOCK_VECTORS + m], (lanes)(tile->delta[n]));
            weight *= kept[n % 4][m];
#else
            lanes gradient = PLAIN ? ds[n * BLOCK_VECTORS + m] : weight * ds[n * BLOCK_VECTORS + m];
#endif
            if (hides) {
                weight = gone ? (lanes)(-0.0f) : weight;
                gradient = gone ? (lanes)(0.0f) : gradient;
                slack = gone ? (lanes)(0.0f) : slack; /* of a NaN, otherwise */
                hidden |= gone;
            }
#if HAS_DSLOPES
            *slope_sums = fma(gradient, distance, *slope_sums);
#endif
            p[n * BLOCK_VECTORS + m] = weight;
            ds[n * BLOCK_VECTORS + m] = HAS_SOFTCAP && !ds_is_raw ? gradient * slack : gradient;
        }
    }
    for (int n = (rows.begin - rows.begin % DQ_ROWS) * BLOCK_VECTORS;
         n < rows.begin * BLOCK_VECTORS; n++)
        ds[n] = 0.0f;
    for (int n = rows.end * BLOCK_VECTORS;
         n < (rows.end + DQ_ROWS - 1) / DQ_ROWS * DQ_ROWS * BLOCK_VECTORS; n++)
        ds[n] = 0.0f;
    (void)slope_sums;
    return any_lane(hidden);
}

#endif
