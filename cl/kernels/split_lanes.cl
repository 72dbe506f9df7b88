/* split_lanes: o = softmax(scale q k^T, masked) v, and lse, for few queries and many keys.
 *
 *   split    partial results of a range of keys, for all rows of a kv head: sums, maximum, total
 *   combine  o and lse from the partial results of each row, in the order of the ranges
 *
 * Rows       are the queries of all query heads that share a kv head, so that K and V are read once
 *            for BLOCK_M of them.
 * NDRange    local (1, 1, 1); split: global (batch, kv_heads, SPLIT_K * blocks of BLOCK_M rows), so
 *            that neighbours are of batches of any length; combine: global (seq_q, heads, batch).
 * Lanes      of o and v are columns, of scores and weights keys, of maxima rows; for the sums of
 *            scores: cl/cpu/split_scores.h.
 * Tiles      of at most BLOCK_N keys: scores to private memory, maximum, exponential, values. All
 *            rows have their turn at a few keys, or columns of the tile's values, while those are
 *            near. Keys that must be converted are as soon as the tile before has its weights,
 *            which wait for one another; values in the first turn. While scores are computed,
 *            memory is asked for the tile's values, and for later keys while values are added, so
 *            that memory and arithmetic work at the same time.
 * Quantized  A tile's scales are converted before, as vectors: those of K multiply what is read,
 *            those of V the weights, of which there are fewer.
 * Workspace  (SPLIT_K, batch, heads, seq_q) results of PART floats: o, maximum, total.
 * Dropout    comes after the sum of the weights.
 * Ragged     Nothing outside the tensors is read: the last vector of columns overlaps the one
 *            before, scores beyond the last key repeat its and are ignored, as are rows beyond the
 *            last.
 * Tunables   src/families/tunables/split_lanes.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "common/common.h"

#if !defined(SIMD_WIDTH) || !defined(BLOCK_M) || !defined(QK_ROWS) || !defined(QK_DEPTH) ||        \
    !defined(PV_ROWS) || !defined(PV_VECTORS) || !defined(BLOCK_N) || !defined(PREFETCH_TILES) ||  \
    !defined(SPLIT_K)
#error "split_lanes.cl must be built with all of its tunables defined"
#endif

#include "cpu/split_scores.h"
#include "cpu/split_values.h"
#include "score/split_weights.h"

#define PART (ROUNDED(DIM_V) + 2)
#define ROW_VECTORS ((BLOCK_M + SIMD_WIDTH - 1) / SIMD_WIDTH) /* of maxima and factors */

/* The rows' queries, scaled; 0 for those beyond the last. */
NOINLINE void pack_queries(SHAPE_PARAMS, const struct place *place, const __global storage *q,
                           lanes *packed)
{
    const float scale = HAS_SOFTCAP ? a.scale : a.scale * UNIT;

    for (int r = 0; r < BLOCK_M; r++) {
        const __global storage *row = q + at.q + place->b * a.q_stride[0] +
                                      place->head[r] * a.q_stride[1] +
                                      place->query[r] * a.q_stride[2];
        float *to = (float *)(packed + r / QK_ROWS * QUERY_VECTORS);
        for (int d = 0; d < VECTORS(DIM_QK); d++) {
            const lanes x = load_new_columns(row, Q_STEP, DIM_QK, d) * scale;
            float each[SIMD_WIDTH];
            VECTOR(vstore)(r < place->rows ? x : (lanes)(0.0f), 0, each);
            for (int c = 0; c < SIMD_WIDTH; c++)
                to[packed_place(r % QK_ROWS, d * SIMD_WIDTH + c)] = each[c];
        }
    }
}

/* Partial results of part `part` of the keys that block `block` of the place's rows see. */
NOINLINE void compute_part(SHAPE_PARAMS, struct place place, const long block, const long part,
                           const __global storage *restrict q,
                           const __global k_storage *restrict k,
                           const __global v_storage *restrict v BIAS_PARAM MASK_PARAM SLOPES_PARAM,
                           __global float *restrict workspace)
{
    lanes packed_q[BLOCK_M * VECTORS(DIM_QK)], packed_o[BLOCK_M * VECTORS(DIM_V)], total[BLOCK_M];
    lanes top[ROW_VECTORS], factor[ROW_VECTORS];
    lanes scores[BLOCK_M * BLOCK_N / SIMD_WIDTH];
    float *s = (float *)scores;
    lanes scaled[V_CACHE ? BLOCK_M * WEIGHT_BLOCKS * BLOCK_N / SIMD_WIDTH : 1];
    lanes kept[KEPT_KEYS], v_scales[V_CACHE ? BLOCK_N / SIMD_WIDTH * BLOCKS(DIM_V) : 1];
    long begin, end;

    place_rows(a, block, &place);
    range_of(&place, part, &begin, &end);
    for (int r = 0; r < ROW_VECTORS; r++) {
        top[r] = -INFINITY;
        factor[r] = 0.0f;
    }
    for (int r = 0; r < BLOCK_M; r++)
        total[r] = 0.0f;
    for (int n = 0; n < BLOCK_M * VECTORS(DIM_V); n++)
        packed_o[n] = 0.0f;
    for (int n = 0; n < BLOCK_M * BLOCK_N; n++)
        s[n] = 0.0f; /* what lies beyond the last key is hidden, but looked at */
    if (begin < end)
        pack_queries(a, at, &place, q, packed_q);
    struct keys keys = {
        K_PLACE(k, at.k + place.b * a.k_stride[0] + place.kv_head * a.k_stride[1] +
                       begin * a.k_stride[2]),
        V_PLACE(v, at.v + place.b * a.v_stride[0] + place.kv_head * a.v_stride[1] +
                       begin * a.v_stride[2]),
        K_PLACE(k, a.k_stride[2]) - k, V_PLACE(v, a.v_stride[2]) - v, end - begin,
        (float *)v_scales};
    if (KEEP_K && begin < end)
        keep_keys(a, keys, (int)min((long)BLOCK_N, keys.left), kept);
    for (long j = begin; j < end; j += BLOCK_N) {
        const int count = (int)min((long)BLOCK_N, keys.left);
        const float *factors = (const float *)factor;
        int hidden = 0;
        multiply_keys(a, keys, count, place.rows, kept, packed_q, s);
        load_value_scales(keys, count);
        if (HIDES_ANYWHERE || j < place.all_begin || j + BLOCK_N > place.all_end)
            hidden = weigh_rows(1, a, at, &place, j, count, s, top, total,
                                factor BIAS_ARG MASK_ARG SLOPES_ARG);
        else
            weigh_rows(0, a, at, &place, j, count, s, top, total,
                       factor BIAS_ARG MASK_ARG SLOPES_ARG);
        const struct keys next = following(keys);
        if (KEEP_K && next.left > 0)
            keep_keys(a, next, (int)min((long)BLOCK_N, next.left), kept);
        if (hidden && has_nonfinite(a, keys, count))
            add_visible(a, keys, count, place.rows, factors, s, packed_o);
        else
            add_values(a, keys, count, place.rows, factors, s, scaled, packed_o);
        keys = next;
    }
    for (int r = 0; r < place.rows; r++) {
        __global float *to =
            workspace + at.workspace +
            (((part * a.batch + place.b) * a.heads + place.head[r]) * a.seq_q + place.query[r]) *
                PART;
        for (int c = 0; c < VECTORS(DIM_V) && begin < end; c++)
            VECTOR(vstore)(packed_o[r * VECTORS(DIM_V) + c], c, to);
        to[PART - 2] = ((const float *)top)[r];
        to[PART - 1] = sum_lanes(total[r]);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void split(PARAMETERS_split)
{
    const long group = get_global_id(2);
    struct place place;

    place.b = get_global_id(0);
    place.kv_head = get_global_id(1);
    place.e = extent_of(a, at, place.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    compute_part(a, at, place, group / SPLIT_K, group % SPLIT_K, q, k,
                 v BIAS_ARG MASK_ARG SLOPES_ARG, workspace);
}

/* ---- partial results ------------------------------------------------------------------------ */

/* Parts that saw nothing have a total of 0, and perhaps no o. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void combine(PARAMETERS_combine)
{
    const long i = get_global_id(0), h = get_global_id(1), b = get_global_id(2);
    const long row = (b * a.heads + h) * a.seq_q + i, step = a.batch * a.heads * a.seq_q * PART;
    const __global float *parts = workspace + at.workspace + row * PART;
    __global storage *to = o + at.o + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2];
    float top = -INFINITY, seen = 0.0f, sum = 0.0f, factor[SPLIT_K];

#if HAS_SINKS
    const float sink = sinks[at.sinks + h] * UNIT;
    top = sink > top ? sink : top;
#endif
    for (int n = 0; n < SPLIT_K; n++)
        top = max_lanes((lanes)(parts[n * step + PART - 2]), top);
    const float base = top == -INFINITY ? 0.0f : top;
    for (int n = 0; n < SPLIT_K; n++) {
        const float total = parts[n * step + PART - 1];
        const lanes rescale = EXPONENTIAL((lanes)(parts[n * step + PART - 2] - base));
        factor[n] = total == 0.0f ? 0.0f : rescale.s0;
        seen += total;
        sum = fma(total, factor[n], sum);
    }
    const bool sees_none = seen == 0.0f; /* beside a high sink the sum may be 0 too */
#if HAS_SINKS
    sum += EXPONENTIAL((lanes)(sink - base)).s0;
#endif
    const float scale = sees_none ? 0.0f : 1.0f / sum;
    for (int c = 0; c < VECTORS(DIM_V); c++) {
        const int d = column_of(c, DIM_V);
        lanes x = 0.0f;
        for (int n = 0; n < SPLIT_K; n++)
            if (parts[n * step + PART - 1] != 0.0f)
                x = fma(VECTOR(vload)(c, parts + n * step), (lanes)(factor[n]), x);
        store_row(x * scale, to + d * O_STEP, O_STEP, DIM_V - d);
    }
#if HAS_LSE
    lse[at.lse + row] = sees_none ? -INFINITY : fma(top, SCORE_TO_LOG, log(sum));
#endif
}
