/* What split_lanes reads of keys and values: columns of a row as vectors, converted, and lines of
 * memory ahead of that. Needs QK_DEPTH, BLOCK_N and PREFETCH_TILES. */
#ifndef CLATTN_SPLIT_KEYS_H
#define CLATTN_SPLIT_KEYS_H
#include "cpu/lanes.h"
#include "cpu/prefetch.h"
#include "cpu/quantized_lanes.h"

#define VECTORS(dim) (((dim) + SIMD_WIDTH - 1) / SIMD_WIDTH)
#define BLOCKS(dim) ((dim) / BLOCK_VALUES) /* of a row, if quantized */
/* Bytes of columns of a row; they start and end with a block. */
#define BYTES(cache, columns)                                                                      \
    ((cache) ? ((columns) + 31) / 32 * BLOCK_BYTES(cache) : (columns) * (int)sizeof(storage))

/* Whether a tile's keys are copied, as f32: those that are converted, or read a few columns at a
 * time where that is no vector. */
#define KEEP_K (STAGED || (QK_DEPTH < SIMD_WIDTH && (!UNIT_K || DIM_QK % SIMD_WIDTH)))

/* Keys that a work-item reads, or what is left of them, as they lie in memory; the scales of a tile
 * of them, if quantized. */
struct keys {
    const __global k_storage *k;
    const __global v_storage *v;
    long k_row, v_row; /* from one to the next */
    long left;
    float *v_scales; /* [block][BLOCK_N] */
};

INLINE struct keys following(struct keys keys)
{
    keys.k += BLOCK_N * keys.k_row;
    keys.v += BLOCK_N * keys.v_row;
    keys.left -= BLOCK_N;
    return keys;
}

/* Where vector n of a row starts: the last one overlaps the one before. No min(), which is a call
 * until PoCL makes code of the kernel: what follows from constants is left out before that. */
INLINE int column_of(const int n, const int dim)
{
    const int last = dim - SIMD_WIDTH;

    if (dim < SIMD_WIDTH)
        return 0;
    return dim % SIMD_WIDTH == 0 || n * SIMD_WIDTH < last ? n * SIMD_WIDTH : last;
}

INLINE lanes load_columns(const __global storage *row, const long step, const int dim, const int n)
{
    const int d = column_of(n, dim);

    return dim >= SIMD_WIDTH && step == 1 ? LOAD_VECTOR(row + d)
                                     : load_row(row + d * step, step, dim - d);
}

/* Likewise, but 0 for columns that are in the vector before too. */
INLINE lanes load_new_columns(const __global storage *row, const long step, const int dim,
                              const int n)
{
    const int d = column_of(n, dim), repeated = n * SIMD_WIDTH - d;

    if (repeated == 0)
        return load_columns(row, step, dim, n);
    return COUNT_UP < (float)repeated ? (lanes)(0.0f) : load_columns(row, step, dim, n);
}

/* Vector c of the values of a key, over the scale of its block. */
INLINE lanes unscaled_columns(const struct attention_shape a, const __global v_storage *row,
                              const int c)
{
#if V_CACHE
    return quantized_lanes(V_CACHE, row, c * SIMD_WIDTH);
#else
    return load_columns(row, V_STEP, DIM_V, c);
#endif
}

INLINE lanes value_columns(const struct attention_shape a, const struct keys keys, const int n,
                           const int c)
{
    const lanes x = unscaled_columns(a, keys.v + n * keys.v_row, c);

    return V_CACHE ? x * keys.v_scales[c * SIMD_WIDTH / BLOCK_VALUES * BLOCK_N + n] : x;
}

INLINE void load_value_scales(const struct keys keys, const int count)
{
#if V_CACHE
    load_scales(V_CACHE, keys.v, keys.v_row, count, BLOCKS(DIM_V), BLOCK_N, keys.v_scales);
#endif
}

/* At a moment, one of `moments` (constant), of a tile's scores or values: asks memory for a share
 * of the keys or values, `bytes` bytes (constant) of a row, that lie so many tiles further, or of
 * the last that is left; in the order of memory. row: bytes from one to the next. Constants are
 * found without built-ins, which PoCL's LLVM sees through only after it has unrolled loops. cache
 * (constant) says how the rows are stored: quantized ones, which are few lines, go to the first
 * cache. */
INLINE void ask_for(const int cache, const __global void *rows, const long row, const long step,
                    const long left, const uint moment, const uint moments, const int tiles,
                    const uint bytes)
{
    const uint lines = (bytes + 63) / 64, most = (lines + 3) / 4, turns = moments / BLOCK_N;
    const uint parts = turns < 1 ? 1 : turns > most ? most : turns; /* of a row */
    const uint share = (lines + parts - 1) / parts, all = parts * BLOCK_N;
    const uint every = moments > all ? moments / all : 1, count = (all + moments - 1) / moments;

    if (!PREFETCH_TILES || step != 1 || moment % every != 0)
        return;
    UNROLL
    for (uint n = 0; n < count; n++) {
        const uint part = moment / every * count + n;
        const __global uchar *at = (const __global uchar *)rows +
                                   min((long)(part / parts + tiles * BLOCK_N), left - 1) * row +
                                   (parts == 1 ? 0 : min(part % parts * share, lines - share)) * 64;
        UNROLL
        for (uint line = 0; line < share; line++) {
            if (cache)
                PREFETCH_NEAR(at + 64 * line);
            else
                PREFETCH_LINE(at + 64 * line);
        }
    }
}

/* The values of this tile while its scores are computed, if PREFETCH_TILES is 1. */
INLINE void ask_for_values(const struct attention_shape a, const struct keys keys,
                           const uint moment, const uint moments)
{
    ask_for(V_CACHE, keys.v, keys.v_row * (long)sizeof(v_storage), V_STEP, keys.left, moment,
            moments, PREFETCH_TILES - 1, BYTES(V_CACHE, DIM_V));
}

/* The next keys while values are added; those after them, if the next are copied by then. */
INLINE void ask_for_keys(const struct attention_shape a, const struct keys keys, const uint moment,
                         const uint moments)
{
    ask_for(K_CACHE, keys.k, keys.k_row * (long)sizeof(k_storage), K_STEP, keys.left, moment,
            moments, PREFETCH_TILES + KEEP_K, BYTES(K_CACHE, DIM_QK));
}

#endif
