/* The two products of fused_lanes between a block of BLOCK_VECTORS vectors of queries and a tile of
 * at most BLOCK_N keys and values, and the weights between them. An element of K or V is broadcast
 * to all lanes and multiplied with vectors; the accumulators are register tiles of QK_KEYS *
 * BLOCK_VECTORS and PV_COLUMNS * BLOCK_VECTORS vectors. Loops over the depth and over keys, which
 * compilers leave as they are, take two steps at a time, which is faster than one or four.
 *
 * Vectors `first` .. `end` - 1 (constants) of the block take part: all of them but where a window
 * lets only half of the block see the keys, or the block has few queries.
 *
 * Before including this: common.cl, SIMD_WIDTH, BLOCK_VECTORS, QK_KEYS, PV_COLUMNS and BLOCK_N. */
#ifndef CLATTN_FUSED_PRODUCTS_H
#define CLATTN_FUSED_PRODUCTS_H
#include "score/query_lanes.h"

/* ---- Q K^T ---------------------------------------------------------------------------------- */

/* sum += k[n][d] q[d] for QK_KEYS keys. */
INLINE void multiply_column(const int first, const int end, const lanes *q, const source *k,
                            const long d, lanes (*sum)[BLOCK_VECTORS])
{
    lanes x[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        if (m >= first && m < end)
            x[m] = q[m];
    UNROLL
    for (int n = 0; n < QK_KEYS; n++) {
        const lanes y = k[n][d];
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            if (m >= first && m < end)
                sum[n][m] = fma(x[m], y, sum[n][m]);
    }
}

/* sum += k[n] . q for QK_KEYS keys. */
INLINE void multiply_columns(const int first, const int end, const lanes *q, const source *k,
                             const long k_column, struct prefetch_streams *streams,
                             lanes (*sum)[BLOCK_VECTORS])
{
    for (int d0 = 0; d0 < DIM_QK; d0 += PREFETCH_DEPTH) {
        const int d_end = d0 + PREFETCH_DEPTH < DIM_QK ? d0 + PREFETCH_DEPTH : DIM_QK;
        int d = d0;
        if (PREFETCH_OFTEN)
            prefetch_step(streams);
        for (; d + 2 <= d_end; d += 2) {
            multiply_column(first, end, q + d * BLOCK_VECTORS, k, d * k_column, sum);
            multiply_column(first, end, q + (d + 1) * BLOCK_VECTORS, k, (d + 1) * k_column, sum);
        }
        if (DIM_QK % 2 && d < d_end)
            multiply_column(first, end, q + d * BLOCK_VECTORS, k, d * k_column, sum);
    }
}

/* s[n] = the score of key n, from k[n] . q, for count keys; those after them are ignored. row_max
 * becomes their maximum if that is larger. s may lie where the tile's biases are. */
NOINLINE void multiply_keys(const struct score_tile *tile, const lanes *q, source k,
                            const long k_row, const long k_column, const int count,
                            struct prefetch_streams *streams, lanes *s, lanes *row_max)
{
    lanes most[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        most[m] = row_max[m];
    for (int n0 = 0; n0 < count; n0 += QK_KEYS) {
        source row[QK_KEYS];
        lanes sum[QK_KEYS][BLOCK_VECTORS], *to = s + n0 * BLOCK_VECTORS;
        if (!PREFETCH_OFTEN)
            prefetch_step(streams);
        UNROLL
        for (int n = 0; n < QK_KEYS; n++) {
            row[n] = k + min(n0 + n, count - 1) * k_row;
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                sum[n][m] = 0.0f;
        }
        if (HAS_HALVES && n0 + QK_KEYS <= tile->lower_end)
            multiply_columns(0, LOWER, q, row, k_column, streams, sum);
        else if (HAS_HALVES && HAS_WINDOW && n0 >= tile->upper_begin)
            multiply_columns(LOWER, BLOCK_VECTORS, q, row, k_column, streams, sum);
        else
            multiply_columns(0, BLOCK_VECTORS, q, row, k_column, streams, sum);
        finish_scores(tile, n0, count, sum);
        UNROLL
        for (int n = 0; n < QK_KEYS; n++) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++) {
                to[n * BLOCK_VECTORS + m] = sum[n][m];
                most[m] = sum[n][m] > most[m] ? sum[n][m] : most[m];
            }
        }
    }
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        row_max[m] = most[m];
}

/* ---- weights -------------------------------------------------------------------------------- */

/* Scores of keys n .. last - 1 become weights exp(score - base), which are added to sum. With
 * mark_hidden the weight of a hidden pair is -0. */
INLINE void weights_of_keys(const int first, const int end, const int mark_hidden,
                            const lanes *base, int n, const int last, lanes *s, lanes *sum)
{
    for (; n < last; n++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            if (m >= first && m < end) {
                const lanes x = s[n * BLOCK_VECTORS + m];
                lanes p = EXPONENTIAL(x - base[m]);
                if (mark_hidden)
                    p = x == -INFINITY ? (lanes)(-0.0f) : p;
                s[n * BLOCK_VECTORS + m] = p;
                sum[m] += p;
            }
        }
    }
}

/* The weights of count keys, and their sum. Scores of a half that sees no key stay -INFINITY, but
 * with mark_hidden. */
NOINLINE void compute_weights(const struct score_tile *tile, const int mark_hidden,
                              const lanes *base, const int count, lanes *s, lanes *sum)
{
    lanes from[BLOCK_VECTORS], row_sum[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        from[m] = base[m];
        row_sum[m] = 0.0f;
    }
    if (HIDES && mark_hidden) {
        weights_of_keys(0, BLOCK_VECTORS, 1, from, 0, count, s, row_sum);
    } else if (HAS_HALVES) {
        const int both = min(tile->lower_end, count), upper = min(tile->upper_begin, count);
        weights_of_keys(0, LOWER, 0, from, 0, both, s, row_sum);
        weights_of_keys(0, BLOCK_VECTORS, 0, from, both, upper, s, row_sum);
        if (HAS_WINDOW)
            weights_of_keys(LOWER, BLOCK_VECTORS, 0, from, upper, count, s, row_sum);
    } else {
        weights_of_keys(0, BLOCK_VECTORS, 0, from, 0, count, s, row_sum);
    }
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        sum[m] = row_sum[m];
}

/* ---- P V ------------------------------------------------------------------------------------ */

/* sum += p v for `columns` (constant, at most PV_COLUMNS) values of a row. */
INLINE void add_row(const int first, const int end, const int columns, const lanes *p, source v,
                    const long v_column, lanes (*sum)[BLOCK_VECTORS])
{
    lanes x[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        if (m >= first && m < end)
            x[m] = p[m];
    UNROLL
    for (int c = 0; c < PV_COLUMNS; c++) {
        if (c < columns) {
            const lanes y = v[c * v_column];
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                if (m >= first && m < end)
                    sum[c][m] = fma(x[m], y, sum[c][m]);
        }
    }
}

/* sum += p[n] v[n] for rows n .. last - 1. */
INLINE void add_rows(const int first, const int end, const int columns, const lanes *p, source v,
                     const long v_row, const long v_column, int n, const int last,
                     lanes (*sum)[BLOCK_VECTORS])
{
    for (; n + 2 <= last; n += 2) {
        add_row(first, end, columns, p + n * BLOCK_VECTORS, v + n * v_row, v_column, sum);
        add_row(first, end, columns, p + (n + 1) * BLOCK_VECTORS, v + (n + 1) * v_row, v_column,
                sum);
    }
    if (n < last)
        add_row(first, end, columns, p + n * BLOCK_VECTORS, v + n * v_row, v_column, sum);
}

/* o[d] = o[d] * factor + sum_n p[n] v[n][d] for `columns` (constant, at most PV_COLUMNS) columns d.
 * The old o, which is not in L1, is needed only after the sums. */
INLINE void add_columns(const struct score_tile *tile, const int columns, const lanes *factor,
                        const lanes *p, source v, const long v_row, const long v_column,
                        const int count, lanes *o)
{
    lanes sum[PV_COLUMNS][BLOCK_VECTORS];

    UNROLL
    for (int c = 0; c < PV_COLUMNS; c++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            sum[c][m] = 0.0f;
    }
    if (HAS_HALVES) {
        const int both = min(tile->lower_end, count), upper = min(tile->upper_begin, count);
        add_rows(0, LOWER, columns, p, v, v_row, v_column, 0, both, sum);
        add_rows(0, BLOCK_VECTORS, columns, p, v, v_row, v_column, both, upper, sum);
        if (HAS_WINDOW)
            add_rows(LOWER, BLOCK_VECTORS, columns, p, v, v_row, v_column, upper, count, sum);
    } else {
        add_rows(0, BLOCK_VECTORS, columns, p, v, v_row, v_column, 0, count, sum);
    }
    UNROLL
    for (int c = 0; c < PV_COLUMNS; c++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            if (c < columns)
                o[c * BLOCK_VECTORS + m] = fma(o[c * BLOCK_VECTORS + m], factor[m], sum[c][m]);
    }
}

/* o = o * factor + sum_n p[n] v[n]. */
NOINLINE void add_values(const struct score_tile *tile, const lanes *factor, const lanes *p,
                         source v, const long v_row, const long v_column, const int count, lanes *o)
{
    for (int d = 0; d + PV_COLUMNS <= DIM_V; d += PV_COLUMNS)
        add_columns(tile, PV_COLUMNS, factor, p, v + d * v_column, v_row, v_column, count,
                    o + d * BLOCK_VECTORS);
    if (DIM_V % PV_COLUMNS)
        add_columns(tile, DIM_V % PV_COLUMNS, factor, p,
                    v + DIM_V / PV_COLUMNS * PV_COLUMNS * v_column, v_row, v_column, count,
                    o + DIM_V / PV_COLUMNS * PV_COLUMNS * BLOCK_VECTORS);
}

/* Whether a value is infinite or NaN: its product with a weight of 0 would be NaN. */
NOINLINE int has_nonfinite(source v, const long v_row, const long v_column, const int count)
{
    const int magnitude = 0x7fffffff, infinite = 0x7f800000;
    ints most = 0;
    int rest = 0;

    NO_UNROLL
    for (int n = 0; n < count; n++) {
        int d = 0;
        if (v_column == 1) {
            NO_UNROLL
            for (; d + SIMD_WIDTH <= DIM_V; d += SIMD_WIDTH) {
                const ints x = VECTOR(as_int)(VECTOR(vload)(0, v + n * v_row + d)) & magnitude;
                most = x > most ? x : most;
            }
        }
        NO_UNROLL
        for (; d < DIM_V; d++) {
            const int x = as_int(v[n * v_row + d * v_column]) & magnitude;
            rest = x > rest ? x : rest;
        }
    }
    return rest >= infinite || any_lane(most >= infinite);
}

/* As add_values(), but without the pairs that a weight of -0 says are hidden: for tiles of partial
 * visibility with non-finite values. */
NOINLINE void add_visible(const lanes *factor, const lanes *p, source v, const long v_row,
                          const long v_column, const int count, lanes *o)
{
    NO_UNROLL
    for (int d = 0; d < DIM_V; d++) {
        NO_UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes sum = o[d * BLOCK_VECTORS + m] * factor[m];
            NO_UNROLL
            for (int n = 0; n < count; n++) {
                const lanes x = p[n * BLOCK_VECTORS + m];
                const lanes y = v[n * v_row + d * v_column];
                sum = VECTOR(as_int)(x) < 0 ? sum : fma(x, y, sum);
            }
            o[d * BLOCK_VECTORS + m] = sum;
        }
    }
}

#endif
