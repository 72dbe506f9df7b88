/* SPDX-License-Identifier: Apache-2.0 */
/* Register blocking: a thread (work-item) keeps its part of a product of two tiles in registers.
 * Both tiles are in local memory; a work-group owns one and streams the other.
 *
 * Threads   THREADS = THREADS_N * THREADS_M: THREADS_N along streamed rows and dims, THREADS_M along
 *           owned rows. A thread has THREAD_M owned rows, ROW(r), and THREAD_N streamed ones, thread_n +
 *           THREADS_N * c, and of sums dims 4 * (thread_n + THREADS_N * n). All reads of local memory are
 *           of 16 bytes, and neighbouring threads read neighbouring banks.
 *
 * UNROLL times four columns of a product, and four times as many rows of a sum, are unrolled; if it is 0 or not
 * defined, the compiler decides.
 *
 * All of these are tunables of the kernel, or sizes made of them, as are ROW_STRIDE, the float4 of a row of weights
 * in local memory, and MAX_DIM, the longest row's dims. */
#pragma once
#include "common/kernel.h"
#include "common/multiply_add.h"
#include "gpu/local_barrier.h"
#include "families/thread_sizes.h"
#include "gpu/unrolled.h"

/* A thread's rows are quads, THREADS_M quads apart: row r of a thread, in the block. */
#define ROW_FROM_FIRST(r) ((r) / 4 * THREADS_M * 4 + (r) % 4)
#define ROW(r) (thread_m * 4 + ROW_FROM_FIRST(r))

INLINE void clear_thread_products(float products[THREAD_M][THREAD_N])
{
#pragma unroll
    for (int r = 0; r < THREAD_M; r++)
#pragma unroll
        for (int c = 0; c < THREAD_N; c++)
            products[r][c] = 0.0f;
}

INLINE void clear_sums(float4 sums[THREAD_M][MAX_DIMS4])
{
#pragma unroll
    for (int r = 0; r < THREAD_M; r++)
#pragma unroll
        for (int n = 0; n < MAX_DIMS4; n++)
            sums[r][n] = 0.0f;
}

/* `upper` += a * b and `lower` += next * b: one instruction on AMD's CDNA 2 and 3. LLVM alone would
 * pair two columns instead, which moves more values. */
#if defined(__gfx90a__) || defined(__gfx942__)
#define MULTIPLY_ADD_ROWS(upper, lower, a, next, b)                                                \
    do {                                                                                           \
        const float2 both = MULTIPLY_ADD((float2)(a, next), (float2)(b), (float2)(upper, lower));  \
        (upper) = both.x;                                                                          \
        (lower) = both.y;                                                                          \
    } while (0)
#else
#define MULTIPLY_ADD_ROWS(upper, lower, a, next, b)                                                \
    do {                                                                                           \
        (upper) = MULTIPLY_ADD(a, b, upper);                                                       \
        (lower) = MULTIPLY_ADD(next, b, lower);                                                    \
    } while (0)
#endif

/* products[r][c] += owned row ROW(r) . streamed row thread_n + THREADS_N * c, over `depth` columns
 * of tiles. Strides of their rows are in float4. THREAD_M is even. */
INLINE void multiply_tiles(const __local float4 *owned, const int owned_stride,
                           const __local float4 *streamed, const int streamed_stride,
                           const int depth, float products[THREAD_M][THREAD_N])
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;

    /* Offsets from one pointer each are constants, which saves the loop its index arithmetic. */
    owned += ROW(0) * owned_stride;
    streamed += thread_n * streamed_stride;
    UNROLLED(UNROLL)
    for (int d = 0; d < depth; d += 4, owned++, streamed++) {
        float4 y[THREAD_N];
#pragma unroll
        for (int c = 0; c < THREAD_N; c++)
            y[c] = streamed[THREADS_N * c * streamed_stride];
#pragma unroll
        for (int r = 0; r < THREAD_M; r += 2) {
            const float4 x = owned[ROW_FROM_FIRST(r) * owned_stride];
            const float4 next = owned[ROW_FROM_FIRST(r + 1) * owned_stride];
#pragma unroll
            for (int c = 0; c < THREAD_N; c++) {
                MULTIPLY_ADD_ROWS(products[r][c], products[r + 1][c], x.x, next.x, y[c].x);
                MULTIPLY_ADD_ROWS(products[r][c], products[r + 1][c], x.y, next.y, y[c].y);
                MULTIPLY_ADD_ROWS(products[r][c], products[r + 1][c], x.z, next.z, y[c].z);
                MULTIPLY_ADD_ROWS(products[r][c], products[r + 1][c], x.w, next.w, y[c].w);
            }
        }
    }
}

/* Stores weights, in the order of multiply_tiles(), to local memory: WEIGHT_ROWS streamed rows from
 * `first` on, a multiple of these, each with the weights of all owned rows; thread_m and thread_n
 * are in scope. It is a macro, and chooses among values. In a function, or with stores behind
 * conditions, compilers would choose among pointers to the weights, which would lie in memory. */
#define STORE_WEIGHTS(first, weight, weights)                                                      \
    do {                                                                                           \
        enum { COLUMNS = WEIGHT_ROWS / THREADS_N };                                                \
        _Pragma("unroll") for (int c = 0; c < COLUMNS; c++)                                        \
        {                                                                                          \
            float chosen[THREAD_M];                                                                \
            _Pragma("unroll") for (int r = 0; r < THREAD_M; r++) chosen[r] = weight[r][c];         \
            _Pragma("unroll") for (int n = c + COLUMNS; n < THREAD_N; n += COLUMNS)                \
                _Pragma("unroll") for (int r = 0; r < THREAD_M; r++) chosen[r] =                   \
                    (first) / WEIGHT_ROWS == n / COLUMNS ? weight[r][n] : chosen[r];               \
            _Pragma("unroll") for (int g = 0; g < QUADS; g++)(                                     \
                weights)[(thread_n + THREADS_N * c) * ROW_STRIDE + g * THREADS_M + thread_m] =     \
                (float4)(chosen[4 * g], chosen[4 * g + 1], chosen[4 * g + 2], chosen[4 * g + 3]);  \
        }                                                                                          \
    } while (0)

/* sums[r][n] += weight of owned row r times dims 4 * (thread_n + THREADS_N * n).. of one streamed row,
 * for n < dims4; weights and row point at the thread's first. If leaves_out 0 stands for the row where
 * the weight is -0: without a branch, behind which Intel's CPU compiler would not fuse mad, and last bits
 * would differ. Loops over n go to a constant: compilers may give up on unrolling others before dims4
 * has become one. */
INLINE void add_row(const bool leaves_out, const int dims4, const __local float4 *weights,
                    const __local float4 *row, float4 sums[THREAD_M][MAX_DIMS4])
{
    float4 y[MAX_DIMS4];

#pragma unroll
    for (int n = 0; n < MAX_DIMS4; n++)
        y[n] = n < dims4 ? row[n * THREADS_N] : 0.0f;
#pragma unroll
    for (int g = 0; g < QUADS; g++) {
        const float4 x4 = weights[g * THREADS_M];
        const float x[4] = {x4.x, x4.y, x4.z, x4.w};
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int n = 0; n < MAX_DIMS4; n++)
                if (n < dims4) {
                    const bool hidden = leaves_out && as_int(x[r]) == as_int(-0.0f);
                    sums[4 * g + r][n] = MULTIPLY_ADD((float4)x[r], hidden ? (float4)0.0f : y[n],
                                                      sums[4 * g + r][n]);
                }
    }
}

/* Stores the thread's value of each owned row, for the reduction over threads. */
INLINE void store_partial(const float *x, __local float4 *partial)
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;

#pragma unroll
    for (int g = 0; g < QUADS; g++)
        partial[thread_n * ROW_STRIDE + g * THREADS_M + thread_m] =
            (float4)(x[4 * g], x[4 * g + 1], x[4 * g + 2], x[4 * g + 3]);
}

/* The part of thread n in a row of the block. */
INLINE float partial_of(const __local float4 *partial, const int n, const int row)
{
    return ((const __local float *)partial)[n * ROW_STRIDE * 4 + row];
}
