/* SPDX-License-Identifier: Apache-2.0 */
/* Filling tiles of local memory from a matrix in global memory, by the whole work-group, and
 * storing to one.
 *
 * Sizes      THREADS, the work-items of a group; LOAD_WIDTH, 4 or 8, the elements that one load takes where a matrix
 *            allows it. */
#pragma once
#include "common/kernel.h"

/* The number of elements that one load takes: LOAD_WIDTH, or fewer where rows are not a multiple of
 * it. */
#define WIDTH(unit, dim) WIDTH_OF(DTYPE, unit, dim)
#define WIDTH_OF(dtype, unit, dim)                                                                 \
    (!(unit) || (dim) % 4 ? 1 : (dtype) == DTYPE_F32 || (dim) % LOAD_WIDTH ? 4 : LOAD_WIDTH)

/* Returns whether one instruction can load width elements of each row of a tensor (alignment). */
static inline bool rows_aligned_of(const int dtype, const __global void *rows, const long row_step,
                                   const int width)
{
    return (((size_t)rows | (size_t)row_step * bytes_of(dtype)) & (width * bytes_of(dtype) - 1)) ==
           0;
}

static inline bool rows_aligned(const __global storage *rows, const long row_step, const int width)
{
    return rows_aligned_of(DTYPE, rows, row_step, width);
}

/* Returns whether wide loads can read K or V with these page or batch and row steps: rows of all
 * pages are aligned then. */
static inline bool cache_aligned(const int dtype, const __global void *p, const long page_step,
                                 const long row_step, const int width)
{
#if PAGE_SIZE
    if (!rows_aligned_of(dtype, p, page_step, width))
        return false;
#endif
    return rows_aligned_of(dtype, p, row_step, width);
}

#ifndef OPERAND_PARTS
#define OPERAND_PARTS 1
#endif

/* Rows of a tensor, or of parts of f32 (mma/f32_parts.h). All but the pointer, the steps and the count are constants once
 * inlined. width: elements that one load takes. */
#if OPERAND_PARTS > 1
struct matrix {
    const __global ushort *p;
    long row_step, step;
    long part_step; /* from an element to its next part */
    int dim, rows, width;
    bool aligned;
};
#else
struct matrix {
    const __global storage *p;
    long row_step, step;
    int dim, rows, width;
    bool aligned;
};

INLINE struct matrix matrix_of(const __global storage *p, const long row_step, const long step,
                               const int dim, const int rows, const int width)
{
    const struct matrix m = {p, row_step, step, dim, rows, width, rows_aligned(p, row_step, width)};

    return m;
}
#endif

/* Returns x with 0 for every Inf and NaN, and whether there was one. */
static inline float4 finite_or_0(const float4 x, int *nonfinite)
{
    const int4 bad = x * 0.0f != 0.0f;

    *nonfinite |= any(bad);
    return bad ? (float4)0.0f : x;
}

/* The offset of row number `row` of `rows`; later rows repeat the last. It is a multiple of
 * row_step, or an entry of `places`. */
INLINE long row_place(const __local long *places, const int row, const int rows,
                      const long row_step)
{
    return places ? places[min(row, rows - 1)] : min(row, rows - 1) * row_step;
}

/* The number of pieces, of `all` in a tile, that a thread loads before it waits for the first. On
 * NVIDIA, where few groups of many registers are resident, a wait for each piece took most of the
 * time; elsewhere more registers were spilled. CPUs use it only so that tests cover it. */
#if defined(__NV_CL_C_VERSION) || defined(__NVPTX__) || defined(__x86_64__) || defined(__aarch64__)
enum { LOADS_AT_ONCE = 4 };
#else
enum { LOADS_AT_ONCE = 1 };
#endif
INLINE int loads_at_once(const int all)
{
    return all > (LOADS_AT_ONCE - 1) * THREADS ? LOADS_AT_ONCE : (all + THREADS - 1) / THREADS;
}

/* Loads a piece of `width` elements from p on. */
struct piece {
    float4 low, high;
};

INLINE struct piece load_piece(const int dtype, const __global void *p, const int width,
                               const bool aligned)
{
    struct piece x = {0.0f, 0.0f};

    if (width == 1)
        x.low.x = load1_of(dtype, p, 0);
    else if (width == 4)
        x.low = load4_of(dtype, p, aligned);
    else if (LOAD_WIDTH == 8) {
        const float8 both = load8_of(dtype, p, aligned);
        x.low = (float4)(both.s0, both.s1, both.s2, both.s3);
        x.high = (float4)(both.s4, both.s5, both.s6, both.s7);
    }
    return x;
}

/* Fills tile_rows x columns of a tile (stride in float4) with columns [first, first + columns) of
 * a matrix of rows x dim, and with 0 outside of it; rows >= 1. places: 0, or where each row is, counted
 * in elements from `matrix`. With `finite` Infs and NaNs become 0 too, and the result tells whether
 * this thread met one. All but the pointers, steps, rows and flags are constants once inlined. */
__attribute__((always_inline)) static inline int
load_tile(__local float4 *tile, const int stride, const int tile_rows, const int columns,
          const int dtype, const __global void *matrix, const long row_step,
          const __local long *places, const long step, const int rows, const int first,
          const int dim, const int width, const bool aligned, const bool finite)
{
    const int chunks = columns / width, all = tile_rows * chunks, at_once = loads_at_once(all);
    int nonfinite = 0;

/* Loads are clamped, not skipped, with one branch for all: loads without branches can be in
 * flight together. */
#define LOAD_PIECES(aligned)                                                                       \
    for (int n = 0; n < LOADS_AT_ONCE; n++)                                                        \
        if (n < at_once) {                                                                         \
            const int here = min(t + n * THREADS, all - 1), row = here / chunks;                   \
            x[n] = load_piece(                                                                     \
                dtype,                                                                             \
                place_of(dtype, place_of(dtype, matrix, row_place(places, row, rows, row_step)),   \
                         min(first + here % chunks * width, dim - width) * step),                  \
                width, aligned);                                                                   \
        }

    for (int t = get_local_id(0); t < all; t += at_once * THREADS) {
        struct piece x[LOADS_AT_ONCE];
        if (LOADS_AT_ONCE > 1 && aligned) {
#pragma unroll
            LOAD_PIECES(true)
        } else {
#pragma unroll
            LOAD_PIECES(aligned)
        }
#pragma unroll
        for (int n = 0; n < LOADS_AT_ONCE; n++) {
            const int here = t + n * THREADS, row = here / chunks, column = here % chunks * width;
            const bool inside = row < rows && first + column < dim;
            float4 low = inside ? x[n].low : 0.0f, high = inside ? x[n].high : 0.0f;
            __local float4 *const to = tile + row * stride + column / 4;
            if (n < at_once &&
                here <
                    all) { /* no break here: if a loop is not unrolled, its array lies in memory */
                if (finite) {
                    low = finite_or_0(low, &nonfinite);
                    high = finite_or_0(high, &nonfinite);
                }
                if (width == 1)
                    ((__local float *)to)[column % 4] = low.x;
                else
                    to[0] = low;
                if (width == 8)
                    to[1] = high;
            }
        }
    }
#undef LOAD_PIECES
    return nonfinite;
}

/* Stores x to those columns from d on that exist in a row of dim; dim and width (as in load_tile)
 * are constants once inlined. */
__attribute__((always_inline)) static inline void store4(const float4 x, __global o_storage *row,
                                                         const long step, const int d,
                                                         const int dim, const int width)
{
    if (width != 1) {
        if (d < dim)
            store4_of(O_DTYPE, x, row + d);
        return;
    }
    if (d < dim)
        store1_of(O_DTYPE, x.x, row, d * step);
    if (d + 1 < dim)
        store1_of(O_DTYPE, x.y, row, (d + 1) * step);
    if (d + 2 < dim)
        store1_of(O_DTYPE, x.z, row, (d + 2) * step);
    if (d + 3 < dim)
        store1_of(O_DTYPE, x.w, row, (d + 3) * step);
}
