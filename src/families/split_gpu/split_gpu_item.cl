/* SPDX-License-Identifier: Apache-2.0 */
/* split_gpu_item: o = softmax(scale q k^T, masked) v, and lse, for few queries and many keys, on GPUs, by
 * split-K (Flash-Decoding).
 *
 *   split    partial results of a range of keys, for all rows of a kv head: sums, row_max, row_sum
 *   combine  o and lse from the partial results of each row, in the order of the ranges
 *
 * Rows       are the queries of all query heads that share a kv head, so that K and V are read once
 *            for BLOCK_M of them. Neither passes through local memory: a thread keeps its loads.
 * Threads    THREADS_N = THREADS / THREADS_D thread groups, each with THREAD_N keys of a streamed tile
 *            of BLOCK_N. A thread of a group has LOAD_WIDTH neighbouring columns of each chunk of
 *            THREADS_D * LOAD_WIDTH columns, of K and of V: neighbours read neighbouring memory.
 * Steps      1. each thread: the products of its columns of all rows and its group's keys;
 *            2. for each row and thread group one thread: the scores of the group's keys, from the sum
 *               of its threads' products, and weights, with a row_max and a row_sum that are the
 *               group's own, so that no group waits for another's;
 *            3. each thread: its columns of its group's values, weighted and added up.
 *            In the end thread groups are merged as ranges are, by their row_max.
 * NDRange    local THREADS; split: a work-group for each (batch, kv head, range, BLOCK_M rows);
 *            combine: one for each row and 32 columns.
 * Workspace  partial results: gpu/split_task.h
 * Masked     A masked pair's weight is -0, a visible one's only if its score is -inf. In
 *            tiles of partial visibility pairs with a weight of -0 are skipped, whatever v contains.
 * Dropout    comes after the sum of the weights.
 * Ragged     Nothing outside the tensors is read: keys beyond the last one of a tile repeat it and
 *            are masked, columns of K beyond the last are 0.
 * Barriers   Every thread reaches every barrier; nothing relies on sub-group lockstep.
 * Tunables   src/families/split_gpu/split_gpu_item.def, all defined by the host; no fallbacks here. */
#include "common/key_rows.h"
#include "score/score.h"
#include "common/sequence.h"

#if !defined(BLOCK_M) || !defined(THREADS) || !defined(THREADS_D) || !defined(THREAD_N) ||         \
    !defined(LOAD_WIDTH) || !defined(EARLY_V) || !defined(SPLIT_K) || !defined(EXP)
#error "split_gpu_item.cl must be built with all of its tunables defined"
#endif

#include "families/split_gpu/split_gpu_item_sizes.h"
#include "gpu/local_barrier.h"
#include "gpu/tile_exp.h"
#include "gpu/tile_load.h"
#include "gpu/quantized_tile.h"
#include "gpu/thread_keys.h"
#include "gpu/split_task.h"
#include "gpu/split_combine.h"
#include "score/group_softmax.h"

/* ---- load ----------------------------------------------------------------------------------- */

/* The rows' queries, indexed by row, chunk, piece and thread, in fours of columns; 0 where there
 * are none. */
INLINE void load_group_queries(const struct arguments *args, const struct task *task,
                               __local float4 *q_tile)
{
    for (int t = get_local_id(0); t < Q_FLOAT4S; t += THREADS) {
        const int thread_d = t % THREADS_D, piece = t / THREADS_D % PIECES;
        const int chunk = t / (THREADS_D * PIECES) % CHUNKS(DIM_QK), r = t / (Q_FLOAT4S / BLOCK_M);
        const int column = column_of_thread(thread_d, chunk) + 4 * piece;
        float x[4];
        long h, i;
        find_row(args, task, r, &h, &i);
        const __global storage *row = args->q + row_offset(args->shape->q_stride, task->b, h, i);
#pragma unroll
        for (int n = 0; n < 4; n++)
            x[n] = load1_of(DTYPE, row, min(column + n, DIM_QK - 1) * q_step(args));
        q_tile[t] = r < task->rows ? within_row(vload4(0, x), column, DIM_QK) : 0.0f;
    }
}

/* ---- products ------------------------------------------------------------------------------- */

/* Step 1: multiplies the thread's columns of all rows and of its thread group's keys. */
INLINE void multiply_qk(const struct cached k, const int count, const __local float4 *q_tile,
                        float products[BLOCK_M][THREAD_N])
{
#pragma unroll
    for (int r = 0; r < BLOCK_M; r++)
#pragma unroll
        for (int n = 0; n < THREAD_N; n++)
            products[r][n] = 0.0f;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS(DIM_QK); chunk++) {
        float4 x[THREAD_N][PIECES];
        load_cached_keys(k, chunk, count, x);
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
#pragma unroll
            for (int n = 0; n < THREAD_N; n++)
                x[n][piece] = within_row(x[n][piece],
                                         column_of_thread(k.thread_d, chunk) + 4 * piece, DIM_QK);
#pragma unroll
            for (int r = 0; r < BLOCK_M; r++) {
                const float4 y =
                    q_tile[((r * CHUNKS(DIM_QK) + chunk) * PIECES + piece) * THREADS_D +
                           k.thread_d];
#pragma unroll
                for (int n = 0; n < THREAD_N; n++) {
                    products[r][n] = MULTIPLY_ADD(y.x, x[n][piece].x, products[r][n]);
                    products[r][n] = MULTIPLY_ADD(y.y, x[n][piece].y, products[r][n]);
                    products[r][n] = MULTIPLY_ADD(y.z, x[n][piece].z, products[r][n]);
                    products[r][n] = MULTIPLY_ADD(y.w, x[n][piece].w, products[r][n]);
                }
            }
        }
    }
}

/* Step 3, for one chunk: sums[r] += weights times values; not those of -0 if `hides` (constant). */
INLINE void multiply_pv(const bool hides, const int thread_n, const int chunk,
                        const __local float4 *weights, float4 v[THREAD_N][PIECES],
                        float4 sums[BLOCK_M][CHUNKS(DIM_V) * PIECES])
{
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++)
#pragma unroll
        for (int quad = 0; quad < QUADS; quad++)
#pragma unroll
            for (int r = 0; r < BLOCK_M; r++) {
                const float4 p4 = weights[QUAD_AT(r, quad, thread_n)];
                const float p[4] = {p4.x, p4.y, p4.z, p4.w};
                float4 *const sum = &sums[r][chunk * PIECES + piece];
#pragma unroll
                for (int n = 0; n < 4; n++)
                    if (!hides || as_int(p[n]) != as_int(-0.0f))
                        *sum = MULTIPLY_ADD((float4)p[n], v[4 * quad + n][piece], *sum);
            }
}

/* ---- split ---------------------------------------------------------------------------------- */

/* A thread's task in step 2: the first threads have a row and a thread group each. */
struct weigher {
    struct row_window row;
    int r, n; /* the row's number in the block, the thread group's number */
    bool weighs;
};

/* Local memory. */
struct shared {
    __local float4 *products; /* the keys' products; in the end the sums of a row */
    __local float4 *weights;
    __local float *row_maxima, *row_sums, *rescales; /* one for each row and thread group */
};

INLINE struct weigher find_weigher(const struct arguments *args, const struct task *task)
{
    const int thread = get_local_id(0);
    struct weigher w;

    w.weighs = thread < BLOCK_M * THREADS_N;
    w.r = min(thread / THREADS_N, BLOCK_M - 1);
    w.n = thread % THREADS_N;
    find_row(args, task, w.r, &w.row.h, &w.row.i);
    w.row.b = task->b;
    w.row.e = task->e;
    w.row.first = first_key(args, task->e, w.row.i);
    w.row.end = w.r < task->rows ? min(end_key(args, task->e, w.row.i), task->end) : 0;
#if HAS_BLOCKS
    w.row.bits = block_bits_of(args, task->bits, task->b, w.row.h);
#endif
    return w;
}

/* K and V of the kv head, from the first key of this thread's group in the range on. With pages
 * they begin with the first row of page 0, and rows_aligned() tests all pages. */
#if PAGE_SIZE
#define FIRST_ROW(task, thread_n) 0
#else
#define FIRST_ROW(task, thread_n) ((task)->begin + KEY_OF(thread_n, 0))
#endif
INLINE struct cached find_cached(const struct task *task, const int cache, const int dtype,
                                 const __global void *head, const long *stride, const long step,
                                 const int dim, const int width)
{
    const int thread_n = THIS_THREAD / THREADS_D, thread_d = THIS_THREAD % THREADS_D;
    const struct cached rows = {
        element_at(cache, dtype, head, FIRST_ROW(task, thread_n) * stride[2]),
        stride[2],
        step,
        thread_n,
        thread_d,
        cache || cache_aligned(dtype, head, stride[0], stride[2], width),
        cache,
        dtype,
        dim,
        width};

    return rows;
}

INLINE void store_products(float products[BLOCK_M][THREAD_N], __local float4 *to)
{
    const int thread_n = THIS_THREAD / THREADS_D, thread_d = THIS_THREAD % THREADS_D;

#pragma unroll
    for (int r = 0; r < BLOCK_M; r++)
#pragma unroll
        for (int quad = 0; quad < QUADS; quad++)
            to[thread_d * THREAD_STRIDE + QUAD_AT(r, quad, thread_n)] =
                (float4)(products[r][4 * quad], products[r][4 * quad + 1],
                         products[r][4 * quad + 2], products[r][4 * quad + 3]);
}

/* Rescales earlier sums to the new weights. */
INLINE void rescale_outputs(const __local float *rescales,
                            float4 sums[BLOCK_M][CHUNKS(DIM_V) * PIECES])
{
    const int thread_n = THIS_THREAD / THREADS_D;

#pragma unroll
    for (int r = 0; r < BLOCK_M; r++) {
        const float factor = rescales[r * THREADS_N + thread_n];
#pragma unroll
        for (int n = 0; n < CHUNKS(DIM_V) * PIECES; n++)
            sums[r][n] *= factor;
    }
}

/* Merges the thread groups' maxima and sums, as ranges are merged, and shares the results;
 * rescales: the factors of the groups' sums of values. */
INLINE void merge_groups(const struct arguments *args, const struct task *task,
                         const struct weigher *w, const struct shared *l, const float row_max,
                         const float row_sum, __global float *statistics)
{
    const int thread = get_local_id(0);

    if (w->weighs) {
        l->row_maxima[thread] = row_max;
        l->row_sums[thread] = row_sum;
    }
    LOCAL_BARRIER(); /* maxima and sums are complete; nobody reads the factors any more */
    const float highest = highest_of(l->row_maxima + w->r * THREADS_N, THREADS_N);
    if (w->weighs)
        l->rescales[thread] = power_of_two((row_max - finite_maximum(highest)) * M_LOG2E_F);
    LOCAL_BARRIER(); /* the thread groups' factors are complete */
    if (w->weighs && w->n == 0 && w->r < task->rows) {
        float sum = 0.0f;
        for (int n = thread; n < thread + THREADS_N; n++)
            sum = MULTIPLY_ADD(l->row_sums[n], l->rescales[n], sum);
        vstore2((float2)(highest, sum), result_of(args, task, w->row.h, w->row.i), statistics);
    }
}

/* Stores the rows' sums of values, of all thread groups, one row after the other. */
INLINE void store_group_sums(const struct arguments *args, const struct task *task,
                             const struct shared *l, float4 sums[BLOCK_M][CHUNKS(DIM_V) * PIECES],
                             __global float *results)
{
    const int thread_n = THIS_THREAD / THREADS_D, thread_d = THIS_THREAD % THREADS_D;

#pragma unroll
    for (int r = 0; r < BLOCK_M; r++) {
        const float factor = l->rescales[r * THREADS_N + thread_n];
        long h, i;
#pragma unroll
        for (int n = 0; n < CHUNKS(DIM_V) * PIECES; n++)
            l->products[((thread_n * CHUNKS(DIM_V) + n / PIECES) * THREADS_D + thread_d) * PIECES +
                        n % PIECES] = sums[r][n] * factor;
        LOCAL_BARRIER(); /* the row's sums are complete */
        find_row(args, task, r, &h, &i);
        __global float *const to = results + result_of(args, task, h, i) * DIM_V;
        for (int d = get_local_id(0); d < DIM_V && r < task->rows; d += THREADS) {
            float x = 0.0f;
            for (int n = 0; n < THREADS_N; n++)
                x += ((const __local float *)l->products)[n * CHUNKS(DIM_V) * CHUNK + d];
            to[d] = x;
        }
        LOCAL_BARRIER(); /* the row's sums may be overwritten */
    }
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void split(PARAMETERS_split)
{
    struct arguments arguments = ARGUMENTS_split;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / ROW_BLOCKS(&arguments) / count_ranges(&arguments) /
                       arguments.shape->kv_heads);
    __local float4 q_tile[Q_FLOAT4S], products_of_all[SHARED_FLOAT4S], weights[WEIGHT_FLOAT4S];
    __local float row_maxima[GROUP_STATES], row_sums[GROUP_STATES];
    __local float rescales[GROUP_STATES];
    __local uint seen_tiles[SEEN_WORDS];
    const struct shared l = {products_of_all, weights, row_maxima, row_sums, rescales};
    const int thread_n = THIS_THREAD / THREADS_D;
    LEAVE_IF_BEYOND(get_group_id(0) % ROW_BLOCKS(args) * BLOCK_M,
                    args->shape->group * args->shape->seq_q);
    const struct task task = find_range_task(args);
    const struct weigher w = find_weigher(args, &task);
    const long *k_stride = args->shape->k_stride, *v_stride = args->shape->v_stride;
    struct cached keys =
        find_cached(&task, K_CACHE, K_DTYPE,
                    k_place(args->k, head_offset(k_stride, cache_batch(task.b), task.kv_head)),
                    k_stride, k_step(args), DIM_QK, WIDTH_OF(K_DTYPE, UNIT_K, DIM_QK));
    struct cached values =
        find_cached(&task, V_CACHE, V_DTYPE,
                    v_place(args->v, head_offset(v_stride, cache_batch(task.b), task.kv_head)),
                    v_stride, v_step(args), DIM_V, WIDTH_OF(V_DTYPE, UNIT_V, DIM_V));
    float4 sums[BLOCK_M][CHUNKS(DIM_V) * PIECES];
    float row_max = -INFINITY, row_sum = 0.0f; /* those of the weigher's keys */

    /* load */
#pragma unroll
    for (int r = 0; r < BLOCK_M; r++)
#pragma unroll
        for (int n = 0; n < CHUNKS(DIM_V) * PIECES; n++)
            sums[r][n] = 0.0f;
    if (task.begin < task.end)
        load_group_queries(args, &task, q_tile);
    LOCAL_BARRIER(); /* the queries are complete */

    mark_tiles(args, &task, seen_tiles);
    long j0 = next_tile_of_task(args, &task, task.begin, seen_tiles), next;
    step_on(&keys, SKIPS_TILES ? j0 - task.begin : 0);
    step_on(&values, SKIPS_TILES ? j0 - task.begin : 0);

    for (; j0 < task.end; j0 = next) {
        const long j1 = next_run(args, task.b, task.begin, task.end, BLOCK_N, &j0);
        const int count = (int)(j1 - j0);
        const bool partial = HIDES_ANYWHERE || count < BLOCK_N || j0 < task.all_begin ||
                             j0 + BLOCK_N > task.all_end; /* some pair may be masked */
        float4 v4[EARLY_V ? CHUNKS(DIM_V) : 1][THREAD_N][PIECES];
        float products[BLOCK_M][THREAD_N];
        struct row_window row = w.row;

#if PAGE_SIZE
        if (count == 0) /* the page table masks all remaining keys */
            break;
        row.end = min(row.end, j1);
        go_to_tile(args, &keys, task.b, j0, count, args->shape->k_stride[0]);
        go_to_tile(args, &values, task.b, j0, count, args->shape->v_stride[0]);
#endif
        /* scores */
#pragma unroll
        for (int chunk = 0; EARLY_V && chunk < CHUNKS(DIM_V); chunk++)
            load_cached_keys(values, chunk, count, v4[chunk]);
        multiply_qk(keys, count, q_tile, products);
        store_products(products, l.products);
        LOCAL_BARRIER(); /* products are complete; nobody reads the last tile's weights any more */

        /* softmax */
        if (w.weighs)
            rescales[get_local_id(0)] =
                weigh_keys(args, row, w.r, w.n, j0, l.products, weights, &row_max, &row_sum);
        LOCAL_BARRIER(); /* weights are complete; nobody reads products any more */
        rescale_outputs(rescales, sums);

        /* values */
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS(DIM_V); chunk++) {
            if (!EARLY_V)
                load_cached_keys(values, chunk, count, v4[0]);
            if (partial)
                multiply_pv(true, thread_n, chunk, weights, v4[EARLY_V ? chunk : 0], sums);
            else
                multiply_pv(false, thread_n, chunk, weights, v4[EARLY_V ? chunk : 0], sums);
        }
        next = next_tile_of_task(args, &task, j1, seen_tiles);
        step_on(&keys, SKIPS_TILES ? next - j0 : BLOCK_N);
        step_on(&values, SKIPS_TILES ? next - j0 : BLOCK_N);
    }

    /* store */
    __global float *const results = args->workspace;
    merge_groups(args, &task, &w, &l, row_max, row_sum, STATISTICS(args, results));
    store_group_sums(args, &task, &l, sums, results);
    END_KERNEL();
}
