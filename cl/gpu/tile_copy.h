/* SPDX-License-Identifier: Apache-2.0 */
/* Fills tiles of local memory with floats by background copies, if the device has them
 * (ASYNC_COPIES, defined by the host): they take no registers. COPIES_WAIT() waits for a thread's
 * own copies, and the next barrier for all. Elsewhere a copy is a load and a store. */
#pragma once
#include "gpu/tile_load.h"

/* copy4() copies four floats that are aligned to 16 bytes, copy1() one; zeros unless inside. Tests
 * emulate a device with such copies on another one. */
#if ASYNC_COPIES && (defined(__NV_CL_C_VERSION) || defined(__NVPTX__))
#define COPIES_WAIT() __asm volatile("cp.async.wait_all;" : : : "memory")
/* Hides a value from the compiler, so that results are computed where they are used. Kept over a
 * loop of products, they would take registers that the loop needs. */
#define COMPUTE_HERE(x) __asm volatile("" : "+l"(x))

INLINE void copy4(__local float *to, const __global float *from, const bool inside)
{
    __asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :
                   : "r"((uint)(size_t)to), "l"(from), "r"(inside ? 16 : 0)
                   : "memory");
}

INLINE void copy4_inside(__local float *to, const __global float *from)
{
    __asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                   :
                   : "r"((uint)(size_t)to), "l"(from)
                   : "memory");
}

INLINE void copy1(__local float *to, const __global float *from, const bool inside)
{
    __asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                   :
                   : "r"((uint)(size_t)to), "l"(from), "r"(inside ? 4 : 0)
                   : "memory");
}

INLINE void copy1_inside(__local float *to, const __global float *from)
{
    __asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                   :
                   : "r"((uint)(size_t)to), "l"(from)
                   : "memory");
}
#else
#define COPIES_WAIT() ((void)0)
#define COMPUTE_HERE(x) ((void)(x))

INLINE void copy4(__local float *to, const __global float *from, const bool inside)
{
    *(__local float4 *)to = inside ? *(const __global float4 *)from : (float4)0.0f;
}

INLINE void copy1(__local float *to, const __global float *from, const bool inside)
{
    *to = inside ? *from : 0.0f;
}
#define copy4_inside(to, from) copy4(to, from, true)
#define copy1_inside(to, from) copy1(to, from, true)
#endif

/* The pieces of a thread: its piece n is piece number thread + n * THREADS of the tile, with in_row
 * pieces in a row. If THREADS is a multiple of in_row, all pieces of a thread are in one column, in
 * evenly spaced rows. all: the pieces of the tile. */
#define PIECES_OF(all) (((all) + THREADS - 1) / THREADS)
#define IN_ONE_COLUMN(in_row) (THREADS % (in_row) == 0)
#define PIECE_ROW(n, in_row)                                                                       \
    (IN_ONE_COLUMN(in_row) ? THIS_THREAD / (in_row) + (n) * (THREADS / (in_row))                   \
                           : (THIS_THREAD + (n)*THREADS) / (in_row))
#define PIECE_COLUMN(n, in_row)                                                                    \
    (IN_ONE_COLUMN(in_row) ? THIS_THREAD % (in_row) : (THIS_THREAD + (n)*THREADS) % (in_row))
#define PIECE_IS_THERE(n, all) ((all) % THREADS == 0 || THIS_THREAD + (n)*THREADS < (all))

/* Fills tile_rows x columns of a tile (stride in float4) with columns [first, first + columns) of a matrix of
 * rows x dim floats, and with 0 outside of it. aligned: rows are, to 16 bytes, and their elements follow each
 * other. Rows and columns of the tile and dim's multiples are constants once inlined. */
INLINE void copy_tile(__local float4 *tile, const int stride, const int tile_rows,
                      const int columns, const __global float *matrix, long row_step,
                      const long step, const int rows, const int first, const int dim,
                      const bool aligned)
{
    const int quads = columns / 4, all = tile_rows * quads;

    COMPUTE_HERE(row_step);
    if (aligned && rows >= tile_rows && first + columns <= dim) {
        const __global float *from =
            matrix + first + PIECE_ROW(0, quads) * row_step + 4 * PIECE_COLUMN(0, quads);
        const long next = IN_ONE_COLUMN(quads) ? THREADS / quads * row_step : 0;
#pragma unroll
        for (int n = 0; n < PIECES_OF(all); n++, from += next) {
            if (!IN_ONE_COLUMN(quads))
                from = matrix + first + PIECE_ROW(n, quads) * row_step + 4 * PIECE_COLUMN(n, quads);
            if (PIECE_IS_THERE(n, all))
                copy4_inside(
                    (__local float *)(tile + PIECE_ROW(n, quads) * stride + PIECE_COLUMN(n, quads)),
                    from);
        }
    } else if (aligned) {
#pragma unroll 1
        for (int n = 0; n < PIECES_OF(all); n++) {
            const int row = PIECE_ROW(n, quads), column = PIECE_COLUMN(n, quads);
            if (PIECE_IS_THERE(n, all))
                copy4((__local float *)(tile + row * stride + column),
                      matrix + row * row_step + first + 4 * column,
                      row < rows && first + 4 * column < dim);
        }
    } else {
#pragma unroll 1
        for (int n = 0; n < PIECES_OF(4 * all); n++) {
            const int row = PIECE_ROW(n, columns), column = PIECE_COLUMN(n, columns);
            if (PIECE_IS_THERE(n, 4 * all))
                copy1((__local float *)(tile + row * stride) + column,
                      matrix + row * row_step + (first + column) * step,
                      row < rows && first + column < dim);
        }
    }
}

/* Fills a tile of `depths` rows (stride in float4), a multiple of eight, with a transposed matrix:
 * column c of the tile is row c of the matrix. The matrix has rows x depth floats, the tile
 * tile_rows columns, with 0 outside the matrix. Neighbouring threads copy eight depths of a row;
 * with an odd stride these go to different banks. */
INLINE void copy_turned(__local float4 *tile, const int stride, const int tile_rows,
                        const int depths, const __global float *matrix, long row_step,
                        const int rows, const int depth)
{
    const int all = tile_rows * 8;

    COMPUTE_HERE(row_step);
    if (rows >= tile_rows && depth >= depths) {
        const __global float *from = matrix + PIECE_ROW(0, 8) * row_step + PIECE_COLUMN(0, 8);
        __local float *const to =
            (__local float *)(tile + PIECE_COLUMN(0, 8) * stride) + PIECE_ROW(0, 8);
#pragma unroll
        for (int n = 0; n < PIECES_OF(all); n++, from += THREADS / 8 * row_step)
            if (PIECE_IS_THERE(n, all))
#pragma unroll
                for (int d = 0; d < depths; d += 8)
                    copy1_inside(to + d * 4 * stride + n * (THREADS / 8), from + d);
    } else {
#pragma unroll 1
        for (int n = 0; n < PIECES_OF(all); n++)
            if (PIECE_IS_THERE(n, all))
#pragma unroll 1
                for (int d = PIECE_COLUMN(n, 8); d < depths; d += 8)
                    copy1((__local float *)(tile + d * stride) + PIECE_ROW(n, 8),
                          matrix + PIECE_ROW(n, 8) * row_step + d,
                          PIECE_ROW(n, 8) < rows && d < depth);
    }
}

/* Replaces Infs and NaNs by 0 in quads of whole rows that this thread's copies filled; other
 * threads' copies may not be complete. Returns whether there was one. */
INLINE int make_tile_finite(__local float4 *tile, const int stride, const int tile_rows,
                            const int columns, const bool aligned)
{
    int nonfinite = 0;

    for (int n = 0; n < PIECES_OF(tile_rows * (columns / 4)) && aligned; n++) {
        __local float4 *const x =
            tile + PIECE_ROW(n, columns / 4) * stride + PIECE_COLUMN(n, columns / 4);
        if (PIECE_IS_THERE(n, tile_rows * (columns / 4)))
            *x = finite_or_0(*x, &nonfinite);
    }
    for (int n = 0; n < PIECES_OF(tile_rows * columns) && !aligned; n++) {
        __local float *const x =
            (__local float *)(tile + PIECE_ROW(n, columns) * stride) + PIECE_COLUMN(n, columns);
        if (PIECE_IS_THERE(n, tile_rows * columns)) {
            const bool bad = *x * 0.0f != 0.0f;
            nonfinite |= bad;
            *x = bad ? 0.0f : *x;
        }
    }
    return nonfinite;
}
