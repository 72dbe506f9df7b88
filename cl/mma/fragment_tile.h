/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of 16-bit elements in local memory: filled from matrices in global memory by the whole
 * work-group, and read as the operands of fragment.h.
 *
 * A tile holds quantized keys and values as their codes times a power of two, exact in 16 bits. For
 * bf16 the power is 1; for f16 it is that of the block's scale. The rest of the scale, a factor in
 * [1, 2), multiplies weights and cannot take them beyond f16. (Scales of 64 or more leave a factor
 * of up to 2^11: with a larger power the integers, or 1152 times as much on the way, would exceed
 * f16.) Factors are in f32, for all rows of a block of columns, then of the next. They multiply the
 * sums of products with K, and the weights of V. */
#pragma once
#include "gpu/tile_load.h"
#include "mma/fragment.h"

#include "mma/tile_layout.h"

/* ---- operands -------------------------------------------------------------------------------- */

/* Each load is of the tile from row 0 and column 0 on. The same from where the lane begins, at rows_start() for queries and
 * values and at keys_start() for keys, is load_*_from(): many tiles then need one addition each. */
static inline void load_query(uint *words, const __local ushort *tile, const int stride,
                              const int lane)
{
    load_query_from(words, tile + rows_start(stride, lane), stride, lane);
}

static inline void load_keys(uint *words, const __local ushort *tile, const int stride,
                             const int lane)
{
    load_keys_from(words, tile + keys_start(stride, lane), stride, lane);
}

static inline void load_values(uint *words, const __local ushort *tile, const int stride,
                               const int lane)
{
    load_values_from(words, tile + rows_start(stride, lane), stride, lane);
}

/* ---- filling --------------------------------------------------------------------------------- */

/* Returns x, or 0 for Inf and NaN, and whether it was one. */
static inline ushort finite_element(const ushort x, int *nonfinite)
{
    const ushort exponent = DTYPE == DTYPE_F16 ? 0x7c00 : 0x7f80;
    const bool bad = (x & exponent) == exponent;

    *nonfinite |= bad;
    return bad ? (ushort)0 : x;
}

static inline ushort4 finite_elements(const ushort4 x, int *nonfinite)
{
    const ushort4 exponent = DTYPE == DTYPE_F16 ? 0x7c00 : 0x7f80;
    const short4 bad = (x & exponent) == exponent;

    *nonfinite |= any(bad);
    return bad ? (ushort4)0 : x;
}

/* The same for two elements in a word. */
static inline uint finite_pair(const uint pair, int *nonfinite)
{
    return finite_element((ushort)pair, nonfinite) |
           (uint)finite_element((ushort)(pair >> 16), nonfinite) << 16;
}

/* Loads elements as they are stored, one at a time where rows are not aligned, as load4() does. */
static inline ushort load_element(const __global element *p)
{
    return *(const __global ushort *)p;
}

#if O_DTYPE == DTYPE && DTYPE != DTYPE_F32
/* Stores two neighbouring elements of a row. */
static inline void store_pair(const uint pair, const bool aligned, __global o_storage *to)
{
    if (aligned) {
        *(__global uint *)to = pair;
    } else {
        ((__global ushort *)to)[0] = (ushort)pair;
        ((__global ushort *)to)[1] = (ushort)(pair >> 16);
    }
}
#define SUM_PAIR pack_pair
#define NO_SUMS 0
#elif O_DTYPE == DTYPE
static inline void store_pair(const float2 pair, const bool aligned, __global o_storage *to)
{
    if (aligned)
        *(__global float2 *)to = pair;
    else
        vstore2(pair, 0, to);
}
#define SUM_PAIR (float2)
#define NO_SUMS ((float2)0.0f)
#endif

/* Stores an element of a gradient. */
static inline void store_result(const float x, __global o_storage *p)
{
    if ((O_DTYPE == DTYPE) & (DTYPE != DTYPE_F32))
        *(__global ushort *)p = element_round(x);
    else
        store1_of(O_DTYPE, x, p, 0);
}

static inline ushort4 load_elements(const __global element *p, const bool aligned)
{
    if (!aligned)
        return (ushort4)(load_element(p), load_element(p + 1), load_element(p + 2),
                         load_element(p + 3));
    return *(const __global ushort4 *)p;
}

/* The number of threads that fill a tile by rows, if not all of the work-group. */
#ifndef FILL_THREADS
#define FILL_THREADS THREADS
#define FILL_THREAD THIS_THREAD
#define MOST_COPIES 8
#endif

#if HAS_COPIES
/* The number of threads for a row; 72 columns take 16 threads, 7 of which copy nothing. */
INLINE int column_threads(const int columns)
{
    return columns > 512   ? columns / 8
           : columns > 256 ? 64
           : columns > 128 ? 32
           : columns > 64  ? 16
           : columns > 32  ? 8
           : columns > 8   ? columns / 8
                           : 1;
}

/* Returns whether copy_rows() can copy a tile: each thread copies the same columns of all of its rows, and its rows are few
 * and evenly spaced. The result is constant. In a swizzled tile the spacing is a multiple of eight rows, after which the
 * swizzle repeats. PoCL 3.1 miscompiles threads that copy nothing: it left K empty, planes of 48 columns and rows of
 * 48 bytes. */
INLINE bool copies_by_column(const int stride, const int tile_rows, const int columns,
                             const int dim)
{
    const int threads = column_threads(columns), at_once = FILL_THREADS / threads;
#if EMULATE && (HAS_INT8 || DTYPE == DTYPE_F32)
    if (columns % (8 * threads) != 0 || dim < columns)
        return false;
#endif
    return columns % 8 == 0 && FILL_THREADS % threads == 0 && tile_rows % at_once == 0 &&
           tile_rows / at_once <= MOST_COPIES && (at_once % 8 == 0 || !is_swizzled(stride));
}

/* Like fill_rows(), by background copies, with few instructions for each. */
INLINE void copy_rows(__local ushort *tile, const int stride, const int tile_rows,
                      const int columns, const __global element *matrix, const long row_step,
                      const __local long *places, const int rows, const int dim)
{
    const uint chunks = column_threads(columns), at_once = FILL_THREADS / chunks;
    uint thread = FILL_THREAD;

    INDEX_HERE(thread);
    const uint first = thread / chunks, column = thread % chunks * 8;
    const int left = (int)column < dim ? rows - (int)first : 0;
    __local ushort *to = tile + row_at(stride, tile_rows, first, column);
    /* The address is read only if it is inside of the matrix. */
    const __global element *from = matrix + (places ? 0 : (long)first * row_step) + column;
    if (columns % (8 * chunks) && (int)column >= columns)
        return;
    UNROLL
    for (int row = 0; row < tile_rows; row += at_once) {
        copy_chunk(to, places ? from + places[min((int)first + row, rows - 1)] : from, row < left);
        to += row_at(stride, tile_rows, at_once, 0);
        if (!places)
            from += (int)at_once * row_step;
    }
}

INLINE void copy_one_piece(__local ushort *to, const __global element *from, const bool inside)
{
    copy_chunk(to, from, inside);
}
#else
INLINE bool copies_by_column(const int stride, const int tile_rows, const int columns,
                             const int dim)
{
    return false;
}

INLINE void copy_rows(__local ushort *tile, const int stride, const int tile_rows,
                      const int columns, const __global element *matrix, const long row_step,
                      const __local long *places, const int rows, const int dim)
{
}

INLINE void copy_one_piece(__local ushort *to, const __global element *from, const bool inside)
{
}
#endif

/* Fills a row-major tile of tile_rows x columns with a matrix of rows x dim, and with 0 outside of
 * it; rows >= 1. places: 0, or the address of each row, as in load_tile(). If `finite`, Infs and
 * NaNs become 0, and the result tells whether this thread met one. All arguments but pointers,
 * steps, rows and flags are constants once inlined. */
__attribute__((always_inline)) static inline int
fill_rows(__local ushort *tile, const int stride, const int tile_rows, const int columns,
          const __global element *matrix, const long row_step, const __local long *places,
          const long step, const int rows, const int dim, const int width, const bool aligned,
          const bool finite)
{
    const int wide = width < ROW_PADDING ? width : ROW_PADDING, chunks = columns / wide;
    int nonfinite = 0;
    uint first = FILL_THREAD;

    if (copies_by_column(stride, tile_rows, columns, dim) && width == 8 && aligned && !finite) {
        copy_rows(tile, stride, tile_rows, columns, matrix, row_step, places, rows, dim);
        return 0;
    }
    INDEX_HERE(first);
    for (uint t = first; t < (uint)(tile_rows * chunks); t += FILL_THREADS) {
        const int row = t / (uint)chunks, column = t % (uint)chunks * wide;
        const bool inside = row < rows && column < dim;
        const __global element *p =
            matrix + row_place(places, row, rows, row_step) + min(column, dim - wide) * step;
        __local ushort *const to = tile + row_at(stride, tile_rows, row, column);
        if (HAS_COPIES && width == 8 && aligned && !finite) {
            copy_one_piece(to, p, inside);
            continue;
        }
        if (wide == 1) {
            ushort x = inside ? load_element(p) : (ushort)0;
            if (finite)
                x = finite_element(x, &nonfinite);
            *to = x;
        } else if (wide == 4 ||
                   /* elements that cp.async did not copy; 8 at a time need more registers */
                   HAS_COPIES) {
            for (int n = 0; n < wide; n += 4) {
                const ushort4 x = inside ? load_elements(p + n, aligned) : (ushort4)0;
                *(__local ushort4 *)(to + n) = finite ? finite_elements(x, &nonfinite) : x;
            }
        } else {
            ushort4 x = 0, y = 0;
            if (inside && aligned) {
                const uint4 both = *(const __global uint4 *)p;
                x = as_ushort4((uint2)(both.x, both.y));
                y = as_ushort4((uint2)(both.z, both.w));
            } else if (inside) {
                x = load_elements(p, false);
                y = load_elements(p + 4, false);
            }
            if (finite) {
                x = finite_elements(x, &nonfinite);
                y = finite_elements(y, &nonfinite);
            }
            const uint2 first = as_uint2(x), second = as_uint2(y);
            *(__local uint4 *)to = (uint4)(first.x, first.y, second.x, second.y);
        }
    }
    return nonfinite;
}

#if PACKED_VALUES
/* The part of packed values that the t-th item fills: four keys that are neighbouring terms of a
 * slab, from depth on, and `wide` dims from d on. Neighbouring items fill a piece. */
struct packed_place {
    int slab, depth, d;
};

static inline struct packed_place packed_place_of(const int t, const int dims, const int wide)
{
    const int chunks = dims / wide, fours = PACKED_RUN / 4;
    const int four = t / (fours * chunks) * fours + t % fours;
    const struct packed_place place = {four / (FRAGMENT_DEPTH / 4), four % (FRAGMENT_DEPTH / 4) * 4,
                                       t / fours % chunks * wide};

    return place;
}

/* Returns key n of the item's four keys. */
static inline int packed_key(const struct packed_place place, const int n)
{
    return place.slab * FRAGMENT_DEPTH + value_key(place.depth + n);
}

/* Stores x: one or four dims of each of four keys. */
static inline void store_packed(__local ushort *tile, const int dims, const struct packed_place to,
                                const int wide, const ushort4 x[4])
{
    const int slab = to.slab, d = to.d, depth = to.depth;

    *(__local ushort4 *)(tile + packed_at(dims, slab, d, depth)) =
        (ushort4)(x[0].x, x[1].x, x[2].x, x[3].x);
    if (wide == 4) {
        *(__local ushort4 *)(tile + packed_at(dims, slab, d + 1, depth)) =
            (ushort4)(x[0].y, x[1].y, x[2].y, x[3].y);
        *(__local ushort4 *)(tile + packed_at(dims, slab, d + 2, depth)) =
            (ushort4)(x[0].z, x[1].z, x[2].z, x[3].z);
        *(__local ushort4 *)(tile + packed_at(dims, slab, d + 3, depth)) =
            (ushort4)(x[0].w, x[1].w, x[2].w, x[3].w);
    }
}

/* Like fill_rows(), but to packed values: tile_rows keys and `dims` dims; width is 1, 4 or 8. */
__attribute__((always_inline)) static inline int
fill_packed(__local ushort *tile, const int tile_rows, const int dims,
            const __global element *matrix, const long row_step, const __local long *places,
            const long step, const int rows, const int dim, const int width, const bool aligned,
            const bool finite)
{
    const int wide = width == 1 ? 1 : 4;
    int nonfinite = 0, first = get_local_id(0);

    INDEX_HERE(first);
    for (int t = first; t < tile_rows / 4 * (dims / wide); t += THREADS) {
        const struct packed_place to = packed_place_of(t, dims, wide);
        const int d = to.d;
        ushort4 x[4];
        UNROLL
        for (int n = 0; n < 4; n++) {
            const int key = packed_key(to, n);
            const bool inside = key < rows && d < dim;
            const __global element *p =
                matrix + row_place(places, key, rows, row_step) + min(d, dim - wide) * step;
            if (wide == 1)
                x[n] = inside ? load_element(p) : (ushort)0;
            else
                x[n] = inside ? load_elements(p, aligned) : (ushort4)0;
            if (finite)
                x[n] = finite_elements(x[n], &nonfinite);
        }
        store_packed(tile, dims, to, wide, x);
    }
    return nonfinite;
}
#endif
