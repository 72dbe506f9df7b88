/* SPDX-License-Identifier: Apache-2.0 */
/* fused_gpu_item: forward attention for GPUs; the scores never reach global memory.
 *
 * A work-group owns BLOCK_M queries of one (batch, head) and walks over the keys that any of them may
 * see, a tile of BLOCK_N at a time:
 *   1. s = q k^T, with K (and Q, unless Q_RESIDENT) staged in local memory by BLOCK_K columns;
 *   2. online softmax: the rows' maxima over the work-group, then weights from scores;
 *   3. o += p v, with the weights and V staged in local memory by STAGE_N keys.
 *
 * Threads   THREADS_N along keys and output dims, THREADS_M = BLOCK_M / THREAD_M along rows. A thread
 *           keeps THREAD_M x THREAD_N scores and THREAD_M rows of DIMS4(DIM_V) float4 of output in
 *           registers: cl/gpu/thread_tile.h.
 * NDRange   local THREADS; one group for each block of queries of each (batch, head).
 * Dropout   Four neighbouring threads share the random numbers of their keys: cl/gpu/tile_dropout.h.
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Masked    In a tile of partial visibility V's Infs and NaNs are staged as 0: a weight of 0
 *           would not silence them. They are added at the end to rows that see them.
 * Barriers  Every thread reaches every barrier; nothing relies on sub-group lockstep. A stage is filled
 *           between two barriers and read between the next two. With STAGES of two the next one is filled
 *           meanwhile, by copies in the background where the device has such: cl/gpu/tile_copy.h.
 * Pages     Local memory lists the place of each row of a tile in the pool, unless tiles lie in one page.
 * Units     item: products of floats. bytes: q and k are rounded to bytes for precision=int8 (gpu/byte_rows.h), and an
 *           instruction adds four of their products; stages of q k^T then have words of four bytes. The host also defines
 *           EMULATE for it.
 * Tunables  src/families/fused_gpu/fused_gpu_item.def, all defined by the host; no fallbacks here. */
#include "score/score.h"
#if !defined(BLOCK_M) || !defined(BLOCK_N) || !defined(THREADS_N) || !defined(THREAD_M) ||         \
    !defined(BLOCK_K) || !defined(STAGE_N) || !defined(STAGES) || !defined(Q_RESIDENT) ||          \
    !defined(SHARE_KV) || !defined(PADDING) || !defined(LOAD_WIDTH) || !defined(UNROLL) ||         \
    !defined(EXP)
#error "fused_gpu_item.cl must be built with all of its tunables defined"
#endif
#include "families/units.h"
#if OPERAND_BYTES && (!defined(EMULATE) || !HAS_INT8)
#error "bytes are of problems with precision=int8, and need EMULATE defined"
#endif

#include "families/fused_gpu/fused_gpu_item_sizes.h"
#include "gpu/thread_tile.h"

#include "gpu/local_barrier.h"
#include "gpu/tile_exp.h"
#include "gpu/tile_dropout.h"
#include "gpu/tile_load.h"
#include "gpu/tile_copy.h"
#include "gpu/quantized_tile.h"
#include "gpu/byte_products.h"
#include "gpu/byte_rows.h"

/* Marks, or bits of block lists, follow rows of bytes in the workspace. */
INLINE long marks_begin(const struct arguments *args)
{
#if OPERAND_BYTES
    return byte_row_floats(args);
#else
    return 0;
#endif
}

#include "gpu/query_block.h"
#include "gpu/fused_task.h"
#include "gpu/row_end.h"
#include "score/mark_blocks.h"

/* 1 if the rows of a tile of paged keys are listed, since they may lie in several pages. */
#define LISTS_ROWS (PAGE_SIZE && (PAGE_SIZE % BLOCK_N || HAS_WINDOW_LEFT))

/* ---- what the parts of the kernel share ------------------------------------------------------ */

struct shared {
    __local float4 *tiles;
    __local float *row_max, *rescale;  /* the running maximum, and the factor of earlier weights */
    __local long *k_places, *v_places; /* with LISTS_ROWS the offsets of the tile's keys, else 0 */
    volatile __local int *v_nonfinite; /* is nonzero once an Inf or NaN of V was staged as 0 */
};

/* ---- load ------------------------------------------------------------------------------------ */

/* Is 1 if rows are copied by four where their alignment allows it. */
#define COPIES_QUADS(unit, dim) (WIDTH_OF(DTYPE_F32, unit, dim) == 4)

/* The stage to fill next: stage 0 if there is one, alternating if there are two. */
#define OTHER(stage) (STAGE_FLOAT4S - (stage))

#if OPERAND_BYTES
/* Loads words [first, first + columns) of lines. */
INLINE void load_line_words(__local float4 *tile, const int stride, const int tile_rows,
                            const int columns, const __global float *lines, const int rows,
                            const int first)
{
#if STAGES > 1
    copy_tile(tile, stride, tile_rows, columns, lines, LINE_FLOATS, 1, rows, first, BYTE_WORDS,
              true);
#else
    load_tile(tile, stride, tile_rows, columns, DTYPE_F32, lines, LINE_FLOATS, 0, 1, rows, first,
              BYTE_WORDS, 4, true, false);
#endif
}
#endif

/* Loads columns [first, first + columns) of the queries. */
INLINE void stage_queries(const struct arguments *args, const struct task *t,
                          const struct shared *l, const int stage, const int first,
                          const int columns)
{
#if OPERAND_BYTES
    load_line_words(l->tiles + stage, Q_STRIDE, BLOCK_M, columns, t->q_lines, t->block.queries,
                    first);
#elif STAGES > 1
    copy_tile(l->tiles + stage, Q_STRIDE, BLOCK_M, columns, t->q, args->shape->q_stride[2],
              q_step(args), t->block.queries, first, DIM_QK,
              COPIES_QUADS(UNIT_Q, DIM_QK) && t->q_aligned);
#else
    load_tile(l->tiles, Q_STRIDE, BLOCK_M, columns, DTYPE, t->q, args->shape->q_stride[2], 0,
              q_step(args), t->block.queries, first, DIM_QK, WIDTH(UNIT_Q, DIM_QK), t->q_aligned,
              false);
#endif
}

/* The offset of row n of a tile from the head's first row of k or v; 0 if rows are listed. */
#if LISTS_ROWS
#define KEYS_PLACE(keys, n, stride) 0
#elif PAGE_SIZE
#define KEYS_PLACE(keys, n, stride)                                                                \
    (key_row(args, t->block.b, (keys)->j0, stride) + (n) * (stride)[2])
#else
#define KEYS_PLACE(keys, n, stride) (((keys)->j0 + (n)) * (stride)[2])
#endif

#if LISTS_ROWS
/* Stores the offsets of the tile's rows in local memory. */
INLINE void list_tile_rows(const struct arguments *args, const struct task *t,
                           const struct shared *l, const struct keys *keys)
{
    for (int n = get_local_id(0); n < keys->count; n += THREADS) {
        l->k_places[n] = key_row(args, t->block.b, keys->j0 + n, args->shape->k_stride);
        l->v_places[n] = key_row(args, t->block.b, keys->j0 + n, args->shape->v_stride);
    }
    LOCAL_BARRIER(); /* offsets are complete; the last tile's were read before its last barrier */
}
#endif

/* Loads columns [first, first + STAGE) of a tile of keys. */
INLINE void stage_keys(const struct arguments *args, const struct task *t, const struct shared *l,
                       const struct keys *keys, const int stage, const int first)
{
#if OPERAND_BYTES
    load_line_words(l->tiles + stage + K_AT, K_STRIDE, BLOCK_N, STAGE,
                    t->k_lines + keys->j0 * LINE_FLOATS, keys->count, first);
#elif STAGES > 1
    copy_tile(l->tiles + stage + K_AT, K_STRIDE, BLOCK_N, STAGE,
              k_place(t->k, KEYS_PLACE(keys, 0, args->shape->k_stride)), args->shape->k_stride[2],
              k_step(args), keys->count, first, DIM_QK,
              COPIES_QUADS(UNIT_K, DIM_QK) && t->k_aligned);
#else
    load_cache_tile(K_CACHE, l->tiles + K_AT, K_STRIDE, BLOCK_N, STAGE, K_DTYPE,
                    k_place(t->k, KEYS_PLACE(keys, 0, args->shape->k_stride)),
                    args->shape->k_stride[2], l->k_places, k_step(args), keys->count, first, DIM_QK,
                    WIDTH_OF(K_DTYPE, UNIT_K, DIM_QK), t->k_aligned, false,
                    k_scales_from(args, t->block.b, t->block.h / args->shape->group, keys->j0));
#endif
}

/* Loads a stage of q k^T. */
INLINE void stage_qk(const struct arguments *args, const struct task *t, const struct shared *l,
                     const struct keys *keys, const int stage, const int first)
{
    if (!Q_RESIDENT)
        stage_queries(args, t, l, stage, first, STAGE);
    stage_keys(args, t, l, keys, stage, first);
}

/* Fills the stages before the first tile. */
INLINE void stage_first(const struct arguments *args, const struct task *t, const struct shared *l,
                        const struct keys *keys)
{
    if (Q_RESIDENT)
        stage_queries(args, t, l, 0, 0, STAGED_DIM);
#if STAGES > 1
    stage_qk(args, t, l, keys, 0, 0);
#endif
}

/* Loads STAGE_N rows of V from the tile's key `first` on. */
INLINE void stage_values(const struct arguments *args, const struct task *t, const struct shared *l,
                         const struct keys *keys, const int stage, const int first)
{
#if STAGES > 1
    copy_tile(l->tiles + stage + V_AT, V_STRIDE, STAGE_N, 4 * V_STRIDE,
              v_place(t->v, KEYS_PLACE(keys, first, args->shape->v_stride)),
              args->shape->v_stride[2], v_step(args), keys->count - first, 0, DIM_V,
              COPIES_QUADS(UNIT_V, DIM_V) && t->v_aligned);
#else
    if (load_cache_tile(
            V_CACHE, l->tiles + V_AT, V_STRIDE, STAGE_N, 4 * V_STRIDE, V_DTYPE,
            v_place(t->v, KEYS_PLACE(keys, first, args->shape->v_stride)), args->shape->v_stride[2],
            LISTS_ROWS ? l->v_places + first : 0, v_step(args), keys->count - first, 0, DIM_V,
            WIDTH_OF(V_DTYPE, UNIT_V, DIM_V), t->v_aligned, keys->partial,
            v_scales_from(args, t->block.b, t->block.h / args->shape->group, keys->j0 + first)))
        atomic_or(l->v_nonfinite, 1);
#endif
}

/* ---- scores ---------------------------------------------------------------------------------- */

#if OPERAND_BYTES
#define MULTIPLY_TILES multiply_tiles_of_bytes

/* Does what multiply_tiles() (gpu/thread_tile.h) does with floats, for words of four bytes: products are sums of 32 bits. */
INLINE void multiply_tiles_of_bytes(const __local float4 *owned, const int owned_stride,
                                    const __local float4 *streamed, const int streamed_stride,
                                    const int depth, float products[THREAD_M][THREAD_N])
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;

    owned += ROW(0) * owned_stride;
    streamed += thread_n * streamed_stride;
    UNROLLED(UNROLL)
    for (int w = 0; w < depth; w += 4, owned++, streamed++) {
        int4 y[THREAD_N];
#pragma unroll
        for (int c = 0; c < THREAD_N; c++)
            y[c] = as_int4(streamed[THREADS_N * c * streamed_stride]);
#pragma unroll
        for (int r = 0; r < THREAD_M; r++) {
            const int4 x = as_int4(owned[ROW_FROM_FIRST(r) * owned_stride]);
#pragma unroll
            for (int c = 0; c < THREAD_N; c++) {
                int sum = as_int(products[r][c]);
                sum = dot_words(x.x, y[c].x, sum);
                sum = dot_words(x.y, y[c].y, sum);
                sum = dot_words(x.z, y[c].z, sum);
                sum = dot_words(x.w, y[c].w, sum);
                products[r][c] = as_float(sum);
            }
        }
    }
}

/* Turns sums of integers into products of queries and keys. Rows beyond the last one repeat it. */
INLINE void find_products_of_bytes(const struct task *t, const struct keys *keys,
                                   float s[THREAD_M][THREAD_N])
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;
    const __global float *const q = t->q_lines + BYTE_WORDS, *const k = t->k_lines +
                                                                        keys->j0 * LINE_FLOATS +
                                                                        BYTE_WORDS;

#pragma unroll
    for (int c = 0; c < THREAD_N; c++) {
        const float scale = k[min(thread_n + THREADS_N * c, keys->count - 1) * LINE_FLOATS];
#pragma unroll
        for (int r = 0; r < THREAD_M; r++)
            s[r][c] = (float)as_int(s[r][c]) * scale;
    }
#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
        const int row = min(ROW(r), max(t->block.queries - 1, 0)) * LINE_FLOATS;
        const float scale = q[row], product_with_mean = q[row + 1];
#pragma unroll
        for (int c = 0; c < THREAD_N; c++)
            s[r][c] = fma(s[r][c], scale, product_with_mean);
    }
}
#else
#define MULTIPLY_TILES multiply_tiles
#endif

/* Computes s = q k^T. *stage is the index of the first stage; on return that of the first stage of
 * p v. */
INLINE void multiply_qk(const struct arguments *args, const struct task *t, const struct shared *l,
                        const struct keys *keys, int *stage, float s[THREAD_M][THREAD_N])
{
    clear_thread_products(s);
    for (int first = 0; first < STAGED_DIM; first += STAGE) {
        const bool last = first + STAGE >= STAGED_DIM;
        const int now = *stage;
#if STAGES == 1
        stage_qk(args, t, l, keys, now, first);
        LOCAL_BARRIER(); /* the stage is complete */
#else
        COPIES_WAIT();
        LOCAL_BARRIER(); /* the stage is complete; nobody reads the one before */
        *stage = OTHER(now);
        if (last)
            stage_values(args, t, l, keys, *stage, 0);
        else
            stage_qk(args, t, l, keys, *stage, first + STAGE);
#endif
        MULTIPLY_TILES(l->tiles + (Q_RESIDENT ? first / 4 : now), Q_STRIDE, l->tiles + now + K_AT,
                       K_STRIDE, STAGE, s);
        if (STAGES == 1 && !last)
            LOCAL_BARRIER(); /* the stage may be overwritten */
    }
#if OPERAND_BYTES
    find_products_of_bytes(t, keys, s);
#endif
}

/* The score of a row and a key from their product, -inf if the key is masked. Sets bit r of *seen
 * if the key is visible to the thread's row r. This takes one pair: a function of all pairs would
 * be simplified before inlining, in an order that takes more registers. */
INLINE float finish_score(const struct arguments *args, const struct score_tile tile,
                          const bool partial, const int row, const int key, const float product,
                          const int r, uint *seen)
{
    struct score s = score_of(args, tile, row, key, product);

    if (partial) {
        const bool sees = hide(args, tile, in_window(tile, row, key), row, key, &s);
        if (TRACKS_SEEN)
            *seen |= (uint)sees << r;
        s.value = sees ? s.value : -INFINITY;
    }
    return s.value;
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* Updates the rows' running maxima from the threads' maxima, and finds the factors of earlier
 * weights. */
INLINE void update_row_max(const struct shared *l)
{
    for (int row = get_local_id(0); row < BLOCK_M; row += THREADS) {
        const float old = l->row_max[row];
        float new = old;
        for (int n = 0; n < THREADS_N; n++)
            new = fmax(new, partial_of(l->tiles + PARTIAL_AT, n, row));
        l->row_max[row] = new;
        l->rescale[row] = power_of_two((old - finite_maximum(new)) * M_LOG2E_F);
    }
}

/* Turns scores into weights, and rescales earlier sums to them. */
INLINE void weigh(const struct arguments *args, const struct shared *l, float s[THREAD_M][THREAD_N],
                  float row_sum[THREAD_M], float4 out[THREAD_M][MAX_DIMS4], __local uchar *kept)
{
    const int thread_m = THIS_THREAD / THREADS_N;

#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
        const float base = finite_maximum(l->row_max[ROW(r)]), rescale = l->rescale[ROW(r)];
        row_sum[r] *= rescale;
#pragma unroll
        for (int n = 0; n < MAX_DIMS4; n++)
            out[r][n] *= rescale;
#pragma unroll
        for (int c = 0; c < THREAD_N; c++) {
            s[r][c] = power_of_two((s[r][c] - base) * M_LOG2E_F);
            row_sum[r] += s[r][c];
#if HAS_DROPOUT
            s[r][c] *= kept_factor(args, ROW(r), c, kept);
#endif
        }
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Adds p v for a tile of keys to out. The first stage of V is loaded unless SHARE_KV. With two
 * stages the next tile's q k^T is loaded after the last one. *stage is the index of the first
 * stage, on return of the next. */
INLINE void multiply_pv(const struct arguments *args, const struct task *t, const struct shared *l,
                        const struct keys *keys, const struct keys *next, int *stage,
                        float p[THREAD_M][THREAD_N], float4 out[THREAD_M][MAX_DIMS4])
{
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;

    for (int j = 0; j < BLOCK_N; j += STAGE_N) {
        const int now = *stage;
        if (j >= keys->count)
            break;
        if (j % WEIGHT_ROWS == 0)
            STORE_WEIGHTS(j, p, l->tiles + now + WEIGHTS_AT);
#if STAGES == 1
        if (SHARE_KV || j > 0)
            stage_values(args, t, l, keys, now, j);
        LOCAL_BARRIER(); /* weights and V are complete */
#else
        COPIES_WAIT();
        if (keys->partial &&
            make_tile_finite(l->tiles + now + V_AT, V_STRIDE, STAGE_N, 4 * V_STRIDE,
                             COPIES_QUADS(UNIT_V, DIM_V) && t->v_aligned))
            atomic_or(l->v_nonfinite, 1);
        LOCAL_BARRIER(); /* weights and V are complete; nobody reads the stage before */
        *stage = OTHER(now);
        if (j + STAGE_N < BLOCK_N && j + STAGE_N < keys->count)
            stage_values(args, t, l, keys, *stage, j + STAGE_N);
        else if (next->j0 < t->block.end)
            stage_qk(args, t, l, next, *stage, 0);
#endif
        const __local float4 *weights =
            l->tiles + now + WEIGHTS_AT + j % WEIGHT_ROWS * ROW_STRIDE + thread_m;
        const __local float4 *row = l->tiles + now + V_AT + thread_n;
        UNROLLED(4 * UNROLL)
        for (int key = 0; key < STAGE_N; key++, weights += ROW_STRIDE, row += V_STRIDE)
            add_row(false, MAX_DIMS4, weights, row, out);
        if (STAGES == 1)
            LOCAL_BARRIER(); /* weights and V may be overwritten */
    }
}

/* Adds to out the Infs and NaNs of V that were staged as 0, to rows that see them. What a row needs is found before
 * `out` changes: compilers must assume that a change may be one of the arguments', and kept a copy of these in memory. */
INLINE void add_nonfinite_to_sums(const struct arguments *args, const struct task *t,
                                  float4 out[THREAD_M][MAX_DIMS4])
{
    const struct query_block *block = &t->block;
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;

    for (long j = block->begin; j < block->end; j++) {
        float4 lost[MAX_DIMS4];
        float factor[THREAD_M];
        int nonfinite[MAX_DIMS4], any = 0;
        bool sees[THREAD_M];
        if (!has_row(args, block->b, j))
            continue;
        const long row = key_row(args, block->b, j, args->shape->v_stride);
#pragma unroll
        for (int n = 0; n < MAX_DIMS4; n++) {
            const int d = 4 * (thread_n + THREADS_N * n);
            const float4 v4 = (float4)(load_v(t->v, row, min(d, DIM_V - 1) * v_step(args)),
                                       load_v(t->v, row, min(d + 1, DIM_V - 1) * v_step(args)),
                                       load_v(t->v, row, min(d + 2, DIM_V - 1) * v_step(args)),
                                       load_v(t->v, row, min(d + 3, DIM_V - 1) * v_step(args)));
            nonfinite[n] = 0;
            lost[n] = v4 - finite_or_0(v4, &nonfinite[n]);
            any |= nonfinite[n];
        }
        if (!any)
            continue;
#pragma unroll
        for (int r = 0; r < THREAD_M; r++) {
            const long i = block->i0 + ROW(r);
            sees[r] = visible(args, block->e, first_key(args, block->e, i),
                              end_key(args, block->e, i), block->b, block->h, i, j);
            factor[r] = sees[r] ? dropout_factor(args, block->b, block->h, i, j) : 0.0f;
        }
#pragma unroll
        for (int r = 0; r < THREAD_M; r++)
#pragma unroll
            for (int n = 0; n < MAX_DIMS4; n++)
                if (sees[r] && nonfinite[n])
                    out[r][n] += lost[n] * factor[r];
    }
}

/* ---- store ----------------------------------------------------------------------------------- */

/* Stores o and lse of the thread's rows, from the threads' sums of weights. */
INLINE void store_rows(const struct arguments *args, const struct task *t, const struct shared *l,
                       const __local int *row_sees, float4 out[THREAD_M][MAX_DIMS4])
{
    const struct query_block *block = &t->block;
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;

#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
        const long i = block->i0 + ROW(r);
        bool sees_any = first_key(args, block->e, i) < end_key(args, block->e, i);
        float total = 0.0f;

        if (TRACKS_SEEN)
            sees_any = sees_any && row_sees[ROW(r)];
        for (int n = 0; n < THREADS_N; n++)
            total += partial_of(l->tiles + PARTIAL_AT, n, ROW(r));
        const struct row_end ended =
            finish_row(args, block->h, sees_any, l->row_max[ROW(r)], total);
        if (i >= args->shape->seq_q)
            continue;
        __global o_storage *const o_row =
            args->o + row_offset(args->shape->o_stride, block->b, block->h, i);
#pragma unroll
        for (int n = 0; n < MAX_DIMS4; n++)
            store4(ended.zero ? 0.0f : out[r][n] * ended.factor, o_row, o_step(args),
                   4 * (thread_n + THREADS_N * n), DIM_V, WIDTH(UNIT_O, DIM_V));
        if (thread_n == 0)
            store_lse(args, ended, block->bh, block->h, i);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
fused_gpu_item(PARAMETERS_fused_gpu_item)
{
    struct arguments arguments = ARGUMENTS_fused_gpu_item;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / query_blocks(&arguments) / arguments.shape->heads);
    __local float4 tiles[LOCAL_FLOAT4S];
    __local int v_nonfinite;
    __local float4 row_max[BLOCK_M / 4], rescale[BLOCK_M / 4];
    DECLARE_KEPT(KEPT_BYTES);
#if TRACKS_SEEN
    __local int row_sees[ROW_FLAGS];
#else
    __local int *const row_sees = 0;
#endif
#if LISTS_ROWS
    __local long k_places[LISTED_ROWS], v_places[LISTED_ROWS];
#else
    __local long *const k_places = 0, *const v_places = 0;
#endif
    const struct query_block block = find_query_block(args);
    const struct shared l = {
        tiles, (__local float *)row_max, (__local float *)rescale, k_places, v_places, &v_nonfinite,
    };
    const struct task t = find_task(args, block);
    const int thread_n = THIS_THREAD % THREADS_N, thread_m = THIS_THREAD / THREADS_N;
    float4 out[THREAD_M][MAX_DIMS4];
    float row_sum[THREAD_M]; /* the running sum of weights of this thread's keys only */
    uint seen = 0;           /* bit r: some key is visible to row r */
    int stage = 0;           /* the index of the stage that is read next */

    /* load */
    clear_sums(out);
#pragma unroll
    for (int r = 0; r < THREAD_M; r++)
        row_sum[r] = 0.0f;
    for (int row = get_local_id(0); row < BLOCK_M; row += THREADS) {
        l.row_max[row] = -INFINITY;
#if TRACKS_SEEN
        row_sees[row] = 0;
#endif
    }
    if (get_local_id(0) == 0)
        v_nonfinite = 0;
    struct keys next = find_keys(args, block, block.begin);
    if (next.j0 < block.end)
        stage_first(args, &t, &l, &next);
    LOCAL_BARRIER();

    while (next.j0 < block.end) {
        const struct keys keys = next;
        float s[THREAD_M][THREAD_N], highest[THREAD_M];
        next = find_keys(args, block, after_keys(keys));

        /* scores */
#if LISTS_ROWS
        list_tile_rows(args, &t, &l, &keys);
#endif
        if (!SHARE_KV) /* this is early, so that it arrives during the first product */
            stage_values(args, &t, &l, &keys, stage, 0);
        multiply_qk(args, &t, &l, &keys, &stage, s);
        const struct score_tile tile = score_tile_of(args, block, keys);
#pragma unroll
        for (int r = 0; r < THREAD_M; r++) {
            highest[r] = -INFINITY;
#pragma unroll
            for (int c = 0; c < THREAD_N; c++) {
                s[r][c] = finish_score(args, tile, keys.partial, ROW(r), thread_n + THREADS_N * c,
                                       s[r][c], r, &seen);
                highest[r] = fmax(highest[r], s[r][c]);
            }
        }

        /* softmax */
        store_partial(highest, tiles + PARTIAL_AT);
#if HAS_DROPOUT
        draw_kept(args, dropout_head(args, block.b, block.h), block.i0, keys.j0, kept);
#endif
        LOCAL_BARRIER(); /* the maxima are complete; nobody reads q and k any more */
        update_row_max(&l);
        LOCAL_BARRIER(); /* the rows' state is complete */
        weigh(args, &l, s, row_sum, out, kept);

        /* values */
        multiply_pv(args, &t, &l, &keys, &next, &stage, s, out);
    }

    /* v_nonfinite is final: a barrier follows its last update. Only non-finite values count
     * here. */
    if (v_nonfinite)
        add_nonfinite_to_sums(args, &t, out);

    /* store */
    store_partial(row_sum, tiles + PARTIAL_AT);
#if TRACKS_SEEN
#pragma unroll
    for (int r = 0; r < THREAD_M; r++)
        if (seen >> r & 1u)
            atomic_or(&row_sees[ROW(r)], 1);
#endif
    LOCAL_BARRIER(); /* the sums are complete */
    store_rows(args, &t, &l, row_sees, out);
}
