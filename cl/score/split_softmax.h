/* SPDX-License-Identifier: Apache-2.0 */
/* The online softmax of split_cpu: products of its rows and a tile's keys become scores
 * (key_lanes.h) and weights. SIMD lanes are keys; row_max is kept with rows in lanes. Needs BLOCK_M
 * and BLOCK_N. */
#pragma once
#include "score/key_lanes.h"
#include "cpu/split_rows.h"
#include "common/philox_lanes.h"
#include "common/dropout.h"

/* The number of rows that have row_max and factors in one vector; if it is below SIMD_WIDTH, lane n
 * is row n % BLOCK_M. */
#define MAX_ROWS (BLOCK_M < SIMD_WIDTH ? BLOCK_M : SIMD_WIDTH)

#if HAS_DROPOUT
/* Applies dropout to the weights of row r and keys j .. j + count - 1; -0 stays -0. */
INLINE void drop_weights(const struct arguments *args, const struct row_block *block, const int r,
                         const long j, const int count, float *p)
{
    for (int n0 = 0; n0 < count; n0 += 4 * SIMD_WIDTH) {
        lanes x[4];
        dropout_factors(args, dropout_head(args, block->b, block->head[r]), (uint)block->query[r],
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

/* Turns the products s of row r and keys j .. j + count - 1 into scores, and returns the largest of
 * each lane. hides (constant): some keys may be masked; their scores become -inf. */
INLINE lanes scores_of_row(const int hides, const struct arguments *args,
                           const struct row_block *block, const int r, const long j,
                           const int count, float *s)
{
    struct score_row row;
    lanes maxima = -INFINITY;

    if (hides || CHANGES_SCORES)
        row = score_row_at(args, block->e, block->b, block->head[r], block->query[r], j, count);
#if HAS_BLOCKS
    row.bits = block_bits_of(args, block->bits, block->b, block->head[r]);
#endif
    for (int n = 0; n < count; n += SIMD_WIDTH) {
        lanes x = VECTOR(vload)(0, s + n);
        if (hides || CHANGES_SCORES) {
            x = visible_scores(finish_scores(hides, args, row, n, count - n, x));
            VECTOR(vstore)(x, 0, s + n);
        }
        maxima = x > maxima ? x : maxima;
    }
    return maxima;
}

/* The largest lanes: lane n is that of x[n % MAX_ROWS]. */
INLINE lanes maxima_of_rows(const lanes *x)
{
    lanes y[SIMD_WIDTH];

    UNROLL
    for (int n = 0; n < SIMD_WIDTH; n++)
        y[n] = x[n % MAX_ROWS];
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

/* Turns the scores s of a row into weights exp(score - base), and returns their sum in each lane.
 * If `hides`, a masked key has the weight -0 and sets its lane of *hidden. */
INLINE lanes exponentials_of_row(const int hides, const float base, const int count, float *s,
                                 ints *hidden)
{
    lanes sums = 0.0f;

    for (int n = 0; n < count; n += SIMD_WIDTH) {
        const lanes x = VECTOR(vload)(0, s + n);
        lanes p = exponential(x - base);
        if (hides) {
            const ints is_hidden = x == -INFINITY;
            p = is_hidden ? (lanes)(-0.0f) : p;
            *hidden |= is_hidden & (COUNT_UP + (float)n < (float)count);
        }
        sums += p;
        VECTOR(vstore)(p, 0, s + n);
    }
    return sums;
}

/* Turns the products s of all rows and keys j .. j + count - 1 into weights. Updates row_max and
 * row_sum; rescale is the factor of sums of earlier weights. Returns whether a pair is masked; such
 * a pair has the weight -0. */
NOINLINE int softmax_of_rows(const int hides, const struct arguments *restrict args,
                             const struct row_block *block, const long j, const int count, float *s,
                             lanes *row_max, lanes *row_sum, lanes *rescale)
{
    ints hidden = 0;
#if HAS_DROPOUT
    /* The shape is copied once: the compiler must assume that stores to weights may change what
     * args points to. */
    const struct attention_shape shape = *args->shape;
    const struct attention_call call = *args->call;
    const struct arguments own = {&shape, &call};
#endif

    for (int r0 = 0; r0 < block->rows; r0 += MAX_ROWS) {
        const int rows = min(block->rows - r0, MAX_ROWS);
        float base[SIMD_WIDTH], rescales[SIMD_WIDTH];
        lanes maxima[MAX_ROWS];
        UNROLL
        for (int r = 0; r < MAX_ROWS; r++)
            maxima[r] = -INFINITY;
        for (int r = 0; r < rows; r++)
            maxima[r] = scores_of_row(hides, args, block, r0 + r, j, count, s + (r0 + r) * BLOCK_N);
        const lanes old_max = row_max[r0 / SIMD_WIDTH], tile_max = maxima_of_rows(maxima);
        const lanes new_max = tile_max > old_max ? tile_max : old_max;
        const lanes bases = new_max == -INFINITY ? (lanes)(0.0f) : new_max;
        row_max[r0 / SIMD_WIDTH] = new_max;
        rescale[r0 / SIMD_WIDTH] = exponential(old_max - bases);
        VECTOR(vstore)(bases, 0, base);
        VECTOR(vstore)(rescale[r0 / SIMD_WIDTH], 0, rescales);
        for (int r = 0; r < rows; r++) {
            const lanes sums =
                exponentials_of_row(hides, base[r], count, s + (r0 + r) * BLOCK_N, &hidden);
            row_sum[r0 + r] = FMA(row_sum[r0 + r], (lanes)(rescales[r]), sums);
#if HAS_DROPOUT
            drop_weights(&own, block, r0 + r, j, count, s + (r0 + r) * BLOCK_N);
#endif
        }
    }
    return hides && any_lane(hidden);
}
