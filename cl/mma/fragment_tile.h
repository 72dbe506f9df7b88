/* Tiles of 16-bit elements in local memory: filled from matrices in global memory by the whole
 * work-group, and read as the operands of fragment.h.
 *
 * Before including this: tile_load.h, fragment.h. */
#ifndef CLATTN_FRAGMENT_TILE_H
#define CLATTN_FRAGMENT_TILE_H

#include "mma/tile_layout.h"

/* ---- operands -------------------------------------------------------------------------------- */

/* Words that are neighbours in memory, aligned to their size up to 16 bytes. */
static inline void load_run(uint *words, const __local ushort *from, const int run)
{
    if (run >= 4) {
        vstore4(((const __local uint4 *)from)[0], 0, words);
        if (run == 8)
            vstore4(((const __local uint4 *)from)[1], 1, words);
    } else if (run == 2) {
        vstore2(*(const __local uint2 *)from, 0, words);
    } else {
        *words = as_uint(*(const __local ushort2 *)from);
    }
}

#if !HAS_FRAGMENT_LOADS
/* From the tile's row 0 and column 0 on, as all of these. */
static inline void load_query(uint *words, const __local ushort *tile, const int stride,
                              const int lane)
{
#if QUERY_RUN
    UNROLL
    for (int w = 0; w < QUERY_WORDS; w += QUERY_RUN)
        load_run(words + w, tile + query_row(lane, 2 * w) * stride + query_depth(lane, 2 * w),
                 QUERY_RUN);
#else
    UNROLL
    for (int w = 0; w < QUERY_WORDS; w++)
        words[w] = tile[query_row(lane, 2 * w) * stride + query_depth(lane, 2 * w)] |
                   (uint)tile[query_row(lane, 2 * w + 1) * stride + query_depth(lane, 2 * w + 1)]
                       << 16;
#endif
}

static inline void load_keys(uint *words, const __local ushort *tile, const int stride,
                             const int lane)
{
    UNROLL
    for (int m = 0; m < OTHERS_AT_ONCE; m++)
        UNROLL
        for (int w = 0; w < OTHER_WORDS; w += KEY_RUN)
            load_run(words + m * OTHER_WORDS + w,
                     tile + (m * FRAGMENT_OTHERS + other_column(lane)) * stride +
                         other_depth(lane, 2 * w),
                     KEY_RUN);
}

#if !PACKED_VALUES
static inline void load_values(uint *words, const __local ushort *tile, const int stride,
                               const int lane)
{
    UNROLL
    for (int m = 0; m < OTHERS_AT_ONCE; m++)
        UNROLL
        for (int w = 0; w < OTHER_WORDS; w++) {
            const int dim = m * FRAGMENT_OTHERS + other_column(lane);
            words[m * OTHER_WORDS + w] =
                tile[other_depth(lane, 2 * w) * stride + dim] |
                (uint)tile[other_depth(lane, 2 * w + 1) * stride + dim] << 16;
        }
}
#endif
#endif

/* ---- filling --------------------------------------------------------------------------------- */

/* x, or 0 for Inf and NaN; tells whether it was one. */
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

/* Elements as they are stored. One at a time where rows are not aligned, as in load4(). */
static inline ushort load_element(const __global storage *p)
{
    return *(const __global ushort *)p;
}

/* Of a gradient. */
static inline void store_result(const float x, __global o_storage *p)
{
#if O_DTYPE == DTYPE
    *(__global ushort *)p = element_round(x);
#else
    STORE_O(x, p, 0);
#endif
}

static inline ushort4 load_elements(const __global storage *p, const bool aligned)
{
    if (!aligned)
        return (ushort4)(load_element(p), load_element(p + 1), load_element(p + 2),
                         load_element(p + 3));
    return *(const __global ushort4 *)p;
}

/* Fills tile_rows x columns of a tile in rows with a matrix of rows x dim, and with 0 outside of
 * it; rows >= 1. places: 0, or where each row is, as load_tile() takes it. With `finite` Infs and NaNs become 0 too, and the result tells whether this thread
 * met one. All but the pointers, steps, rows and flags are constants once inlined. */
__attribute__((always_inline)) static inline int
fill_rows(__local ushort *tile, const int stride, const int tile_rows, const int columns,
          const __global storage *matrix, const long row_step, const __local long *places,
          const long step, const int rows, const int dim, const int width, const bool aligned,
          const bool finite)
{
    const int wide = width < ROW_PADDING ? width : ROW_PADDING, chunks = columns / wide;
    int nonfinite = 0, first = get_local_id(0);

    INDEX_HERE(first);
    for (int t = first; t < tile_rows * chunks; t += THREADS) {
        const int row = t / chunks, column = t % chunks * wide;
        const bool inside = row < rows && column < dim;
        const __global storage *p =
            matrix + ROW_PLACE(places, row, rows, row_step) + min(column, dim - wide) * step;
        __local ushort *const to = tile + row * stride + column;
#if HAS_COPIES
        if (width == 8 && aligned && !finite) {
            copy_chunk(to, p, inside);
            continue;
        }
#endif
        if (wide == 1) {
            ushort x = inside ? load_element(p) : (ushort)0;
            if (finite)
                x = finite_element(x, &nonfinite);
            *to = x;
        } else if (wide == 4 || HAS_COPIES) { /* of 8 what was not copied: more would take registers */
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
/* Four terms of a thread's n-th dim. */
#define PACKED_FOUR(n) ((__local ushort4 *)(tile + packed_at(dims, slab, d + (n), depth)))

/* Fills packed values with tile_rows keys and `dims` dims likewise; width is 1, 4 or 8. A thread takes
 * four keys that are neighbours as terms, and as many dims as one load may; neighbouring threads fill a piece. */
__attribute__((always_inline)) static inline int
fill_packed(__local ushort *tile, const int tile_rows, const int dims,
            const __global storage *matrix, const long row_step, const __local long *places,
            const long step, const int rows, const int dim, const int width, const bool aligned,
            const bool finite)
{
    const int wide = width == 1 ? 1 : 4, chunks = dims / wide, fours = PACKED_RUN / 4;
    int nonfinite = 0, first = get_local_id(0);

    INDEX_HERE(first);
    for (int t = first; t < tile_rows / 4 * chunks; t += THREADS) {
        const int four = t / (fours * chunks) * fours + t % fours, d = t / fours % chunks * wide;
        const int slab = four / (FRAGMENT_DEPTH / 4), depth = four % (FRAGMENT_DEPTH / 4) * 4;
        ushort4 x[4];
        UNROLL
        for (int n = 0; n < 4; n++) {
            const int key = slab * FRAGMENT_DEPTH + VALUE_KEY(depth + n);
            const bool inside = key < rows && d < dim;
            const __global storage *p =
                matrix + ROW_PLACE(places, key, rows, row_step) + min(d, dim - wide) * step;
            if (wide == 1)
                x[n] = inside ? load_element(p) : (ushort)0;
            else
                x[n] = inside ? load_elements(p, aligned) : (ushort4)0;
            if (finite)
                x[n] = finite_elements(x[n], &nonfinite);
        }
        *PACKED_FOUR(0) = (ushort4)(x[0].x, x[1].x, x[2].x, x[3].x);
        if (wide == 4) {
            *PACKED_FOUR(1) = (ushort4)(x[0].y, x[1].y, x[2].y, x[3].y);
            *PACKED_FOUR(2) = (ushort4)(x[0].z, x[1].z, x[2].z, x[3].z);
            *PACKED_FOUR(3) = (ushort4)(x[0].w, x[1].w, x[2].w, x[3].w);
        }
    }
    return nonfinite;
}
#endif

#endif
