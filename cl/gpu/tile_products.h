/* Tiles that a work-group holds of two matrices' rows: BLOCK_OWNED rows of its own, and BLOCK_STREAMED rows that it
 * meets. Products of own rows with rows met, and sums of rows met for each own row.
 *
 * Items     THREADS = THREADS_N * THREADS_M: THREADS_N along rows met and dims, THREADS_M = BLOCK_OWNED / THREAD_M along own rows.
 *           An item keeps THREAD_M x THREAD_N products and THREAD_M x DIMS4 float4 of sums in registers: own
 *           row ROW(r), row met lane + THREADS_N * c, dims 4 * (lane + THREADS_N * n). All reads of local
 *           memory are of 16 bytes, and neighbouring lanes read neighbouring banks.
 * Products  have own rows and rows met staged by BLOCK_K columns; own rows all at once if OWNED_RESIDENT.
 * Sums      have their weights and the rows met staged by STAGE_N of those rows. A weight of -0
 *           stands for a hidden pair, which a slower loop leaves out.
 *
 * Before including this: common.cl; INLINE; every name above, a tunable or made of some; MAX_DIM, the
 * longest row's. */
#ifndef CLATTN_TILE_PRODUCTS_H
#define CLATTN_TILE_PRODUCTS_H
#include "gpu/local_barrier.h"
#include "gpu/tile_exp.h"
#include "gpu/tile_load.h"

#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define DIMS4(dim) (((dim) + 4 * THREADS_N - 1) / (4 * THREADS_N))
#define MAX_DIMS4 DIMS4(MAX_DIM)
/* An item's rows are quads, THREADS_M quads apart: row r of an item, in the block. */
#define ROW_FROM_FIRST(r) ((r) / 4 * THREADS_M * 4 + (r) % 4)
#define ROW(r) (band * 4 + ROW_FROM_FIRST(r))

/* Local memory, counted in float4. Columns are padded with zeros to whole stages. */
#define STAGE(dim) MIN(BLOCK_K, ((dim) + 3) / 4 * 4)
#define STAGED_DIM(dim) (((dim) + STAGE(dim) - 1) / STAGE(dim) * STAGE(dim))
#define MET_STRIDE(dim) ((STAGE(dim) + PADDING) / 4)
#define OWN_STRIDE(dim) (OWNED_RESIDENT ? (STAGED_DIM(dim) + PADDING) / 4 : MET_STRIDE(dim))
#define OWN_V_AT (OWNED_RESIDENT ? BLOCK_OWNED * OWN_STRIDE(DIM_QK) : 0)
#define MET_AT (OWN_V_AT + BLOCK_OWNED * OWN_STRIDE(OWNED_RESIDENT ? DIM_V : MAX_DIM))
#define MET_END (MET_AT + BLOCK_STREAMED * MET_STRIDE(MAX_DIM))
#define WEIGHT_ROWS MAX(STAGE_N, THREADS_N)
#define ROW_STRIDE ((BLOCK_OWNED + PADDING) / 4)
#define WEIGHTS_AT (OWNED_RESIDENT ? MET_AT : 0)
#define ROWS_AT (WEIGHTS_AT + WEIGHT_ROWS * ROW_STRIDE)
#define ROWS_END (ROWS_AT + STAGE_N * THREADS_N * DIMS4(MAX_DIM))
#define LOCAL_FLOAT4S MAX(MET_END, ROWS_END)

/* ---- matrices ------------------------------------------------------------------------------- */

/* Rows of a tensor. All but the pointer, the steps and the count are constants once inlined. */
struct matrix {
    const __global storage *p;
    long row_step, step;
    int dim, rows, width; /* width: elements that one load takes */
    bool aligned;
};

INLINE struct matrix matrix_of(const __global storage *p, const long row_step, const long step,
                               const int dim, const int rows, const int width)
{
    const struct matrix m = {p, row_step, step, dim, rows, width, rows_aligned(p, row_step, width)};

    return m;
}

/* ---- products ------------------------------------------------------------------------------- */

INLINE void load_columns(__local float4 *tile, const int stride, const int tile_rows,
                         const int first, const int columns, const struct matrix m)
{
    load_tile(tile, stride, tile_rows, columns, m.p, m.row_step, m.step, m.rows, first, m.dim,
              m.width, m.aligned, false);
}

/* products[r][c] = own row ROW(r) . row met lane + THREADS_N * c. own_tile holds all of the own rows if
 * OWNED_RESIDENT. */
INLINE void multiply(const struct matrix own, const struct matrix met, __local float4 *own_tile,
                     __local float4 *met_tile, float products[THREAD_M][THREAD_N])
{
    const int lane = get_local_id(0) % THREADS_N, band = get_local_id(0) / THREADS_N;
    const int dim = met.dim, own_stride = OWN_STRIDE(dim), met_stride = MET_STRIDE(dim);

#pragma unroll
    for (int r = 0; r < THREAD_M; r++)
#pragma unroll
        for (int c = 0; c < THREAD_N; c++)
            products[r][c] = 0.0f;
    for (int first = 0; first < dim; first += STAGE(dim)) {
        LOCAL_BARRIER(); /* what was there may be overwritten */
        if (!OWNED_RESIDENT)
            load_columns(own_tile, own_stride, BLOCK_OWNED, first, STAGE(dim), own);
        load_columns(met_tile, met_stride, BLOCK_STREAMED, first, STAGE(dim), met);
        LOCAL_BARRIER(); /* the stage is complete */
        /* Constants away from one pointer each, which spares the loop its index arithmetic. */
        const __local float4 *own_item =
            own_tile + ROW(0) * own_stride + (OWNED_RESIDENT ? first / 4 : 0);
        const __local float4 *met_item = met_tile + lane * met_stride;
        for (int d = 0; d < STAGE(dim); d += 4, own_item++, met_item++) {
            float4 y[THREAD_N];
#pragma unroll
            for (int c = 0; c < THREAD_N; c++)
                y[c] = met_item[THREADS_N * c * met_stride];
#pragma unroll
            for (int r = 0; r < THREAD_M; r++) {
                const float4 x = own_item[ROW_FROM_FIRST(r) * own_stride];
#pragma unroll
                for (int c = 0; c < THREAD_N; c++) {
                    products[r][c] = MULTIPLY_ADD(x.x, y[c].x, products[r][c]);
                    products[r][c] = MULTIPLY_ADD(x.y, y[c].y, products[r][c]);
                    products[r][c] = MULTIPLY_ADD(x.z, y[c].z, products[r][c]);
                    products[r][c] = MULTIPLY_ADD(x.w, y[c].w, products[r][c]);
                }
            }
        }
    }
}

/* sums[r][n] += weight of own row r and row met, times dims 4 * (lane + THREADS_N * n).. of that row, for
 * the stage's rows and n < dims4. If leaves_out 0 stands for the row where the weight is -0: without a
 * branch, behind which Intel's CPU compiler would not fuse mad, and last bits would differ. Loops over
 * n go to a constant: compilers may give up on unrolling others before dims4 has become one. */
INLINE void add_stage(const bool leaves_out, const int dims4, const __local float4 *weights,
                      const __local float4 *rows, float4 sums[THREAD_M][MAX_DIMS4])
{
    for (int row = 0; row < STAGE_N; row++, weights += ROW_STRIDE, rows += THREADS_N * dims4) {
        float4 y[MAX_DIMS4];
#pragma unroll
        for (int n = 0; n < MAX_DIMS4; n++)
            y[n] = n < dims4 ? rows[n * THREADS_N] : 0.0f;
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
                        sums[4 * g + r][n] = MULTIPLY_ADD(
                            (float4)x[r], hidden ? (float4)0.0f : y[n], sums[4 * g + r][n]);
                    }
        }
    }
}

/* sums += weights^T . rows met, with weights as multiply() leaves products. hides: some pair may be
 * hidden. *tainted, set before the last barrier: a row met of such a pair may hold an Inf or a NaN. */
INLINE void add_rows(const bool hides, const struct matrix met, float weight[THREAD_M][THREAD_N],
                     __local float4 *weights, __local float4 *rows,
                     const volatile __local int *tainted, float4 sums[THREAD_M][MAX_DIMS4])
{
    const int lane = get_local_id(0) % THREADS_N, band = get_local_id(0) / THREADS_N;
    const int dims4 = DIMS4(met.dim), stride = THREADS_N * dims4;
    int first = 0;

    do {
        LOCAL_BARRIER(); /* what was there may be overwritten */
        if (first % WEIGHT_ROWS == 0)
#pragma unroll
            for (int c = 0; c < THREAD_N; c++)
                if (c / (WEIGHT_ROWS / THREADS_N) == first / WEIGHT_ROWS)
#pragma unroll
                    for (int g = 0; g < QUADS; g++)
                        weights[(lane + THREADS_N * (c % (WEIGHT_ROWS / THREADS_N))) * ROW_STRIDE +
                                g * THREADS_M + band] =
                            (float4)(weight[4 * g][c], weight[4 * g + 1][c], weight[4 * g + 2][c],
                                     weight[4 * g + 3][c]);
        load_tile(rows, stride, STAGE_N, 4 * stride, met.p + first * met.row_step, met.row_step,
                  met.step, met.rows - first, 0, met.dim, met.width, met.aligned, false);
        LOCAL_BARRIER(); /* weights and rows are complete */
        const __local float4 *const weights_item =
            weights + first % WEIGHT_ROWS * ROW_STRIDE + band;
        if (hides && *tainted)
            add_stage(true, dims4, weights_item, rows + lane, sums);
        else
            add_stage(false, dims4, weights_item, rows + lane, sums);
        first += STAGE_N;
    } while (first < BLOCK_STREAMED && first < met.rows);
}

#endif
