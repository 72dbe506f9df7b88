/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of keys and tiles of queries of backward_cpu UNIT=pairs, stored as pairs (cpu/operands.h);
 * weights become pairs.
 *
 * A part of cpu/backward_blocks.h, which includes it. */
#pragma once

/* Is nonzero if a value of a pair is infinite or NaN. */
INLINE pair_words nonfinite_pairs(const pair_words x)
{
    const pair_words first = x & 0x7f80u, second = x & 0x7f800000u;

    return VECTOR(as_uint)(first == 0x7f80u | second == 0x7f800000u);
}

/* Returns pairs of neighbouring values of row n, from value d on; zeros follow the last value and
 * row. */
INLINE lanes load_pairs(const int dim, const __global ushort *p, const long row, const long column,
                        const int count, const int n, const int d)
{
    return n < count ? load_pairs_of_row(p + n * row + d * column, column, dim - d) : (lanes)(0.0f);
}

/* Packs rows of a tensor with rows in SIMD lanes: columns[d / 2][row] is the pair of d and d + 1. */
NOINLINE void pack_columns(const int dim, const __global ushort *p, const long row,
                           const long column, const int count, lanes *columns)
{
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int d = 0; d < dim; d += 2 * SIMD_WIDTH) {
            lanes x[SIMD_WIDTH], *to = columns + d / 2 * BLOCK_VECTORS + m;
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = load_pairs(dim, p, row, column, count, m * SIMD_WIDTH + r, d);
            transpose(x);
            for (int c = 0; c < SIMD_WIDTH && d / 2 + c < OPERANDS(ROW_OF(dim)); c++)
                to[c * BLOCK_VECTORS] = x[c];
        }
    }
}

/* Copies rows of a tensor as pairs of neighbours: count of `rows` are in use, the rest are
 * zeros. */
NOINLINE void copy_pairs(const int dim, const __global ushort *p, const long row, const long column,
                         const int count, const int rows, uint *to)
{
    for (int n = 0; n < rows; n++) {
        prefetch_rows_apart(p, row, dim, n, count);
        for (int d = 0; d < dim; d += 2 * SIMD_WIDTH) {
            const lanes x = load_pairs(dim, p, row, column, count, n, d);
            uint pairs[SIMD_WIDTH], *row_to = to + n * OPERANDS(ROW_OF(dim)) + d / 2;
            if (OPERAND_TILES) { /* rows are whole vectors */
                *(lanes *)row_to = x;
                continue;
            }
            if (d / 2 + SIMD_WIDTH <=
                /* Reading the array below would wait until its stores have completed. */
                OPERANDS(ROW_OF(dim))) {
                store_words(VECTOR(as_uint)(x), row_to);
                continue;
            }
            VECTOR(vstore)(VECTOR(as_uint)(x), 0, pairs);
            for (int c = 0; c < SIMD_WIDTH && d / 2 + c < OPERANDS(ROW_OF(dim)); c++)
                row_to[c] = pairs[c];
        }
    }
}

/* Copies rows of a tensor as pairs of rows: each group of 2 * `apart` rows becomes `apart` pairs,
 * which join rows n and n + apart. count of `rows` are in use, then zeros. Returns whether a value
 * is infinite or NaN. */
NOINLINE int pack_row_pairs(const int dim, const __global ushort *p, const long row,
                            const long column, const int count, const int rows, const int apart,
                            uint *to)
{
    pair_words some = 0u;

    for (int pair = 0; pair < rows / 2; pair++) {
        const int n = pair / apart * 2 * apart + pair % apart;
        const __global ushort *first = p + n * row, *second = first + apart * row;
        for (int d = 0; d < ROW_OF(dim); d += SIMD_WIDTH) {
            pair_words x = 0u;
            if (column == 1 && n + apart < count && d + SIMD_WIDTH <= dim) {
                x = interleave(first + d, second + d);
            } else if (n < count) {
                uint pairs[SIMD_WIDTH];
                for (int c = 0; c < SIMD_WIDTH; c++)
                    pairs[c] =
                        d + c >= dim
                            ? 0
                            : (uint)first[(d + c) * column] |
                                  (n + apart < count ? (uint)second[(d + c) * column] << 16 : 0);
                x = VECTOR(vload)(0, pairs);
            }
            some |= nonfinite_pairs(x);
            VECTOR(vstore)(x, 0, to + pair * ROW_OF(dim) + d);
        }
    }
    return any_lane(VECTOR(as_int)(some));
}

/* Loads the block's keys and values. */
INLINE void load_key_pairs(const struct arguments *args, const __global ushort *k,
                           const __global ushort *v, struct key_block *block)
{
    block->nonfinite = pack_row_pairs(DIM_QK, k, args->shape->k_stride[2], k_step(args),
                                      block->keys, BLOCK_N, KEYS_APART, (uint *)block->k_rows);
    pack_columns(DIM_QK, k, args->shape->k_stride[2], k_step(args), block->keys, block->k);
    pack_columns(DIM_V, v, args->shape->v_stride[2], v_step(args), block->keys, block->v);
}

/* Rounds P and dS of rows begin .. end - 1 to pairs of rows in the same memory: rows n and n + 1
 * lie where row n / 2 was, with zeros for rows outside. dS is also stored as pairs of keys, in
 * ds_keys. */
NOINLINE void pair_weights(const struct row_range rows, struct query_tile *tile)
{
    const int begin = rows.begin - rows.begin % DQ_ROWS;
    const int end = (rows.end + DQ_ROWS - 1) / DQ_ROWS * DQ_ROWS;
    ushort *keys = (ushort *)tile->ds_keys;
    lanes *p = tile->p, *ds = tile->ds;

    for (int n = begin; n < end; n++) {
        const bool in_use = n >= rows.begin && n < rows.end;
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            ((struct unaligned_ushorts *)(keys + n * BLOCK_N + m * SIMD_WIDTH))->x =
                in_use ? round_any(ds[n * BLOCK_VECTORS + m]) : (ushorts)(0);
    }
    if (rows.begin % 2)
        for (int m = 0; m < BLOCK_VECTORS; m++)
            p[(rows.begin - 1) * BLOCK_VECTORS + m] = ds[(rows.begin - 1) * BLOCK_VECTORS + m] =
                0.0f;
    if (rows.end % 2)
        for (int m = 0; m < BLOCK_VECTORS; m++)
            p[rows.end * BLOCK_VECTORS + m] = ds[rows.end * BLOCK_VECTORS + m] = 0.0f;
    for (int n = rows.begin / 2; n < (rows.end + 1) / 2; n++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            const int first = 2 * n * BLOCK_VECTORS + m, second = first + BLOCK_VECTORS;
            p[n * BLOCK_VECTORS + m] = pack_any_pairs(p[first], p[second]);
            ds[n * BLOCK_VECTORS + m] = pack_any_pairs(ds[first], ds[second]);
        }
    }
}
