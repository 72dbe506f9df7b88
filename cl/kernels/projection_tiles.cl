/* projection_tiles: y = x w with heads in its addressing, for GPUs. Formula: clattn/problem.h.
 *
 * Words      a row of y is (batch, row), a column (head of y, dim_v), the depth that is summed over
 *            (head of x, dim_qk). Each is a pair of indices with a step for each.
 * Stages     projection_tiles   a work-group owns BLOCK_M x BLOCK_N of y, and one of SPLIT_K
 *                               parts of the depth, which it walks through BLOCK_K at a time
 *            projection_sum     with SPLIT_K > 1: y from the parts, an element for each work-item
 *            The order in which an element is summed depends on the depth and the tunables alone.
 * Items      THREADS_N along columns, THREADS_M along rows; an item keeps THREAD_M x THREAD_N sums in
 *            registers, in quads that are THREADS_N or THREADS_M apart, so that neighbours read neighbouring
 *            banks of local memory, 16 bytes at a time.
 * Local      both tiles lie depth by depth; where a matrix lies along the depth, it is turned around
 *            on its way in. The next stage is loaded to registers while this one is multiplied.
 * Places     of rows, columns and of the first stage's depth are computed once, in local memory; those
 *            of a later stage from the last one's: pairs cost no division in the loop. Where a matrix allows it, four neighbours are loaded at once.
 * NDRange    local THREADS; a group for each tile and split. GROUP_M rows of tiles go down together, so
 *            that groups which run at the same time share more of w.
 * Ragged     Rows and columns beyond the last repeat it and are not stored; the depth ends with zeros.
 * Barriers   Every item reaches every barrier; nothing relies on sub-group lockstep.
 * Workspace  with SPLIT_K > 1: [SPLIT_K][rows][columns] sums
 * Tunables   src/families/tunables/projection_tiles.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "common/projection.h"

#if !defined(BLOCK_M) || !defined(BLOCK_N) || !defined(THREAD_M) ||                      \
    !defined(THREAD_N) || !defined(BLOCK_K) || !defined(STAGES) || !defined(PADDING) ||         \
    !defined(GROUP_M) || !defined(SPLIT_K)
#error "projection_tiles.cl must be built with all of its tunables defined"
#endif

#define THREADS_M (BLOCK_M / THREAD_M)
#define THREADS_N (BLOCK_N / THREAD_N)
#define THREADS (THREADS_M * THREADS_N)
#define LOAD_WIDTH 4
#include "gpu/local_barrier.h"
#include "common/multiply_add.h"
#include "gpu/tile_load.h"

#define UNROLL _Pragma("unroll")

/* Of a tile, in float4: a row of it is one of the stage's depth. */
#define X_STRIDE ((BLOCK_M + PADDING) / 4)
#define W_STRIDE ((BLOCK_N + PADDING) / 4)
/* Loads of four that an item does for a tile of so many rows or columns. */
#define LOADS(block) (((block) * BLOCK_K / 4 + THREADS - 1) / THREADS)
/* Quad q of an item, in the block. */
#define ROW(q) (((q) * THREADS_M + band) * 4)
#define COLUMN(q) (((q) * THREADS_N + lane) * 4)

/* An index n counts n / size outer and n % size inner ones. */
struct pair {
    long size, outer_step, inner_step;
};

INLINE long place(const struct pair p, const long n)
{
    if (n < p.size) /* the usual case spares a division */
        return n * p.inner_step;
    return n / p.size * p.outer_step + n % p.size * p.inner_step;
}

/* Beyond the last of count indices, those of the last quad again. */
INLINE long clamped(const long n, const long count)
{
    return n < count ? n : max(count - 4 + n % 4, 0L);
}

/* Whether quads of neighbours lie whole in one inner dimension, and aligned for one load. */
INLINE bool has_quads(const __global storage *p, const long size, const long step, const long step2,
                      const long step3)
{
    return ((size | step | step2 | step3) & 3) == 0 &&
           ((size_t)p & (4 * STORAGE_BYTES - 1)) == 0;
}

/* Where load t of a tile of `block` goes: `across` counts its rows or columns, along the depth. */
struct slot {
    int across, along;
};

/* Neighbouring items load neighbours in memory: quads along the depth, or across it. */
INLINE struct slot slot_of(const int t, const int block, const bool depth_first)
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

/* This item's share of a stage of a matrix, to registers. left: depth that there is, at least 1. */
INLINE void load_stage(const __global storage *matrix, const int block, const bool depth_first,
                       const bool quads, const __local long *across, const __local long *along,
                       const long left, float4 *loaded)
{
    UNROLL
    for (int n = 0; n < LOADS(block); n++) {
        const int t = get_local_id(0) + n * THREADS;
        if (block * BLOCK_K / 4 % THREADS != 0 && t >= block * BLOCK_K / 4)
            break;
        const struct slot s = slot_of(t, block, depth_first);
        const bool inside = s.along < left;
        if (quads) {
            const float4 x = load4(matrix + across[s.across] + along[s.along], true);
            loaded[n] = inside ? x : (float4)(0.0f);
        } else if (depth_first) {
            const __global storage *row = matrix + across[s.across];
            loaded[n].x = inside ? LOAD(row, along[s.along]) : 0.0f;
            loaded[n].y = s.along + 1 < left ? LOAD(row, along[s.along + 1]) : 0.0f;
            loaded[n].z = s.along + 2 < left ? LOAD(row, along[s.along + 2]) : 0.0f;
            loaded[n].w = s.along + 3 < left ? LOAD(row, along[s.along + 3]) : 0.0f;
        } else {
            const __global storage *row = matrix + along[s.along];
            loaded[n].x = inside ? LOAD(row, across[s.across]) : 0.0f;
            loaded[n].y = inside ? LOAD(row, across[s.across + 1]) : 0.0f;
            loaded[n].z = inside ? LOAD(row, across[s.across + 2]) : 0.0f;
            loaded[n].w = inside ? LOAD(row, across[s.across + 3]) : 0.0f;
        }
    }
}

/* From registers to a tile. */
INLINE void store_stage(const float4 *loaded, const int block, const bool depth_first,
                        const int stride, __local float4 *tile)
{
    UNROLL
    for (int n = 0; n < LOADS(block); n++) {
        const int t = get_local_id(0) + n * THREADS;
        if (block * BLOCK_K / 4 % THREADS != 0 && t >= block * BLOCK_K / 4)
            break;
        const struct slot s = slot_of(t, block, depth_first);
        if (depth_first) {
            __local float *to = (__local float *)(tile + s.along * stride) + s.across;
            to[0] = loaded[n].x;
            to[4 * stride] = loaded[n].y;
            to[8 * stride] = loaded[n].z;
            to[12 * stride] = loaded[n].w;
        } else {
            tile[s.along * stride + s.across / 4] = loaded[n];
        }
    }
}

INLINE float4 multiply_add4(const float x, const float4 y, const float4 sum)
{
    return (float4)(MULTIPLY_ADD(x, y.x, sum.x), MULTIPLY_ADD(x, y.y, sum.y),
                    MULTIPLY_ADD(x, y.z, sum.z), MULTIPLY_ADD(x, y.w, sum.w));
}

/* sums += the products of a stage. */
INLINE void multiply(const __local float4 *x_tile, const __local float4 *w_tile, const int band,
                     const int lane, float4 sums[THREAD_M][THREAD_N / 4])
{
    _Pragma("unroll 2") /* all at once, what is loaded ahead would take too many registers */
    for (int k = 0; k < BLOCK_K; k++) {
        float4 x4[THREAD_M / 4], w4[THREAD_N / 4];
        UNROLL
        for (int q = 0; q < THREAD_M / 4; q++)
            x4[q] = x_tile[k * X_STRIDE + q * THREADS_M + band];
        UNROLL
        for (int q = 0; q < THREAD_N / 4; q++)
            w4[q] = w_tile[k * W_STRIDE + q * THREADS_N + lane];
        UNROLL
        for (int q = 0; q < THREAD_M / 4; q++) {
            UNROLL
            for (int c = 0; c < THREAD_N / 4; c++) {
                sums[4 * q][c] = multiply_add4(x4[q].x, w4[c], sums[4 * q][c]);
                sums[4 * q + 1][c] = multiply_add4(x4[q].y, w4[c], sums[4 * q + 1][c]);
                sums[4 * q + 2][c] = multiply_add4(x4[q].z, w4[c], sums[4 * q + 2][c]);
                sums[4 * q + 3][c] = multiply_add4(x4[q].w, w4[c], sums[4 * q + 3][c]);
            }
        }
    }
}

/* Which tile a group has: GROUP_M rows of tiles column by column, then the next ones. */
INLINE void find_tile(const long row_tiles, const long column_tiles, const long n, long *row,
                      long *column)
{
    const long band = n / (GROUP_M * column_tiles), within = n - band * GROUP_M * column_tiles;
    const long height = min((long)GROUP_M, row_tiles - band * GROUP_M);

    *row = band * GROUP_M + within % height;
    *column = within / height;
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void projection_tiles(PARAMETERS_projection_tiles)
{
    __local float4 x_tile[STAGES][BLOCK_K * X_STRIDE], w_tile[STAGES][BLOCK_K * W_STRIDE];
    __local long x_rows[BLOCK_M], w_columns[BLOCK_N];
    __local long x_depths[2][BLOCK_K], w_depths[2][BLOCK_K], inner[BLOCK_K];
    const int item = get_local_id(0), lane = item % THREADS_N, band = item / THREADS_N;
    const long rows = a.batch * a.seq_q, columns = a.heads * a.dim_v, depth = a.kv_heads * a.dim_qk;
    const long stages = (depth + BLOCK_K - 1) / BLOCK_K, split = get_group_id(1);
    const long begin = stages * split / SPLIT_K * BLOCK_K;
    const long end = min(stages * (split + 1) / SPLIT_K * BLOCK_K, depth);
    const struct pair depths_of_x = {a.dim_qk, a.q_stride[1], X_COLUMN_STEP};
    const struct pair depths_of_w = {a.dim_qk, a.k_stride[0], W_ROW_STEP};
    const bool x_quads =
        UNIT_X_COLUMN ? has_quads(x + at.q, a.dim_qk, a.q_stride[0], a.q_stride[1], a.q_stride[2])
                      : UNIT_X_ROW && has_quads(x + at.q, a.seq_q, a.q_stride[0], a.q_stride[1],
                                                a.q_stride[3]);
    const bool w_quads =
        UNIT_W_COLUMN ? has_quads(w + at.k, a.dim_v, a.k_stride[0], a.k_stride[1], a.k_stride[2])
                      : UNIT_W_ROW && has_quads(w + at.k, a.dim_qk, a.k_stride[0], a.k_stride[2],
                                                a.k_stride[3]);
    long row, column;
    float4 sums[THREAD_M][THREAD_N / 4];
    float4 x_loaded[LOADS(BLOCK_M)], w_loaded[LOADS(BLOCK_N)];

    find_tile((rows + BLOCK_M - 1) / BLOCK_M, (columns + BLOCK_N - 1) / BLOCK_N,
              get_group_id(0), &row, &column);
    row *= BLOCK_M;
    column *= BLOCK_N;
    x += at.q;
    w += at.k;
    for (int n = item; n < BLOCK_M; n += THREADS)
        x_rows[n] =
            place((struct pair){a.seq_q, a.q_stride[0], X_ROW_STEP}, clamped(row + n, rows));
    for (int n = item; n < BLOCK_N; n += THREADS)
        w_columns[n] = place((struct pair){a.dim_v, a.k_stride[2], W_COLUMN_STEP},
                             clamped(column + n, columns));
    for (int n = item; n < BLOCK_K; n += THREADS) {
        x_depths[0][n] = place(depths_of_x, clamped(begin + n, depth));
        w_depths[0][n] = place(depths_of_w, clamped(begin + n, depth));
        inner[n] = (begin + n) % a.dim_qk;
    }
    UNROLL
    for (int r = 0; r < THREAD_M; r++) {
        UNROLL
        for (int c = 0; c < THREAD_N / 4; c++)
            sums[r][c] = (float4)(0.0f);
    }
    LOCAL_BARRIER(); /* the places are complete */
    if (begin < end) {
        load_stage(x, BLOCK_M, UNIT_X_COLUMN, x_quads, x_rows, x_depths[0], end - begin,
                   x_loaded);
        load_stage(w, BLOCK_N, !UNIT_W_COLUMN, w_quads, w_columns, w_depths[0], end - begin,
                   w_loaded);
    }
    int now = 0; /* which of two buffers */
    for (long k = begin; k < end; k += BLOCK_K) {
        __local float4 *const x_now = x_tile[STAGES == 1 ? 0 : now];
        __local float4 *const w_now = w_tile[STAGES == 1 ? 0 : now];
        const long next = k + BLOCK_K;
        now = 1 - now;
        store_stage(x_loaded, BLOCK_M, UNIT_X_COLUMN, X_STRIDE, x_now);
        store_stage(w_loaded, BLOCK_N, !UNIT_W_COLUMN, W_STRIDE, w_now);
        for (int n = item; n < BLOCK_K; n += THREADS) {
            const bool inside = next + n < depth; /* else the last place is as good */
            long x_place = x_depths[1 - now][n], w_place = w_depths[1 - now][n];
            long at_inner = inner[n] + BLOCK_K;
            if (inside) {
                x_place += BLOCK_K * depths_of_x.inner_step;
                w_place += BLOCK_K * depths_of_w.inner_step;
            }
            for (; inside && at_inner >= a.dim_qk; at_inner -= a.dim_qk) {
                x_place += depths_of_x.outer_step - a.dim_qk * depths_of_x.inner_step;
                w_place += depths_of_w.outer_step - a.dim_qk * depths_of_w.inner_step;
            }
            x_depths[now][n] = x_place;
            w_depths[now][n] = w_place;
            inner[n] = at_inner;
        }
        LOCAL_BARRIER(); /* the stage and the next one's places are complete */
        if (next < end) {
            load_stage(x, BLOCK_M, UNIT_X_COLUMN, x_quads, x_rows, x_depths[now], end - next,
                       x_loaded);
            load_stage(w, BLOCK_N, !UNIT_W_COLUMN, w_quads, w_columns, w_depths[now],
                       end - next, w_loaded);
        }
        multiply(x_now, w_now, band, lane, sums);
        if (STAGES == 1)
            LOCAL_BARRIER(); /* the stage may be overwritten */
    }

#if SPLIT_K == 1
    const bool y_quads = UNIT_Y_COLUMN && a.dim_v % 4 == 0;
    const struct pair columns_of_y = {a.dim_v, a.o_stride[1], Y_COLUMN_STEP};
    long places[THREAD_N]; /* of the item's columns, whose pairs may cost divisions */

    UNROLL
    for (int c = 0; c < THREAD_N; c++)
        places[c] = place(columns_of_y, column + COLUMN(c / 4) + c % 4);
#endif
    UNROLL
    for (int r = 0; r < THREAD_M; r++) {
        const long i = row + ROW(r / 4) + r % 4;
        if (i >= rows)
            continue;
#if SPLIT_K > 1
        __global float *const to = workspace + at.workspace + (split * rows + i) * columns;
#else
        __global storage *const to =
            y + at.o + place((struct pair){a.seq_q, a.o_stride[0], a.o_stride[2]}, i);
#endif
        UNROLL
        for (int c = 0; c < THREAD_N / 4; c++) {
            const long j = column + COLUMN(c);
            const float parts[4] = {sums[r][c].x, sums[r][c].y, sums[r][c].z, sums[r][c].w};
#if SPLIT_K > 1
            UNROLL
            for (int n = 0; n < 4; n++)
                if (j + n < columns)
                    to[j + n] = parts[n];
#else
            if (y_quads && j < columns) {
                const long n = places[4 * c];
                const float4 before = (float4)(BEFORE(to, n), BEFORE(to, n + 1), BEFORE(to, n + 2),
                                               BEFORE(to, n + 3));
                const float4 biases = (float4)(BIAS_OF(0, j), BIAS_OF(0, j + 1), BIAS_OF(0, j + 2),
                                               BIAS_OF(0, j + 3));
                STORE4(sums[r][c] + biases + before, to + n);
                continue;
            }
            UNROLL
            for (int n = 0; n < 4; n++)
                if (j + n < columns)
                    STORE_Y(parts[n], to, places[4 * c + n], 0, j + n);
#endif
        }
    }
}

#if SPLIT_K > 1
__kernel void projection_sum(PARAMETERS_projection_sum)
{
    const long columns = a.heads * a.dim_v, count = a.batch * a.seq_q * columns;
    const long n = get_global_id(0);
    float sum = 0.0f;

    if (n >= count)
        return;
    for (int part = 0; part < SPLIT_K; part++)
        sum += workspace[at.workspace + part * count + n];
    const long i = n / columns, j = n % columns;
    __global storage *const to =
        y + at.o + place((struct pair){a.seq_q, a.o_stride[0], a.o_stride[2]}, i) +
        place((struct pair){a.dim_v, a.o_stride[1], Y_COLUMN_STEP}, j);
    STORE_Y(sum, to, 0, 0, j);
}
#endif
