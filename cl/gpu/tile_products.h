/* The two products of tiles that gradients are made of. A work-group owns BLOCK_OWNED rows of two matrices
 * and streams BLOCK_STREAMED rows at a time of two others: products of owned and streamed rows, and sums
 * of streamed rows for each owned row, both in registers (gpu/thread_tile.h).
 *
 * Products  have owned and streamed rows staged by BLOCK_K columns; owned ones all at once if
 *           OWNED_RESIDENT.
 * Sums      have their weights and the streamed rows staged by STAGE_N of those rows. A weight of -0
 *           stands for a hidden pair, which a slower loop leaves out.
 *
 * Before including this: common.cl; every name above, a tunable; those of gpu/thread_tile.h. */
#ifndef CLATTN_TILE_PRODUCTS_H
#define CLATTN_TILE_PRODUCTS_H
#include "gpu/local_barrier.h"
#include "gpu/tile_exp.h"
#include "gpu/tile_load.h"
#define ROW_STRIDE ((BLOCK_OWNED + PADDING) / 4)
#include "gpu/thread_tile.h"

/* Local memory, counted in float4. Columns are padded with zeros to whole stages. */
#define STAGE(dim) MIN(BLOCK_K, ((dim) + 3) / 4 * 4)
#define STAGED_DIM(dim) (((dim) + STAGE(dim) - 1) / STAGE(dim) * STAGE(dim))
#define STREAMED_STRIDE(dim) ((STAGE(dim) + PADDING) / 4)
#define OWNED_STRIDE(dim) (OWNED_RESIDENT ? (STAGED_DIM(dim) + PADDING) / 4 : STREAMED_STRIDE(dim))
#define OWNED_V_AT (OWNED_RESIDENT ? BLOCK_OWNED * OWNED_STRIDE(DIM_QK) : 0)
#define STREAMED_AT (OWNED_V_AT + BLOCK_OWNED * OWNED_STRIDE(OWNED_RESIDENT ? DIM_V : MAX_DIM))
#define STREAMED_END (STREAMED_AT + BLOCK_STREAMED * STREAMED_STRIDE(MAX_DIM))
#define WEIGHTS_AT (OWNED_RESIDENT ? STREAMED_AT : 0)
#define ROWS_AT (WEIGHTS_AT + WEIGHT_ROWS * ROW_STRIDE)
#define ROWS_END (ROWS_AT + STAGE_N * THREADS_N * DIMS4(MAX_DIM))
#define LOCAL_FLOAT4S MAX(STREAMED_END, ROWS_END)

/* ---- products ------------------------------------------------------------------------------- */

INLINE void load_columns(__local float4 *tile, const int stride, const int tile_rows,
                         const int first, const int columns, const struct matrix m)
{
    load_tile(tile, stride, tile_rows, columns, DTYPE, m.p, m.row_step, 0, m.step, m.rows,
              first, m.dim, m.width, m.aligned, false);
}

/* products[r][c] = owned row ROW(r) . streamed row thread_n + THREADS_N * c. owned_tile holds all of the
 * owned rows if OWNED_RESIDENT. */
INLINE void multiply(const struct matrix owned, const struct matrix streamed,
                     __local float4 *owned_tile, __local float4 *streamed_tile,
                     float products[THREAD_M][THREAD_N])
{
    const int dim = streamed.dim;
    const int owned_stride = OWNED_STRIDE(dim), streamed_stride = STREAMED_STRIDE(dim);

    clear_products(products);
    for (int first = 0; first < dim; first += STAGE(dim)) {
        LOCAL_BARRIER(); /* what was there may be overwritten */
        if (!OWNED_RESIDENT)
            load_columns(owned_tile, owned_stride, BLOCK_OWNED, first, STAGE(dim), owned);
        load_columns(streamed_tile, streamed_stride, BLOCK_STREAMED, first, STAGE(dim), streamed);
        LOCAL_BARRIER(); /* the stage is complete */
        multiply_tiles(owned_tile + (OWNED_RESIDENT ? first / 4 : 0), owned_stride, streamed_tile,
                       streamed_stride, STAGE(dim), products);
    }
}

/* sums += weights^T . streamed rows, of a stage; dims4 of each thread. */
INLINE void add_stage(const bool leaves_out, const int dims4, const __local float4 *weights,
                      const __local float4 *rows, float4 sums[THREAD_M][MAX_DIMS4])
{
    for (int row = 0; row < STAGE_N; row++, weights += ROW_STRIDE, rows += THREADS_N * dims4)
        add_row(leaves_out, dims4, weights, rows, sums);
}

/* sums += weights^T . streamed rows, with weights as multiply() leaves products. partial: some pair may be
 * hidden. *nonfinite, set before the last barrier: a streamed row of such a pair may hold an Inf or a
 * NaN. */
INLINE void add_rows(const bool partial, const struct matrix streamed,
                     float weight[THREAD_M][THREAD_N], __local float4 *weights,
                     __local float4 *rows, const volatile __local int *nonfinite,
                     float4 sums[THREAD_M][MAX_DIMS4])
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;
    const int dims4 = DIMS4(streamed.dim), stride = THREADS_N * dims4;
    int first = 0;

    do {
        LOCAL_BARRIER(); /* what was there may be overwritten */
        if (first % WEIGHT_ROWS == 0)
            STORE_WEIGHTS(first, weight, weights);
        load_tile(rows, stride, STAGE_N, 4 * stride, DTYPE,
                  streamed.p + first * streamed.row_step, streamed.row_step, 0, streamed.step,
                  streamed.rows - first, 0, streamed.dim, streamed.width, streamed.aligned, false);
        LOCAL_BARRIER(); /* weights and rows are complete */
        const __local float4 *const thread_weights =
            weights + first % WEIGHT_ROWS * ROW_STRIDE + thread_m;
        if (partial && *nonfinite)
            add_stage(true, dims4, thread_weights, rows + thread_n, sums);
        else
            add_stage(false, dims4, thread_weights, rows + thread_n, sums);
        first += STAGE_N;
    } while (first < BLOCK_STREAMED && first < streamed.rows);
}

#endif
