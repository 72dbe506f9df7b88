/* fused_lanes: o = softmax(scale q k^T, masked) v, and lse, in one pass over the keys.
 *
 * NDRange    local (1, 1, 1), global (chunks, heads, batch): one work-item has a chunk of BLOCKS
 *            blocks of BM queries of one head. With PAIRS it has the chunks x and chunks - 1 - x,
 *            and the first size is half: under a causal mask all groups then have the same work.
 * Lanes      are queries: an element of K or V, as it lies in memory, is broadcast to all lanes and
 *            multiplied with MV vectors of queries (or weights), so that nothing is transposed but
 *            the block's q and o, and the softmax needs no step across lanes.
 * Tiles      of at most BN keys: scores to private memory, maximum, exponential, values. Keys that
 *            no query of the block sees are in no tile; keys that all of them see are in tiles that
 *            know no mask. The blocks of a chunk take turns at each tile while it is in the cache.
 * Dropout    comes after the sum of the weights. Four keys at a time share a counter's words.
 * Ragged     Nothing outside the tensors is read: lanes beyond the last query repeat it, scores
 *            beyond the last key repeat its and are ignored.
 * Speed      rint, fmax, any and the conversions of OpenCL are slow on CPUs; what stands here in
 *            their place relies on IEEE addition, so never build it with fast-math options.
 * Tunables   src/tunables/fused_lanes.def, all defined by the host; no fallbacks here. */
#include "common.cl"

#if !defined(WIDTH) || !defined(MV) || !defined(NB) || !defined(DB) || !defined(BN) ||             \
    !defined(BLOCKS) || !defined(PAIRS)
#error "fused_lanes.cl must be built with all of its tunables defined"
#endif

#include "quantized_lanes.h"
#include "lane_changes.h"

/* ---- scores --------------------------------------------------------------------------------- */

/* s[n] = k[n] . q for count keys; the scores after them repeat the last. top: their maximum.
 * s may be where the tile's biases are. */
INLINE void multiply_keys(const int hides, const struct sight *sight, const lanes *q, source k,
                          const long k_row, const long k_column, const int count, lanes *s,
                          lanes *top)
{
    for (int n0 = 0; n0 < count; n0 += NB) {
        source row[NB];
        lanes sum[NB][MV];
        UNROLL
        for (int n = 0; n < NB; n++) {
            row[n] = k + min(n0 + n, count - 1) * k_row;
            UNROLL
            for (int m = 0; m < MV; m++)
                sum[n][m] = 0.0f;
        }
        for (int d = 0; d < DIM_QK; d++) {
            lanes x[MV];
            UNROLL
            for (int m = 0; m < MV; m++)
                x[m] = q[d * MV + m];
            UNROLL
            for (int n = 0; n < NB; n++) {
                const lanes y = row[n][d * k_column];
                UNROLL
                for (int m = 0; m < MV; m++)
                    sum[n][m] = fma(x[m], y, sum[n][m]);
            }
        }
        change_scores(hides, sight, n0, count, sum);
        UNROLL
        for (int n = 0; n < NB; n++) {
            UNROLL
            for (int m = 0; m < MV; m++) {
                s[(n0 + n) * MV + m] = sum[n][m];
                top[m] = sum[n][m] > top[m] ? sum[n][m] : top[m];
            }
        }
    }
}

/* ---- values --------------------------------------------------------------------------------- */

/* o[d] = o[d] * factor + sum_n p[n] v[n][d] for `columns` (constant, at most DB) values of d. */
INLINE void add_columns(const int columns, const lanes *factor, const lanes *p, source v,
                        const long v_row, const long v_column, const int count, lanes *o)
{
    lanes sum[DB][MV];

    UNROLL
    for (int c = 0; c < DB; c++) {
        UNROLL
        for (int m = 0; m < MV; m++)
            sum[c][m] = c < columns ? o[c * MV + m] * factor[m] : (lanes)(0.0f);
    }
    for (int n = 0; n < count; n++) {
        lanes x[MV];
        UNROLL
        for (int m = 0; m < MV; m++)
            x[m] = p[n * MV + m];
        UNROLL
        for (int c = 0; c < DB; c++) {
            if (c < columns) {
                const lanes y = v[n * v_row + c * v_column];
                UNROLL
                for (int m = 0; m < MV; m++)
                    sum[c][m] = fma(x[m], y, sum[c][m]);
            }
        }
    }
    UNROLL
    for (int c = 0; c < DB; c++) {
        UNROLL
        for (int m = 0; m < MV; m++)
            if (c < columns)
                o[c * MV + m] = sum[c][m];
    }
}

/* Whether one of the values is infinite or NaN, which a weight of 0 would not keep away. */
INLINE int has_nonfinite(source v, const long v_row, const long v_column, const int count)
{
    const int magnitude = 0x7fffffff, infinite = 0x7f800000;
    ints most = 0;
    int rest = 0;

    for (int n = 0; n < count; n++) {
        int d = 0;
        if (v_column == 1) {
            for (; d + WIDTH <= DIM_V; d += WIDTH) {
                const ints x = VECTOR(as_int)(VECTOR(vload)(0, v + n * v_row + d)) & magnitude;
                most = x > most ? x : most;
            }
        }
        for (; d < DIM_V; d++) {
            const int x = as_int(v[n * v_row + d * v_column]) & magnitude;
            rest = x > rest ? x : rest;
        }
    }
    return rest >= infinite || any_lane(most >= infinite);
}

/* As add_columns for all of v, but leaving out what a weight of -0 says is hidden. */
INLINE void add_visible(const lanes *factor, const lanes *p, source v, const long v_row,
                        const long v_column, const int count, lanes *o)
{
    for (int d = 0; d < DIM_V; d++) {
        for (int m = 0; m < MV; m++) {
            lanes sum = o[d * MV + m] * factor[m];
            for (int n = 0; n < count; n++) {
                const lanes x = p[n * MV + m];
                const lanes y = v[n * v_row + d * v_column];
                sum = VECTOR(as_int)(x) < 0 ? sum : fma(x, y, sum);
            }
            o[d * MV + m] = sum;
        }
    }
}

/* ---- tiles, blocks and chunks --------------------------------------------------------------- */

/* Scores become weights, which are summed up; with marks, those of hidden keys are -0. */
INLINE void weigh(const int marks, const lanes *base, const int count, lanes *s, lanes *sum)
{
    UNROLL
    for (int m = 0; m < MV; m++)
        sum[m] = 0.0f;
    for (int n = 0; n < count; n++) {
        UNROLL
        for (int m = 0; m < MV; m++) {
            const lanes x = s[n * MV + m];
            lanes p = EXPONENTIAL(x - base[m]);
            if (marks)
                p = x == -INFINITY ? (lanes)(-0.0f) : p;
            s[n * MV + m] = p;
            sum[m] += p;
        }
    }
}

/* Keys j .. j + count - 1 of at most BN. hides (constant): some may be hidden from some queries.
 * spoils: whether v holds what is not finite there, or -1, if not known yet. */
INLINE void add_tile(const int hides, SHAPE_PARAMS, const struct place block, const long j,
                     const int count, const lanes *q, source k, const long k_row, source v,
                     const long v_row, lanes *s, int *spoils, lanes *top, lanes *total,
                     lanes *o BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    lanes old_top[MV], new_top[MV], factor[MV], base[MV], sum[MV];
    int marks = 0;

    struct sight sight = sight_of(a, at, block, j SLOPES_ARG);
#if HIDES_ANYWHERE
    ints masks[MASK_VECTORS];
    if (!read_changes(a, at, block, j, count, &sight, s, masks BIAS_ARG MASK_ARG))
        return;
#endif

    UNROLL
    for (int m = 0; m < MV; m++)
        old_top[m] = new_top[m] = top[m];
    multiply_keys(hides, &sight, q, k, k_row, K_COLUMN, count, s, new_top);
    UNROLL
    for (int m = 0; m < MV; m++) {
        base[m] = new_top[m] == -INFINITY ? (lanes)(0.0f) : new_top[m];
        factor[m] = EXPONENTIAL(old_top[m] - base[m]);
        top[m] = new_top[m];
    }
    if (hides && (sight.hides || HAS_WINDOW)) {
        if (*spoils < 0)
            *spoils = has_nonfinite(v, v_row, V_COLUMN, count);
        marks = *spoils;
    }
    if (marks) {
        weigh(1, base, count, s, sum);
    } else {
        weigh(0, base, count, s, sum);
    }
    UNROLL
    for (int m = 0; m < MV; m++)
        total[m] = fma(total[m], factor[m], sum[m]);
#if HAS_DROPOUT
    drop_weights(a, at, block, j, count, s);
#endif

    if (marks) {
        add_visible(factor, s, v, v_row, V_COLUMN, count, o);
        return;
    }
    for (int d = 0; d + DB <= DIM_V; d += DB)
        add_columns(DB, factor, s, v + d * V_COLUMN, v_row, V_COLUMN, count, o + d * MV);
    if (DIM_V % DB)
        add_columns(DIM_V % DB, factor, s, v + DIM_V / DB * DB * V_COLUMN, v_row, V_COLUMN,
                    count, o + DIM_V / DB * DB * MV);
}

/* q[d] = the block's queries, scaled, as lanes. */
INLINE void pack_queries(const struct attention_shape a, const struct place block,
                         const __global storage *q, lanes *packed)
{
    const float scale = HAS_SOFTCAP ? a.scale : a.scale * UNIT;

    for (int m = 0; m < MV; m++) {
        for (int d = 0; d < DIM_QK; d += WIDTH) {
            lanes x[WIDTH];
            UNROLL
            for (int r = 0; r < WIDTH; r++) {
                const long row = min(m * WIDTH + r, block.queries - 1);
                x[r] = load_row(q + row * a.q_stride[2] + d * Q_STEP, Q_STEP, DIM_QK - d);
            }
            transpose(x);
            UNROLL
            for (int c = 0; c < WIDTH; c++)
                packed[(d + c) * MV + m] = x[c] * scale;
        }
    }
}

/* Rows block.i .. of o, at most BM and not beyond seq_q; zeros where the factor is negative. */
INLINE void unpack_outputs(const struct attention_shape a, const struct place block,
                           const lanes *packed, const lanes *factor, __global storage *o)
{
    const long rows = min(a.seq_q - block.i, (long)BM);

    for (int m = 0; m < MV; m++) {
        for (int d = 0; d < DIM_V; d += WIDTH) {
            lanes x[WIDTH];
            UNROLL
            for (int c = 0; c < WIDTH; c++) {
                const lanes y = packed[(d + c) * MV + m];
                x[c] = factor[m] < 0.0f ? (lanes)(0.0f) : y * factor[m];
            }
            transpose(x);
            UNROLL
            for (int r = 0; r < WIDTH; r++)
                if (m * WIDTH + r < rows)
                    store_row(x[r], o + (m * WIDTH + r) * a.o_stride[2] + d * O_STEP, O_STEP,
                              DIM_V - d);
        }
    }
}

/* The sums of a block become o and lse. */
INLINE void finish_block(SHAPE_PARAMS, const struct place block, const lanes *packed_o, lanes *top,
                         lanes *total, __global storage *o SINKS_PARAM LSE_PARAM)
{
    lanes factor[MV];

    UNROLL
    for (int m = 0; m < MV; m++) {
        const ints unseeing =
            total[m] == 0.0f | COUNT_UP + (float)(m * WIDTH) >= (float)block.queries;
#if HAS_SINKS
        const lanes sink = sinks[at.sinks + block.h] * UNIT;
        const lanes new_top = sink > top[m] ? sink : top[m];
        const lanes rescale = EXPONENTIAL(top[m] - new_top);
        total[m] = fma(total[m], rescale, EXPONENTIAL(sink - new_top));
        factor[m] = unseeing ? (lanes)(-1.0f) : rescale / total[m];
        top[m] = new_top;
#else
        factor[m] = unseeing ? (lanes)(-1.0f) : 1.0f / total[m];
#endif
#if HAS_LSE
        const lanes sums = unseeing ? (lanes)(-INFINITY) : top[m] * SCORE_TO_LOG + log(total[m]);
        float rows[WIDTH];
        VECTOR(vstore)(sums, 0, rows);
        for (int r = 0; r < min((long)WIDTH, a.seq_q - block.i - m * WIDTH); r++)
            lse[at.lse + (block.b * a.heads + block.h) * a.seq_q + block.i + m * WIDTH + r] =
                rows[r];
#endif
    }
    unpack_outputs(a, block, packed_o, factor,
                   o + at.o + block.b * a.o_stride[0] + block.h * a.o_stride[1] +
                       block.i * a.o_stride[2]);
}

/* What block n of the chunk that starts with chunk's first query holds. */
INLINE struct place block_of(const struct place chunk, const int n)
{
    struct place block = chunk;

    block.i = chunk.i + n * BM;
    block.queries = (int)clamp(chunk.e.queries - block.i, 0L, (long)BM);
    return block;
}

INLINE void compute_chunk(SHAPE_PARAMS, const struct place chunk, const __global storage *q,
                          const __global k_storage *k, const __global v_storage *v,
                          __global storage *o BIAS_PARAM MASK_PARAM SLOPES_PARAM SINKS_PARAM
                              LSE_PARAM)
{
    lanes packed_q[BLOCKS][ROUNDED(DIM_QK) * MV], packed_o[BLOCKS][ROUNDED(DIM_V) * MV];
    lanes s[ROUNDED(BN) * MV], top[BLOCKS][MV], total[BLOCKS][MV];
    const long queries = min(chunk.e.queries - chunk.i, (long)BM * BLOCKS);
    const long begin = first_key(a, chunk.e, chunk.i);
    const long end = queries > 0 ? end_key(a, chunk.e, chunk.i + queries - 1) : 0;
#if STAGED
    float k_staged[BN * DIM_QK], v_staged[BN * DIM_V];
    const long k_row = DIM_QK, v_row = DIM_V;
#else
    const long k_row = a.k_stride[2], v_row = a.v_stride[2];
#endif

    for (int n = 0; n < BLOCKS; n++) {
        const struct place block = block_of(chunk, n);
        for (int m = 0; m < MV; m++) {
            top[n][m] = -INFINITY;
            total[n][m] = 0.0f;
        }
        for (int d = 0; d < ROUNDED(DIM_V) * MV; d++)
            packed_o[n][d] = 0.0f;
        if (block.queries > 0 && begin < end)
            pack_queries(a, block, q + at.q + block.b * a.q_stride[0] + block.h * a.q_stride[1] +
                                       block.i * a.q_stride[2], packed_q[n]);
    }
    k = K_PLACE(k, at.k + chunk.b * a.k_stride[0] + chunk.h / a.group * a.k_stride[1]);
    v = V_PLACE(v, at.v + chunk.b * a.v_stride[0] + chunk.h / a.group * a.v_stride[1]);
    for (long tile = begin; tile < end; tile += BN) {
        const long tile_end = min(tile + BN, end);
#if STAGED
        for (int n = 0; n < (int)(tile_end - tile); n++) {
            stage_key(k_staged + n * DIM_QK, K_PLACE(k, (tile + n) * a.k_stride[2]), K_STEP);
            stage_value(v_staged + n * DIM_V, V_PLACE(v, (tile + n) * a.v_stride[2]), V_STEP);
        }
        source tile_k = k_staged, tile_v = v_staged;
#else
        source tile_k = k + tile * k_row, tile_v = v + tile * v_row;
#endif
        int spoils = -1;
        for (int n = 0; n < BLOCKS; n++) {
            const struct place block = block_of(chunk, n);
            if (block.queries == 0)
                break;
            if (HAS_WINDOW) /* each block has keys of its own */
                spoils = -1;
            const long last = block.i + block.queries - 1;
            const long all_begin = first_key(a, block.e, last);
            const long all_end = end_key(a, block.e, block.i);
            const long block_end = min(end_key(a, block.e, last), tile_end);
            long stop;
            for (long j = max(first_key(a, block.e, block.i), tile); j < block_end; j = stop) {
                const source keys = tile_k + (j - tile) * k_row;
                const source values = tile_v + (j - tile) * v_row;
                /* A rest that all see is worth no tile of its own. */
                if (!HIDES_ANYWHERE && j >= all_begin &&
                    (all_end >= block_end || all_end - j >= BN / 2)) {
                    stop = min(all_end, block_end);
                    add_tile(0, a, at, block, j, (int)(stop - j), packed_q[n], keys, k_row,
                             values, v_row, s, &spoils, top[n], total[n],
                             packed_o[n] BIAS_ARG MASK_ARG SLOPES_ARG);
                } else {
                    stop = block_end;
#if HIDES_ANYWHERE || HAS_WINDOW
                    add_tile(1, a, at, block, j, (int)(stop - j), packed_q[n], keys, k_row,
                             values, v_row, s, &spoils, top[n], total[n],
                             packed_o[n] BIAS_ARG MASK_ARG SLOPES_ARG);
#endif
                }
            }
        }
    }
    for (int n = 0; n < BLOCKS; n++)
        finish_block(a, at, block_of(chunk, n), packed_o[n], top[n], total[n],
                     o SINKS_ARG LSE_ARG);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void fused_lanes(SHAPE_PARAMS, const __global storage *restrict q,
                 const __global k_storage *restrict k, const __global v_storage *restrict v,
                 __global storage *restrict o BIAS_PARAM MASK_PARAM SLOPES_PARAM SINKS_PARAM
                     Q_LENGTHS_PARAM KV_LENGTHS_PARAM LSE_PARAM)
{
    const long chunks = (a.seq_q + BM * BLOCKS - 1) / (BM * BLOCKS);
    const long x = get_global_id(0);
    struct place chunk;

    chunk.h = get_global_id(1);
    chunk.b = get_global_id(2);
    chunk.e = extent_of(a, at, chunk.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    for (int part = 0; part <= PAIRS; part++) {
        const long n = part ? chunks - 1 - x : x;
        if (part && n == x)
            break;
        chunk.i = n * BM * BLOCKS;
        compute_chunk(a, at, chunk, q, k, v,
                      o BIAS_ARG MASK_ARG SLOPES_ARG SINKS_ARG LSE_ARG);
    }
}
