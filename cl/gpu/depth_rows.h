/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of projection_gpu UNIT=item whose rows lie along the depth, as both matrices do where w is transposed: they are
 * copied 16 bytes at a time, and not turned around.
 *
 * A row has 32 floats, which fill all banks once. Its quads are permuted by its number, so that eight threads that read
 * the same quad of every fourth row read all banks: DEPTH_QUAD.
 *
 * Sizes      THREADS, THREADS_N, THREADS_M, THREAD_M, THREAD_N, of projection_gpu_item. */
#pragma once
#include "common/multiply_add.h"
#include "gpu/tile_copy.h"
#include "gpu/unrolled.h"

#define ROW_QUADS 8
/* The index of quad q of a row in a tile, in float4. */
#define DEPTH_QUAD(row, q) ((row)*ROW_QUADS + ((q) ^ ((row) / 4 % ROW_QUADS)))

/* Fills a tile of tile_rows rows with the first `depth` floats, 32 at most, of `rows` rows, and with 0 beyond. aligned:
 * rows are, to 16 bytes. */
INLINE void copy_depth_rows(__local float4 *tile, const int tile_rows, const __global float *matrix,
                            long row_step, const int rows, const int depth, const bool aligned)
{
    const int all = tile_rows * ROW_QUADS;

    COMPUTE_HERE(row_step);
    if (aligned && rows >= tile_rows && depth >= 4 * ROW_QUADS) {
        const __global float *from =
            matrix + PIECE_ROW(0, ROW_QUADS) * row_step + 4 * PIECE_COLUMN(0, ROW_QUADS);
#pragma unroll
        for (int n = 0; n < PIECES_OF(all); n++, from += THREADS / ROW_QUADS * row_step)
            if (PIECE_IS_THERE(n, all))
                copy4_inside((__local float *)(tile + DEPTH_QUAD(PIECE_ROW(n, ROW_QUADS),
                                                                 PIECE_COLUMN(n, ROW_QUADS))),
                             from);
    } else {
#pragma unroll 1
        for (int n = THIS_THREAD; n < 4 * all; n += THREADS) {
            const int row = n / (4 * ROW_QUADS), d = n % (4 * ROW_QUADS);
            copy1((__local float *)(tile + DEPTH_QUAD(row, d / 4)) + d % 4,
                  matrix + row * row_step + d, row < rows && d < depth);
        }
    }
}

/* Adds x y^T of 32 depths to sums; a thread's rows are quads, in which the sums lie, too. */
INLINE void multiply_depth_rows(const __local float4 *x_tile, const __local float4 *y_tile,
                                const int thread_m, const int thread_n,
                                float4 sums[THREAD_M][THREAD_N / 4])
{
    UNROLLED(UNROLL / 8 + 1)
    for (int d = 0; d < ROW_QUADS; d++) {
        float4 y[THREAD_N];
#pragma unroll
        for (int c = 0; c < THREAD_N; c++)
            y[c] = y_tile[DEPTH_QUAD((c / 4 * THREADS_N + thread_n) * 4 + c % 4, d)];
#pragma unroll
        for (int r = 0; r < THREAD_M; r++) {
            const float4 x = x_tile[DEPTH_QUAD((r / 4 * THREADS_M + thread_m) * 4 + r % 4, d)];
#pragma unroll
            for (int c = 0; c < THREAD_N / 4; c++) {
                float4 sum = sums[r][c];
                sum.x = MULTIPLY_ADD(x.x, y[4 * c].x, sum.x);
                sum.y = MULTIPLY_ADD(x.x, y[4 * c + 1].x, sum.y);
                sum.z = MULTIPLY_ADD(x.x, y[4 * c + 2].x, sum.z);
                sum.w = MULTIPLY_ADD(x.x, y[4 * c + 3].x, sum.w);
                sum.x = MULTIPLY_ADD(x.y, y[4 * c].y, sum.x);
                sum.y = MULTIPLY_ADD(x.y, y[4 * c + 1].y, sum.y);
                sum.z = MULTIPLY_ADD(x.y, y[4 * c + 2].y, sum.z);
                sum.w = MULTIPLY_ADD(x.y, y[4 * c + 3].y, sum.w);
                sum.x = MULTIPLY_ADD(x.z, y[4 * c].z, sum.x);
                sum.y = MULTIPLY_ADD(x.z, y[4 * c + 1].z, sum.y);
                sum.z = MULTIPLY_ADD(x.z, y[4 * c + 2].z, sum.z);
                sum.w = MULTIPLY_ADD(x.z, y[4 * c + 3].z, sum.w);
                sum.x = MULTIPLY_ADD(x.w, y[4 * c].w, sum.x);
                sum.y = MULTIPLY_ADD(x.w, y[4 * c + 1].w, sum.y);
                sum.z = MULTIPLY_ADD(x.w, y[4 * c + 2].w, sum.z);
                sum.w = MULTIPLY_ADD(x.w, y[4 * c + 3].w, sum.w);
                sums[r][c] = sum;
            }
        }
    }
}
