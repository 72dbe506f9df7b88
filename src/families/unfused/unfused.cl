/* SPDX-License-Identifier: Apache-2.0 */
/* unfused: attention as three kernels, with the scores in memory between them.
 *
 *   scores   s = q k^T, finished: scale, softcap, bias, ALiBi, masks        (batch, heads, i, j)
 *   softmax  p = exp(s - maximum) / sum, in the place of s                  row by row
 *   values   o = p v, with p after dropout
 *
 * Scores    Packed f32 in the workspace, or in the caller's buffer if that is to receive p.
 *           `scores` may leave keys outside [first_key, end_key) of a query unwritten there:
 *           `softmax` reads none of them and writes 0.
 * Products  A group computes BLOCK_M rows x BLOCK_N columns, BLOCK_K steps of the summed dimension at
 *           a time from local memory; a thread owns THREAD_M x THREAD_N of them in registers.
 * NDRange   One-dimensional groups, numbered with the column tiles fastest: no limit but the
 *           first dimension's matters. Local: THREADS_N * THREADS_M; softmax SOFTMAX_THREADS.
 * Pages     A key that no page holds is staged as zeros; its score is that of a masked pair.
 * Ragged    Elements outside a matrix, or at keys that no query of a tile sees, are staged as 0
 *           and never read: local memory is always defined. Stores are guarded.
 * Barriers  Every thread reaches every barrier; nothing relies on sub-group lockstep.
 * Tunables  src/families/unfused/unfused.def, all defined by the host; no fallbacks here. */
#include "score/stored_scores.h"
#include "score/score.h"
#include "gpu/local_barrier.h"
#include "common/key_rows.h"
#include "common/quantized.h"

#if !defined(THREADS_N) || !defined(THREADS_M) || !defined(THREAD_N) || !defined(THREAD_M) ||      \
    !defined(VECTOR_WIDTH) || !defined(BLOCK_K) || !defined(SWEEPS) || !defined(SOFTMAX_THREADS)
#error "unfused.cl must be built with all of its tunables defined"
#endif

#define RANDOM_LANES 4
#include "common/philox_lanes.h"
#include "common/dropout.h"

#include "families/unfused/unfused_sizes.h"
#define VECTORS (THREAD_N / VECTOR_WIDTH) /* a thread's vectors in a row */

#if VECTOR_WIDTH == 4
typedef float4 row_lanes;
#define LANES_LOAD(p) vload4(0, p)
#define LANES_STORE(x, p) vstore4(x, 0, p)
#elif VECTOR_WIDTH == 8
typedef float8 row_lanes;
#define LANES_LOAD(p) vload8(0, p)
#define LANES_STORE(x, p) vstore8(x, 0, p)
#elif VECTOR_WIDTH == 16
typedef float16 row_lanes;
#define LANES_LOAD(p) vload16(0, p)
#define LANES_STORE(x, p) vstore16(x, 0, p)
#else
#error "VECTOR_WIDTH must be 4, 8 or 16"
#endif

/* The address of the scores between the kernels; the workspace is null if it is not needed. */
#if SCORES == SCORES_WEIGHTS
#define PLACE (args->scores)
#else
#define PLACE (args->workspace)
#endif
/* Is 1 if the scores of masked pairs are output too. */
#define EVERY_PAIR (SCORES == SCORES_RAW || SCORES == SCORES_SOFTCAP)

/* ---- moving data -------------------------------------------------------------------------- */

/* Loads elements d .. d + 3 of a row, step apart; `left` of them exist (it may be negative), the
 * others are 0. cache and dtype (constants) give the storage of the row. */
static inline float4 load_row4(const int cache, const int dtype, const __global void *row,
                               const long d, const long step, const long left)
{
    if (cache)
        return left > 0 ? quantized4(cache, row, d) : 0.0f;
    const __global void *p = place_of(dtype, row, d * step);
    if (step == 1 && left >= 4)
        return vload4_of(dtype, p);
    return (float4)(left > 0 ? load1_of(dtype, p, 0) : 0.0f,
                    left > 1 ? load1_of(dtype, p, step) : 0.0f,
                    left > 2 ? load1_of(dtype, p, 2 * step) : 0.0f,
                    left > 3 ? load1_of(dtype, p, 3 * step) : 0.0f);
}

static inline float4 load_float(const __global float *p, const long left)
{
    if (left >= 4)
        return vload4(0, p);
    return (float4)(left > 0 ? p[0] : 0.0f, left > 1 ? p[1] : 0.0f, left > 2 ? p[2] : 0.0f, 0.0f);
}

/* Writes the transpose of rows r0..r3, four steps of the summed dimension each, to column group
 * `column` of a tile of `width` float4 per step. */
static inline void store_transposed(__local float4 *tile, const int width, const int depth,
                                    const int column, const float4 r0, const float4 r1,
                                    const float4 r2, const float4 r3)
{
    tile[(depth + 0) * width + column] = (float4)(r0.x, r1.x, r2.x, r3.x);
    tile[(depth + 1) * width + column] = (float4)(r0.y, r1.y, r2.y, r3.y);
    tile[(depth + 2) * width + column] = (float4)(r0.z, r1.z, r2.z, r3.z);
    tile[(depth + 3) * width + column] = (float4)(r0.w, r1.w, r2.w, r3.w);
}

/* Stages tile[d][r] = row r, element first + d, of `rows` rows of dim elements; cache as above.
 * places: 0, or the offset of each row from p, negative if it does not exist. */
static inline void stage_storage(__local float4 *tile, const int size, const int cache,
                                 const int dtype, const __global void *p, const long stride,
                                 const __local long *places, const long step, const long rows,
                                 const long first, const long dim)
{
    for (int n = get_local_id(0); n < size / 4 * (BLOCK_K / 4); n += THREADS) {
        const int r = n / (BLOCK_K / 4) * 4, d = n % (BLOCK_K / 4) * 4;
        const long at = first + d, left = dim - at;
        float4 x[4];

        for (int c = 0; c < 4; c++) {
            const long place = places ? places[r + c] : (r + c) * stride;
            x[c] = load_row4(cache, dtype, element_at(cache, dtype, p, place), at, step,
                             r + c < rows && place >= 0 ? left : 0);
        }
        store_transposed(tile, size / 4, d, r / 4, x[0], x[1], x[2], x[3]);
    }
}

/* Stages weights of BLOCK_M queries from i0 on and BLOCK_K keys from j0 on, after dropout of head
 * bh; `keys` keys exist, and j0 is then a multiple of 4. p points at the first weight. */
INLINE void stage_weights(__local float4 *tile, const struct arguments *args,
                          const __global float *p, const uint bh, const long i0, const long j0,
                          const long keys)
{
    const long rows = args->shape->seq_q - i0, stride = args->shape->seq_kv;

    for (int n = get_local_id(0); n < BLOCK_M / 4 * (BLOCK_K / 4); n += THREADS) {
        const int r = n / (BLOCK_K / 4) * 4, d = n % (BLOCK_K / 4) * 4;
        const __global float *row = p + r * stride + d;

        store_transposed(tile, BLOCK_M / 4, d, r / 4, load_float(row, r + 0 < rows ? keys - d : 0),
                         load_float(row + stride, r + 1 < rows ? keys - d : 0),
                         load_float(row + 2 * stride, r + 2 < rows ? keys - d : 0),
                         load_float(row + 3 * stride, r + 3 < rows ? keys - d : 0));
#if HAS_DROPOUT
        float4 x[4]; /* x[c]: the dropout factors of key j0 + d + c for four queries */
        dropout_factors(args, bh, (uint)(i0 + r) + (uint4)(0, 1, 2, 3), (uint4)(uint)((j0 + d) / 4),
                        x);
#pragma unroll
        for (int c = 0; c < 4; c++)
            tile[(d + c) * (BLOCK_M / 4) + r / 4] *= x[c];
#endif
    }
}

/* The weight after dropout. */
INLINE float weight_after_dropout(const struct arguments *args, const float p, const uint bh,
                                  const long i, const long j)
{
#if HAS_DROPOUT
    float4 x[4];
    dropout_factors(args, bh, (uint4)(uint)i, (uint4)(uint)(j / 4), x);
    const int c = (int)(j % 4); /* an array with this index would go to memory */
    return p * (c < 2 ? (c == 0 ? x[0].x : x[1].x) : (c == 2 ? x[2].x : x[3].x));
#else
    return p;
#endif
}

/* Loads VECTOR_WIDTH floats; `left` (at least 1) exist, the others are set to `outside`. */
static inline row_lanes load_wide(const __global float *p, const long left, const float outside)
{
    float each[VECTOR_WIDTH];

    if (left >= VECTOR_WIDTH)
        return LANES_LOAD(p);
    for (int c = 0; c < VECTOR_WIDTH; c++)
        each[c] = c < left ? p[c] : outside;
    return LANES_LOAD(each);
}

static inline void store_wide(const row_lanes x, __global float *p, const long left)
{
    float each[VECTOR_WIDTH];

    if (left >= VECTOR_WIDTH) {
        LANES_STORE(x, p);
        return;
    }
    LANES_STORE(x, each);
    for (int c = 0; c < left; c++)
        p[c] = each[c];
}

/* ---- the product of two tiles ---------------------------------------------------------------- */

/* The first of the VECTOR_WIDTH columns that vector n of thread x holds. Neighbours in x are
 * neighbours in memory, so local memory is read without bank conflicts. */
static inline int column_of_stage(const int x, const int n)
{
    return (n * THREADS_N + x) * VECTOR_WIDTH;
}

/* sum[r][n] += over d: y_tile[d][row r of thread y] * x_tile[d][vector n of thread x]. */
static inline __attribute__((always_inline)) void
multiply_local_tiles(row_lanes sum[THREAD_M][VECTORS], const __local float *y_tile,
                     const __local row_lanes *x_tile, const int x, const int y)
{
    for (int d = 0; d < BLOCK_K; d++) {
        row_lanes right[VECTORS];

        for (int n = 0; n < VECTORS; n++)
            right[n] = x_tile[(d * BLOCK_N + column_of_stage(x, n)) / VECTOR_WIDTH];
        for (int r = 0; r < THREAD_M; r++) {
            const row_lanes left = y_tile[d * BLOCK_M + y * THREAD_M + r];

            for (int n = 0; n < VECTORS; n++)
                sum[r][n] = FMA(left, right[n], sum[r][n]);
        }
    }
}

/* ---- scores ------------------------------------------------------------------------------- */

/* Groups: tiles of BLOCK_N keys, then of SWEEPS * BLOCK_M queries, then batch * heads. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void scores(PARAMETERS_scores)
{
    const struct arguments arguments = ARGUMENTS_scores, *const args = &arguments;
    __local row_lanes k_tile[X_TILE_FLOATS / VECTOR_WIDTH]; /* [d][key] */
    __local float4 q_tile[Y_TILE_FLOATS / 4];               /* [d][query] */
#if PAGE_SIZE
    __local long places[BLOCK_N]; /* the keys' offsets in the pool; -1 for keys without a row */
#else
    const __local long *places = 0;
#endif
    const int x = THIS_THREAD % THREADS_N, y = THIS_THREAD / THREADS_N;
    const long key_tiles = max((args->shape->seq_kv + BLOCK_N - 1) / BLOCK_N, 1L);
    const long query_tiles = (args->shape->seq_q + SWEEPS * BLOCK_M - 1) / (SWEEPS * BLOCK_M);
    const long group = get_group_id(0), tile = group / key_tiles, bh = tile / query_tiles;
    const long j0 = (group - tile * key_tiles) * BLOCK_N;
    const long b = bh / args->shape->heads, h = bh - b * args->shape->heads;
    const struct extent e = extent_of(args, b);
    const long keys = EVERY_PAIR ? args->shape->seq_kv : e.keys;
    const __global k_storage *k_rows = k_place(
        args->k, head_offset(args->shape->k_stride, cache_batch(b), h / args->shape->group) +
                     (PAGE_SIZE ? 0 : j0 * args->shape->k_stride[2]));
    bool k_complete = false; /* k_tile holds all of the keys' elements */

#if PAGE_SIZE
    for (int n = get_local_id(0); n < BLOCK_N; n += THREADS)
        places[n] = j0 + n < keys && has_row(args, b, j0 + n)
                        ? key_row(args, b, j0 + n, args->shape->k_stride)
                        : -1;
    LOCAL_BARRIER_OF(THREADS); /* the places are complete */
#endif
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        const long i0 = ((tile - bh * query_tiles) * SWEEPS + sweep) * BLOCK_M;
        const long last = min(i0 + BLOCK_M, e.queries) - 1;
        const bool multiply = EVERY_PAIR || (i0 < e.queries && j0 < end_key(args, e, last) &&
                                             j0 + BLOCK_N > first_key(args, e, i0));
        const __global storage *q_rows = args->q + row_offset(args->shape->q_stride, b, h, i0);
        row_lanes sum[THREAD_M][VECTORS];

        if (i0 >= args->shape->seq_q)
            break;
#if SCORES == 0 || SCORES == SCORES_WEIGHTS
        if (!multiply)
            continue; /* nobody reads these scores */
#endif
        for (int r = 0; r < THREAD_M; r++)
            for (int n = 0; n < VECTORS; n++)
                sum[r][n] = 0.0f;
        for (int d0 = 0; d0 < DIM_QK && multiply; d0 += BLOCK_K) {
            LOCAL_BARRIER_OF(THREADS); /* both tiles may be overwritten */
            if (!k_complete)
                stage_storage((__local float4 *)k_tile, BLOCK_N, K_CACHE, K_DTYPE, k_rows,
                              args->shape->k_stride[2], places, k_step(args), keys - j0, d0,
                              DIM_QK);
            k_complete = DIM_QK <= BLOCK_K;
            stage_storage(q_tile, BLOCK_M, CACHE_PLAIN, DTYPE, q_rows, args->shape->q_stride[2], 0,
                          q_step(args), args->shape->seq_q - i0, d0, DIM_QK);
            LOCAL_BARRIER_OF(THREADS); /* both tiles are complete */
            multiply_local_tiles(sum, (const __local float *)q_tile, k_tile, x, y);
        }

        for (int r = 0; r < THREAD_M; r++) {
            const long i = i0 + y * THREAD_M + r;
            const long first = first_key(args, e, i), end = end_key(args, e, i);
            const long row = (bh * args->shape->seq_q + i) * args->shape->seq_kv;

            /* The loop's condition has all tests: PoCL 6.0 ends the process if the last
             * statement is a break (doc/design/drivers.md). */
            for (int n = 0; n < VECTORS && i < args->shape->seq_q &&
                            j0 + column_of_stage(x, n) < args->shape->seq_kv;
                 n++) {
                const long j = j0 + column_of_stage(x, n), left = args->shape->seq_kv - j;
                row_lanes s = score_scale(args, h) * sum[r][n];
                float each[VECTOR_WIDTH];

                if (HAS_K_SCALES) {
                    LANES_STORE(s, each);
                    for (int c = 0; c < VECTOR_WIDTH && j + c < keys; c++)
                        if (!PAGE_SIZE || places[column_of_stage(x, n) + c] >= 0)
                            each[c] *=
                                scale_of_row(k_scales_from(args, b, h / args->shape->group, j), c);
                    s = LANES_LOAD(each);
                }
#if SCORES == SCORES_RAW
                store_wide(s, args->scores + row + j, left);
#endif
                s = SOFTCAPPED(s);
#if SCORES == SCORES_SOFTCAP
                store_wide(s, args->scores + row + j, left);
#endif
                LANES_STORE(s, each);
                for (int c = 0; c < VECTOR_WIDTH; c++) {
                    each[c] = biased_score(args, e, first, end, b, h, i, j + c, each[c]);
                    if (PAGE_SIZE > 0 && places[column_of_stage(x, n) + c] < 0)
                        each[c] = -INFINITY;
                }
                s = LANES_LOAD(each);
#if SCORES == SCORES_BIAS
                store_wide(s, args->scores + row + j, left);
#endif
                store_wide(s, PLACE + row + j, left);
            }
        }
    }
}

/* ---- softmax ------------------------------------------------------------------------------ */

/* larger() of scores. */
static inline row_lanes larger_scores(const row_lanes x, const row_lanes y)
{
    return select(x, y, (y > x) | (y != y));
}

static inline float largest_score(const row_lanes x)
{
    float each[VECTOR_WIDTH], top = -INFINITY;

    LANES_STORE(x, each);
    for (int c = 0; c < VECTOR_WIDTH; c++)
        top = larger(top, each[c]);
    return top;
}

static inline float sum_of_lanes(const row_lanes x)
{
    float each[VECTOR_WIDTH], sum = 0.0f;

    LANES_STORE(x, each);
    for (int c = 0; c < VECTOR_WIDTH; c++)
        sum += each[c];
    return sum;
}

/* Zeroes row[begin..end), the group's threads taking turns. */
static inline void clear_scores(__global float *row, const long begin, const long end)
{
    for (long j = begin + get_local_id(0) * VECTOR_WIDTH; j < end;
         j += SOFTMAX_THREADS * VECTOR_WIDTH)
        store_wide(0.0f, row + j, end - j);
}

/* One group computes each row (b, h, i). A thread returns to the same elements in each pass, so
 * only `part`, which shares maximum and sum, needs barriers. */
__kernel __attribute__((reqd_work_group_size(SOFTMAX_THREADS, 1, 1))) void
softmax(PARAMETERS_softmax)
{
    const struct arguments arguments = ARGUMENTS_softmax, *const args = &arguments;
    __local float part[SOFTMAX_THREADS];
    const int x = get_local_id(0);
    const long n = get_group_id(0), bh = n / args->shape->seq_q;
    const long i = n - bh * args->shape->seq_q, b = bh / args->shape->heads;
    const struct extent e = extent_of(args, b);
    const long end = end_key(args, e, i), first = min(first_key(args, e, i), end);
    const long step = SOFTMAX_THREADS * VECTOR_WIDTH;
    __global float *row = PLACE + n * args->shape->seq_kv;
    row_lanes tops = -INFINITY, sums = 0.0f;

    for (long j = first + x * VECTOR_WIDTH; j < end; j += step)
        tops = larger_scores(tops, load_wide(row + j, end - j, -INFINITY));
    part[x] = largest_score(tops);
    for (int half_way = SOFTMAX_THREADS / 2; half_way > 0; half_way /= 2) {
        LOCAL_BARRIER_OF(SOFTMAX_THREADS); /* the values to be reduced are complete */
        if (x < half_way)
            part[x] = larger(part[x], part[x + half_way]);
    }
    LOCAL_BARRIER_OF(SOFTMAX_THREADS); /* part[0] is the maximum */
    float top = part[0];
    const bool sees_none = top == -INFINITY;
#if HAS_SINKS
    const float sink = args->sinks[bh - b * args->shape->heads];
    top = larger(top, sink);
#endif
    top = top == INFINITY ? NAN : top; /* inf - inf is NaN; p of a masked key stays 0 */
    LOCAL_BARRIER_OF(SOFTMAX_THREADS); /* part may be overwritten */

    for (long j = first + x * VECTOR_WIDTH; j < end && !sees_none; j += step) {
        const row_lanes s = load_wide(row + j, end - j, -INFINITY);
        const row_lanes p = select(exp(s - top), (row_lanes)0.0f, s == (row_lanes)-INFINITY);

        sums += p;
        store_wide(p, row + j, end - j);
    }
    part[x] = sum_of_lanes(sums);
    for (int half_way = SOFTMAX_THREADS / 2; half_way > 0; half_way /= 2) {
        LOCAL_BARRIER_OF(SOFTMAX_THREADS); /* the values to be reduced are complete */
        if (x < half_way)
            part[x] += part[x + half_way];
    }
    LOCAL_BARRIER_OF(SOFTMAX_THREADS); /* part[0] is the sum */
    float sum = part[0];
#if HAS_SINKS
    sum += exp(sink - top);
#endif

    for (long j = first + x * VECTOR_WIDTH; j < end && !sees_none; j += step) {
        const row_lanes p = load_wide(row + j, end - j, 0.0f);

        store_wide(select(p / sum, p, p == (row_lanes)0.0f), row + j, end - j);
    }
    clear_scores(row, 0, sees_none ? args->shape->seq_kv : first);
    clear_scores(row, end, sees_none ? 0 : args->shape->seq_kv);
#if HAS_LSE
    if (x == 0)
        args->lse[n] = sees_none ? -INFINITY : top + log(sum);
#endif
}

/* ---- values ------------------------------------------------------------------------------- */

/* Groups: tiles of BLOCK_N columns of v, then of BLOCK_M queries, then batch * heads. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void values(PARAMETERS_values)
{
    const struct arguments arguments = ARGUMENTS_values, *const args = &arguments;
    __local row_lanes v_tile[X_TILE_FLOATS / VECTOR_WIDTH]; /* [key][column] */
    __local float4 p_tile[Y_TILE_FLOATS / 4];               /* [key][query] */
    const int x = THIS_THREAD % THREADS_N, y = THIS_THREAD / THREADS_N;
    const long column_tiles = (DIM_V + BLOCK_N - 1) / BLOCK_N;
    const long query_tiles = (args->shape->seq_q + BLOCK_M - 1) / BLOCK_M;
    const long group = get_group_id(0), tile = group / column_tiles, bh = tile / query_tiles;
    const long c0 = (group - tile * column_tiles) * BLOCK_N;
    const long i0 = (tile - bh * query_tiles) * BLOCK_M;
    const long b = bh / args->shape->heads, h = bh - b * args->shape->heads;
    const struct extent e = extent_of(args, b);
    const long seen_from = first_key(args, e, i0); /* the first key that some query may see */
    const long begin = HAS_DROPOUT ? seen_from / 4 * 4 : seen_from; /* earlier weights are 0 */
    const long end = i0 < e.queries ? end_key(args, e, min(i0 + BLOCK_M, e.queries) - 1) : 0;
    const __global v_storage *v_rows = v_place(
        args->v, head_offset(args->shape->v_stride, cache_batch(b), h / args->shape->group));
    const __global float *p_rows = PLACE + (bh * args->shape->seq_q + i0) * args->shape->seq_kv;
    row_lanes sum[THREAD_M][VECTORS];

    for (int r = 0; r < THREAD_M; r++)
        for (int n = 0; n < VECTORS; n++)
            sum[r][n] = 0.0f;
    for (long j0 = begin; j0 < end; j0 += BLOCK_K) {
        LOCAL_BARRIER_OF(THREADS); /* both tiles may be overwritten */
        for (int n = get_local_id(0); n < BLOCK_K * (BLOCK_N / 4); n += THREADS) {
            const long j = j0 + n / (BLOCK_N / 4), c = c0 + n % (BLOCK_N / 4) * 4;

            const bool there = j < end && has_row(args, b, j);
            const long place = there ? key_row(args, b, j, args->shape->v_stride) : 0;

            ((__local float4 *)v_tile)[n] =
                load_row4(V_CACHE, V_DTYPE, element_at(V_CACHE, V_DTYPE, v_rows, place), c,
                          v_step(args), there ? DIM_V - c : 0) *
                (there ? scale_of_row(v_scales_from(args, b, h / args->shape->group, j), 0) : 1.0f);
        }
        stage_weights(p_tile, args, p_rows + j0, dropout_head(args, b, h), i0, j0, end - j0);
        LOCAL_BARRIER_OF(THREADS); /* both tiles are complete */
        multiply_local_tiles(sum, (const __local float *)p_tile, v_tile, x, y);
    }

    __global o_storage *const o_head = args->o + head_offset(args->shape->o_stride, b, h);
    bool some_nan = false;
#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
        const long i = i0 + y * THREAD_M + r;

#pragma unroll
        for (int n = 0; n < VECTORS; n++) {
            float each[VECTOR_WIDTH];

            LANES_STORE(sum[r][n], each);
#pragma unroll
            for (int m = 0; m < VECTOR_WIDTH; m++) {
                const long c = c0 + column_of_stage(x, n) + m;

                if (i < args->shape->seq_q && c < DIM_V) {
                    store1_of(O_DTYPE, each[m], o_head,
                              i * args->shape->o_stride[2] + c * o_step(args));
                    some_nan |= each[m] != each[m];
                }
            }
        }
    }
    /* Results that may be 0 * NaN of a masked key are computed without it. This is apart from the
     * loop above: there the sums have constant indices and stay in registers. */
    for (int n = 0; some_nan && n < THREAD_M * THREAD_N; n++) {
        const long i = i0 + y * THREAD_M + n / THREAD_N;
        const long c =
            c0 + column_of_stage(x, n % THREAD_N / VECTOR_WIDTH) + n % THREAD_N % VECTOR_WIDTH;
        const long place = i * args->shape->o_stride[2] + c * o_step(args);
        const bool there = i < args->shape->seq_q && c < DIM_V;
        const long first = first_key(args, e, i), last = end_key(args, e, i);
        float result = there ? load1_of(O_DTYPE, o_head, place) : 0.0f;

        if (result == result)
            continue;
        result = 0.0f;
        for (long j = first; j < last; j++)
            if (has_row(args, b, j) && visible(args, e, first, last, b, h, i, j))
                result = FMA(
                    weight_after_dropout(args, p_rows[(i - i0) * args->shape->seq_kv + j],
                                         dropout_head(args, b, h), i, j),
                    load_v(v_rows, key_row(args, b, j, args->shape->v_stride), c * v_step(args)) *
                        scale_of_row(v_scales_from(args, b, h / args->shape->group, j), 0),
                    result);
        store1_of(O_DTYPE, result, o_head, place);
    }
}
