/* backward_lanes: dq, dk and dv in one pass over the pairs, for CPUs. Formulas: clattn/problem.h.
 *
 * Stages     backward_rows    delta = dot(do, o) of each row, and -lse, into the workspace
 *            backward_lanes   local (1, 1, 1), global (RANGES, kv_heads, batch): one work-item has
 *                             every RANGES-th block of BM keys of one kv head, and all queries that
 *                             see them, of all query heads of that head. dk and dv stay with it; its
 *                             share of dq goes to sums of its own in the workspace
 *            backward_bias    dbias: the scores once more, summed over what the bias broadcasts over
 *            backward_sum     dq from the RANGES sums, dslopes, dsinks
 *            Each sum is formed in an order that depends on nothing but the problem and the
 *            tunables: the same inputs give the same bits.
 * Lanes      are keys: an element of q or do, as it lies in memory, is broadcast to all lanes and
 *            multiplied with MV vectors of keys or values, so that only the block's k and v and its
 *            dk and dv are transposed. In dq the lanes are columns.
 * Tiles      of at most BQ queries: scores, weights, their gradients, then the three sums. Queries
 *            that see no key of the block are in no tile; in tiles whose queries all see all of its
 *            keys no mask is looked at.
 * Ragged     Nothing outside the tensors is read: keys beyond the last are zeros.
 * Speed      as fused_lanes.cl: never build it with fast-math options.
 * Workspace  [rows][2] -lse in the scores' unit and -delta; [RANGES][rows][ROW_QK] sums of dq;
 *            [RANGES][batch][heads] sums of dslopes
 * Tunables   src/tunables/backward_lanes.def, all defined by the host; no fallbacks here. */
#include "common.cl"

#if !defined(WIDTH) || !defined(MV) || !defined(NB) || !defined(DB) || !defined(BQ) ||             \
    !defined(NQ) || !defined(DQ) || !defined(RANGES)
#error "backward_lanes.cl must be built with all of its tunables defined"
#endif

#include "lanes.h"
#include "lane_scores.h"
#include "backward.h"
#if HAS_DROPOUT
#define RANDOM_LANES WIDTH
#include "philox.h"
#endif

#define BM (WIDTH * MV)
#define ROW_QK ROUNDED(DIM_QK)
#define ROW_V ROUNDED(DIM_V)

/* A block of keys of one kv head, packed, and what one query head does with it. */
struct place {
    long b, h, j; /* j: its first key */
    struct extent e;
    int keys;      /* of it in use, 0..BM */
    int nonfinite; /* one of them holds an infinity or a NaN */
};

/* ---- products ------------------------------------------------------------------------------- */

/* products[n] = start[n] + rows[n] . columns for count rows; those after them repeat the last. */
INLINE void multiply_rows(const int dim, source rows, const long row, const long column,
                          const lanes *columns, const float *start, const int count,
                          lanes *products)
{
    for (int n0 = 0; n0 < count; n0 += NB) {
        source x[NB];
        lanes sum[NB][MV];
        UNROLL
        for (int n = 0; n < NB; n++) {
            const int used = min(n0 + n, count - 1);
            x[n] = rows + used * row;
            UNROLL
            for (int m = 0; m < MV; m++)
                sum[n][m] = start[used];
        }
        for (int d = 0; d < dim; d++) {
            lanes y[MV];
            UNROLL
            for (int m = 0; m < MV; m++)
                y[m] = columns[d * MV + m];
            UNROLL
            for (int n = 0; n < NB; n++) {
                const lanes z = x[n][d * column];
                UNROLL
                for (int m = 0; m < MV; m++)
                    sum[n][m] = fma(y[m], z, sum[n][m]);
            }
        }
        UNROLL
        for (int n = 0; n < NB; n++) {
            UNROLL
            for (int m = 0; m < MV; m++)
                products[(n0 + n) * MV + m] = sum[n][m];
        }
    }
}

/* sums[d] += sum_n w[n] rows[n][d] for `columns` (constant, at most DB) values of d. */
INLINE void add_columns(const int columns, const lanes *w, source rows, const long row,
                        const long column, const int count, lanes *sums)
{
    lanes sum[DB][MV];

    UNROLL
    for (int c = 0; c < DB; c++) {
        UNROLL
        for (int m = 0; m < MV; m++)
            sum[c][m] = c < columns ? sums[c * MV + m] : (lanes)(0.0f);
    }
    for (int n = 0; n < count; n++) {
        lanes x[MV];
        UNROLL
        for (int m = 0; m < MV; m++)
            x[m] = w[n * MV + m];
        UNROLL
        for (int c = 0; c < DB; c++) {
            if (c < columns) {
                const lanes y = rows[n * row + c * column];
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
                sums[c * MV + m] = sum[c][m];
    }
}

/* All `dim` columns. */
INLINE void add_rows(const int dim, const lanes *w, source rows, const long row, const long column,
                     const int count, lanes *sums)
{
    for (int d = 0; d + DB <= dim; d += DB)
        add_columns(DB, w, rows + d * column, row, column, count, sums + d * MV);
    if (dim % DB)
        add_columns(dim % DB, w, rows + dim / DB * DB * column, row, column, count,
                    sums + dim / DB * DB * MV);
}

#define HIDDEN_BITS INT_MIN /* of -0: a weight that is NaN may be negative too */

/* Likewise, but leaving out the pairs that p says are hidden, by a weight of -0. */
INLINE void add_visible_rows(const int dim, const lanes *p, const lanes *w, source rows,
                             const long row, const long column, const int count, lanes *sums)
{
    for (int d = 0; d < dim; d++) {
        for (int m = 0; m < MV; m++) {
            lanes sum = sums[d * MV + m];
            for (int n = 0; n < count; n++) {
                const lanes y = rows[n * row + d * column];
                sum = VECTOR(as_int)(p[n * MV + m]) == HIDDEN_BITS ? sum : fma(w[n * MV + m], y, sum);
            }
            sums[d * MV + m] = sum;
        }
    }
}

/* to[n][..] += sum_j w[n][j] k[j][..] over `keys` keys, for NQ rows (count of them in use) and
 * `vectors` (constant, at most DQ) vectors of columns. */
INLINE void add_query_rows(const int vectors, const float *w, const float *k, const int keys,
                           const int count, __global float *to)
{
    lanes sum[NQ][DQ];
    const float *x[NQ];

    UNROLL
    for (int n = 0; n < NQ; n++) {
        x[n] = w + min(n, count - 1) * BM;
        UNROLL
        for (int c = 0; c < DQ; c++)
            sum[n][c] = c < vectors && n < count ? VECTOR(vload)(c, to + n * ROW_QK) : (lanes)(0.0f);
    }
    for (int j = 0; j < keys; j++) {
        lanes y[DQ];
        UNROLL
        for (int c = 0; c < DQ; c++)
            y[c] = c < vectors ? VECTOR(vload)(c, k + j * ROW_QK) : (lanes)(0.0f);
        UNROLL
        for (int n = 0; n < NQ; n++) {
            const lanes z = x[n][j];
            UNROLL
            for (int c = 0; c < DQ; c++)
                if (c < vectors)
                    sum[n][c] = fma(y[c], z, sum[n][c]);
        }
    }
    UNROLL
    for (int n = 0; n < NQ; n++) {
        UNROLL
        for (int c = 0; c < DQ; c++)
            if (c < vectors && n < count)
                VECTOR(vstore)(sum[n][c], c, to + n * ROW_QK);
    }
}

INLINE void add_queries(const float *w, const float *k, const int keys, const int count,
                        __global float *to)
{
    const int vectors = ROW_QK / WIDTH, rest = vectors / DQ * DQ;

    for (int n = 0; n < count; n += NQ) {
        for (int c = 0; c + DQ <= vectors; c += DQ)
            add_query_rows(DQ, w + n * BM, k + c * WIDTH, keys, count - n,
                           to + n * ROW_QK + c * WIDTH);
        if (ROW_QK / WIDTH % DQ)
            add_query_rows(ROW_QK / WIDTH % DQ, w + n * BM, k + rest * WIDTH, keys, count - n,
                           to + n * ROW_QK + rest * WIDTH);
    }
}

INLINE void add_visible_queries(const float *p, const float *w, const float *k, const int keys,
                                const int count, __global float *to)
{
    for (int n = 0; n < count; n++) {
        for (int j = 0; j < keys; j++) {
            if (as_int(p[n * BM + j]) == HIDDEN_BITS)
                continue;
            for (int d = 0; d < DIM_QK; d++)
                to[n * ROW_QK + d] = fma(w[n * BM + j], k[j * ROW_QK + d], to[n * ROW_QK + d]);
        }
    }
}

/* Whether one of the values is infinite or NaN, which a weight of 0 would not keep away. */
INLINE int has_nonfinite(const int dim, source rows, const long row, const long column,
                         const int count)
{
    float sum = 0.0f;

    for (int n = 0; n < count; n++) {
        for (int d = 0; d < dim; d++)
            sum = fma(rows[n * row + d * column], 0.0f, sum);
    }
    return sum != 0.0f;
}

/* ---- packing -------------------------------------------------------------------------------- */

/* Rows of a tensor as lanes, columns[d][row] times factor, and as they are where rows is not null;
 * zeros after the last. Whether a value is infinite or NaN. */
INLINE int pack_keys(const int dim, const __global storage *p, const long row, const long column,
                     const int count, const float factor, lanes *columns, float *rows)
{
    lanes nothing = 0.0f;

    for (int m = 0; m < MV; m++) {
        for (int d = 0; d < dim; d += WIDTH) {
            lanes x[WIDTH];
            UNROLL
            for (int r = 0; r < WIDTH; r++) {
                const int n = m * WIDTH + r;
                x[r] = 0.0f;
                if (n < count)
                    x[r] = load_row(p + n * row + d * column, column, dim - d);
                nothing = fma(x[r], (lanes)(0.0f), nothing);
                if (rows)
                    VECTOR(vstore)(x[r], 0, rows + n * ROUNDED(dim) + d);
            }
            transpose(x);
            UNROLL
            for (int c = 0; c < WIDTH; c++)
                columns[(d + c) * MV + m] = x[c] * factor;
        }
    }
    return any_lane(nothing != 0.0f);
}

INLINE void unpack_keys(const int dim, const lanes *columns, const float factor, const int count,
                        __global storage *p, const long row, const long column)
{
    for (int m = 0; m < MV; m++) {
        for (int d = 0; d < dim; d += WIDTH) {
            lanes x[WIDTH];
            UNROLL
            for (int c = 0; c < WIDTH; c++)
                x[c] = columns[(d + c) * MV + m] * factor;
            transpose(x);
            UNROLL
            for (int r = 0; r < WIDTH; r++)
                if (m * WIDTH + r < count)
                    store_row(x[r], p + (m * WIDTH + r) * row + d * column, column, dim - d);
        }
    }
}

/* ---- tiles ---------------------------------------------------------------------------------- */

/* One tile of queries as the products read them: where they are, or f32 copies. */
struct tile {
    source q, d_o;
    long q_row, q_column, do_row, do_column;
    long i;
    int count;
};

/* Points the tile at count queries from i on, by way of the copies where values are converted. */
INLINE struct tile open_tile(SHAPE_PARAMS, const struct place block, const long i, const int count,
                             const __global storage *q, const __global storage *d_o, float *q_copy,
                             float *do_copy)
{
    struct tile tile = {.i = i, .count = count};

    q += at.q + block.b * a.q_stride[0] + block.h * a.q_stride[1] + i * a.q_stride[2];
    d_o += at.d_o + block.b * a.do_stride[0] + block.h * a.do_stride[1] + i * a.do_stride[2];
#if STAGED
    for (int n = 0; n < count; n++) {
        stage_row(q_copy + n * DIM_QK, q + n * a.q_stride[2], Q_STEP, DIM_QK);
        stage_row(do_copy + n * DIM_V, d_o + n * a.do_stride[2], DO_STEP, DIM_V);
    }
    tile.q = q_copy;
    tile.d_o = do_copy;
    tile.q_row = DIM_QK;
    tile.do_row = DIM_V;
    tile.q_column = tile.do_column = 1;
#else
    (void)q_copy;
    (void)do_copy;
    tile.q = q;
    tile.d_o = d_o;
    tile.q_row = a.q_stride[2];
    tile.do_row = a.do_stride[2];
    tile.q_column = Q_STEP;
    tile.do_column = DO_STEP;
#endif
    return tile;
}

#if STAGED || UNIT_Q
#define TILE_Q_COLUMN 1
#else
#define TILE_Q_COLUMN tile.q_column
#endif
#if STAGED || UNIT_DO
#define TILE_DO_COLUMN 1
#else
#define TILE_DO_COLUMN tile.do_column
#endif

/* Whether some query of the tile may not see some key of the block. */
INLINE int tile_hides(const struct attention_shape a, const struct place block, const long i,
                      const int count)
{
    return HIDES_ANYWHERE || block.keys < BM || end_key(a, block.e, i) < block.j + BM ||
           first_key(a, block.e, i + count - 1) > block.j;
}

#if HAS_DROPOUT
/* x[n][m]: what the weights of query i + n and the keys of vector m are multiplied by. The random
 * numbers of four queries are computed at once, since four neighbouring keys share a counter. */
INLINE void four_rows_of_factors(SHAPE_PARAMS, const struct place block, const long i,
                                 lanes x[4][MV])
{
    const words lane = VECTOR(convert_uint)(COUNT_UP);

    for (int m = 0; m < MV; m++) {
        lanes y[4];
        dropout_factors(a, at, block.b * a.heads + block.h, (uint)i + (lane & 3u),
                        (uint)((block.j + m * WIDTH) / 4) + (lane >> 2), y);
        transpose_fours(y);
        UNROLL
        for (int n = 0; n < 4; n++)
            x[n][m] = y[n];
    }
}
#endif

/* p and ds of a tile, p after dropout; -0 in p where a pair is hidden, and 0 in ds. True if one is. slope_sums
 * collects ds times the distance. ds_is_raw: without softcap's derivative, as the bias wants it. */
INLINE int weigh_tile(const int hides, const int ds_is_raw, SHAPE_PARAMS, const struct place block,
                      const struct tile tile, const __global float *rows, const lanes *k,
                      const lanes *v, lanes *p, lanes *ds,
                      lanes *slope_sums BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    float base[BQ], delta[BQ], none[BQ];
    ints hidden = 0;

    for (int n = 0; n < tile.count; n++) {
        base[n] = rows[2 * n];
        delta[n] = rows[2 * n + 1];
        none[n] = 0.0f;
    }
    multiply_rows(DIM_QK, tile.q, tile.q_row, TILE_Q_COLUMN, k, CHANGES_SCORES ? none : base,
                  tile.count, p);
    multiply_rows(DIM_V, tile.d_o, tile.do_row, TILE_DO_COLUMN, v, HAS_DROPOUT ? none : delta,
                  tile.count, ds);
#if HAS_DROPOUT
    lanes kept[4][MV];
#endif
    for (int n = 0; n < tile.count; n++) {
        const long i = tile.i + n;
#if HAS_DROPOUT
        if (n % 4 == 0)
            four_rows_of_factors(a, at, block, i, kept);
#endif
        const float begins = (float)clamp(first_key(a, block.e, i) - block.j, 0L, (long)BM);
        const float ends = (float)clamp(end_key(a, block.e, i) - block.j, 0L, (long)block.keys);
        for (int m = 0; m < MV; m++) {
            const lanes key = COUNT_UP + (float)(m * WIDTH);
            lanes x = p[n * MV + m];
            lanes slack = 1.0f;
            ints gone = 0;
            if (hides)
                gone = key < begins | key >= ends;
#if HAS_SOFTCAP
            const lanes t = hyperbolic_tangent(x * min(1.0f / a.softcap, FLT_MAX));
            slack = fma(-t, t, (lanes)(1.0f));
            x = t * (a.softcap * UNIT);
#endif
#if HAS_BIAS
            const lanes extra = load_biases(
                bias + at.bias + block.b * a.bias_stride[0] + block.h * a.bias_stride[1] +
                    i * a.bias_stride[2] + (block.j + m * WIDTH) * a.bias_stride[3],
                a.bias_stride[3], block.keys - m * WIDTH);
            gone |= extra == -INFINITY;
            x += extra;
#endif
#if HAS_ALIBI
            const lanes distance = key + (float)(block.j - i - block.e.diagonal);
            x = fma((lanes)(slopes[at.slopes + block.h] * UNIT), distance, x);
#endif
#if HAS_MASK
            gone |= load_mask(mask + at.mask + block.b * a.mask_stride[0] +
                                  block.h * a.mask_stride[1] + i * a.mask_stride[2] +
                                  (block.j + m * WIDTH) * a.mask_stride[3],
                              a.mask_stride[3], block.keys - m * WIDTH) == 0.0f;
#endif
            if (CHANGES_SCORES)
                x += base[n];
            lanes weight = EXPONENTIAL(x);
#if HAS_DROPOUT
            lanes gradient = weight * fma(kept[n % 4][m], ds[n * MV + m], (lanes)(delta[n]));
            weight *= kept[n % 4][m];
#else
            lanes gradient = weight * ds[n * MV + m];
#endif
            if (hides) {
                weight = gone ? (lanes)(-0.0f) : weight;
                gradient = gone ? (lanes)(0.0f) : gradient;
                slack = gone ? (lanes)(0.0f) : slack; /* of a NaN, otherwise */
                hidden |= gone;
            }
#if HAS_DSLOPES
            *slope_sums = fma(gradient, distance, *slope_sums);
#endif
            p[n * MV + m] = weight;
            ds[n * MV + m] = HAS_SOFTCAP && !ds_is_raw ? gradient * slack : gradient;
        }
    }
    (void)slope_sums;
    return any_lane(hidden);
}

/* A tile's part in dk, dv and the sums of dq. */
INLINE void add_tile(const int hides, SHAPE_PARAMS, const struct place block,
                     const struct tile tile, const __global float *rows, const lanes *k,
                     const lanes *v, const float *k_rows, lanes *p, lanes *ds, lanes *dk, lanes *dv,
                     __global float *dq, lanes *slope_sums BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    const int hidden = weigh_tile(hides, 0, a, at, block, tile, rows, k, v, p, ds,
                                  slope_sums BIAS_ARG MASK_ARG SLOPES_ARG);

    if (hides && hidden &&
        (has_nonfinite(DIM_QK, tile.q, tile.q_row, TILE_Q_COLUMN, tile.count) ||
         has_nonfinite(DIM_V, tile.d_o, tile.do_row, TILE_DO_COLUMN, tile.count))) {
        add_visible_rows(DIM_V, p, p, tile.d_o, tile.do_row, TILE_DO_COLUMN, tile.count, dv);
        add_visible_rows(DIM_QK, p, ds, tile.q, tile.q_row, TILE_Q_COLUMN, tile.count, dk);
    } else {
        add_rows(DIM_V, p, tile.d_o, tile.do_row, TILE_DO_COLUMN, tile.count, dv);
        add_rows(DIM_QK, ds, tile.q, tile.q_row, TILE_Q_COLUMN, tile.count, dk);
    }
    if (hides && hidden && block.nonfinite)
        add_visible_queries((const float *)p, (const float *)ds, k_rows, block.keys, tile.count,
                            dq);
    else
        add_queries((const float *)ds, k_rows, hides ? block.keys : BM, tile.count, dq);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Packs the block's keys and values. */
INLINE void open_block(SHAPE_PARAMS, struct place *block, const __global storage *k,
                       const __global storage *v, lanes *packed_k, lanes *packed_v, float *k_rows)
{
    const long kv_head = block->h / a.group;

    block->keys = (int)clamp(block->e.keys - block->j, 0L, (long)BM);
    k += at.k + block->b * a.k_stride[0] + kv_head * a.k_stride[1] + block->j * a.k_stride[2];
    v += at.v + block->b * a.v_stride[0] + kv_head * a.v_stride[1] + block->j * a.v_stride[2];
    block->nonfinite = pack_keys(DIM_QK, k, a.k_stride[2], K_STEP, block->keys,
                                 HAS_SOFTCAP ? a.scale : a.scale * UNIT, packed_k, k_rows);
    pack_keys(DIM_V, v, a.v_stride[2], V_STEP, block->keys, 1.0f, packed_v, 0);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void backward_lanes(SHAPE_PARAMS, const __global storage *restrict q,
                    const __global storage *restrict k,
                    const __global storage *restrict v BIAS_PARAM MASK_PARAM SLOPES_PARAM
                        Q_LENGTHS_PARAM KV_LENGTHS_PARAM,
                    const __global storage *restrict d_o, __global storage *restrict dk,
                    __global storage *restrict dv, __global float *restrict work)
{
    const long range = get_global_id(0), kv_head = get_global_id(1);
    const long kv_heads = get_global_size(1), blocks = (a.seq_kv + BM - 1) / BM;
    const long all_rows = a.batch * a.heads * a.seq_q;
    lanes packed_k[ROW_QK * MV], packed_v[ROW_V * MV], sum_k[ROW_QK * MV], sum_v[ROW_V * MV];
    lanes p[(BQ + NB) * MV], ds[(BQ + NB) * MV], k_rows[BM * ROW_QK / WIDTH];
#if STAGED
    float q_copy[BQ * DIM_QK], do_copy[BQ * DIM_V];
#else
    float *q_copy = 0, *do_copy = 0;
#endif
    struct place block;

    block.b = get_global_id(2);
    block.e = extent_of(a, at, block.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    const __global float *rows = work + at.workspace;
    __global float *sums = work + at.workspace + 2 * all_rows + range * all_rows * ROW_QK;
    __global float *slope_totals = work + at.workspace + 2 * all_rows +
                                   RANGES * all_rows * ROW_QK +
                                   (range * a.batch + block.b) * a.heads;
    const long first_head = kv_head * a.group, end_head = first_head + a.group;
    for (long n = row_of(a, block.b, first_head, 0) * ROW_QK;
         n < row_of(a, block.b, end_head, 0) * ROW_QK; n++)
        sums[n] = 0.0f;
#if HAS_DSLOPES
    for (long h = first_head; h < end_head; h++)
        slope_totals[h] = 0.0f;
#endif
    /* There and back, so that under a causal mask all ranges have the same work. */
    for (long turn = 0; turn * RANGES < blocks; turn++) {
        const long n = turn * RANGES + (turn % 2 ? RANGES - 1 - range : range);
        if (n >= blocks)
            continue;
        block.j = n * BM;
        block.h = first_head;
        open_block(a, at, &block, k, v, packed_k, packed_v, (float *)k_rows);
        for (int d = 0; d < ROW_QK * MV; d++)
            sum_k[d] = 0.0f;
        for (int d = 0; d < ROW_V * MV; d++)
            sum_v[d] = 0.0f;
        const long begin = first_query(a, block.e, block.j);
        const long end = end_query(a, block.e, block.j, block.keys);
        for (; block.h < end_head; block.h++) {
            const long row = row_of(a, block.b, block.h, 0);
            lanes slope_sums = 0.0f;
            for (long i = begin; i < end; i += BQ) {
                const int count = (int)min(end - i, (long)BQ);
                const struct tile tile =
                    open_tile(a, at, block, i, count, q, d_o, q_copy, do_copy);
                if (tile_hides(a, block, i, count))
                    add_tile(1, a, at, block, tile, rows + 2 * (row + i), packed_k, packed_v,
                             (const float *)k_rows, p, ds, sum_k, sum_v, sums + (row + i) * ROW_QK,
                             &slope_sums BIAS_ARG MASK_ARG SLOPES_ARG);
#if !HIDES_ANYWHERE
                else
                    add_tile(0, a, at, block, tile, rows + 2 * (row + i), packed_k, packed_v,
                             (const float *)k_rows, p, ds, sum_k, sum_v, sums + (row + i) * ROW_QK,
                             &slope_sums BIAS_ARG MASK_ARG SLOPES_ARG);
#endif
            }
#if HAS_DSLOPES
            slope_totals[block.h] += sum_lanes(slope_sums);
#endif
        }
        const int stored = (int)min(a.seq_kv - block.j, (long)BM);
        unpack_keys(DIM_QK, sum_k, a.scale, stored,
                    dk + at.dk + block.b * a.dk_stride[0] + kv_head * a.dk_stride[1] +
                        block.j * a.dk_stride[2],
                    a.dk_stride[2], DK_STEP);
        unpack_keys(DIM_V, sum_v, 1.0f, stored,
                    dv + at.dv + block.b * a.dv_stride[0] + kv_head * a.dv_stride[1] +
                        block.j * a.dv_stride[2],
                    a.dv_stride[2], DV_STEP);
    }
    (void)slope_totals;
    (void)kv_heads;
}

/* Global (columns of row vectors or 1, heads, batch); one work-item a row of dq, and those of the first
 * row dslopes and dsinks of their head. */
__kernel void backward_sum(SHAPE_PARAMS, __global storage *restrict dq, const __global float *restrict work)
{
    const long i = get_global_id(0), h = get_global_id(1), b = get_global_id(2);
    const long all_rows = a.batch * a.heads * a.seq_q;
    const __global float *sums = work + at.workspace + 2 * all_rows + row_of(a, b, h, i) * ROW_QK;

    dq += at.dq + b * a.dq_stride[0] + h * a.dq_stride[1] + i * a.dq_stride[2];
    for (int d = 0; d < DIM_QK; d += WIDTH) {
        lanes sum = VECTOR(vload)(0, sums + d);
        for (long range = 1; range < RANGES; range++)
            sum += VECTOR(vload)(0, sums + range * all_rows * ROW_QK + d);
        store_row(sum * a.scale, dq + d * DQ_STEP, DQ_STEP, DIM_QK - d);
    }
}

#if HAS_DSLOPES || HAS_DSINKS
/* Global (heads): what is summed over batches and rows, in their order. */
__kernel void backward_heads(SHAPE_PARAMS SINKS_PARAM, const __global float *restrict lse DSLOPES_PARAM DSINKS_PARAM,
                             const __global float *restrict work)
{
    const long h = get_global_id(0), all_rows = a.batch * a.heads * a.seq_q;
    const __global float *rows = work + at.workspace;
    const __global float *totals = rows + 2 * all_rows + RANGES * all_rows * ROW_QK;
    float sum = 0.0f;

#if HAS_DSLOPES
    for (long n = 0; n < RANGES * a.batch; n++)
        sum += totals[n * a.heads + h];
    dslopes[at.dslopes + h] = sum;
#endif
#if HAS_DSINKS
    sum = 0.0f;
    for (long b = 0; b < a.batch; b++) {
        for (long i = 0; i < a.seq_q; i++) {
            const long row = row_of(a, b, h, i);
            sum += sink_term(sinks[at.sinks + h], lse[at.lse + row], rows[2 * row + 1]);
        }
    }
    dsinks[at.dsinks + h] = sum;
#endif
}
#endif

#if HAS_DBIAS
/* Local (1, 1, 1), global (blocks of keys, or 1; tiles of queries, or 1; heads * batch of the bias).
 * A tile of dbias, or its sum over the dimensions that the bias broadcasts over. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void backward_bias(SHAPE_PARAMS, const __global storage *restrict q,
                   const __global storage *restrict k,
                   const __global storage *restrict v BIAS_PARAM MASK_PARAM SLOPES_PARAM
                       Q_LENGTHS_PARAM KV_LENGTHS_PARAM,
                   const __global storage *restrict d_o, __global bias_storage *restrict dbias,
                   const __global float *restrict work)
{
    const int over_b = a.bias_stride[0] == 0, over_h = a.bias_stride[1] == 0;
    const int over_i = a.bias_stride[2] == 0, over_j = a.bias_stride[3] == 0;
    const long bias_heads = over_h ? 1 : a.heads;
    const long own_b = get_global_id(2) / bias_heads, own_h = get_global_id(2) % bias_heads;
    const long own_i = get_global_id(1) * BQ, own_j = get_global_id(0) * BM;
    lanes packed_k[ROW_QK * MV], packed_v[ROW_V * MV], p[(BQ + NB) * MV], ds[(BQ + NB) * MV];
    lanes sum[BQ * MV], unused = 0.0f;
#if STAGED
    float q_copy[BQ * DIM_QK], do_copy[BQ * DIM_V];
#else
    float *q_copy = 0, *do_copy = 0;
#endif

    for (int n = 0; n < BQ * MV; n++)
        sum[n] = 0.0f;
    for (long b = own_b; b < (over_b ? a.batch : own_b + 1); b++) {
        struct place block;
        block.b = b;
        block.e = extent_of(a, at, b Q_LENGTHS_ARG KV_LENGTHS_ARG);
        for (block.h = own_h; block.h < (over_h ? a.heads : own_h + 1); block.h++) {
            const long row = row_of(a, b, block.h, 0);
            for (block.j = own_j; block.j < (over_j ? a.seq_kv : own_j + 1); block.j += BM) {
                open_block(a, at, &block, k, v, packed_k, packed_v, 0);
                const long end = min(end_query(a, block.e, block.j, block.keys),
                                     over_i ? a.seq_q : own_i + BQ);
                const long begin = first_query(a, block.e, block.j);
                for (long i = own_i; i < end; i += BQ) {
                    const int count = (int)min(end - i, (long)BQ);
                    if (i + count <= begin)
                        continue;
                    const struct tile tile =
                        open_tile(a, at, block, i, count, q, d_o, q_copy, do_copy);
                    weigh_tile(1, 1, a, at, block, tile, work + at.workspace + 2 * (row + i),
                               packed_k, packed_v, p, ds, &unused BIAS_ARG MASK_ARG SLOPES_ARG);
                    for (int n = 0; n < count; n++)
                        for (int m = 0; m < MV; m++)
                            sum[(over_i ? 0 : n * MV) + m] += ds[n * MV + m];
                }
            }
        }
    }
    dbias += at.dbias + own_b * a.bias_stride[0] + own_h * a.bias_stride[1] +
             own_i * a.bias_stride[2] + own_j * a.bias_stride[3];
    for (int n = 0; n < (over_i ? 1 : (int)min(a.seq_q - own_i, (long)BQ)); n++) {
        const float *columns = (const float *)(sum + n * MV);
        float total = 0.0f;
        for (int j = 0; j < (over_j ? BM : (int)min(a.seq_kv - own_j, (long)BM)); j++) {
            total += columns[j];
            if (!over_j)
                STORE_BIAS(columns[j], dbias, n * a.bias_stride[2] + j * a.bias_stride[3]);
        }
        if (over_j)
            STORE_BIAS(total, dbias, n * a.bias_stride[2]);
    }
}
#endif
