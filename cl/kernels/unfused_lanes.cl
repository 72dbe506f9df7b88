/* unfused_lanes: attention as three kernels, with the scores in memory between them, for CPUs. What
 * is there between them, and what each leaves unwritten: as in unfused.cl.
 *
 *   scores   s = q k^T, finished    a group has BLOCK_N keys and BLOCK_M queries of one head
 *   softmax  p = exp(s - maximum) / sum, in the place of s    SOFTMAX_ROWS rows
 *   values   o = p v, after dropout    BLOCK_M queries of one head, BLOCK_N keys at a time
 *
 * NDRange    local (1, 1, 1) always; global: groups as above along keys, queries, batch * heads.
 * Lanes      are keys (scores), then columns of v (values): cl/cpu/lane_products.h, with strips of
 *            q and p and panels of k and v, packed once for all queries of a group.
 * Ragged     Queries beyond the last are not computed. Keys beyond the last that matters repeat it,
 *            columns beyond the last are 0; neither is stored.
 * Hidden     A weight of 0 times a value that is not finite makes a NaN: NaNs are computed again
 *            from what the query sees alone.
 * Speed      as fused_lanes.cl: never build it with fast-math options. While a row's exponentials
 *            are computed, memory is asked for the next row's scores.
 * Tunables   src/families/tunables/unfused_lanes.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "common/common.h"

#if !defined(SIMD_WIDTH) || !defined(REGISTER_VECTORS) || !defined(REGISTER_ROWS) ||               \
    !defined(BLOCK_N) || !defined(BLOCK_M) || !defined(SOFTMAX_ROWS)
#error "unfused_lanes.cl must be built with all of its tunables defined"
#endif

#define IN_PLACE (DTYPE == DTYPE_F32 && UNIT_Q && !HAS_DROPOUT)
#define STRIP_DEPTH 1
#define STRIP_ROW ((DIM_QK > BLOCK_N ? DIM_QK : BLOCK_N) + 2 * SIMD_WIDTH)
#include "cpu/lane_products.h"
#include "score/lane_scores.h"
#include "cpu/prefetch.h"
#include "common/quantized.h"
#include "score/score.h"
#if HAS_DROPOUT
#define RANDOM_LANES SIMD_WIDTH
#include "common/philox.h"
#endif

#define PANEL (SIMD_WIDTH * REGISTER_VECTORS)
#define K_PANELS ((BLOCK_N + PANEL - 1) / PANEL)
#define V_VECTORS ((DIM_V + SIMD_WIDTH - 1) / SIMD_WIDTH)
#define V_PANELS ((V_VECTORS + REGISTER_VECTORS - 1) / REGISTER_VECTORS)
#define V_REST (V_VECTORS - (V_PANELS - 1) * REGISTER_VECTORS) /* vectors in the last panel */
#define STRIPS ((BLOCK_M + REGISTER_ROWS - 1) / REGISTER_ROWS)
#define HAS_RANGE (HAS_WINDOW || HAS_Q_LENGTHS || HAS_KV_LENGTHS)

/* Where the scores live between the kernels; the workspace is null where it is not needed. */
#define PLACE_PARAM SCORES_PARAM, __global float *workspace
#if SCORES == SCORES_WEIGHTS
#define PLACE (scores + at.scores)
#else
#define PLACE (workspace + at.workspace)
#endif
#define EVERY_PAIR (SCORES == SCORES_RAW || SCORES == SCORES_SOFTCAP) /* masked ones too */

/* ---- moving data ---------------------------------------------------------------------------- */

/* At most SIMD_WIDTH floats, of which there are left (at least 1); `outside` for the others. */
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

/* Values d .. of a row of k or v, at most SIMD_WIDTH and `left`; zeros after them. cache (constant)
 * says how it is stored. */
INLINE lanes load_cached(const int cache, const __global void *row, const int d, const long step,
                         const int left)
{
    if (cache) {
        float x[SIMD_WIDTH];
        for (int c = 0; c < SIMD_WIDTH; c += 4)
            vstore4(c < left ? quantized4(cache, row, d + c) : (float4)(0.0f), 0, x + c);
        return VECTOR(vload)(0, x);
    }
    return load_row((const __global storage *)row + d * step, step, left);
}

/* ---- scores --------------------------------------------------------------------------------- */

/* count keys as panels, at most BLOCK_N; what is beyond them in the last panel repeats the last. */
NOINLINE void pack_keys(const struct attention_shape a, const __global k_storage *k,
                        const long first, const int count, lanes *panels)
{
    for (int n = 0; n < (count + PANEL - 1) / PANEL * PANEL; n += SIMD_WIDTH) {
        lanes *panel = panels + n / PANEL * DIM_QK * REGISTER_VECTORS + n % PANEL / SIMD_WIDTH;
        for (int d = 0; d < DIM_QK; d += SIMD_WIDTH) {
            lanes x[SIMD_WIDTH];
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++) {
                const long j = first + min(n + c, count - 1);
                x[c] = load_cached(K_CACHE, element_at(K_CACHE, k, j * a.k_stride[2]), d, K_STEP,
                                   DIM_QK - d);
            }
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                if (c < DIM_QK - d)
                    panel[(d + c) * REGISTER_VECTORS] = x[c];
        }
    }
}

/* From products x of query i and keys j .., one a lane, to finished scores; stores them and, where
 * the caller wants them, those of a step before. */
INLINE void finish_scores_of_row(SHAPE_PARAMS, const struct extent e, lanes x, const long b,
                                 const long h, const long i,
                                 const long j BIAS_PARAM MASK_PARAM SLOPES_PARAM PLACE_PARAM)
{
    const long left = a.seq_kv - j, n = ((b * a.heads + h) * a.seq_q + i) * a.seq_kv + j;

    x *= a.scale;
#if SCORES == SCORES_RAW
    store_floats(x, scores + at.scores + n, left);
#endif
#if HAS_SOFTCAP
    x = hyperbolic_tangent(x * min(1.0f / a.softcap, FLT_MAX)) * a.softcap;
#endif
#if SCORES == SCORES_SOFTCAP
    store_floats(x, scores + at.scores + n, left);
#endif
#if HAS_BIAS
    const lanes extra = load_biases(bias + at.bias + b * a.bias_stride[0] + h * a.bias_stride[1] +
                                        i * a.bias_stride[2] + j * a.bias_stride[3],
                                    a.bias_stride[3], (int)min(left, (long)SIMD_WIDTH));
    x = extra == -INFINITY ? (lanes)(-INFINITY) : x + extra;
#endif
#if HAS_ALIBI
    x = fma((lanes)(slopes[at.slopes + h]), COUNT_UP + (float)(j - i - e.diagonal), x);
#endif
#if HAS_MASK
    const lanes seen = load_mask(mask + at.mask + b * a.mask_stride[0] + h * a.mask_stride[1] +
                                     i * a.mask_stride[2] + j * a.mask_stride[3],
                                 a.mask_stride[3], (int)min(left, (long)SIMD_WIDTH));
    x = seen == 0.0f ? (lanes)(-INFINITY) : x;
#endif
#if HAS_RANGE
    const float first = clamp(first_key(a, e, i) - j, 0L, (long)SIMD_WIDTH);
    const float end = clamp(end_key(a, e, i) - j, 0L, (long)SIMD_WIDTH);
    x = (COUNT_UP >= first & COUNT_UP < end) ? x : (lanes)(-INFINITY);
#endif
#if SCORES == SCORES_BIAS
    store_floats(x, scores + at.scores + n, left);
#endif
    store_floats(x, PLACE + n, left);
}

/* The products of a strip and a panel. */
NOINLINE void multiply_panel(const int rows, const strip_rows strip, const lanes *panel,
                             const struct runs runs, lanes *tile)
{
    multiply_strip(rows, REGISTER_VECTORS, true, strip, panel, runs, tile);
}

NOINLINE void compute_scores(SHAPE_PARAMS, const struct extent e, const long bh, const long j0,
                             const long i0, const __global storage *q,
                             const __global k_storage *k BIAS_PARAM MASK_PARAM SLOPES_PARAM
                                 PLACE_PARAM)
{
    lanes panels[K_PANELS * DIM_QK * REGISTER_VECTORS], tile[REGISTER_ROWS * REGISTER_VECTORS];
    const long b = bh / a.heads, h = bh - b * a.heads;
    const long j_end = min(j0 + BLOCK_N, a.seq_kv), i_end = min(i0 + BLOCK_M, a.seq_q);
    const int keys = min(j_end, EVERY_PAIR ? a.seq_kv : e.keys) - j0;
#if !IN_PLACE
    float strip[REGISTER_ROWS * STRIP_ROW];
#endif

    if (keys > 0)
        pack_keys(a, K_PLACE(k, at.k + b * a.k_stride[0] + h / a.group * a.k_stride[1]), j0, keys,
                  panels);
    for (long i = i0; i < i_end; i += REGISTER_ROWS) {
        const int rows = min((long)REGISTER_ROWS, i_end - i);
        const long last = min(i + rows, e.queries) - 1;
        const long begin = EVERY_PAIR ? 0 : first_key(a, e, i);
        const long end = EVERY_PAIR ? a.seq_kv : last >= i ? end_key(a, e, last) : 0;
        const __global storage *q_rows =
            q + at.q + b * a.q_stride[0] + h * a.q_stride[1] + i * a.q_stride[2];
#if IN_PLACE
        const __global float *strip[REGISTER_ROWS];
        for (int r = 0; r < rows; r++)
            strip[r] = q_rows + r * a.q_stride[2];
#else
        for (int r = 0; r < rows; r++) {
            for (int d = 0; d < DIM_QK; d += SIMD_WIDTH)
                VECTOR(vstore)(load_row(q_rows + r * a.q_stride[2] + d * Q_STEP, Q_STEP,
                                        DIM_QK - d), 0, strip + r * STRIP_ROW + d);
        }
#endif
        for (long j = j0; j < j_end; j += PANEL) {
            const lanes *panel = panels + (j - j0) / SIMD_WIDTH * DIM_QK;
            const struct runs runs = {DIM_QK, DIM_QK, DIM_QK, 0};
            const int vectors =
                min((long)REGISTER_VECTORS, (j_end - j + SIMD_WIDTH - 1) / SIMD_WIDTH);
            if (j < end && j + PANEL > begin) {
                multiply_panel(rows, strip, panel, runs, tile);
                for (int n = 0; n < rows * REGISTER_VECTORS; n++)
                    if (n % REGISTER_VECTORS < vectors)
                        finish_scores_of_row(
                            a, at, e, tile[n], b, h, i + n / REGISTER_VECTORS,
                            j + n % REGISTER_VECTORS *
                                    SIMD_WIDTH BIAS_ARG MASK_ARG SLOPES_ARG SCORES_ARG,
                            workspace);
            }
#if SCORES == SCORES_BIAS
            else {
                for (int n = 0; n < rows * vectors; n++) {
                    const long place = j + n % vectors * SIMD_WIDTH;
                    store_floats((lanes)(-INFINITY),
                                 scores + at.scores +
                                     (bh * a.seq_q + i + n / vectors) * a.seq_kv + place,
                                 a.seq_kv - place);
                }
            }
#endif
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void scores(PARAMETERS_scores)
{
    const long j0 = get_global_id(0) * BLOCK_N, i0 = get_global_id(1) * BLOCK_M;
    const long bh = get_global_id(2);
    const struct extent e = extent_of(a, at, bh / a.heads Q_LENGTHS_ARG KV_LENGTHS_ARG);

    compute_scores(a, at, e, bh, j0, i0, q,
                   k BIAS_ARG MASK_ARG SLOPES_ARG SCORES_ARG, workspace);
}

/* ---- softmax -------------------------------------------------------------------------------- */

/* The larger; a NaN if one of them is. */
INLINE lanes larger_lanes(const lanes x, const lanes y)
{
    return (y > x | y != y) ? y : x;
}

INLINE float larger(const float x, const float y) { return y > x || y != y ? y : x; }

INLINE float largest_lane(const lanes x)
{
    float each[SIMD_WIDTH], top = -INFINITY;

    VECTOR(vstore)(x, 0, each);
    for (int c = 0; c < SIMD_WIDTH; c++)
        top = larger(top, each[c]);
    return top;
}

INLINE void clear(__global float *row, const long begin, const long end)
{
    for (long j = begin; j < end; j += SIMD_WIDTH)
        store_floats(0.0f, row + j, end - j);
}

NOINLINE void compute_weights(SHAPE_PARAMS, const long from SINKS_PARAM Q_LENGTHS_PARAM
                                  KV_LENGTHS_PARAM LSE_PARAM PLACE_PARAM)
{
    const long all_rows = a.batch * a.heads * a.seq_q;

    for (long n = from; n < min(from + SOFTMAX_ROWS, all_rows); n++) {
        const long bh = n / a.seq_q, i = n - bh * a.seq_q, b = bh / a.heads;
        const struct extent e = extent_of(a, at, b Q_LENGTHS_ARG KV_LENGTHS_ARG);
        const long end = end_key(a, e, i), first = min(first_key(a, e, i), end);
        __global float *row = PLACE + n * a.seq_kv;
        lanes tops = -INFINITY, sums = 0.0f;

        for (long j = first; j < end; j += SIMD_WIDTH)
            tops = larger_lanes(tops, load_floats(row + j, end - j, -INFINITY));
        float top = largest_lane(tops);
        const bool sees_none = top == -INFINITY;
#if HAS_SINKS
        const float sink = sinks[at.sinks + bh - b * a.heads];
        top = larger(top, sink);
#endif
        top = top == INFINITY ? NAN : top; /* as inf - inf is; but p of a masked key stays 0 */
        const __global float *next = n + 1 < all_rows ? row + a.seq_kv : row;
        for (long j = first; j < end && !sees_none; j += SIMD_WIDTH) {
            const lanes s = load_floats(row + j, end - j, -INFINITY);
            PREFETCH_NEAR(next + j);
            const lanes p = exponential2((s - top) * LOG2E);
            const lanes weight = s == -INFINITY ? (lanes)(0.0f) : p;
            sums += weight;
            store_floats(weight, row + j, end - j);
        }
        float sum = sum_lanes(sums);
#if HAS_SINKS
        sum += exp(sink - top);
#endif
        const lanes factor = 1.0f / sum;
        for (long j = first; j < end && !sees_none; j += SIMD_WIDTH) {
            const lanes p = load_floats(row + j, end - j, 0.0f);
            store_floats(p == 0.0f ? p : p * factor, row + j, end - j);
        }
        clear(row, 0, sees_none ? a.seq_kv : first);
        clear(row, end, sees_none ? 0 : a.seq_kv);
#if HAS_LSE
        lse[at.lse + n] = sees_none ? -INFINITY : top + log(sum);
#endif
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax(PARAMETERS_softmax)
{
    const long from = get_global_id(0) * SOFTMAX_ROWS;

    compute_weights(a, at, from SINKS_ARG Q_LENGTHS_ARG KV_LENGTHS_ARG LSE_ARG SCORES_ARG,
                    workspace);
}

/* ---- values --------------------------------------------------------------------------------- */

/* count keys' values as panels, at most BLOCK_N. */
NOINLINE void pack_values(const struct attention_shape a, const __global v_storage *v,
                          const long first, const int count, lanes *panels)
{
    for (int n = 0; n < count; n++) {
        const __global void *row = element_at(V_CACHE, v, (first + n) * a.v_stride[2]);
        for (int c = 0; c < V_VECTORS; c++)
            panels[(c / REGISTER_VECTORS * BLOCK_N + n) * REGISTER_VECTORS + c % REGISTER_VECTORS] =
                load_cached(V_CACHE, row, c * SIMD_WIDTH, V_STEP, DIM_V - c * SIMD_WIDTH);
    }
}

#if !IN_PLACE
/* The weights of `rows` queries from i on and count keys from j on, after dropout, as a strip. */
NOINLINE void pack_weights(SHAPE_PARAMS, const __global float *p, const long bh, const long i,
                           const int rows, const long j, const int count, float *strip)
{
    for (int r = 0; r < rows; r++) {
        const __global float *row = p + r * a.seq_kv;
        for (int n = 0; n < count; n += SIMD_WIDTH)
            VECTOR(vstore)(load_floats(row + n, count - n, 0.0f), 0, strip + r * STRIP_ROW + n);
#if HAS_DROPOUT
        /* Counters such that each four lanes turned around are consecutive keys; j % 4 is 0. */
        const words lane = VECTOR(convert_uint)(COUNT_UP);
        for (int n = 0; n < count; n += 4 * SIMD_WIDTH) {
            lanes x[4];
            dropout_factors(a, at, bh, (words)(uint)(i + r),
                            (uint)((j + n) / 4) + (lane & 3u) * (SIMD_WIDTH / 4) + (lane >> 2), x);
            transpose_fours(x);
            for (int c = 0; c < 4 && n + c * SIMD_WIDTH < count; c++) {
                float *to = strip + r * STRIP_ROW + n + c * SIMD_WIDTH;
                VECTOR(vstore)(VECTOR(vload)(0, to) * x[c], 0, to);
            }
        }
#endif
    }
}
#endif

/* What a weight counts in o. */
INLINE float after_dropout(SHAPE_PARAMS, const float p, const long bh, const long i, const long j)
{
#if HAS_DROPOUT
    lanes x[4];
    float each[SIMD_WIDTH];
    dropout_factors(a, at, bh, (words)(uint)i, (words)(uint)(j / 4), x);
    VECTOR(vstore)(x[j % 4], 0, each);
    return p * each[0];
#else
    return p;
#endif
}

/* Columns c .. of o of query i, from what it sees alone. */
INLINE lanes visible_values(SHAPE_PARAMS, const struct extent e, const __global float *p,
                            const __global v_storage *v, const long b, const long h, const long i,
                            const int c SCORE_OPERANDS_PARAM)
{
    const long first = first_key(a, e, i), end = end_key(a, e, i);
    lanes sum = 0.0f;

    for (long j = first; j < end; j++)
        if (visible(a, at, first, end, b, h, i, j SCORE_OPERANDS_ARG)) {
            const __global void *row = element_at(V_CACHE, v, j * a.v_stride[2]);
            const lanes x = load_cached(V_CACHE, row, c, V_STEP, DIM_V - c);
            sum = fma(x, (lanes)(after_dropout(a, at, p[j], b * a.heads + h, i, j)), sum);
        }
    return sum;
}

/* What the weights of count keys add to the sums of a strip. */
NOINLINE void add_strip(const int rows, const int count, const strip_rows strip,
                        const lanes *panel, lanes *tile)
{
    const struct runs runs = {count, count, count, 0};

    for (int c = 0; c < V_PANELS - 1; c++)
        multiply_strip(rows, REGISTER_VECTORS, false, strip, panel + c * BLOCK_N * REGISTER_VECTORS,
                       runs, tile + c * REGISTER_ROWS * REGISTER_VECTORS);
    multiply_strip(rows, V_REST, false, strip, panel + (V_PANELS - 1) * BLOCK_N * REGISTER_VECTORS,
                   runs, tile + (V_PANELS - 1) * REGISTER_ROWS * REGISTER_VECTORS);
}

NOINLINE void compute_values(SHAPE_PARAMS, const struct extent e, const long i0, const long bh,
                             const __global v_storage *v,
                             __global storage *o SCORE_OPERANDS_PARAM PLACE_PARAM)
{
    lanes panels[V_PANELS * BLOCK_N * REGISTER_VECTORS],
        sums[STRIPS * V_PANELS * REGISTER_ROWS * REGISTER_VECTORS];
    const long b = bh / a.heads, h = bh - b * a.heads;
    const long i_end = min(i0 + BLOCK_M, a.seq_q), used_end = min(i_end, e.queries);
    const long seen_from = first_key(a, e, i0); /* the keys that some query of the group sees */
    const long begin = HAS_DROPOUT ? seen_from / 4 * 4 : seen_from; /* the weights before are 0 */
    const long end = i0 < used_end ? end_key(a, e, used_end - 1) : 0;
    const __global v_storage *v_rows =
        V_PLACE(v, at.v + b * a.v_stride[0] + h / a.group * a.v_stride[1]);
    const __global float *p_rows = PLACE + bh * a.seq_q * a.seq_kv;
#if !IN_PLACE
    float strip[REGISTER_ROWS * STRIP_ROW];
#endif

    for (int n = 0; n < STRIPS * V_PANELS * REGISTER_ROWS * REGISTER_VECTORS; n++)
        sums[n] = 0.0f;
    for (long j0 = begin; j0 < end; j0 += BLOCK_N) {
        const long j1 = min(j0 + BLOCK_N, end);
        pack_values(a, v_rows, j0, j1 - j0, panels);
        for (long i = i0; i < used_end; i += REGISTER_ROWS) {
            const int rows = min((long)REGISTER_ROWS, used_end - i);
            const long seen = HAS_DROPOUT ? first_key(a, e, i) / 4 * 4 : first_key(a, e, i);
            const long from = max(j0, seen), to = min(j1, end_key(a, e, i + rows - 1));
            const int count = to - from;
            if (count <= 0)
                continue;
#if IN_PLACE
            const __global float *strip[REGISTER_ROWS];
            for (int r = 0; r < rows; r++)
                strip[r] = p_rows + (i + r) * a.seq_kv + from;
#else
            pack_weights(a, at, p_rows + i * a.seq_kv + from, bh, i, rows, from, count, strip);
#endif
            add_strip(rows, count, strip, panels + (from - j0) * REGISTER_VECTORS,
                      sums +
                          (i - i0) / REGISTER_ROWS * V_PANELS * REGISTER_ROWS * REGISTER_VECTORS);
        }
    }
    for (long i = i0; i < i_end; i++) {
        const int r = (i - i0) % REGISTER_ROWS;
        const lanes *tile = sums +
                            (i - i0) / REGISTER_ROWS * V_PANELS * REGISTER_ROWS * REGISTER_VECTORS +
                            r * REGISTER_VECTORS;
        __global storage *row =
            o + at.o + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2];
        for (int c = 0; c < V_VECTORS; c++) {
            lanes x = tile[c / REGISTER_VECTORS * REGISTER_ROWS * REGISTER_VECTORS +
                           c % REGISTER_VECTORS];
            if (any_lane(x != x)) {
                const lanes seen = visible_values(a, at, e, p_rows + i * a.seq_kv, v_rows, b, h, i,
                                                  c * SIMD_WIDTH SCORE_OPERANDS_ARG);
                x = x != x ? seen : x;
            }
            store_row(x, row + c * SIMD_WIDTH * O_STEP, O_STEP, DIM_V - c * SIMD_WIDTH);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void values(PARAMETERS_values)
{
    const long i0 = get_global_id(0) * BLOCK_M, bh = get_global_id(1);
    const struct extent e = extent_of(a, at, bh / a.heads Q_LENGTHS_ARG KV_LENGTHS_ARG);

    compute_values(a, at, e, i0, bh, v, o SCORE_OPERANDS_ARG SCORES_ARG, workspace);
}
