/* SPDX-License-Identifier: Apache-2.0 */
/* Loads of keys and values in split_cpu: columns of a row as vectors, and the prefetch of later
 * tiles. Needs QK_DEPTH (unless products are of pairs), BLOCK_N and PREFETCH_TILES. */
#pragma once
#include "cpu/simd_storage.h"
#include "cpu/prefetch.h"
#include "common/key_rows.h"
#include "cpu/quantized_simd.h"
#include "cpu/split_rows.h"

/* Bytes of a row's columns, which start and end with a format block; an element that is not in blocks has `size`. */
INLINE int bytes_of_columns(const int cache, const int size, const int columns)
{
    return cache ? (columns + 31) / 32 * BLOCK_BYTES(cache) : columns * size;
}

/* The prefetch distances in tiles: for keys from the last staged tile, for values from this one.
 * With KV_HEADS > 1 the next tiles of all heads are prefetched in turns. */
enum {
    K_TILES_AHEAD = PREFETCH_TILES + (KV_HEADS > 1 ? 0 : STAGES_K),
    V_TILES_AHEAD = KV_HEADS > 1         ? PREFETCH_TILES
                    : PREFETCH_TILES > 1 ? PREFETCH_TILES - 1
                                         : 0
};

/* 1 if the rows of a tile of paged keys are listed, since they may lie in several pages. */
#define ROW_LISTS (PAGE_SIZE && (PAGE_SIZE % BLOCK_N || HAS_WINDOW_LEFT))

#if PAGE_SIZE
struct row_list {
    const __global k_storage *k[LISTED_ROWS],
        *k_soon[LISTED_ROWS]; /* soon: the first head's rows to prefetch */
    const __global v_storage *v[LISTED_ROWS], *v_soon[LISTED_ROWS];
};
#endif

/* The remaining keys of a work-item in memory and, if they are quantized, the scales of a tile of
 * them. */
struct key_range {
    const __global k_storage *k;
    const __global v_storage *v;
    long k_row, v_row; /* steps from one row to the next */
    long left;
    float *v_scales; /* [block][BLOCK_N], then as many offsets if the format has them */
#if KV_HEADS > 1
    long k_head, v_head; /* steps from one kv head to the next */
    int head;            /* the current one of the work-item's kv heads */
#endif
#if PAGE_SIZE
    long j; /* the tile's first key; count is the number of its keys */
    int count;
    const __global k_storage *k_soon; /* the first row to prefetch if rows are not listed */
    const __global v_storage *v_soon;
    struct row_list *list;
#endif
};

/* Row n of a tile, and the lists of rows, if there are any. */
#if ROW_LISTS
INLINE const __global k_storage *k_of_tile(const struct key_range keys, const int n)
{
    return keys.list->k[n];
}

INLINE const __global v_storage *v_of_tile(const struct key_range keys, const int n)
{
    return keys.list->v[n];
}

INLINE const __global k_storage *const *listed_k(const struct key_range keys)
{
    return keys.list->k;
}

INLINE const __global v_storage *const *listed_v(const struct key_range keys)
{
    return keys.list->v;
}
#else
INLINE const __global k_storage *k_of_tile(const struct key_range keys, const int n)
{
    return keys.k + n * keys.k_row;
}

INLINE const __global v_storage *v_of_tile(const struct key_range keys, const int n)
{
    return keys.v + n * keys.v_row;
}

INLINE const __global k_storage *const *listed_k(const struct key_range keys)
{
    return 0;
}

INLINE const __global v_storage *const *listed_v(const struct key_range keys)
{
    return 0;
}
#endif

/* The number of a tile's rows, and its first key, which is j in a contiguous cache. */
INLINE int tile_keys(const struct key_range keys)
{
#if PAGE_SIZE
    return keys.count;
#else
    return (int)min((long)BLOCK_N, keys.left);
#endif
}

INLINE long tile_begin(const struct key_range keys, const long j)
{
#if PAGE_SIZE
    return keys.j;
#else
    return j;
#endif
}

INLINE struct key_range following(struct key_range keys, const long rows)
{
    keys.k += rows * keys.k_row;
    keys.v += rows * keys.v_row;
    keys.left -= rows;
    return keys;
}

/* The kv head among the work-item's, and its offset from the first. */
#if KV_HEADS > 1
INLINE int head_of(const struct key_range keys)
{
    return keys.head;
}

INLINE long k_head_step(const struct key_range keys)
{
    return keys.k_head;
}

INLINE long v_head_step(const struct key_range keys)
{
    return keys.v_head;
}

/* The same keys in kv head number `head` of the work-item. */
INLINE struct key_range of_head(struct key_range keys, const int head)
{
    keys.k += (head - keys.head) * keys.k_head;
    keys.v += (head - keys.head) * keys.v_head;
    keys.head = head;
    return keys;
}
#else
INLINE int head_of(const struct key_range keys)
{
    return 0;
}

INLINE long k_head_step(const struct key_range keys)
{
    return 0;
}

INLINE long v_head_step(const struct key_range keys)
{
    return 0;
}
#endif

/* The first column of vector n of a row; the last vector overlaps the one before. min() is not
 * used: LLVM simplifies it only after removing code that constants make dead. */
INLINE int column_of(const int n, const int dim)
{
    const int last = dim - SIMD_WIDTH;

    if (dim < SIMD_WIDTH)
        return 0;
    return dim % SIMD_WIDTH == 0 || n * SIMD_WIDTH < last ? n * SIMD_WIDTH : last;
}

/* Loads vector n of a row. */
INLINE lanes load_columns(const int dtype, const __global void *row, const long step, const int dim,
                          const int n)
{
    const int d = column_of(n, dim);

    return dim >= SIMD_WIDTH && step == 1
               ? load_lanes(dtype, place_of(dtype, row, d))
               : load_row_of(dtype, place_of(dtype, row, d * step), step, dim - d);
}

/* Returns vector n of a row, x, with 0 in columns that the vector before has too. */
INLINE lanes new_columns(const lanes x, const int dim, const int n)
{
    const int repeated = n * SIMD_WIDTH - column_of(n, dim);

    if (repeated == 0)
        return x;
    return COUNT_UP < (float)repeated ? (lanes)(0.0f) : x;
}

/* Vector d of key n of a tile, from its numbers and the tile's scales and offsets (load_factors()). */
INLINE lanes columns_of_numbers(const int cache, const int dim, const lanes numbers,
                                const float *scales, const int n, const int d)
{
    const int at = d * SIMD_WIDTH / BLOCK_VALUES * BLOCK_N + n;

    if (layout_of(cache).scale < 0)
        return numbers;
    return scaled_lanes(cache, numbers, scales[at],
                        layout_of(cache).offset ? scales[BLOCKS(dim) * BLOCK_N + at] : 0.0f);
}

/* What sums of values are multiplied with in the end: pairs are of the numbers themselves. */
INLINE float unit_of_values(void)
{
    return OPERAND_PAIRS ? 1.0f : unit_of_lanes(V_CACHE);
}

/* Returns vector c of the values of key n. */
INLINE lanes value_columns(const struct arguments *args, const struct key_range keys, const int n,
                           const int c)
{
#if V_CACHE
    const float unit = unit_of_lanes(V_CACHE) / unit_of_values();
    const lanes numbers = quantized_lanes(V_CACHE, v_of_tile(keys, n), c * SIMD_WIDTH) * unit;

    if (HAS_V_SCALES)
        return numbers * keys.v_scales[n];
    if (OPERAND_PAIRS) /* the scales of a tile's blocks are not loaded */
        return quantized_columns(V_CACHE, (const __global uchar *)v_of_tile(keys, n),
                                 c * SIMD_WIDTH);
    return columns_of_numbers(V_CACHE, DIM_V, numbers, keys.v_scales, n, c);
#else
    return load_columns(V_DTYPE, v_of_tile(keys, n), v_step(args), DIM_V, c);
#endif
}

/* Returns the same without the scale of its block, where weights are multiplied with it. */
INLINE lanes unscaled_columns(const struct arguments *args, const struct key_range keys,
                              const int n, const int c)
{
    if (SCALES_WEIGHTS)
        return quantized_lanes(V_CACHE, (const __global uchar *)v_of_tile(keys, n), c * SIMD_WIDTH);
    return value_columns(args, keys, n, c);
}

/* Loads the scales of count keys, with the last one repeated up to a whole vector. */
INLINE void load_row_scales(const struct row_scales from, const int count, float *scales)
{
    int together;

    for (int n = 0; n < count; n += together) {
        together = PAGE_SIZE ? (int)rows_in_page(count - n, from.j + n) : count;
        const __global float *row =
            from.first + key_row(from.args, from.b, from.j + n, from.stride);
        for (int r = 0; r < together; r++)
            scales[n + r] = row[r * from.stride[2]];
    }
    for (int n = count; n % SIMD_WIDTH; n++)
        scales[n] = scales[count - 1];
}

INLINE void load_value_scales(const struct arguments *args, const struct row_block *block,
                              const long j, const struct key_range keys, const int count)
{
    if (HAS_V_SCALES)
        load_row_scales(v_scales_from(args, block->b, block->kv_head, j), count, keys.v_scales);
#if V_CACHE && !OPERAND_PAIRS
    load_factors(V_CACHE, keys.v, keys.v_row, listed_v(keys), count, BLOCKS(DIM_V), BLOCK_N,
                 keys.v_scales);
#endif
}

/* Row n of a work-item's share of prefetched rows: `tiles` tiles after the tile at `rows`, or from
 * a list, at most the last remaining row. With KV_HEADS > 1 each head prefetches an equal share of
 * all heads' rows, in memory order if a key's heads are adjacent. */
INLINE const __global uchar *row_ahead(const __global uchar *rows, const long row,
                                       const __global void *const *listed, const long head_row,
                                       const int head, const long left, const uint n,
                                       const int tiles)
{
    const uint of_all = (uint)head * BLOCK_N + n;
    const long key = min((long)(of_all / KV_HEADS + tiles * BLOCK_N), left - 1);

    return (listed ? (const __global uchar *)listed[key] : rows + key * row) +
           of_all % KV_HEADS * head_row;
}

/* Prefetches a share of the rows `tiles` tiles ahead, at most the last remaining one, in memory
 * order. This is one of `steps` (constant) steps of a tile's products, which spreads requests
 * evenly over the arithmetic. A row has `bytes` bytes (constant) and a stride of `row`. cache
 * (constant) is the format of rows: quantized rows, a few lines each, go to L1. Minima of constants
 * avoid built-ins, which LLVM folds only after unrolling. listed, head_row and head: see
 * row_ahead(). */
INLINE void prefetch_share(const int cache, const __global void *rows, const long row,
                           const __global void *const *listed, const long head_row, const int head,
                           const long column, const long left, const uint step_index,
                           const uint steps, const int tiles, const uint bytes)
{
    const uint lines = (bytes + 63) / 64, most = (lines + 3) / 4, turns = steps / BLOCK_N;
    const uint parts = turns < 1 ? 1 : turns > most ? most : turns; /* parts of a row */
    const uint share = (lines + parts - 1) / parts, all = parts * BLOCK_N;
    const uint every = steps > all ? steps / all : 1, count = (all + steps - 1) / steps;

    if (!PREFETCH_TILES || column != 1 || step_index % every != 0)
        return;
    UNROLL
    for (uint n = 0; n < count; n++) {
        const uint part = step_index / every * count + n;
        const __global uchar *at =
            row_ahead(rows, row, listed, head_row, head, left, part / parts, tiles) +
            (parts == 1 ? 0 : min(part % parts * share, lines - share)) * 64;
        UNROLL
        for (uint line = 0; line < share; line++) {
            if (cache)
                prefetch_l1(at + 64 * line);
            else
                prefetch_l2(at + 64 * line);
        }
    }
}

/* Prefetches values while scores are computed. */
INLINE void prefetch_values(const struct arguments *args, const struct key_range keys,
                            const uint step_index, const uint steps)
{
    const uint bytes = bytes_of_columns(V_CACHE, sizeof(v_storage), DIM_V);
    const long row = keys.v_row * (long)sizeof(v_storage);

#if ROW_LISTS
    prefetch_share(V_CACHE, 0, 0, (const __global void *const *)keys.list->v_soon,
                   v_head_step(keys) * (long)sizeof(v_storage), head_of(keys), v_step(args),
                   keys.count, step_index, steps, 0, bytes);
#elif PAGE_SIZE
    prefetch_share(V_CACHE, keys.v_soon, row, 0, v_head_step(keys) * (long)sizeof(v_storage),
                   head_of(keys), v_step(args), BLOCK_N, step_index, steps, 0, bytes);
#else
    prefetch_share(V_CACHE, keys.v - head_of(keys) * v_head_step(keys), row, 0,
                   v_head_step(keys) * (long)sizeof(v_storage), head_of(keys), v_step(args),
                   keys.left, step_index, steps, V_TILES_AHEAD, bytes);
#endif
}

/* Prefetches keys while values are added. */
INLINE void prefetch_keys(const struct arguments *args, const struct key_range keys,
                          const uint step_index, const uint steps)
{
    const uint bytes = bytes_of_columns(K_CACHE, sizeof(k_storage), DIM_QK);
    const long row = keys.k_row * (long)sizeof(k_storage);

#if ROW_LISTS
    prefetch_share(K_CACHE, 0, 0, (const __global void *const *)keys.list->k_soon,
                   k_head_step(keys) * (long)sizeof(k_storage), head_of(keys), k_step(args),
                   keys.count, step_index, steps, 0, bytes);
#elif PAGE_SIZE
    prefetch_share(K_CACHE, keys.k_soon, row, 0, k_head_step(keys) * (long)sizeof(k_storage),
                   head_of(keys), k_step(args), BLOCK_N, step_index, steps, 0, bytes);
#else
    prefetch_share(K_CACHE, keys.k - head_of(keys) * k_head_step(keys), row, 0,
                   k_head_step(keys) * (long)sizeof(k_storage), head_of(keys), k_step(args),
                   keys.left, step_index, steps, K_TILES_AHEAD, bytes);
#endif
}
