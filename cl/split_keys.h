/* What split_lanes reads of keys and values: columns of a row as vectors, converted, and lines of
 * memory ahead of that. Needs ROWS, SCORE_ROWS, VALUE_ROWS, BN and AHEAD. */
#ifndef CLATTN_SPLIT_KEYS_H
#define CLATTN_SPLIT_KEYS_H
#include "lanes.h"
#include "prefetch.h"
#include "quantized_lanes.h"

#define VECTORS(dim) (((dim) + WIDTH - 1) / WIDTH)
/* Blocks of a row, and scales of a tile, if quantized. */
#define BLOCKS(dim) ((dim) / BLOCK_VALUES)
#define MOST_SCALES (BN * BLOCKS(DIM_QK > DIM_V ? DIM_QK : DIM_V))
/* Bytes of columns of a row; they start and end with a block. */
#define BYTES(cache, columns)                                                                      \
    ((cache) ? ((columns) + 31) / 32 * BLOCK_BYTES(cache) : (columns) * (int)sizeof(storage))

/* Keys that a work-item reads, or what is left of them, as they lie in memory; the scales of a tile
 * of them, if quantized. */
struct keys {
    const __global k_storage *k;
    const __global v_storage *v;
    long left;
    float *k_scales, *v_scales;
};

/* Where vector n of a row starts: the last one overlaps the one before. */
INLINE int column_of(const int n, const int dim)
{
    return dim < WIDTH ? 0 : min(n * WIDTH, dim - WIDTH);
}

INLINE lanes load_columns(const __global storage *row, const long step, const int dim, const int n)
{
    const int d = column_of(n, dim);

    return dim >= WIDTH && step == 1 ? LOAD_VECTOR(row + d)
                                     : load_row(row + d * step, step, dim - d);
}

/* Likewise, but 0 for columns that are in the vector before too. */
INLINE lanes load_new_columns(const __global storage *row, const long step, const int dim,
                              const int n)
{
    const lanes x = load_columns(row, step, dim, n);
    const int repeated = n * WIDTH - column_of(n, dim);

    return repeated ? (COUNT_UP < (float)repeated ? (lanes)(0.0f) : x) : x;
}

/* Vector d of key n of the tile. */
INLINE lanes key_columns(const struct attention_shape a, const struct keys keys, const int n,
                         const int d)
{
    const __global k_storage *row = K_PLACE(keys.k, n * a.k_stride[2]);
#if K_CACHE
    return quantized_lanes(K_CACHE, row, d * WIDTH) *
           keys.k_scales[n * BLOCKS(DIM_QK) + d * WIDTH / BLOCK_VALUES];
#else
    return load_new_columns(row, K_STEP, DIM_QK, d);
#endif
}

/* Vector c of the values of key n of the tile, over the scale of its block. */
INLINE lanes unscaled_columns(const struct attention_shape a, const struct keys keys, const int n,
                              const int c)
{
    const __global v_storage *row = V_PLACE(keys.v, n * a.v_stride[2]);
#if V_CACHE
    return quantized_lanes(V_CACHE, row, c * WIDTH);
#else
    return load_columns(row, V_STEP, DIM_V, c);
#endif
}

INLINE lanes value_columns(const struct attention_shape a, const struct keys keys, const int n,
                           const int c)
{
    const lanes x = unscaled_columns(a, keys, n, c);

    return V_CACHE ? x * keys.v_scales[c * WIDTH / BLOCK_VALUES * BN + n] : x;
}

/* The scales of a tile of count rows, that of block c of row n at n * row_step + c * block_step. */
INLINE void load_tile_scales(const int cache, const __global uchar *rows, const long stride,
                             const int count, const int blocks, const int row_step,
                             const int block_step, float *scales)
{
    ushort halves[MOST_SCALES];

    for (int n = 0; n < BN * blocks && count < BN; n++)
        halves[n] = 0; /* of keys that are not there, too, conversions see a number */
    load_scales(cache, rows, stride, count, blocks, row_step, block_step, BN * blocks, halves,
                scales);
}

INLINE void load_key_scales(const struct attention_shape a, const struct keys keys, const int count)
{
#if K_CACHE
    load_tile_scales(K_CACHE, keys.k, a.k_stride[2], count, BLOCKS(DIM_QK), BLOCKS(DIM_QK), 1,
                     keys.k_scales);
#endif
}

INLINE void load_value_scales(const struct attention_shape a, const struct keys keys,
                              const int count)
{
#if V_CACHE
    load_tile_scales(V_CACHE, keys.v, a.v_stride[2], count, BLOCKS(DIM_V), 1, BN, keys.v_scales);
#endif
}

/* At a moment, one of `moments` (constant), of a tile's scores or values: asks memory for a share of
 * the keys or values, `bytes` bytes (constant) of a row, that lie so many tiles further, or of the
 * last that is left; in the order of memory. cache (constant) says how the rows are stored. */
INLINE void ask_for(const int cache, const __global void *rows, const long stride,
                    const long step, const long left, const uint moment, const uint moments,
                    const int tiles, const uint bytes)
{
    const uint lines = (bytes + 63) / 64, parts = clamp(moments / BN, 1u, (lines + 4u - 1) / 4u); /* of a row */
    const uint share = (lines + parts - 1) / parts, all = parts * BN;
    const uint every = moments > all ? moments / all : 1, count = (all + moments - 1) / moments;

    if (!AHEAD || step != 1 || moment % every != 0)
        return;
    for (uint n = 0; n < count; n++) {
        const uint part = moment / every * count + n;
        const __global uchar *row =
            element_at(cache, rows, min((long)(part / parts + tiles * BN), left - 1) * stride);
        prefetch_lines(row + min(part % parts * share, lines - share) * 64, (int)share);
    }
}

#endif
