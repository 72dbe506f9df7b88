/* SPDX-License-Identifier: Apache-2.0 */
/* projection_cpu: y = x w with heads in its addressing, for CPUs. Formula: clattn/problem.h.
 *
 * Matrices   A row of y is (batch, row), a column (head of y, y_dim); the depth that is summed over
 *            is (head of x, x_dim). Each is a pair of indices with a stride for each.
 * Stages     projection_cpu   local (1, 1, 1), global (groups of columns, groups of rows,
 *                               SPLIT_K): one work-item has a block of y and one of SPLIT_K parts
 *                               of the depth
 *            projection_sum     with SPLIT_K > 1: y from the parts, one row of at most SUM_RUN
 *                               columns in a work-item
 *            The order in which an element is summed depends on the depth and the tunables alone.
 * SIMD lanes are columns. The product is register-blocked (cl/cpu/gemm.h), with strips of x, over
 *            at most BLOCK_K of the depth.
 * Packing    w, as deep as that and as wide as the block, is packed into panels of REGISTER_VECTORS
 *            vectors (transposed where w is contiguous along the depth), which are read one after
 *            the other.
 * Ragged     Rows and columns beyond the last repeat the last and are not stored.
 * Speed      as fused_cpu.cl: never build it with fast-math options.
 * Workspace  with SPLIT_K > 1: [SPLIT_K][rows][columns] sums
 * Units      vector: floats. pairs: products of bf16 pairs (cl/bf16/pairs.h); the host also defines EMULATE.
 * Tunables   src/families/projection_cpu/projection_cpu.def, all defined by the host; no fallbacks
 *            here. */
#include "common/projection.h"

#include "families/units.h"
#if OPERAND_PAIRS && (!defined(EMULATE) || DTYPE != DTYPE_BF16)
#error "pairs are of bf16, and need EMULATE defined"
#endif
#if !defined(SIMD_WIDTH) || !defined(REGISTER_VECTORS) || !defined(REGISTER_ROWS) ||               \
    !defined(BLOCK_K) || !defined(SPLIT_K) || !defined(BLOCK_M) || !defined(BLOCK_N)
#error "projection_cpu.cl must be built with all of its tunables defined"
#endif

/* Strips of an x in f32 that is contiguous along the depth are read where they are, and pairs of bf16 likewise. Else SLAB of
 * them are packed at a time, with rows and the depth as in x itself so that packing copies
 * vectors. */
#define IN_PLACE ((DTYPE == DTYPE_F32 && UNIT_X_COLUMN) || (OPERAND_PAIRS && X_HAS_PAIRS))
#if !IN_PLACE
#define STRIP_DEPTH (UNIT_X_COLUMN ? 1 : REGISTER_ROWS)
/* The stride is not a power of two, so that rows lie in different sets of the cache. */
#define STRIP_ROW (UNIT_X_COLUMN ? OPERANDS(BLOCK_K) + SIMD_WIDTH : 1)
#define PACK_DEPTH 16 /* steps of the depth that are loaded before one is stored */
#endif
#include "families/projection_cpu/projection_cpu_sizes.h"
#include "cpu/gemm.h"
#include "cpu/prefetch.h"

#define CACHE_LINE 64

/* ---- packing -------------------------------------------------------------------------------- */

#include "cpu/projection_pack.h"

#if !IN_PLACE
/* Packs at most SLAB strips of x, num_rows rows. */
NOINLINE void pack_strips(const __global storage *x, const long *rows, const int num_rows,
                          const long *depths, const int count, operand *strips)
{
#if UNIT_X_COLUMN
    for (int r = 0; r < num_rows; r++)
        pack_row(x + rows[r], depths, count,
                 strips + r / REGISTER_ROWS * STRIP + r % REGISTER_ROWS * STRIP_ROW);
#elif OPERAND_PAIRS
    const bool wide = REGISTER_ROWS <= SIMD_WIDTH && num_rows >= SIMD_WIDTH &&
                      contiguous(UNIT_X_ROW, rows, num_rows, num_rows);

    for (int k = 0; k < count; k += 2) {
        operand *to = strips + k / 2 * STRIP_DEPTH;
        operand read[SLAB * REGISTER_ROWS + SIMD_WIDTH];
        for (int r = 0; wide && r < num_rows; r += SIMD_WIDTH) {
            const int at = min(r, num_rows - SIMD_WIDTH);
            store_operands(operands_across(x + rows[0] + at, depths, k, count), read + at);
        }
        for (int r = 0; !wide && r < num_rows; r++)
            read[r] = operand_at(x + rows[r], depths, k, count);
        for (int r = 0; r < num_rows; r++)
            to[r / REGISTER_ROWS * STRIP + r % REGISTER_ROWS] = read[r];
    }
#else
    int k = 0;
#if REGISTER_ROWS <= SIMD_WIDTH
    if (num_rows >= SIMD_WIDTH && contiguous(UNIT_X_ROW, rows, num_rows, num_rows)) {
        for (; k < count / PACK_DEPTH * PACK_DEPTH; k += PACK_DEPTH) {
            /* Loads that are in flight together hide the latency of memory. */
            float read[PACK_DEPTH][SLAB * REGISTER_ROWS + SIMD_WIDTH];
            for (int n = 0; n < PACK_DEPTH; n++) {
                const __global storage *from = x + rows[0] + depths[k + n];
                for (int r = 0; r < num_rows; r += SIMD_WIDTH) {
                    const int at = min(r, num_rows - SIMD_WIDTH);
                    VECTOR(vstore)(load_lanes(DTYPE, from + at), 0, read[n] + at);
                }
            }
            for (int r = 0; r < num_rows; r += REGISTER_ROWS) {
                float *to = strips + r / REGISTER_ROWS * STRIP + k * STRIP_DEPTH;
                UNROLL
                for (int n = 0; n < PACK_DEPTH;
                     n++) /* the next store overwrites lanes past REGISTER_ROWS */
                    VECTOR(vstore)(VECTOR(vload)(0, read[n] + r), 0, to + n * STRIP_DEPTH);
            }
        }
    }
#endif
    for (; k < count; k++) {
        for (int r = 0; r < num_rows; r++)
            strips[r / REGISTER_ROWS * STRIP + k * STRIP_DEPTH + r % REGISTER_ROWS] =
                load1_of(DTYPE, x, rows[r] + depths[k]);
    }
#endif
}
#endif

/* ---- kernels -------------------------------------------------------------------------------- */

/* These multiply one strip: by a whole panel, and by one vector of the last panel. */
NOINLINE void multiply_panel(const int rows, const int zero, const strip_rows strip,
                             const lanes *panel, const struct runs *runs, lanes *sums)
{
    multiply_strip(rows, REGISTER_VECTORS, zero, strip, panel, runs, sums);
}

NOINLINE void multiply_vector(const int rows, const int zero, const strip_rows strip,
                              const lanes *panel, const struct runs *runs, lanes *sums)
{
    multiply_strip(rows, 1, zero, strip, panel, runs, sums);
}

/* Computes one tile of y: loads the accumulators, multiplies, stores. rows and columns are offsets
 * in y. first: it is the first part of the depth; zero: the accumulators start with zeros. */
INLINE void compute_tile(const bool first, const bool zero, const bool load, const bool store,
                         const strip_rows strip, const lanes *panel, const struct runs *runs,
                         __global result *y, const long *rows, const int num_rows,
                         const long *columns, const int num_columns, const float *biases,
                         lanes *tile)
{
    if (load)
        load_register_tile(first, y, rows, num_rows, columns, num_columns, biases, (float *)tile);
    if (num_columns > PANEL - SIMD_WIDTH) {
        multiply_panel(num_rows, zero, strip, panel, runs, tile);
    } else {
        for (int v = 0; v * SIMD_WIDTH < num_columns; v++)
            multiply_vector(num_rows, zero, strip, panel + v, runs, tile + v);
    }
    if (store)
        store_register_tile((const float *)tile, y, rows, num_rows, columns, num_columns);
}

#if IN_PLACE
/* A larger set of rows of x has left L2 when the next group of columns reads it. The first lines of
 * its rows are then prefetched, since no processor does so itself. */
#define X_IN_CACHE (1 << 20)
#define FETCHED_LINES 4

INLINE void prefetch_rows(const __global storage *x, const long *rows, const int num_rows)
{
    for (int r = 0; r < num_rows; r++) {
        UNROLL
        for (int line = 0; line < FETCHED_LINES; line++)
            prefetch_l2(x + rows[r] + line * (CACHE_LINE / (int)sizeof(storage)));
    }
}
#endif

NOINLINE void compute_block(const struct projection_arguments *restrict args,
                            const struct group group)
{
    lanes panels[PANELS_VECTORS];
    lanes sums[SUM_VECTORS];
    long x_depths[BLOCK_K], w_depths[BLOCK_K];
    struct block b;
#if !IN_PLACE
    operand strips[SLAB * STRIP];
#endif

    __global result *const results = find_block(args, group, &b);
    const long begin = b.begin, end = b.end;
    /* The depth is divided into equal parts of whole vectors. */
    const long parts = (end - begin + BLOCK_K - 1) / BLOCK_K;
    const bool keep = KEEP_SUMS && parts > 1;
    const int most = ((end - begin + parts - 1) / parts + SIMD_WIDTH - 1) / SIMD_WIDTH * SIMD_WIDTH;
    for (long k = begin; k < end; k += most) {
        const int depth = min((long)most, end - k);
        const bool zero = START_WITH_ZEROS && k == begin;
        const bool load = !(zero || (keep && k > begin)), store = !(keep && k + depth < end);
        list_offsets(b.depths_of_x, k, depth, x_depths);
        list_offsets(b.depths_of_w, k, depth, w_depths);
        pack_panels(args->w, b.w_columns, b.columns, w_depths, depth, panels);
#if IN_PLACE
        const int run = min(args->shape->x_dim, (long)depth);
        const int first = min(args->shape->x_dim - k % args->shape->x_dim, (long)depth);
        const struct runs runs = {OPERANDS(depth), OPERANDS(first), OPERANDS(run),
                                  (args->shape->x_stride[1] - args->shape->x_dim) /
                                      VALUES_IN_OPERAND};
#else
        const struct runs runs = {OPERANDS(depth), OPERANDS(depth), OPERANDS(depth), 0};
#endif
        for (int r = 0; r < b.rows; r += REGISTER_ROWS) {
            const int rows_here = min(REGISTER_ROWS, b.rows - r);
#if IN_PLACE
            const __global stored_operand *strip[REGISTER_ROWS];
            for (int n = 0; n < rows_here; n++)
                strip[n] =
                    (const __global stored_operand *)(args->x + b.x_rows[r + n] + x_depths[0]);
            if ((long)b.rows * depth * (int)sizeof(storage) > X_IN_CACHE)
                prefetch_rows(args->x + x_depths[0], b.x_rows + r + REGISTER_ROWS,
                              min(REGISTER_ROWS, b.rows - r - REGISTER_ROWS));
#else
            if (r % (SLAB * REGISTER_ROWS) == 0)
                pack_strips(args->x, b.x_rows + r, min(SLAB * REGISTER_ROWS, b.rows - r), x_depths,
                            depth, strips);
            const operand *strip = strips + r / REGISTER_ROWS % SLAB * STRIP;
#endif
            for (int c = 0; c < b.columns; c += PANEL) {
                lanes *tile =
                    sums + (keep ? (r * MOST_COLUMNS + c * REGISTER_ROWS) / SIMD_WIDTH : 0);
                compute_tile(k == begin, zero, load, store, strip,
                             panels + c / PANEL * OPERANDS(BLOCK_K) * REGISTER_VECTORS, &runs,
                             results, b.result_rows + r, rows_here, b.result_columns + c,
                             min(PANEL, b.columns - c), b.biases + c, tile);
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
projection_cpu(PARAMETERS_projection_cpu)
{
    const struct projection_arguments arguments = ARGUMENTS_projection_cpu;

    compute_block(&arguments, find_group());
}
