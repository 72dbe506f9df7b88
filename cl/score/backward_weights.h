/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the softmax weights P and the gradients of scores, dS, for a tile of queries and a block of keys. P comes from the
 * scores, which key_lanes.h computes from Q K^T, and dS from dO V^T. SIMD lanes are keys. */
#pragma once
#include "cpu/backward_blocks.h"
#include "cpu/load_gradients.h"
#include "common/philox_lanes.h"
#include "common/dropout.h"

/* Is 1 if weights and the gradients of scores are computed while the products are accumulators. The
 * accumulators then begin with -lse and -delta, and only masked pairs and dfunction need more work. */
enum {
    WEIGHTS_IN_REGISTERS =
        !(HAS_SOFTCAP || HAS_BIAS || HAS_MASK || HAS_ALIBI || CALLS_SCORE_FUNCTION ||
          HAS_MASK_FUNCTION || HAS_DROPOUT || HAS_DSLOPES)
};

/* Is 1 if a block of keys may begin at a key that is not a multiple of four, as columns of block
 * lists may. */
enum { BEGINS_BETWEEN_FOURS = HAS_BLOCKS & (BLOCK_KV % 4 != 0) };

/* x[n][m]: the dropout factors of query i + n and the keys of vector m. Four queries are drawn at
 * once, since four neighbouring keys share a counter's random words. The keys are drawn from the
 * last multiple of four on. */
INLINE void dropout_of_four_rows(const struct arguments *args, const struct head head, const long j,
                                 const long i, lanes x[4][BLOCK_VECTORS])
{
    const words lane = VECTOR(convert_uint)(COUNT_UP);
    const long first = j - j % 4;
    lanes drawn[4][BLOCK_VECTORS + BEGINS_BETWEEN_FOURS];

    for (int m = 0; m < BLOCK_VECTORS + BEGINS_BETWEEN_FOURS; m++) {
        lanes y[4];
        dropout_factors(args, dropout_head(args, head.b, head.h), (uint)i + (lane & 3u),
                        (uint)((first + m * SIMD_WIDTH) / 4) + (lane >> 2), y);
        transpose_fours(y);
        UNROLL
        for (int n = 0; n < 4; n++)
            drawn[n][m] = y[n];
    }
    for (int n = 0; n < 4; n++)
        for (int m = 0; m < BLOCK_VECTORS; m++)
            x[n][m] = BEGINS_BETWEEN_FOURS ? VECTOR(vload)(m, (const float *)drawn[n] + j % 4)
                                           : drawn[n][m];
}

/* Zeros dS of the rows that share a register tile of dq with rows begin .. end - 1. */
INLINE void clear_neighbours(const struct row_range rows, lanes *ds)
{
    for (int n = (rows.begin - rows.begin % DQ_ROWS) * BLOCK_VECTORS;
         n < rows.begin * BLOCK_VECTORS; n++)
        ds[n] = 0.0f;
    for (int n = rows.end * BLOCK_VECTORS;
         n < (rows.end + DQ_ROWS - 1) / DQ_ROWS * DQ_ROWS * BLOCK_VECTORS; n++)
        ds[n] = 0.0f;
}

/* What a function of the distance gives for a tile: whether it hides some pair; the floats of the first row's keys, of
 * which those of row n begin n floats earlier; and the same for score_row. */
#if SHARES_DISTANCES
INLINE int find_distances_of_tile(const struct arguments *args, const struct head head,
                                  const struct key_block *block, struct query_tile *tile)
{
    find_distances(args, function_pair_of(args, head.b, head.h, tile->i, block->j), tile->count,
                   max(block->keys, 1), &tile->distances);
    return tile->distances.hide;
}

INLINE const float *distances_of_first(const struct query_tile *tile)
{
    return (const float *)tile->distances.scores + (DISTANCE_ROWS - 1);
}

INLINE void take_distances(const struct query_tile *tile, const int n, struct score_row *row)
{
    row->distances = &tile->distances;
    row->distance_of_first = DISTANCE_ROWS - 1 - n;
}
#else
INLINE int find_distances_of_tile(const struct arguments *args, const struct head head,
                                  const struct key_block *block, struct query_tile *tile)
{
    return 0;
}

INLINE const float *distances_of_first(const struct query_tile *tile)
{
    return 0;
}

INLINE void take_distances(const struct query_tile *tile, const int n, struct score_row *row)
{
}
#endif

/* Multiplies rows by a block's keys: tile->p becomes exponentials, or products if more steps
 * follow. find_distances_of_tile() precedes it. */
NOINLINE void multiply_scores(const float scale, const struct key_block *block,
                              const struct row_range rows, struct query_tile *tile)
{
    const float zeros[BLOCK_M] = {0.0f};

    MULTIPLY_ROWS(WEIGHTS_IN_REGISTERS ? EXPONENTIALS : PRODUCTS, scale * SCALE_UNIT,
                  OPERANDS(DIM_QK), (const operand *)tile->q, OPERANDS(ROW_QK), block->k,
                  WEIGHTS_IN_REGISTERS ? tile->minus_lse : zeros, rows.begin, rows.end,
                  distances_of_first(tile), tile->p, tile->p);
    (void)scale; /* not used with floats, whose k is scaled already */
}

/* Describes the scores of row n of the tile with a block of keys. */
INLINE struct score_row row_of_tile(const struct arguments *args, const struct head head,
                                    const struct key_block *block, const struct query_tile *tile,
                                    const int n)
{
    struct score_row row =
        score_row_at(args, head.e, head.b, head.h, tile->i + n, block->j, block->keys);

    if (HAS_BLOCKS)
        row.bits = head.bits;
    take_distances(tile, n, &row);
    return row;
}

/* Computes exp(s - lse). left is the result of multiply_scores(); s is the score from
 * finish_scores(). */
INLINE lanes weights_of_lanes(const lanes left, const struct score_vector s, const float minus_lse)
{
    return WEIGHTS_IN_REGISTERS ? left : exponential(s.scores + minus_lse);
}

/* Multiplies P and dS of some rows by the factors that correct weights for a rounded lse. */
NOINLINE void add_missing(const struct row_range rows, struct query_tile *tile)
{
    for (int n = rows.begin; n < rows.end; n++) {
        for (int m = n * BLOCK_VECTORS; m < (n + 1) * BLOCK_VECTORS; m++) {
            tile->p[m] *= tile->missing[n];
            tile->ds[m] *= tile->missing[n];
        }
    }
}

/* Computes P, after dropout, and dS of some rows of a tile and a block. A masked pair has -0 in P
 * and 0 in dS; the result is whether there is one. partial: there may be one, which a function of the
 * distance need not say. slope_sums += dS
 * times the distance. of_bias (constant): dS is the gradient of a bias, without softcap's
 * derivative. */
NOINLINE int compute_weights(int partial, const int of_bias, const struct arguments *restrict args,
                             const struct head head, const struct key_block *block,
                             const struct row_range rows, struct query_tile *tile,
                             lanes *slope_sums)
{
    const float zeros[BLOCK_M] = {0.0f};
    lanes *p = tile->p, *ds = tile->ds;
    ints hidden = 0;

    partial |= find_distances_of_tile(args, head, block, tile);
    multiply_scores(args->shape->scale, block, rows, tile);
    MULTIPLY_ROWS(WEIGHTS_IN_REGISTERS ? MULTIPLES : PRODUCTS, 1.0f, OPERANDS(DIM_V),
                  (const operand *)tile->d_o, OPERANDS(ROW_V), block->v,
                  HAS_DROPOUT ? zeros : tile->minus_delta, rows.begin, rows.end, 0, p, ds);
    if (WEIGHTS_IN_REGISTERS && tile->lacks)
        add_missing(rows, tile);
    if ((WEIGHTS_IN_REGISTERS & !HAS_DFUNCTION) && !partial)
        return 0;
    lanes kept[4][BLOCK_VECTORS];
    struct load_run runs[SCORE_FUNCTION_LOADS];
    if (HAS_DFUNCTION)
        begin_load_runs(runs);
    for (int n = rows.begin; n < rows.end; n++) {
        const long i = tile->i + n;
        if (HAS_DROPOUT && (n % 4 == 0 || n == rows.begin))
            dropout_of_four_rows(args, head, block->j, i - n % 4, kept);
        const struct score_row row = row_of_tile(args, head, block, tile, n);
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes *weights = p + n * BLOCK_VECTORS + m, *gradients = ds + n * BLOCK_VECTORS + m;
            const struct score_vector s = finish_scores(partial, args, row, m * SIMD_WIDTH,
                                                        block->keys - m * SIMD_WIDTH, *weights);
            lanes weight = weights_of_lanes(*weights, s, tile->minus_lse[n]), gradient = *gradients;
            if (!WEIGHTS_IN_REGISTERS)
                weight *= tile->missing[n];
            if (HAS_DROPOUT) {
                gradient = weight * FMA(kept[n % 4][m], gradient, (lanes)(tile->minus_delta[n]));
                weight *= kept[n % 4][m];
            } else if (!WEIGHTS_IN_REGISTERS) {
                gradient = weight * gradient;
            }
            if (partial) {
                weight = s.hidden ? (lanes)(-0.0f) : weight;
                gradient = s.hidden ? (lanes)(0.0f) : gradient;
                hidden |= s.hidden;
            }
            if (HAS_DSLOPES)
                *slope_sums = FMA(gradient, s.distance, *slope_sums);
            if (HAS_DFUNCTION && !of_bias)
                add_load_gradients(s, gradient, runs, head.of_loads);
            if (HAS_DERIVATIVE && !of_bias) /* the derivative of a masked pair may be NaN */
                gradient = partial && s.hidden ? gradient : gradient * s.derivative;
            *weights = weight;
            *gradients = gradient;
        }
    }
    for (int load = 0; HAS_DFUNCTION && load < SCORE_FUNCTION_LOADS && !of_bias; load++)
        end_load_run(runs[load], head.of_loads);
    if (!OPERAND_TILES) /* with tiles pair_weights() clears them */
        clear_neighbours(rows, ds);
    (void)slope_sums;
    return any_lane(hidden);
}
