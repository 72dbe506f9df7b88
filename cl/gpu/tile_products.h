/* SPDX-License-Identifier: Apache-2.0 */
/* The two products of tiles in gradient kernels. A work-group owns BLOCK_OWNED rows of two matrices
 * and streams BLOCK_STREAMED rows at a time of two others: products of owned and streamed rows, and
 * sums of streamed rows for each owned row, both in registers (gpu/thread_tile.h).
 *
 * Products  have owned and streamed rows staged by BLOCK_K columns; owned ones all at once if
 *           OWNED_RESIDENT.
 * Sums      have their weights and the streamed rows staged by STAGE_N of those rows. A weight of -0
 *           stands for a masked pair, which a slower loop skips.
 * Stages    are filled between two barriers and read between the next two; with two STAGES the next stage, of
 *           this or the next product or sum, is copied meanwhile (gpu/tile_copy.h).
 *
 * All names are tunables. */
#pragma once
#include "common/kernel.h"
#include "gpu/local_barrier.h"
#include "gpu/tile_exp.h"
#include "gpu/tile_load.h"
#include "gpu/tile_copy.h"
#include "gpu/thread_tile.h"

/* The stage to fill next: stage 0 if there is one, alternating if there are two. */
#define OTHER(stage) (STAGE_FLOAT4S - (stage))

/* ---- products ------------------------------------------------------------------------------- */

INLINE void load_stage_columns(__local float4 *tile, const int stride, const int tile_rows,
                               const int first, const int columns, const struct matrix m)
{
#if STAGES > 1
    copy_tile(tile, stride, tile_rows, columns, m.p, m.row_step, m.step, m.rows, first, m.dim,
              m.width == 4 && m.aligned);
#else
    load_tile(tile, stride, tile_rows, columns, DTYPE, m.p, m.row_step, 0, m.step, m.rows, first,
              m.dim, m.width, m.aligned, false);
#endif
}

/* Loads STAGE_N rows from row `first` on. */
INLINE void load_rows(__local float4 *rows, const int first, const struct matrix m)
{
    const int stride = THREADS_N * DIMS4(m.dim);
    const struct matrix rest = {m.p + first * m.row_step, m.row_step, m.step,   m.dim,
                                m.rows - first,           m.width,    m.aligned};

    load_stage_columns(rows, stride, STAGE_N, 0, 4 * stride, rest);
}

/* Loads a stage of a product: columns from `first` on. */
INLINE void load_product_stage(const struct matrix owned, const struct matrix streamed,
                               const int first, const int stage, __local float4 *tiles)
{
    const int dim = streamed.dim;

    if (!OWNED_RESIDENT)
        load_stage_columns(tiles + stage, OWNED_STRIDE(dim), BLOCK_OWNED, first, STAGE(dim), owned);
    load_stage_columns(tiles + stage + STREAMED_AT, STREAMED_STRIDE(dim), BLOCK_STREAMED, first,
                       STAGE(dim), streamed);
}

/* Describes the product or sum that follows; its first stage is copied during the last stage of
 * this one. */
enum { NOTHING_NEXT, PRODUCT_NEXT, SUM_NEXT };
struct next {
    int what; /* NOTHING_NEXT, PRODUCT_NEXT or SUM_NEXT */
    struct matrix owned, streamed;
};

INLINE void load_next(const struct next next, const int stage, __local float4 *tiles)
{
    if (next.what == PRODUCT_NEXT)
        load_product_stage(next.owned, next.streamed, 0, stage, tiles);
    else if (next.what == SUM_NEXT)
        load_rows(tiles + stage + ROWS_AT, 0, next.streamed);
}

/* Computes products[r][c] = owned row ROW(r) . streamed row thread_n + THREADS_N * c. If
 * OWNED_RESIDENT, all of the owned rows are at owned_at. *stage is the index of the first stage, on
 * return that of `next`. */
INLINE void multiply_matrices(const struct matrix owned, const struct matrix streamed,
                              const struct next next, __local float4 *tiles, const int owned_at,
                              int *stage, float products[THREAD_M][THREAD_N])
{
    const int dim = streamed.dim;

    clear_thread_products(products);
    for (int first = 0; first < dim; first += STAGE(dim)) {
        const int now = *stage;
#if STAGES == 1
        LOCAL_BARRIER(); /* all have read the old contents */
        load_product_stage(owned, streamed, first, now, tiles);
        LOCAL_BARRIER(); /* the stage is complete */
#else
        COPIES_WAIT();
        LOCAL_BARRIER(); /* the stage is complete; the one before is no longer read */
        *stage = OTHER(now);
        if (first + STAGE(dim) < dim)
            load_product_stage(owned, streamed, first + STAGE(dim), *stage, tiles);
        else
            load_next(next, *stage, tiles);
#endif
        multiply_tiles(tiles + (OWNED_RESIDENT ? owned_at + first / 4 : now), OWNED_STRIDE(dim),
                       tiles + now + STREAMED_AT, STREAMED_STRIDE(dim), STAGE(dim), products);
    }
}

/* Adds weights^T . streamed rows of a stage to sums; a thread has dims4 of them. The loop that
 * leaves rows out hardly ever runs, so it is not unrolled: it would be half of the kernel's code.
 * */
INLINE void add_stage(const bool leaves_out, const int dims4, const __local float4 *weights,
                      const __local float4 *rows, float4 sums[THREAD_M][MAX_DIMS4])
{
    if (leaves_out) {
#pragma unroll 1
        for (int row = 0; row < STAGE_N; row++, weights += ROW_STRIDE, rows += THREADS_N * dims4)
            add_row(true, dims4, weights, rows, sums);
        return;
    }
    UNROLLED(4 * UNROLL)
    for (int row = 0; row < STAGE_N; row++, weights += ROW_STRIDE, rows += THREADS_N * dims4)
        add_row(false, dims4, weights, rows, sums);
}

/* Adds weights^T . streamed rows to sums, with weights in the order of multiply_matrices(), stage
 * by stage. partial: some pair may be masked. *nonfinite was set before the last barrier: a
 * streamed row of such a pair may contain an Inf or a NaN. */
INLINE void add_streamed_rows(const bool partial, const struct matrix streamed,
                              const struct next next, float weight[THREAD_M][THREAD_N],
                              __local float4 *tiles, int *stage,
                              const volatile __local int *nonfinite,
                              float4 sums[THREAD_M][MAX_DIMS4])
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;
    const int dims4 = DIMS4(streamed.dim);
    int first = 0;

    do {
        const int now = *stage;
#if STAGES == 1
        LOCAL_BARRIER(); /* all have read the old contents */
#endif
        if (first % WEIGHT_ROWS == 0)
            STORE_WEIGHTS(first, weight, tiles + now + WEIGHTS_AT);
#if STAGES == 1
        load_rows(tiles + ROWS_AT, first, streamed);
        LOCAL_BARRIER(); /* weights and rows are complete */
#else
        COPIES_WAIT();
        LOCAL_BARRIER(); /* weights and rows are complete; nobody reads the stage before */
        *stage = OTHER(now);
        if (first + STAGE_N < BLOCK_STREAMED && first + STAGE_N < streamed.rows)
            load_rows(tiles + *stage + ROWS_AT, first + STAGE_N, streamed);
        else
            load_next(next, *stage, tiles);
#endif
        const __local float4 *const thread_weights =
            tiles + now + WEIGHTS_AT + first % WEIGHT_ROWS * ROW_STRIDE + thread_m;
        const __local float4 *const rows = tiles + now + ROWS_AT + thread_n;
        if (partial && *nonfinite)
            add_stage(true, dims4, thread_weights, rows, sums);
        else
            add_stage(false, dims4, thread_weights, rows, sums);
        first += STAGE_N;
    } while (first < BLOCK_STREAMED && first < streamed.rows);
}
