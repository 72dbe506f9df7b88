/* SPDX-License-Identifier: Apache-2.0 */
/* projection_gpu_item: y = x w with heads in its addressing, for GPUs. Formula: clattn/problem.h.
 *
 * Words      a row of y is (batch, row), a column (head of y, y_dim), the depth that is summed over
 *            (head of x, x_dim). Each is a pair of indices with a step for each.
 * Stages     projection_gpu_item   a work-group owns BLOCK_M x BLOCK_N of y, and one of SPLIT_K
 *                               parts of the depth, which it walks through BLOCK_K at a time
 *            projection_sum     with SPLIT_K > 1: y from the parts, an element for each thread
 *            The order in which an element is summed depends on the depth and the tunables alone.
 * Threads    THREADS_N along columns, THREADS_M along rows; a thread keeps THREAD_M x THREAD_N sums in
 *            registers, in quads that are THREADS_N or THREADS_M apart, so that neighbours read
 *            neighbouring banks of local memory, 16 bytes at a time.
 * Local      both tiles lie depth by depth; where a matrix lies along the depth, it is turned around
 *            on its way in, unless both do and are copied (cl/gpu/depth_rows.h). While a stage is
 *            multiplied the next one is loaded to registers, or, with COPIES, copied to local memory
 *            (cl/gpu/tile_copy.h).
 * Places     of rows, columns and depths: cl/gpu/projection_task.h.
 * NDRange    local THREADS; a group for each tile and split. GROUP_M rows of tiles go down together, so
 *            that groups which run at the same time share more of w.
 * Ragged     Rows and columns beyond the last repeat it and are not stored; the depth ends with zeros.
 * Barriers   Every thread reaches every barrier; nothing relies on sub-group lockstep.
 * Workspace  with SPLIT_K > 1: [SPLIT_K][rows][columns] sums
 * Tunables   src/families/projection_gpu/projection_gpu_item.def, all defined by the host; no fallbacks here. */
#include "common/projection.h"

#if !defined(BLOCK_M) || !defined(BLOCK_N) || !defined(THREAD_M) || !defined(THREAD_N) ||          \
    !defined(BLOCK_K) || !defined(STAGES) || !defined(COPIES) || !defined(UNROLL) ||               \
    !defined(PADDING) || !defined(GROUP_M) || !defined(SPLIT_K)
#error "projection_gpu_item.cl must be built with all of its tunables defined"
#endif

#include "families/projection_gpu/projection_gpu_item_sizes.h"
#define LOAD_WIDTH 4
#include "gpu/local_barrier.h"
#include "common/multiply_add.h"
#include "gpu/tile_load.h"
#include "gpu/tile_copy.h"
#include "gpu/unrolled.h"
#include "gpu/projection_task.h"

#define UNROLL_ALL _Pragma("unroll")
/* Is 1 if tiles have the layout of both matrices (cl/gpu/depth_rows.h). */
#define DEPTH_ROWS (COPIES && BLOCK_K == 32 && UNIT_X_COLUMN && !UNIT_W_COLUMN && UNIT_W_ROW)
#if DEPTH_ROWS
#include "gpu/depth_rows.h"
#endif

/* The number, in the block, of a thread's quad q. */
#define ROW(q) (((q)*THREADS_M + thread_m) * 4)
#define COLUMN(q) (((q)*THREADS_N + thread_n) * 4)

/* The position of load t in a tile of `block` rows or columns (across), and along the depth. */
struct slot {
    int across, along;
};

/* Neighbouring threads load neighbours in memory: quads along the depth, or across it. */
INLINE struct slot quad_slot(const int t, const int block, const bool depth_first)
{
    struct slot s;
    if (depth_first) {
        s.along = t % (BLOCK_K / 4) * 4;
        s.across = t / (BLOCK_K / 4);
    } else {
        s.across = t % (block / 4) * 4;
        s.along = t / (block / 4);
    }
    return s;
}

/* A bound for both matrices: with LOADS(block) LLVM leaves the loops rolled, and `loaded` in memory. */
enum { MOST_LOADS = MAX(LOADS(BLOCK_M), LOADS(BLOCK_N)) };

/* Loads this thread's share of a stage of a matrix to registers; elements beyond the depth are
 * arbitrary. */
INLINE void load_quads(const __global storage *matrix, const int block, const bool depth_first,
                       const bool quads, const __local long *across, const __local long *along,
                       float4 *loaded)
{
    UNROLL_ALL
    for (int n = 0; n < MOST_LOADS; n++) {
        const int t = get_local_id(0) + n * THREADS;
        const struct slot s = quad_slot(t, block, depth_first);
        if (t >= block * BLOCK_K / 4)
            continue;
        if (quads) {
            loaded[n] = load4(matrix + across[s.across] + along[s.along], true);
        } else if (depth_first) {
            const __global storage *row = matrix + across[s.across];
            loaded[n].x = load1_of(DTYPE, row, along[s.along]);
            loaded[n].y = load1_of(DTYPE, row, along[s.along + 1]);
            loaded[n].z = load1_of(DTYPE, row, along[s.along + 2]);
            loaded[n].w = load1_of(DTYPE, row, along[s.along + 3]);
        } else {
            const __global storage *row = matrix + along[s.along];
            loaded[n].x = load1_of(DTYPE, row, across[s.across]);
            loaded[n].y = load1_of(DTYPE, row, across[s.across + 1]);
            loaded[n].z = load1_of(DTYPE, row, across[s.across + 2]);
            loaded[n].w = load1_of(DTYPE, row, across[s.across + 3]);
        }
    }
}

/* Stores registers to a tile, with 0 beyond the depth (`left` remain). Values are selected here: a
 * selection at the load would wait for it there. */
INLINE void stage_quads(const float4 *loaded, const int block, const bool depth_first,
                        const long left, const int stride, __local float4 *tile)
{
    UNROLL_ALL
    for (int n = 0; n < MOST_LOADS; n++) {
        const int t = get_local_id(0) + n * THREADS;
        const struct slot s = quad_slot(t, block, depth_first);
        if (t >= block * BLOCK_K / 4)
            continue;
        if (depth_first) {
            __local float *to = (__local float *)(tile + s.along * stride) + s.across;
            to[0] = s.along < left ? loaded[n].x : 0.0f;
            to[4 * stride] = s.along + 1 < left ? loaded[n].y : 0.0f;
            to[8 * stride] = s.along + 2 < left ? loaded[n].z : 0.0f;
            to[12 * stride] = s.along + 3 < left ? loaded[n].w : 0.0f;
        } else {
            tile[s.along * stride + s.across / 4] = s.along < left ? loaded[n] : (float4)0.0f;
        }
    }
}

#if COPIES
/* The address of the tile's first row of x, or column of w, at the next depth to copy, and that
 * depth's index within its head or batch. The last member tells whether the tile's rows or columns
 * are evenly spaced. */
struct walk {
    const __global float *from;
    long inner;
    bool together;
};

INLINE struct walk walk_from(const __global float *matrix, const struct pair across,
                             const struct pair depths, const long first, const int count,
                             const long k)
{
    const long inner = first < across.size ? first : first % across.size;

    return (struct walk){matrix + place(across, first) + place(depths, k), inner,
                         inner + count <= across.size};
}

/* Advances both addresses by a stage. *inner is the inner index of their depth. */
INLINE void step_walks(const struct task *t, struct walk *x, struct walk *w, long *inner)
{
    x->from += BLOCK_K * t->depths_of_x.inner_step;
    w->from += BLOCK_K * t->depths_of_w.inner_step;
    *inner += BLOCK_K;
    while (*inner >= t->depths_of_x.size) {
        x->from += t->depths_of_x.outer_step - t->depths_of_x.size * t->depths_of_x.inner_step;
        w->from += t->depths_of_w.outer_step - t->depths_of_w.size * t->depths_of_w.inner_step;
        *inner -= t->depths_of_x.size;
    }
}

/* The distance from index `inner` to index inner + n. */
INLINE long distance_of(const struct pair p, const long inner, const int n)
{
    long distance = n * p.inner_step;

    for (long m = inner + n; m >= p.size; m -= p.size)
        distance += p.outer_step - p.size * p.inner_step;
    return distance;
}

/* Copies a stage of a matrix to a tile: `count` rows or columns (across) and `left` of the depth
 * exist; the first depth is number `inner` of its head. */
INLINE void copy_across(const struct walk walk, const int block, const bool depth_first,
                        const struct pair across, const struct pair depths, const bool quads,
                        const int count, const long inner, const int left, const int stride,
                        __local float4 *tile)
{
    if (walk.together && inner + left <= depths.size) {
#if DEPTH_ROWS
        copy_depth_rows(tile, block, walk.from, across.inner_step, count, left, quads);
#else
        if (depth_first)
            copy_turned(tile, stride, block, BLOCK_K, walk.from, across.inner_step, count, left);
        else
            copy_tile(tile, stride, BLOCK_K, block, walk.from, depths.inner_step, across.inner_step,
                      left, 0, count, quads);
#endif
        return;
    }
    for (int t = get_local_id(0); t < block * BLOCK_K; t += THREADS) {
        const int d = depth_first ? t % BLOCK_K : t / block,
                  n = depth_first ? t / BLOCK_K : t % block;
#if DEPTH_ROWS
        __local float *const to = (__local float *)(tile + DEPTH_QUAD(n, d / 4)) + d % 4;
#else
        __local float *const to = (__local float *)(tile + d * stride) + n;
#endif
        if (n < count && d < left)
            copy1_inside(to, walk.from + distance_of(across, walk.inner, n) +
                                 distance_of(depths, inner, d));
        else
            *to = 0.0f;
    }
}

/* Copies a stage of x and w, from depth k on. */
INLINE void copy_stages(const struct projection_arguments *args, const struct task *t,
                        const struct walk x, const struct walk w, const int rows, const int columns,
                        const long inner, const long k, __local float4 *x_tile,
                        __local float4 *w_tile)
{
    const int left = (int)min(t->end - k, (long)BLOCK_K);

    copy_across(x, BLOCK_M, UNIT_X_COLUMN, ROWS_OF_X, t->depths_of_x, t->x_quads, rows, inner, left,
                X_STRIDE, x_tile);
    copy_across(w, BLOCK_N, !UNIT_W_COLUMN && UNIT_W_ROW, COLUMNS_OF_W, t->depths_of_w,
                (UNIT_W_COLUMN || DEPTH_ROWS) && t->w_quads, columns, inner, left, W_STRIDE,
                w_tile);
}
#endif

INLINE float4 multiply_add4(const float x, const float4 y, const float4 sum)
{
    return (float4)(MULTIPLY_ADD(x, y.x, sum.x), MULTIPLY_ADD(x, y.y, sum.y),
                    MULTIPLY_ADD(x, y.z, sum.z), MULTIPLY_ADD(x, y.w, sum.w));
}

/* Adds the products of a stage to sums. */
INLINE void multiply_quads(const __local float4 *x_tile, const __local float4 *w_tile,
                           const int thread_m, const int thread_n,
                           float4 sums[THREAD_M][THREAD_N / 4])
{
    x_tile += thread_m;
    w_tile += thread_n;
    UNROLLED(UNROLL) /* a full unroll would load ahead into too many registers */
    for (int k = 0; k < BLOCK_K; k++, x_tile += X_STRIDE, w_tile += W_STRIDE) {
        float4 x4[THREAD_M / 4], w4[THREAD_N / 4];
        UNROLL_ALL
        for (int q = 0; q < THREAD_M / 4; q++)
            x4[q] = x_tile[q * THREADS_M];
        UNROLL_ALL
        for (int q = 0; q < THREAD_N / 4; q++)
            w4[q] = w_tile[q * THREADS_N];
        UNROLL_ALL
        for (int q = 0; q < THREAD_M / 4; q++) {
            UNROLL_ALL
            for (int c = 0; c < THREAD_N / 4; c++) {
                sums[4 * q][c] = multiply_add4(x4[q].x, w4[c], sums[4 * q][c]);
                sums[4 * q + 1][c] = multiply_add4(x4[q].y, w4[c], sums[4 * q + 1][c]);
                sums[4 * q + 2][c] = multiply_add4(x4[q].z, w4[c], sums[4 * q + 2][c]);
                sums[4 * q + 3][c] = multiply_add4(x4[q].w, w4[c], sums[4 * q + 3][c]);
            }
        }
    }
}

/* ---- store ----------------------------------------------------------------------------------- */

#if SPLIT_K > 1
/* Stores the thread's sums to the workspace. */
INLINE void store_part_of_quads(const struct projection_arguments *args, const struct task *t,
                                float4 sums[THREAD_M][THREAD_N / 4])
{
    const int thread_m = THIS_THREAD / THREADS_N, thread_n = THIS_THREAD % THREADS_N;

    UNROLL_ALL
    for (int r = 0; r < THREAD_M; r++) {
        const long i = t->row + ROW(r / 4) + r % 4;
        if (i >= t->rows)
            continue;
        __global float *const to = args->workspace + (get_group_id(1) * t->rows + i) * t->columns;
        UNROLL_ALL
        for (int c = 0; c < THREAD_N / 4; c++) {
            const long j = t->column + COLUMN(c);
            const float parts[4] = {sums[r][c].x, sums[r][c].y, sums[r][c].z, sums[r][c].w};
            UNROLL_ALL
            for (int n = 0; n < 4; n++)
                if (j + n < t->columns)
                    to[j + n] = parts[n];
        }
    }
}
#else
/* Stores the thread's elements of y. */
INLINE void store_quads(const struct projection_arguments *args, const struct task *t,
                        float4 sums[THREAD_M][THREAD_N / 4])
{
    const int thread_m = THIS_THREAD / THREADS_N, thread_n = THIS_THREAD % THREADS_N;
    const bool y_quads = UNIT_Y_COLUMN && args->shape->y_dim % 4 == 0;
    const struct pair columns_of_y = {args->shape->y_dim, args->shape->y_stride[1], Y_COLUMN_STEP};
    long places[THREAD_N]; /* the columns' offsets are computed once: one may cost divisions */

    UNROLL_ALL
    for (int c = 0; c < THREAD_N; c++)
        places[c] = place(columns_of_y, t->column + COLUMN(c / 4) + c % 4);
    UNROLL_ALL
    for (int r = 0; r < THREAD_M; r++) {
        const long i = t->row + ROW(r / 4) + r % 4;
        if (i >= t->rows)
            continue;
        __global storage *const to =
            args->y + place((struct pair){args->shape->rows, args->shape->y_stride[0],
                                          args->shape->y_stride[2]},
                            i);
        UNROLL_ALL
        for (int c = 0; c < THREAD_N / 4; c++) {
            const long j = t->column + COLUMN(c);
            const float parts[4] = {sums[r][c].x, sums[r][c].y, sums[r][c].z, sums[r][c].w};
            if (y_quads && j < t->columns) {
                const long n = places[4 * c];
                const float4 before = (float4)(BEFORE(to, n), BEFORE(to, n + 1), BEFORE(to, n + 2),
                                               BEFORE(to, n + 3));
                const float4 biases = (float4)(BIAS_OF(0, j), BIAS_OF(0, j + 1), BIAS_OF(0, j + 2),
                                               BIAS_OF(0, j + 3));
                store4_of(DTYPE, sums[r][c] + biases + before, to + n);
                continue;
            }
            UNROLL_ALL
            for (int n = 0; n < 4; n++)
                if (j + n < t->columns)
                    STORE_Y(parts[n], to, places[4 * c + n], 0, j + n);
        }
    }
}
#endif

/* ---- the kernels ----------------------------------------------------------------------------- */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
projection_gpu_item(PARAMETERS_projection_gpu_item)
{
    const struct projection_arguments arguments = ARGUMENTS_projection_gpu_item;
    const struct projection_arguments *const args = &arguments;
    __local float4 x_tile[STAGES][BLOCK_K * X_STRIDE], w_tile[STAGES][BLOCK_K * W_STRIDE];
#if !COPIES
    __local long x_rows[BLOCK_M], w_columns[BLOCK_N];
    __local long x_depths[2][BLOCK_K], w_depths[2][BLOCK_K], inner[BLOCK_K];
#endif
    const struct task t = find_output_task(args);
    float4 sums[THREAD_M][THREAD_N / 4];
#if !COPIES
    float4 x_loaded[LOADS(BLOCK_M)], w_loaded[LOADS(BLOCK_N)];
#endif
    int now = 0; /* the number of the current stage, 0 or 1 */

    UNROLL_ALL
    for (int r = 0; r < THREAD_M; r++) {
        UNROLL_ALL
        for (int c = 0; c < THREAD_N / 4; c++)
            sums[r][c] = (float4)(0.0f);
    }
#if COPIES
    const int rows = (int)min(t.rows - t.row, (long)BLOCK_M),
              columns = (int)min(t.columns - t.column, (long)BLOCK_N);
    struct walk along_x = walk_from(args->x, ROWS_OF_X, t.depths_of_x, t.row, rows, t.begin);
    struct walk along_w =
        walk_from(args->w, COLUMNS_OF_W, t.depths_of_w, t.column, columns, t.begin);
    long inner = t.begin % args->shape->x_dim; /* the inner index of the depth copied last */
    if (t.begin < t.end)
        copy_stages(args, &t, along_x, along_w, rows, columns, inner, t.begin, x_tile[0],
                    w_tile[0]);
#else
    find_places(args, &t, x_rows, w_columns, x_depths[0], w_depths[0], inner);
    LOCAL_BARRIER(); /* the places are complete */
    if (t.begin < t.end) {
        load_quads(args->x, BLOCK_M, UNIT_X_COLUMN, t.x_quads, x_rows, x_depths[0], x_loaded);
        load_quads(args->w, BLOCK_N, !UNIT_W_COLUMN, t.w_quads, w_columns, w_depths[0], w_loaded);
    }
#endif
    for (long k = t.begin; k < t.end; k += BLOCK_K) {
        __local float4 *const x_now = x_tile[STAGES == 1 ? 0 : now];
        __local float4 *const w_now = w_tile[STAGES == 1 ? 0 : now];
        const long next = k + BLOCK_K;
        now = 1 - now;
#if COPIES
        COPIES_WAIT();
        LOCAL_BARRIER(); /* the stage is complete; nobody reads the one before */
        if (next < t.end) {
            step_walks(&t, &along_x, &along_w, &inner);
            copy_stages(args, &t, along_x, along_w, rows, columns, inner, next, x_tile[now],
                        w_tile[now]);
        }
#else
        stage_quads(x_loaded, BLOCK_M, UNIT_X_COLUMN, t.end - k, X_STRIDE, x_now);
        stage_quads(w_loaded, BLOCK_N, !UNIT_W_COLUMN, t.end - k, W_STRIDE, w_now);
        step_places(args, &t, next, x_depths[1 - now], w_depths[1 - now], x_depths[now],
                    w_depths[now], inner);
        LOCAL_BARRIER(); /* the stage and the next one's offsets are complete */
        if (next < t.end) {
            load_quads(args->x, BLOCK_M, UNIT_X_COLUMN, t.x_quads, x_rows, x_depths[now], x_loaded);
            load_quads(args->w, BLOCK_N, !UNIT_W_COLUMN, t.w_quads, w_columns, w_depths[now],
                       w_loaded);
        }
#endif
#if DEPTH_ROWS
        multiply_depth_rows(x_now, w_now, THIS_THREAD / THREADS_N, THIS_THREAD % THREADS_N, sums);
#else
        multiply_quads(x_now, w_now, THIS_THREAD / THREADS_N, THIS_THREAD % THREADS_N, sums);
#endif
        if (STAGES == 1)
            LOCAL_BARRIER(); /* the stage may be overwritten */
    }
#if SPLIT_K > 1
    store_part_of_quads(args, &t, sums);
#else
    store_quads(args, &t, sums);
#endif
}
