/* SPDX-License-Identifier: Apache-2.0 */
/* unfused_lanes: attention as three kernels for CPUs, with the score matrix in memory between them.
 * The matrix between them, and the elements that each leaves unwritten, are as in unfused.cl.
 *
 *   scores   S = Q K^T, finished               BLOCK_M queries and BLOCK_N keys of one head
 *   softmax  P = exp(S - row_max) / row_sum    SOFTMAX_ROWS rows, in the place of S
 *   values   O = P V, after dropout            BLOCK_M queries of one head, BLOCK_N keys at a time
 *
 * NDRange    local (1, 1, 1) always; global: work-groups as above along keys, queries, batch *
 *            heads.
 * SIMD lanes are keys in the first product and columns of v in the second. Both products are
 *            register-blocked (cl/cpu/gemm.h), with strips of q and P, and panels of k and v that
 *            are packed once for all queries of a work-group.
 * Ragged     Queries beyond the last are not computed. Keys beyond the last that matters repeat it,
 *            columns beyond the last are 0; neither is stored.
 * Masked     The product of a weight of 0 and a value that is not finite is NaN. So an output that
 *            is NaN is computed again from the query's visible keys alone.
 * Blocks     In tiles without a listed pair scores are -INFINITY without products, and weights
 *            are not multiplied. The lists' bits are in the workspace, behind the scores if they are there.
 * Pages      A key that no page holds counts as zeros; its score is that of a masked pair.
 * Prefetch   While the exponentials of a row are computed, the next row's scores are fetched.
 * Tunables   src/families/unfused_lanes/unfused_lanes.def, all defined by the host; no fallbacks
 *            here. */
#define UNIT UNIT_VECTOR
#include "families/units.h"
#include "common/common.h"

#if !defined(SIMD_WIDTH) || !defined(REGISTER_VECTORS) || !defined(REGISTER_ROWS) ||               \
    !defined(BLOCK_N) || !defined(BLOCK_M) || !defined(SOFTMAX_ROWS)
#error "unfused_lanes.cl must be built with all of its tunables defined"
#endif

#define IN_PLACE (DTYPE == DTYPE_F32 && UNIT_Q && !HAS_DROPOUT)
#define STRIP_DEPTH 1
#include "families/unfused_lanes/unfused_lanes_sizes.h"
#include "cpu/gemm.h"
#define NATURAL_SCORES
#include "score/stored_scores.h"
#include "score/key_lanes.h"
#include "cpu/prefetch.h"
#include "common/key_rows.h"
#include "common/quantized.h"
#include "score/score.h"
#include "common/philox_lanes.h"
#include "common/dropout.h"

#define V_REST (V_VECTORS - (V_PANELS - 1) * REGISTER_VECTORS) /* vectors in the last panel */
#define HAS_RANGE (HAS_WINDOW || HAS_Q_LENGTHS || HAS_KV_LENGTHS || HAS_BLOCKS || HAS_MASK_KEYS)

/* The score matrix between the kernels: the output if weights are requested, which overwrite it,
 * else the workspace, which is null if it is not needed. */
#if SCORES == SCORES_WEIGHTS
#define SCORE_MATRIX (args->scores)
#else
#define SCORE_MATRIX (args->workspace)
#endif

/* The bits of block lists follow the scores in the workspace. */
INLINE long marks_begin(const struct arguments *args)
{
    return SCORES == SCORES_WEIGHTS
               ? 0
               : args->shape->batch * args->shape->heads * args->shape->seq_q * args->shape->seq_kv;
}

#include "score/mark_blocks.h"
#if HAS_BLOCKS
#define BITS_OF(b, h) block_bits_of(args, args->workspace + marks_begin(args), b, h)
#define LISTS_NONE(b, h, i, queries, j, end) (!lists_some(BITS_OF(b, h), i, queries, j, end))
#else
#define LISTS_NONE(b, h, i, queries, j, end) ((bool)false)
#endif
/* Is 1 if the scores of masked pairs are output too. */
#define EVERY_PAIR (SCORES == SCORES_RAW || SCORES == SCORES_SOFTCAP)

/* ---- load and store ------------------------------------------------------------------------- */

/* Loads at most SIMD_WIDTH floats; `left` (at least 1) exist, the others are set to `outside`. */
INLINE lanes load_floats(const __global float *p, const long left, const float outside)
{
    float x[SIMD_WIDTH];

    if (left >= SIMD_WIDTH)
        return VECTOR(vload)(0, p);
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = c < left ? p[c] : outside;
    return VECTOR(vload)(0, x);
}

INLINE void store_floats(const lanes x, __global float *p, const long left)
{
    float y[SIMD_WIDTH];

    if (left >= SIMD_WIDTH) {
        VECTOR(vstore)(x, 0, p);
        return;
    }
    VECTOR(vstore)(x, 0, y);
    for (int c = 0; c < left; c++)
        p[c] = y[c];
}

/* Loads values d .. of a row of k or v, at most SIMD_WIDTH and `left`; zeros after them. */
INLINE lanes load_quantized(const int cache, const __global uchar *row, const int d, const int left)
{
    float x[SIMD_WIDTH];

    for (int c = 0; c < SIMD_WIDTH; c += 4)
        vstore4(c < left ? quantized4(cache, row, d + c) : (float4)(0.0f), 0, x + c);
    return VECTOR(vload)(0, x);
}

/* The offset of key j of batch b; negative if no page holds it. */
#define PLACE_OF_KEY(b, j, stride) (has_row(args, b, j) ? key_row(args, b, j, stride) : -1L)

INLINE lanes load_row_of_keys(const struct arguments *args, const __global k_storage *k,
                              const long place, const int d, const float scale)
{
    const __global k_storage *row = k_place(k, place);

    if (PAGE_SIZE && place < 0)
        return 0.0f;
#if K_CACHE
    return load_quantized(K_CACHE, row, d, DIM_QK - d) * scale;
#else
    return load_row_of(K_DTYPE, row + d * k_step(args), k_step(args), DIM_QK - d);
#endif
}

INLINE lanes load_row_of_values(const struct arguments *args, const __global v_storage *v,
                                const long place, const int d, const float scale)
{
    const __global v_storage *row = v_place(v, place);

    if (PAGE_SIZE && place < 0)
        return 0.0f;
#if V_CACHE
    return load_quantized(V_CACHE, row, d, DIM_V - d) * scale;
#else
    return load_row_of(V_DTYPE, row + d * v_step(args), v_step(args), DIM_V - d);
#endif
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Packs count keys as panels, at most BLOCK_N; the last key repeats in the last panel. */
NOINLINE void pack_keys(const struct arguments *restrict args, const long b, const long kv_head,
                        const __global k_storage *k, const long first, const int count,
                        lanes *panels)
{
    for (int n = 0; n < (count + PANEL - 1) / PANEL * PANEL; n += SIMD_WIDTH) {
        lanes *panel = panels + n / PANEL * DIM_QK * REGISTER_VECTORS + n % PANEL / SIMD_WIDTH;
        long places[SIMD_WIDTH];
        float scales[SIMD_WIDTH];

        for (int c = 0; c < SIMD_WIDTH; c++) {
            const long j = first + min(n + c, count - 1);
            places[c] = PLACE_OF_KEY(b, j, args->shape->k_stride);
            scales[c] =
                has_row(args, b, j) ? scale_of_row(k_scales_from(args, b, kv_head, j), 0) : 1.0f;
        }
        for (int d = 0; d < DIM_QK; d += SIMD_WIDTH) {
            lanes x[SIMD_WIDTH];
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                x[c] = load_row_of_keys(args, k, places[c], d, scales[c]);
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                if (c < DIM_QK - d)
                    panel[(d + c) * REGISTER_VECTORS] = x[c];
        }
    }
}

#if PAGE_SIZE
/* Lanes of -1 for keys from j of batch b on that no page holds; `left` of the keys exist. */
INLINE ints keys_in_no_page(const struct arguments *args, const long b, const long j,
                            const long left)
{
    int nowhere[SIMD_WIDTH];

    for (int c = 0; c < SIMD_WIDTH; c++)
        nowhere[c] = c < left && !has_row(args, b, j + c) ? -1 : 0;
    return VECTOR(vload)(0, nowhere);
}
#endif

/* Turns products of the row's query and keys n .. into scores. Stores these and, where the caller
 * wants them, those of an earlier step. */
INLINE void store_scores(const struct arguments *args, const struct score_row row, const int n,
                         const lanes products)
{
    const long left = args->shape->seq_kv - row.j - n;
    const long first =
        ((row.b * args->shape->heads + row.h) * args->shape->seq_q + row.i) * args->shape->seq_kv +
        row.j + n;
    const lanes scaled = products * score_scale(args, row.h);
    struct score_vector s =
        finish_scores(HAS_RANGE, args, row, n, (int)min(left, (long)SIMD_WIDTH), scaled);

#if PAGE_SIZE
    s.hidden |= keys_in_no_page(args, row.b, row.j + n, left);
#endif

#if SCORES == SCORES_RAW
    store_floats(scaled, args->scores + first, left);
#elif SCORES == SCORES_SOFTCAP
    store_floats(s.softcapped, args->scores + first, left);
#elif SCORES == SCORES_BIAS
    store_floats(visible_scores(s), args->scores + first, left);
#endif
    store_floats(visible_scores(s), SCORE_MATRIX + first, left);
}

/* Multiplies a strip of queries by a panel of keys. */
NOINLINE void multiply_score_panel(const int rows, const strip_rows strip, const lanes *panel,
                                   const struct runs *runs, lanes *products)
{
    multiply_strip(rows, REGISTER_VECTORS, true, strip, panel, runs, products);
}

#if IN_PLACE
typedef const __global float *query_strip[REGISTER_ROWS];
#else
typedef float query_strip[STRIP_FLOATS];
#endif

INLINE void load_strip(const struct arguments *args, const __global storage *q, const int rows,
                       query_strip strip)
{
    for (int r = 0; r < rows; r++) {
#if IN_PLACE
        strip[r] = q + r * args->shape->q_stride[2];
#else
        for (int d = 0; d < DIM_QK; d += SIMD_WIDTH)
            VECTOR(vstore)
        (load_row(q + r * args->shape->q_stride[2] + d * q_step(args), q_step(args), DIM_QK - d), 0,
         strip + r * STRIP_ROW + d);
#endif
    }
}

/* Stores -INFINITY for `rows` queries from i on and `vectors` vectors of keys from j on. */
INLINE void store_hidden(const struct arguments *args, const long bh, const long i, const int rows,
                         const long j, const int vectors, __global float *to)
{
    for (int n = 0; n < rows * vectors; n++) {
        const long key = j + n % vectors * SIMD_WIDTH;
        store_floats((lanes)(-INFINITY),
                     to + (bh * args->shape->seq_q + i + n / vectors) * args->shape->seq_kv + key,
                     args->shape->seq_kv - key);
    }
}

NOINLINE void compute_scores(const struct arguments *restrict args, const struct extent e,
                             const long bh, const long j0, const long i0)
{
    lanes panels[K_PANEL_VECTORS], products[REGISTER_ROWS * REGISTER_VECTORS];
    query_strip strip;
    const struct runs runs = {DIM_QK, DIM_QK, DIM_QK, 0};
    const long b = bh / args->shape->heads, h = bh - b * args->shape->heads;
    const long j_end = min(j0 + BLOCK_N, args->shape->seq_kv),
               i_end = min(i0 + BLOCK_M, args->shape->seq_q);
    const int keys = min(j_end, EVERY_PAIR ? args->shape->seq_kv : e.keys) - j0;

    const __global storage *q = args->q + head_offset(args->shape->q_stride, b, h);
    if (keys > 0)
        pack_keys(args, b, h / args->shape->group,
                  k_place(args->k, head_offset(args->shape->k_stride, cache_batch(b),
                                               h / args->shape->group)),
                  j0, keys, panels);
    for (long i = i0; i < i_end; i += REGISTER_ROWS) {
        const int rows = min((long)REGISTER_ROWS, i_end - i);
        const long last = min(i + rows, e.queries) - 1;
        const long begin = EVERY_PAIR ? 0 : first_key(args, e, i);
        const long end = EVERY_PAIR ? args->shape->seq_kv : last >= i ? end_key(args, e, last) : 0;
        load_strip(args, q + i * args->shape->q_stride[2], rows, strip);
        for (long j = j0; j < j_end; j += PANEL) {
            const lanes *panel = panels + (j - j0) / SIMD_WIDTH * DIM_QK;
            const int vectors =
                min((long)REGISTER_VECTORS, (j_end - j + SIMD_WIDTH - 1) / SIMD_WIDTH);
            if (j >= end || j + PANEL <= begin) {
#if SCORES == SCORES_BIAS
                store_hidden(args, bh, i, rows, j, vectors, args->scores);
#endif
                continue;
            }
            if (!EVERY_PAIR && LISTS_NONE(b, h, i, rows, j, min(j + PANEL, j_end))) {
                store_hidden(args, bh, i, rows, j, vectors, SCORE_MATRIX);
#if SCORES == SCORES_BIAS
                store_hidden(args, bh, i, rows, j, vectors, args->scores);
#endif
                continue;
            }
            multiply_score_panel(rows, strip, panel, &runs, products);
            for (int r = 0; r < rows; r++) {
                struct score_row row = score_row_at(args, e, b, h, i + r, j, PANEL);
#if HAS_BLOCKS
                row.bits = BITS_OF(b, h);
#endif
                for (int m = 0; m < vectors; m++)
                    store_scores(args, row, m * SIMD_WIDTH, products[r * REGISTER_VECTORS + m]);
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void scores(PARAMETERS_scores)
{
    const struct arguments arguments = ARGUMENTS_scores, *const args = &arguments;
    const long j0 = get_global_id(0) * BLOCK_N, i0 = get_global_id(1) * BLOCK_M;
    const long bh = get_global_id(2);
    const struct extent e = extent_of(args, bh / args->shape->heads);

    compute_scores(args, e, bh, j0, i0);
}

/* ---- softmax -------------------------------------------------------------------------------- */

/* larger() of lanes. */
INLINE lanes larger_lanes(const lanes x, const lanes y)
{
    return (y > x | y != y) ? y : x;
}

INLINE float largest_lane(const lanes x)
{
    float each[SIMD_WIDTH], most = -INFINITY;

    VECTOR(vstore)(x, 0, each);
    for (int c = 0; c < SIMD_WIDTH; c++)
        most = larger(most, each[c]);
    return most;
}

INLINE void clear(__global float *row, const long begin, const long end)
{
    for (long j = begin; j < end; j += SIMD_WIDTH)
        store_floats(0.0f, row + j, end - j);
}

/* Turns scores first .. end - 1 into exp(score - row_max), and returns their sum. next: the next
 * row, to be prefetched. */
INLINE float exponentials_of_scores(__global float *row, const long first, const long end,
                                    const float row_max, const __global float *next)
{
    lanes sums = 0.0f;

    for (long j = first; j < end; j += SIMD_WIDTH) {
        const lanes s = load_floats(row + j, end - j, -INFINITY);
        prefetch_l1(next + j);
        const lanes p = exponential(s - row_max);
        const lanes weights = s == -INFINITY ? (lanes)(0.0f) : p;
        sums += weights;
        store_floats(weights, row + j, end - j);
    }
    return sum_lanes(sums);
}

NOINLINE void softmax_of_matrix(const struct arguments *restrict args, const long from)
{
    const long all_rows = args->shape->batch * args->shape->heads * args->shape->seq_q;

    for (long n = from; n < min(from + SOFTMAX_ROWS, all_rows); n++) {
        const long bh = n / args->shape->seq_q, i = n - bh * args->shape->seq_q,
                   b = bh / args->shape->heads;
        const struct extent e = extent_of(args, b);
        const long end = end_key(args, e, i), first = min(first_key(args, e, i), end);
        __global float *row = SCORE_MATRIX + n * args->shape->seq_kv;
        lanes maxima = -INFINITY;
        float row_sum = 0.0f;

        for (long j = first; j < end; j += SIMD_WIDTH)
            maxima = larger_lanes(maxima, load_floats(row + j, end - j, -INFINITY));
        float row_max = largest_lane(maxima);
        const bool sees_none = row_max == -INFINITY;
#if HAS_SINKS
        const float sink = args->sinks[bh - b * args->shape->heads];
        row_max = larger(row_max, sink);
#endif
        row_max = row_max == INFINITY ? NAN : row_max; /* inf - inf is NaN; masked keys weigh 0 */
        if (!sees_none)
            row_sum = exponentials_of_scores(row, first, end, row_max,
                                             n + 1 < all_rows ? row + args->shape->seq_kv : row);
#if HAS_SINKS
        row_sum += exp(sink - row_max);
#endif
        const lanes factor = 1.0f / row_sum;
        for (long j = first; j < end && !sees_none; j += SIMD_WIDTH) {
            const lanes p = load_floats(row + j, end - j, 0.0f);
            store_floats(p == 0.0f ? p : p * factor, row + j, end - j);
        }
        clear(row, 0, sees_none ? args->shape->seq_kv : first);
        clear(row, end, sees_none ? 0 : args->shape->seq_kv);
#if HAS_LSE
        args->lse[n] = sees_none ? -INFINITY : row_max + log(row_sum);
#endif
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void softmax(PARAMETERS_softmax)
{
    const struct arguments arguments = ARGUMENTS_softmax, *const args = &arguments;
    const long from = get_global_id(0) * SOFTMAX_ROWS;

    softmax_of_matrix(args, from);
}

/* ---- values --------------------------------------------------------------------------------- */

/* The accumulators of a strip: V_PANELS register tiles. */
#define REGISTER_TILE (REGISTER_ROWS * REGISTER_VECTORS)

/* Packs the values of count keys, at most BLOCK_N, as panels. */
NOINLINE void pack_values(const struct arguments *restrict args, const long b, const long kv_head,
                          const __global v_storage *v, const long first, const int count,
                          lanes *panels)
{
    for (int n = 0; n < count; n++) {
        const long place = PLACE_OF_KEY(b, first + n, args->shape->v_stride);
        const float scale = has_row(args, b, first + n)
                                ? scale_of_row(v_scales_from(args, b, kv_head, first), n)
                                : 1.0f;

        for (int c = 0; c < V_VECTORS; c++)
            panels[(c / REGISTER_VECTORS * BLOCK_N + n) * REGISTER_VECTORS + c % REGISTER_VECTORS] =
                load_row_of_values(args, v, place, c * SIMD_WIDTH, scale);
    }
}

#if IN_PLACE
typedef const __global float *weight_strip[REGISTER_ROWS];
#else
typedef float weight_strip[STRIP_FLOATS];
#endif

#if HAS_DROPOUT
/* Applies dropout to one query's weights of count keys from j on; j is a multiple of 4. */
INLINE void drop_row_weights(const struct arguments *args, const uint bh, const long i,
                             const long j, const int count, float *weights)
{
    /* Each counter has the random words of four keys. The counters are chosen such that after a
     * transpose of each four lanes the words are in the order of the keys. */
    const words lane = VECTOR(convert_uint)(COUNT_UP);

    for (int n = 0; n < count; n += 4 * SIMD_WIDTH) {
        lanes x[4];
        dropout_factors(args, bh, (words)(uint)i,
                        (uint)((j + n) / 4) + (lane & 3u) * (SIMD_WIDTH / 4) + (lane >> 2), x);
        transpose_fours(x);
        for (int c = 0; c < 4 && n + c * SIMD_WIDTH < count; c++) {
            float *to = weights + n + c * SIMD_WIDTH;
            VECTOR(vstore)(VECTOR(vload)(0, to) * x[c], 0, to);
        }
    }
}
#endif

/* Loads the weights, after dropout, of `rows` queries from i on and count keys from j on. p: the
 * weights from query i and key j on. */
NOINLINE void load_weights(const struct arguments *restrict args, const __global float *p,
                           const uint bh, const long i, const int rows, const long j,
                           const int count, weight_strip strip)
{
    for (int r = 0; r < rows; r++) {
        const __global float *row = p + r * args->shape->seq_kv;
#if IN_PLACE
        strip[r] = row;
#else
        for (int n = 0; n < count; n += SIMD_WIDTH)
            VECTOR(vstore)(load_floats(row + n, count - n, 0.0f), 0, strip + r * STRIP_ROW + n);
#if HAS_DROPOUT
        drop_row_weights(args, bh, i + r, j, count, strip + r * STRIP_ROW);
#endif
#endif
    }
}

/* Adds strip . panels, for count keys, to sums. */
NOINLINE void multiply_pv(const int rows, const int count, const strip_rows strip,
                          const lanes *panels, lanes *sums)
{
    const struct runs runs = {count, count, count, 0};

    for (int c = 0; c < V_PANELS - 1; c++)
        multiply_strip(rows, REGISTER_VECTORS, false, strip,
                       panels + c * BLOCK_N * REGISTER_VECTORS, &runs, sums + c * REGISTER_TILE);
    multiply_strip(rows, V_REST, false, strip, panels + (V_PANELS - 1) * BLOCK_N * REGISTER_VECTORS,
                   &runs, sums + (V_PANELS - 1) * REGISTER_TILE);
}

/* A weight after dropout. */
INLINE float after_dropout(const struct arguments *args, const float p, const uint bh, const long i,
                           const long j)
{
#if HAS_DROPOUT
    lanes x[4];
    float each[SIMD_WIDTH];
    dropout_factors(args, bh, (words)(uint)i, (words)(uint)(j / 4), x);
    VECTOR(vstore)(x[j % 4], 0, each);
    return p * each[0];
#else
    return p;
#endif
}

/* Computes columns c .. of o of query i, from its visible keys alone. */
INLINE lanes visible_values(const struct arguments *args, const struct extent e,
                            const __global float *p, const __global v_storage *v, const long b,
                            const long h, const long i, const int c)
{
    const long first = first_key(args, e, i), end = end_key(args, e, i);
    lanes sum = 0.0f;

    for (long j = first; j < end; j++)
        if (has_row(args, b, j) && visible(args, e, first, end, b, h, i, j)) {
            const lanes x = load_row_of_values(
                args, v, key_row(args, b, j, args->shape->v_stride), c,
                scale_of_row(v_scales_from(args, b, h / args->shape->group, j), 0));
            sum = FMA(x, (lanes)(after_dropout(args, p[j], dropout_head(args, b, h), i, j)), sum);
        }
    return sum;
}

/* Stores o of query i; outputs that a masked value has made NaN are computed again. */
INLINE void store_output(const struct arguments *args, const struct extent e,
                         const __global float *p, const __global v_storage *v, const long b,
                         const long h, const long i, const lanes *sums, __global o_storage *o)
{
    for (int c = 0; c < V_VECTORS; c++) {
        lanes x = sums[c / REGISTER_VECTORS * REGISTER_TILE + c % REGISTER_VECTORS];
        if (any_lane(x != x)) {
            const lanes seen = visible_values(args, e, p, v, b, h, i, c * SIMD_WIDTH);
            x = x != x ? seen : x;
        }
        store_row(x, o + c * SIMD_WIDTH * o_step(args), o_step(args), DIM_V - c * SIMD_WIDTH);
    }
}

NOINLINE void compute_values(const struct arguments *restrict args, const struct extent e,
                             const long i0, const long bh)
{
    lanes panels[V_PANEL_VECTORS], sums[SUM_VECTORS];
    weight_strip strip;
    const long b = bh / args->shape->heads, h = bh - b * args->shape->heads;
    const long i_end = min(i0 + BLOCK_M, args->shape->seq_q), used_end = min(i_end, e.queries);
    /* The keys visible to some query of the group. With dropout they begin at a multiple of four,
     * since weights before the first visible key are 0. */
    const long first = first_key(args, e, i0), begin = HAS_DROPOUT ? first / 4 * 4 : first;
    const long end = i0 < used_end ? end_key(args, e, used_end - 1) : 0;
    const __global float *p = SCORE_MATRIX + bh * args->shape->seq_q * args->shape->seq_kv;

    const __global v_storage *const v = v_place(
        args->v, head_offset(args->shape->v_stride, cache_batch(b), h / args->shape->group));
    __global o_storage *o = args->o + head_offset(args->shape->o_stride, b, h);
    for (int n = 0; n < SUM_VECTORS; n++)
        sums[n] = 0.0f;
    for (long j0 = begin; j0 < end; j0 += BLOCK_N) {
        const long j1 = min(j0 + BLOCK_N, end);
        if (LISTS_NONE(b, h, i0, used_end - i0, j0, j1))
            continue;
        pack_values(args, b, h / args->shape->group, v, j0, j1 - j0, panels);
        for (long i = i0; i < used_end; i += REGISTER_ROWS) {
            const int rows = min((long)REGISTER_ROWS, used_end - i);
            const long seen = HAS_DROPOUT ? first_key(args, e, i) / 4 * 4 : first_key(args, e, i);
            const long from = max(j0, seen), to = min(j1, end_key(args, e, i + rows - 1));
            const int count = to - from;
            if (count <= 0 || LISTS_NONE(b, h, i, rows, from, to))
                continue;
            load_weights(args, p + i * args->shape->seq_kv + from, dropout_head(args, b, h), i,
                         rows, from, count, strip);
            multiply_pv(rows, count, strip, panels + (from - j0) * REGISTER_VECTORS,
                        sums + (i - i0) / REGISTER_ROWS * STRIP_SUMS);
        }
    }
    for (long i = i0; i < i_end; i++)
        store_output(args, e, p + i * args->shape->seq_kv, v, b, h, i,
                     sums + (i - i0) / REGISTER_ROWS * STRIP_SUMS +
                         (i - i0) % REGISTER_ROWS * REGISTER_VECTORS,
                     o + i * args->shape->o_stride[2]);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void values(PARAMETERS_values)
{
    const struct arguments arguments = ARGUMENTS_values, *const args = &arguments;
    const long i0 = get_global_id(0) * BLOCK_M, bh = get_global_id(1);
    const struct extent e = extent_of(args, bh / args->shape->heads);

    compute_values(args, e, i0, bh);
}
