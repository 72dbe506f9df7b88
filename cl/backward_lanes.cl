/* backward_lanes: dq, dk and dv in one pass over the pairs, for CPUs. Formulas: clattn/problem.h.
 *
 * Stages     backward_rows    delta = dot(do, o) of each row, and -lse, into the workspace
 *            backward_lanes   local (1, 1, 1), global (RANGES, kv_heads, batch): one work-item has
 *                             every RANGES-th chunk of BLOCKS blocks of BM keys of one kv head, and
 *                             all queries that see them, of all query heads of that head. dk and dv
 *                             stay with it; its share of dq goes to sums of its own in the
 *                             workspace
 *            backward_bias    dbias: the scores once more, summed over what the bias broadcasts
 *                             over
 *            backward_sum     dq from the RANGES sums, dslopes, dsinks
 *            Each sum is formed in an order that depends on nothing but the problem and the
 *            tunables: the same inputs give the same bits.
 * Lanes      are keys: an element of q or do is broadcast to all lanes and multiplied with MV
 *            vectors of keys or values, so that only the block's k and v and its dk and dv are
 *            transposed. In dq the lanes are columns.
 * Tiles      of at most BQ queries, copied once for all blocks of a chunk, since caches near the
 *            core do not hold all of a head: scores, weights, their gradients, then the three sums.
 *            Queries that see no key of the chunk are in no tile; tiles that see no key of a
 *            block leave it out; where all queries see all of its keys no mask is looked at.
 * Ragged     Nothing outside the tensors is read: keys beyond the last are zeros.
 * Speed      as fused_lanes.cl: never build it with fast-math options.
 * Workspace  [rows][2] -lse in the scores' unit and -delta; [RANGES][rows][ROW_QK] sums of dq;
 *            [RANGES][batch][heads] sums of dslopes
 * Tunables   src/tunables/backward_lanes.def, all defined by the host; no fallbacks here. */
#include "common.cl"

#if !defined(WIDTH) || !defined(MV) || !defined(NB) || !defined(DB) || !defined(BQ) ||             \
    !defined(NQ) || !defined(DQ) || !defined(BLOCKS) || !defined(RANGES)
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
#define VECTORS_QK (ROW_QK / WIDTH)

struct place {
    long b, h; /* h: of the query heads */
    struct extent e;
};

/* A block of keys of one kv head, packed, and its sums over the queries. Lanes are keys, but in
 * k_rows, which are as in memory. */
struct block {
    long j;        /* its first key */
    int keys;      /* of it in use, 0..BM */
    int nonfinite; /* one of them holds an infinity or a NaN */
    lanes k[ROW_QK * MV], v[ROW_V * MV], dk[ROW_QK * MV], dv[ROW_V * MV];
    lanes k_rows[BM * ROW_QK / WIDTH];
};

/* Queries of one head, in f32. Rows after the last in use are zeros. */
struct tile {
    long i; /* the first */
    int count;
    int nonfinite;
    lanes q[BQ * ROW_QK / WIDTH], d_o[BQ * ROW_V / WIDTH], dq[BQ * ROW_QK / WIDTH];
    float base[BQ], delta[BQ]; /* -lse and -delta */
    lanes p[BQ * MV], ds[BQ * MV];
};

/* ---- products ------------------------------------------------------------------------------- */

/* products[n] = start[n] + rows[n] . columns for count rows, rounded up to NB. */
INLINE void multiply_rows(const int dim, const float *rows, const int row, const lanes *columns,
                          const float *start, const int count, lanes *products)
{
    for (int n0 = 0; n0 < count; n0 += NB) {
        lanes sum[NB][MV];
        UNROLL
        for (int n = 0; n < NB; n++) {
            UNROLL
            for (int m = 0; m < MV; m++)
                sum[n][m] = start[n0 + n];
        }
        const float *x = rows + n0 * row;
        for (int d = 0; d < dim; d++) {
            lanes y[MV];
            UNROLL
            for (int m = 0; m < MV; m++)
                y[m] = columns[d * MV + m];
            UNROLL
            for (int n = 0; n < NB; n++) {
                const lanes z = x[n * row + d];
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
INLINE void add_columns(const int columns, const lanes *w, const float *rows, const int row,
                        const int count, lanes *sums)
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
                const lanes y = rows[n * row + c];
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
INLINE void add_rows(const int dim, const lanes *w, const float *rows, const int row,
                     const int count, lanes *sums)
{
    for (int d = 0; d + DB <= dim; d += DB)
        add_columns(DB, w, rows + d, row, count, sums + d * MV);
    if (dim % DB)
        add_columns(dim % DB, w, rows + dim / DB * DB, row, count, sums + dim / DB * DB * MV);
}

#define HIDDEN_BITS INT_MIN /* of -0: a weight that is NaN may be negative too */

/* Likewise, but leaving out the pairs that p says are hidden, by a weight of -0. */
INLINE void add_visible_rows(const int dim, const lanes *p, const lanes *w, const float *rows,
                             const int row, const int count, lanes *sums)
{
    for (int d = 0; d < dim; d++) {
        for (int m = 0; m < MV; m++) {
            lanes sum = sums[d * MV + m];
            for (int n = 0; n < count; n++) {
                const lanes y = rows[n * row + d];
                const ints hidden = VECTOR(as_int)(p[n * MV + m]) == HIDDEN_BITS;
                sum = hidden ? sum : fma(w[n * MV + m], y, sum);
            }
            sums[d * MV + m] = sum;
        }
    }
}

/* to[n][..] += sum_j w[n][j] k[j][..] over `keys` keys, for NQ rows and `vectors` (constant, at
 * most DQ) vectors of columns. */
INLINE void add_query_rows(const int vectors, const float *w, const lanes *k, const int keys,
                           lanes *to)
{
    lanes sum[NQ][DQ];

    UNROLL
    for (int n = 0; n < NQ; n++) {
        UNROLL
        for (int c = 0; c < DQ; c++)
            sum[n][c] = c < vectors ? to[n * VECTORS_QK + c] : (lanes)(0.0f);
    }
    for (int j = 0; j < keys; j++) {
        lanes y[DQ];
        UNROLL
        for (int c = 0; c < DQ; c++)
            y[c] = c < vectors ? k[j * VECTORS_QK + c] : (lanes)(0.0f);
        UNROLL
        for (int n = 0; n < NQ; n++) {
            const lanes z = w[n * BM + j];
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
            if (c < vectors)
                to[n * VECTORS_QK + c] = sum[n][c];
    }
}

/* Likewise for count rows, rounded up to NQ, and all columns. */
INLINE void add_queries(const float *w, const lanes *k, const int keys, const int count, lanes *to)
{
    const int rest = VECTORS_QK / DQ * DQ;

    for (int n = 0; n < count; n += NQ) {
        for (int c = 0; c < rest; c += DQ)
            add_query_rows(DQ, w + n * BM, k + c, keys, to + n * VECTORS_QK + c);
        if (VECTORS_QK % DQ)
            add_query_rows(VECTORS_QK % DQ, w + n * BM, k + rest, keys,
                           to + n * VECTORS_QK + rest);
    }
}

INLINE void add_visible_queries(const float *p, const float *w, const float *k, const int keys,
                                const int count, float *to)
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

/* BQ rows of a tensor, count of them in use, as lanes are along their columns. Whether a value is
 * infinite or NaN. */
INLINE ints copy_rows(const int dim, const __global storage *p, const long row, const long column,
                      const int count, float *to)
{
    lanes nothing = 0.0f;

    for (int n = 0; n < count; n++) {
        for (int d = 0; d < dim; d += WIDTH) {
            const int at = dim < WIDTH ? 0 : min(d, dim - WIDTH); /* the last vector overlaps */
            const lanes x = load_row(p + n * row + at * column, column, dim - at);
            nothing = fma(x, (lanes)(0.0f), nothing);
            VECTOR(vstore)(x, 0, to + n * ROUNDED(dim) + at);
        }
    }
    for (int n = count * ROUNDED(dim); n < BQ * ROUNDED(dim); n++)
        to[n] = 0.0f;
    return nothing != 0.0f;
}

/* Fills the tile with count queries from i on. rows: -lse and -delta of each. */
INLINE void open_tile(SHAPE_PARAMS, const struct place place, const long i, const int count,
                      const __global storage *q, const __global storage *d_o,
                      const __global float *rows, struct tile *tile)
{
    tile->i = i;
    tile->count = count;
    q += at.q + place.b * a.q_stride[0] + place.h * a.q_stride[1] + i * a.q_stride[2];
    d_o += at.d_o + place.b * a.do_stride[0] + place.h * a.do_stride[1] + i * a.do_stride[2];
    rows += 2 * (row_of(a, place.b, place.h, 0) + i);
    const ints nonfinite =
        copy_rows(DIM_QK, q, a.q_stride[2], Q_STEP, count, (float *)tile->q) |
        copy_rows(DIM_V, d_o, a.do_stride[2], DO_STEP, count, (float *)tile->d_o);
    tile->nonfinite = any_lane(nonfinite);
    for (int n = 0; n < BQ; n++) {
        tile->base[n] = n < count ? rows[2 * n] : 0.0f;
        tile->delta[n] = n < count ? rows[2 * n + 1] : 0.0f;
    }
}

/* Whether some query of the tile may not see some key of the block. */
INLINE int tile_hides(const struct attention_shape a, const struct extent e,
                      const struct block *block, const struct tile *tile)
{
    return HIDES_ANYWHERE || block->keys < BM || end_key(a, e, tile->i) < block->j + BM ||
           first_key(a, e, tile->i + tile->count - 1) > block->j;
}

#if HAS_DROPOUT
/* x[n][m]: what the weights of query i + n and the keys of vector m are multiplied by. The random
 * numbers of four queries are computed at once, since four neighbouring keys share a counter. */
INLINE void four_rows_of_factors(SHAPE_PARAMS, const struct place place, const long j,
                                 const long i, lanes x[4][MV])
{
    const words lane = VECTOR(convert_uint)(COUNT_UP);

    for (int m = 0; m < MV; m++) {
        lanes y[4];
        dropout_factors(a, at, place.b * a.heads + place.h, (uint)i + (lane & 3u),
                        (uint)((j + m * WIDTH) / 4) + (lane >> 2), y);
        transpose_fours(y);
        UNROLL
        for (int n = 0; n < 4; n++)
            x[n][m] = y[n];
    }
}
#endif

/* p and ds of a tile, p after dropout; -0 in p where a pair is hidden, and 0 in ds. True if one is.
 * slope_sums collects ds times the distance. ds_is_raw: without softcap's derivative, as the bias
 * wants it. */
INLINE int weigh_tile(const int hides, const int ds_is_raw, SHAPE_PARAMS, const struct place place,
                      const struct block *block, struct tile *tile,
                      lanes *slope_sums BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    const float none[BQ] = {0.0f};
    lanes *p = tile->p, *ds = tile->ds;
    ints hidden = 0;

    multiply_rows(DIM_QK, (const float *)tile->q, ROW_QK, block->k,
                  CHANGES_SCORES ? none : tile->base, tile->count, p);
    multiply_rows(DIM_V, (const float *)tile->d_o, ROW_V, block->v,
                  HAS_DROPOUT ? none : tile->delta, tile->count, ds);
#if HAS_DROPOUT
    lanes kept[4][MV];
#endif
    for (int n = 0; n < tile->count; n++) {
        const long i = tile->i + n;
#if HAS_DROPOUT
        if (n % 4 == 0)
            four_rows_of_factors(a, at, place, block->j, i, kept);
#endif
        const float begins = (float)clamp(first_key(a, place.e, i) - block->j, 0L, (long)BM);
        const float ends = (float)clamp(end_key(a, place.e, i) - block->j, 0L, (long)block->keys);
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
                bias + at.bias + place.b * a.bias_stride[0] + place.h * a.bias_stride[1] +
                    i * a.bias_stride[2] + (block->j + m * WIDTH) * a.bias_stride[3],
                a.bias_stride[3], block->keys - m * WIDTH);
            gone |= extra == -INFINITY;
            x += extra;
#endif
#if HAS_ALIBI
            const lanes distance = key + (float)(block->j - i - place.e.diagonal);
            x = fma((lanes)(slopes[at.slopes + place.h] * UNIT), distance, x);
#endif
#if HAS_MASK
            gone |= load_mask(mask + at.mask + place.b * a.mask_stride[0] +
                                  place.h * a.mask_stride[1] + i * a.mask_stride[2] +
                                  (block->j + m * WIDTH) * a.mask_stride[3],
                              a.mask_stride[3], block->keys - m * WIDTH) == 0.0f;
#endif
            if (CHANGES_SCORES)
                x += tile->base[n];
            lanes weight = EXPONENTIAL(x);
#if HAS_DROPOUT
            lanes gradient = weight * fma(kept[n % 4][m], ds[n * MV + m], (lanes)(tile->delta[n]));
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
    for (int n = tile->count * MV; n < BQ * MV; n++)
        ds[n] = 0.0f;
    (void)slope_sums;
    return any_lane(hidden);
}

/* A tile's part in dk, dv and dq. */
INLINE void add_tile(const int hides, SHAPE_PARAMS, const struct place place, struct block *block,
                     struct tile *tile, lanes *slope_sums BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    const int hidden =
        weigh_tile(hides, 0, a, at, place, block, tile, slope_sums BIAS_ARG MASK_ARG SLOPES_ARG);
    const float *q = (const float *)tile->q, *d_o = (const float *)tile->d_o;

    if (hides && hidden && tile->nonfinite) {
        add_visible_rows(DIM_V, tile->p, tile->p, d_o, ROW_V, tile->count, block->dv);
        add_visible_rows(DIM_QK, tile->p, tile->ds, q, ROW_QK, tile->count, block->dk);
    } else {
        add_rows(DIM_V, tile->p, d_o, ROW_V, tile->count, block->dv);
        add_rows(DIM_QK, tile->ds, q, ROW_QK, tile->count, block->dk);
    }
    if (hides && hidden && block->nonfinite)
        add_visible_queries((const float *)tile->p, (const float *)tile->ds,
                            (const float *)block->k_rows, block->keys, tile->count,
                            (float *)tile->dq);
    else
        add_queries((const float *)tile->ds, block->k_rows, hides ? block->keys : BM, tile->count,
                    tile->dq);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Packs keys from j on and their values. */
INLINE void open_block(SHAPE_PARAMS, const struct place place, const long j,
                       const __global storage *k, const __global storage *v, struct block *block)
{
    const long kv_head = place.h / a.group;

    block->j = j;
    block->keys = (int)clamp(place.e.keys - j, 0L, (long)BM);
    k += at.k + place.b * a.k_stride[0] + kv_head * a.k_stride[1] + j * a.k_stride[2];
    v += at.v + place.b * a.v_stride[0] + kv_head * a.v_stride[1] + j * a.v_stride[2];
    block->nonfinite = pack_keys(DIM_QK, k, a.k_stride[2], K_STEP, block->keys,
                                 HAS_SOFTCAP ? a.scale : a.scale * UNIT, block->k,
                                 (float *)block->k_rows);
    pack_keys(DIM_V, v, a.v_stride[2], V_STEP, block->keys, 1.0f, block->v, 0);
}

/* Stores dk and dv of the block's keys. */
INLINE void close_block(SHAPE_PARAMS, const struct place place, const struct block *block,
                        __global storage *dk, __global storage *dv)
{
    const long kv_head = place.h / a.group, j = block->j;
    const int count = (int)clamp(a.seq_kv - j, 0L, (long)BM);

    dk += at.dk + place.b * a.dk_stride[0] + kv_head * a.dk_stride[1] + j * a.dk_stride[2];
    dv += at.dv + place.b * a.dv_stride[0] + kv_head * a.dv_stride[1] + j * a.dv_stride[2];
    unpack_keys(DIM_QK, block->dk, a.scale, count, dk, a.dk_stride[2], DK_STEP);
    unpack_keys(DIM_V, block->dv, 1.0f, count, dv, a.dv_stride[2], DV_STEP);
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
    const long all_blocks = (a.seq_kv + BM - 1) / BM, chunks = (all_blocks + BLOCKS - 1) / BLOCKS;
    const long all_rows = a.batch * a.heads * a.seq_q;
    struct block blocks[BLOCKS];
    struct tile tile;
    struct place place;

    place.b = get_global_id(2);
    place.e = extent_of(a, at, place.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    const __global float *rows = work + at.workspace;
    __global float *sums = work + at.workspace + 2 * all_rows + range * all_rows * ROW_QK;
    __global float *slope_totals = work + at.workspace + 2 * all_rows +
                                   RANGES * all_rows * ROW_QK +
                                   (range * a.batch + place.b) * a.heads;
    const long first_head = kv_head * a.group, end_head = first_head + a.group;
    for (long n = row_of(a, place.b, first_head, 0) * ROW_QK;
         n < row_of(a, place.b, end_head, 0) * ROW_QK; n++)
        sums[n] = 0.0f;
#if HAS_DSLOPES
    for (long h = first_head; h < end_head; h++)
        slope_totals[h] = 0.0f;
#endif
    /* There and back, so that under a causal mask all ranges have the same work. */
    for (long turn = 0; turn * RANGES < chunks; turn++) {
        const long chunk = turn * RANGES + (turn % 2 ? RANGES - 1 - range : range);
        const int count = (int)clamp(all_blocks - chunk * BLOCKS, 0L, (long)BLOCKS);
        if (count == 0)
            continue;
        place.h = first_head;
        for (int n = 0; n < count; n++) {
            struct block *block = blocks + n;
            open_block(a, at, place, (chunk * BLOCKS + n) * BM, k, v, block);
            for (int d = 0; d < ROW_QK * MV; d++)
                block->dk[d] = 0.0f;
            for (int d = 0; d < ROW_V * MV; d++)
                block->dv[d] = 0.0f;
        }
        const struct block *last = blocks + count - 1;
        const int keys = (int)max(0L, min(place.e.keys, last->j + BM) - blocks->j);
        const long begin = first_query(a, place.e, blocks->j);
        const long end = end_query(a, place.e, blocks->j, keys);
        for (; place.h < end_head; place.h++) {
            const long row = row_of(a, place.b, place.h, 0);
            lanes slope_sums = 0.0f;
            for (long i = begin; i < end; i += BQ) {
                __global float *to = sums + (row + i) * ROW_QK;
                open_tile(a, at, place, i, (int)min(end - i, (long)BQ), q, d_o, rows, &tile);
                for (int d = 0; d < BQ * VECTORS_QK; d++)
                    tile.dq[d] = d < tile.count * VECTORS_QK ? VECTOR(vload)(d, to) : (lanes)(0.0f);
                for (int n = 0; n < count; n++) {
                    struct block *block = blocks + n;
                    if (i + tile.count <= first_query(a, place.e, block->j) ||
                        i >= end_query(a, place.e, block->j, block->keys))
                        continue;
                    if (tile_hides(a, place.e, block, &tile))
                        add_tile(1, a, at, place, block, &tile,
                                 &slope_sums BIAS_ARG MASK_ARG SLOPES_ARG);
#if !HIDES_ANYWHERE
                    else
                        add_tile(0, a, at, place, block, &tile,
                                 &slope_sums BIAS_ARG MASK_ARG SLOPES_ARG);
#endif
                }
                for (int d = 0; d < tile.count * VECTORS_QK; d++)
                    VECTOR(vstore)(tile.dq[d], d, to);
            }
#if HAS_DSLOPES
            slope_totals[place.h] += sum_lanes(slope_sums);
#endif
        }
        place.h = first_head;
        for (int n = 0; n < count; n++)
            close_block(a, at, place, blocks + n, dk, dv);
    }
    (void)slope_totals;
}

/* Global (seq_q, heads, batch): a row of dq. */
__kernel void backward_sum(SHAPE_PARAMS, __global storage *restrict dq,
                           const __global float *restrict work)
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
__kernel void backward_heads(SHAPE_PARAMS SINKS_PARAM,
                             const __global float *restrict lse DSLOPES_PARAM DSINKS_PARAM,
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
/* Local (1, 1, 1), global (blocks of keys, or 1; tiles of queries, or 1; heads * batch of the
 * bias). A tile of dbias, or its sum over the dimensions that the bias broadcasts over. */
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
    lanes sum[BQ * MV], unused = 0.0f;
    struct block block;
    struct tile tile;
    struct place place;

    for (int n = 0; n < BQ * MV; n++)
        sum[n] = 0.0f;
    for (place.b = own_b; place.b < (over_b ? a.batch : own_b + 1); place.b++) {
        place.e = extent_of(a, at, place.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
        for (place.h = own_h; place.h < (over_h ? a.heads : own_h + 1); place.h++) {
            for (long j = own_j; j < (over_j ? a.seq_kv : own_j + 1); j += BM) {
                open_block(a, at, place, j, k, v, &block);
                const long end = min(end_query(a, place.e, j, block.keys),
                                     over_i ? a.seq_q : own_i + BQ);
                const long begin = first_query(a, place.e, j);
                for (long i = own_i; i < end; i += BQ) {
                    const int count = (int)min(end - i, (long)BQ);
                    if (i + count <= begin)
                        continue;
                    open_tile(a, at, place, i, count, q, d_o, work + at.workspace, &tile);
                    weigh_tile(1, 1, a, at, place, &block, &tile,
                               &unused BIAS_ARG MASK_ARG SLOPES_ARG);
                    for (int n = 0; n < count; n++)
                        for (int m = 0; m < MV; m++)
                            sum[(over_i ? 0 : n * MV) + m] += tile.ds[n * MV + m];
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
