/* SPDX-License-Identifier: Apache-2.0 */
/* The product P V of split_cpu, register-blocked. Needs BLOCK_M, PV_ROWS, PV_VECTORS, BLOCK_N and
 * PREFETCH_TILES. With OPERAND_PAIRS both products are in bf16/split_pairs.h. */
#pragma once
#include "cpu/split_keys.h"
#include "cpu/split_rows.h"
#include "score/key_lanes.h"

/* Returns whether a value is infinite or NaN: its product with a weight of 0 would be NaN. */
NOINLINE int holds_nonfinite(const struct arguments *restrict args, const struct key_range keys,
                             const int count)
{
    ints most = 0;

    NO_UNROLL
    for (int n = 0; n < count; n++) {
        NO_UNROLL
        for (int c = 0; c < VECTORS(DIM_V); c++) {
            const ints x = VECTOR(as_int)(value_columns(args, keys, n, c)) & 0x7fffffff;
            most = x > most ? x : most;
        }
    }
    return any_lane(most >= 0x7f800000);
}

/* Like multiply_pv(), but leaves out pairs that a weight of -0 masks. Partially visible tiles with
 * non-finite values need it. */
NOINLINE void add_visible_values(const struct arguments *restrict args, const struct key_range keys,
                                 const int count, const int rows, const float *rescale,
                                 const float *p, lanes *o)
{
    NO_UNROLL
    for (int r = 0; r < rows; r++) {
        NO_UNROLL
        for (int c = 0; c < VECTORS(DIM_V); c++) {
            lanes sum = o[r * VECTORS(DIM_V) + c] * rescale[r];
            NO_UNROLL
            for (int n = 0; n < count; n++) {
                const lanes y = value_columns(args, keys, n, c);
                if (as_int(p[r * BLOCK_N + n]) >= 0)
                    sum = FMA((lanes)(p[r * BLOCK_N + n]), y, sum);
            }
            o[r * VECTORS(DIM_V) + c] = sum;
        }
    }
}

#if OPERAND_PAIRS
#include "bf16/split_pairs.h"
#else
/* The number of register tiles in a tile of values. */
enum { PV_TILES = BLOCK_M / PV_ROWS * ((VECTORS(DIM_V) + PV_VECTORS - 1) / PV_VECTORS) };
/* The index of the weights of row r for vector c0 + c of the values: if blocks of v have a scale and no offset, there is
 * a copy for each block, times its scale; if rows of v have scales, one copy. */
#define WEIGHTS_OF(r, c0, c) (((r)*WEIGHT_BLOCKS + BLOCK_OF(c0, c)) * BLOCK_N)
/* The block of vector c0 + c, written so that compilers see it as the block of c0 plus a constant.
 * */
#if PV_VECTORS * SIMD_WIDTH % CA_BLOCK_VALUES
#define BLOCK_OF(c0, c) (WEIGHT_BLOCKS > 1 ? ((c0) + (c)) * SIMD_WIDTH / BLOCK_VALUES : 0)
#else
#define BLOCK_OF(c0, c)                                                                            \
    (WEIGHT_BLOCKS > 1 ? (c0)*SIMD_WIDTH / BLOCK_VALUES + (c)*SIMD_WIDTH / BLOCK_VALUES : 0)
#endif
enum {
    /* The number of keys of a register tile between two prefetches of later keys; split_qk.h has the same for values. */
    PV_PREFETCH_KEYS = PV_ROWS * PV_VECTORS >= 16  ? 4
                       : PV_ROWS * PV_VECTORS >= 8 ? 8
                                                   : 16,
    PV_PREFETCHES = BLOCK_N / PV_PREFETCH_KEYS,
    /* The format whose order columns are read in: tiles of other sizes than powers of two would leave that of a block. */
    PV_ORDER = PV_VECTORS & (PV_VECTORS - 1) ? CACHE_PLAIN : V_CACHE,
    /* 1 if values are staged as f32 for the next rows. */
    STAGE_V = STAGED & (BLOCK_M > PV_ROWS)
};

/* The step of add_tile_columns() for key n. */
INLINE void add_key(const int first, const int vectors, const struct arguments *args,
                    const struct key_range keys, const int n, const int c0, const float *p,
                    lanes *staged, lanes sum[PV_ROWS][PV_VECTORS])
{
    lanes y[PV_VECTORS];

    UNROLL
    for (int c = 0; c < PV_VECTORS; c++) {
        if (c >= vectors)
            continue;
        if (STAGE_V && first)
            staged[c] = unscaled_columns(args, keys, n, c0 + vector_in_order(PV_ORDER, c));
        y[c] = STAGE_V ? staged[c]
                       : unscaled_columns(args, keys, n, c0 + vector_in_order(PV_ORDER, c));
    }
    UNROLL
    for (int r = 0; r < PV_ROWS; r++) {
        UNROLL
        for (int c = 0; c < PV_VECTORS; c++)
            if (c < vectors)
                sum[r][c] = FMA((lanes)(p[WEIGHTS_OF(r, c0, vector_in_order(PV_ORDER, c)) + n]),
                                y[c], sum[r][c]);
    }
}

/* o = o * rescale + sum_n p[n] v[n] for PV_ROWS rows and `vectors` (constant, at most PV_VECTORS)
 * vectors of columns from c0 on in PV_ORDER, the index'th of PV_TILES register tiles. first (constant): these
 * rows are the first to read these columns. */
INLINE void add_tile_columns(const int first, const int index, const int vectors,
                             const struct arguments *args, const struct key_range keys,
                             const int count, const int c0, const float *rescale, const float *p,
                             lanes *staged, lanes *o)
{
    lanes sum[PV_ROWS][PV_VECTORS];

    UNROLL
    for (int r = 0; r < PV_ROWS; r++) {
        UNROLL
        for (int c = 0; c < PV_VECTORS; c++)
            sum[r][c] = c < vectors
                            ? o[r * VECTORS(DIM_V) + c0 + vector_in_order(PV_ORDER, c)] * rescale[r]
                            : (lanes)(0.0f);
    }
    /* Unrolled by two: PoCL's LLVM unrolls no loop with an unknown end. */
    for (int pair = 0; pair < count / 2; pair++) {
        const int n = 2 * pair;
        if (n % PV_PREFETCH_KEYS == 0)
            prefetch_keys(args, keys, index * PV_PREFETCHES + n / PV_PREFETCH_KEYS,
                          PV_TILES * PV_PREFETCHES);
        add_key(first, vectors, args, keys, n, c0, p, staged + n * PV_VECTORS, sum);
        add_key(first, vectors, args, keys, n + 1, c0, p, staged + (n + 1) * PV_VECTORS, sum);
    }
    if (count % 2)
        add_key(first, vectors, args, keys, count - 1, c0, p, staged + (count - 1) * PV_VECTORS,
                sum);
    UNROLL
    for (int r = 0; r < PV_ROWS; r++) {
        UNROLL
        for (int c = 0; c < PV_VECTORS; c++)
            if (c < vectors)
                o[r * VECTORS(DIM_V) + c0 + vector_in_order(PV_ORDER, c)] = sum[r][c];
    }
}

INLINE void add_columns_of_rows(const int vectors, const struct arguments *args,
                                const struct key_range keys, const int count, const int rows,
                                const int c0, const float *rescale, const float *p, lanes *o)
{
    lanes staged[STAGE_V ? BLOCK_N * PV_VECTORS : 1];
    const int index = c0 / PV_VECTORS * (BLOCK_M / PV_ROWS);
    const int at = PV_ORDER ? vector_in_order(PV_ORDER, c0 & -PV_VECTORS) : c0;
    int r = 0;

    if (STAGE_V) {
        add_tile_columns(1, index, vectors, args, keys, count, at, rescale, p, staged, o);
        r = PV_ROWS;
    }
    for (; r < rows; r += PV_ROWS)
        add_tile_columns(0, index + r / PV_ROWS, vectors, args, keys, count, at, rescale + r,
                         p + WEIGHTS_OF(r, 0, 0), staged, o + r * VECTORS(DIM_V));
}

/* Computes WEIGHTS_OF(): the weights p of a row times the scales of each block of the values, or of each value. */
INLINE void scale_weights(const int count, const lanes *p, const lanes *scales, lanes *scaled)
{
    for (int n = 0; n < (count + SIMD_WIDTH - 1) / SIMD_WIDTH; n++) {
        const lanes x = p[n];
        UNROLL
        for (int c = 0; c < WEIGHT_BLOCKS; c++)
            scaled[c * (BLOCK_N / SIMD_WIDTH) + n] = x * scales[c * (BLOCK_N / SIMD_WIDTH) + n];
    }
}

/* o = o * rescale + sum_n p[n] v[n] of all rows and columns; scaled has room for WEIGHTS_OF(). */
NOINLINE void multiply_pv(const struct arguments *restrict args, const struct key_range keys,
                          const int count, const int rows, const float *rescale, const float *p,
                          lanes *scaled, lanes *o)
{
    const int rest = VECTORS(DIM_V) % PV_VECTORS, whole = VECTORS(DIM_V) - rest;

    if (SCALES_WEIGHTS) {
        for (int r = 0; r < rows; r++)
            scale_weights(count, (const lanes *)(p + r * BLOCK_N), (const lanes *)keys.v_scales,
                          scaled + WEIGHTS_OF(r, 0, 0) / SIMD_WIDTH);
        p = (const float *)scaled;
    }
    for (int c = 0; c < whole; c += PV_VECTORS)
        add_columns_of_rows(PV_VECTORS, args, keys, count, rows, c, rescale, p, o);
    if (rest)
        add_columns_of_rows(rest, args, keys, count, rows, whole, rescale, p, o);
}
#endif
