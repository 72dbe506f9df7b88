/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of queries of backward_cpu UNIT=amx: operands are transposed, and weights become pairs.
 *
 * A part of cpu/backward_blocks.h, which includes it. */
#pragma once

#define STEP_ROWS (2 * TILE) /* the queries in a register tile of Q K^T or dO V^T */
#define STEP_VECTORS 2       /* the vectors of keys in that register tile */
#define STEP_LANES (STEP_ROWS * STEP_VECTORS)
#define COLUMN_VECTORS (BLOCK_M / 2 / SIMD_WIDTH) /* the vectors of pairs of rows in a column */
#define KEY_PAIR_VECTORS (DQ_ROW / SIMD_WIDTH)

#if STEP_ROWS != 32 || BLOCK_M % STEP_ROWS || BLOCK_VECTORS % STEP_VECTORS
#error "a tile of queries and a block of keys must be whole register tiles"
#endif

/* Transposes one half of 32 rows of pairs of neighbouring dims, `row` vectors apart. The first (or
 * second) values of pairs become columns of pairs of rows, `column` vectors apart. */
INLINE void transpose_halves(const int second, const lanes *from, const int row, lanes *to,
                             const int column)
{
    lanes x[TILE];

    UNROLL
    for (int r = 0; r < TILE; r++) {
        const pair_words a = VECTOR(as_uint)(from[2 * r * row]);
        const pair_words b = VECTOR(as_uint)(from[(2 * r + 1) * row]);
        x[r] = second ? choose_halves(a >> 16, b) : choose_halves(a, b << 16);
    }
    transpose(x);
    UNROLL
    for (int c = 0; c < TILE; c++)
        to[c * column] = x[c];
}

/* Transposes rows of pairs along the dim to columns of pairs of neighbouring rows, COLUMN_VECTORS
 * each. A row has `row` vectors. Returns whether a value is infinite or NaN. */
NOINLINE int transpose_pairs(const int row, const lanes *from, const int rows, lanes *to)
{
    pair_words some = 0u;

    for (int n = 0; n < rows * row; n++)
        some |= nonfinite_pairs(VECTOR(as_uint)(from[n]));
    for (int n = 0; n < rows; n += STEP_ROWS) {
        for (int d = 0; d < row; d++) {
            lanes *first_to = to + d * 2 * TILE * COLUMN_VECTORS + n / STEP_ROWS;
            transpose_halves(0, from + n * row + d, row, first_to, 2 * COLUMN_VECTORS);
            transpose_halves(1, from + n * row + d, row, first_to + COLUMN_VECTORS,
                             2 * COLUMN_VECTORS);
        }
    }
    return any_lane(VECTOR(as_int)(some));
}

INLINE lanes pack(const int any, const lanes a, const lanes b)
{
    return any ? pack_any_pairs(a, b) : pack_pairs(a, b);
}

/* Stores P and dS of rows n and n + 1 and vectors m and m + 1 as pairs of rows, where row n / 2
 * was, and dS as pairs of keys. With any (constant), NaNs of every kind stay NaNs. */
INLINE void store_weight_pairs(const int any, const int n, const int m, const lanes p[2][2],
                               const lanes ds[2][2], struct query_tile *tile)
{
    lanes *p_to = tile->p + n / 2 * BLOCK_VECTORS + m,
          *ds_to = tile->ds + n / 2 * BLOCK_VECTORS + m;
    lanes *keys = tile->ds_keys + n * KEY_PAIR_VECTORS + m / 2;

    UNROLL
    for (int c = 0; c < 2; c++) {
        p_to[c] = pack(any, p[0][c], p[1][c]);
        ds_to[c] = pack(any, ds[0][c], ds[1][c]);
        keys[c * KEY_PAIR_VECTORS] = pack(any, ds[c][0], ds[c][1]);
    }
}

/* Rounds P and dS of rows begin .. end - 1 to pairs; rows that share a step with them become zeros.
 * */
NOINLINE void pair_weights_of_tiles(const struct row_range rows, struct query_tile *tile)
{
    const int begin = rows.begin - rows.begin % STEP_ROWS;
    const int end = (rows.end + STEP_ROWS - 1) / STEP_ROWS * STEP_ROWS;

    for (int n = begin; n < end; n += 2) {
        for (int m = 0; m < BLOCK_VECTORS; m += STEP_VECTORS) {
            lanes p[2][2], ds[2][2];
            UNROLL
            for (int r = 0; r < 2; r++) {
                const bool in_use = n + r >= rows.begin && n + r < rows.end;
                UNROLL
                for (int c = 0; c < 2; c++) {
                    p[r][c] = in_use ? tile->p[(n + r) * BLOCK_VECTORS + m + c] : (lanes)(0.0f);
                    ds[r][c] = in_use ? tile->ds[(n + r) * BLOCK_VECTORS + m + c] : (lanes)(0.0f);
                }
            }
            store_weight_pairs(1, n, m, p, ds, tile);
        }
    }
}

/* Turns the products of a step, rows from n0 and vectors from m on, into weights and dS, stored as
 * pairs. */
INLINE void finish_pairs(const float scale, const int n0, const int m, const lanes *scores,
                         const lanes *gradients, struct query_tile *tile)
{
    for (int n = 0; n < STEP_ROWS; n += 2) {
        lanes p[2][2], ds[2][2];
        UNROLL
        for (int r = 0; r < 2; r++) {
            const lanes minus_lse = tile->minus_lse[n0 + n + r];
            const lanes minus_delta = tile->minus_delta[n0 + n + r];
            UNROLL
            for (int c = 0; c < 2; c++) {
                const int at = (n + r) * STEP_VECTORS + c;
                p[r][c] = exponential(fma(scores[at], (lanes)(scale), minus_lse));
                ds[r][c] = p[r][c] * (gradients[at] + minus_delta);
            }
        }
        store_weight_pairs(0, n0 + n, m, p, ds, tile);
    }
}

/* Computes P and dS, as pairs, for rows that all see every key of the block. Rows come in whole
 * steps; q and do are 0 beyond the tile's last row. The products of a step overlap with the weights
 * of the step before. */
NOINLINE void compute_pairs(const float scale, const struct key_block *block,
                            const struct row_range rows, struct query_tile *tile)
{
    const int columns = BLOCK_VECTORS / STEP_VECTORS;
    const int begin = rows.begin / STEP_ROWS * columns;
    const int end = (rows.end + STEP_ROWS - 1) / STEP_ROWS * columns;
    lanes scores[2][STEP_LANES], gradients[2][STEP_LANES];

    for (int step = begin; step <= end; step++) {
        const int n = step / columns * STEP_ROWS, m = step % columns * STEP_VECTORS;
        if (step < end) {
            multiply_operand_tiles(2, STEP_VECTORS, true, TILES(OPERANDS(DIM_QK)), one_part(),
                                   (const uint *)tile->q + n * OPERANDS(ROW_QK),
                                   ROW_BYTES_OF(OPERANDS(ROW_QK)), block->k + m, BLOCK_ROW_BYTES,
                                   scores[step % 2], ROW_BYTES_OF(STEP_VECTORS * SIMD_WIDTH));
            multiply_operand_tiles(2, STEP_VECTORS, true, TILES(OPERANDS(DIM_V)), one_part(),
                                   (const uint *)tile->d_o + n * OPERANDS(ROW_V),
                                   ROW_BYTES_OF(OPERANDS(ROW_V)), block->v + m, BLOCK_ROW_BYTES,
                                   gradients[step % 2], ROW_BYTES_OF(STEP_VECTORS * SIMD_WIDTH));
        }
        if (step > begin)
            finish_pairs(scale, (step - 1) / columns * STEP_ROWS,
                         (step - 1) % columns * STEP_VECTORS, scores[(step - 1) % 2],
                         gradients[(step - 1) % 2], tile);
    }
}

/* Adds the tile's sums of dq to those in the workspace. */
NOINLINE void add_query_sums(const struct query_tile *tile, __global float *to)
{
    for (int n = 0; n < tile->count * VECTORS_QK; n++)
        VECTOR(vstore)(VECTOR(vload)(n, to) + tile->dq[n], n, to);
}
