/* A tile of at most BLOCK_N keys and values and a block of BLOCK_VECTORS vectors of queries: the
 * two products and the weights between them. An element of K or V is broadcast to all lanes and
 * multiplied with vectors; the sums stay in registers. Compilers leave the two loops as they are:
 * by hand they make two steps at a time, which is faster than one or four.
 *
 * Vectors `first` .. `end` - 1 (constants) of the block take part: all of them but where a window
 * lets only a part of the block see the keys, or the block has few queries.
 *
 * Before including this: common.cl, SIMD_WIDTH, BLOCK_VECTORS, QK_KEYS, PV_COLUMNS and BLOCK_N. */
#ifndef CLATTN_LANE_TILE_H
#define CLATTN_LANE_TILE_H
#include "score/lane_changes.h"

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
                             const long k_column, struct ahead *ahead, lanes (*sum)[BLOCK_VECTORS])
{
    for (int d0 = 0; d0 < DIM_QK; d0 += AHEAD_COLUMNS) {
        const int d_end = d0 + AHEAD_COLUMNS < DIM_QK ? d0 + AHEAD_COLUMNS : DIM_QK;
        int d = d0;
        if (ASKS_OFTEN)
            ask_ahead(ahead);
        for (; d + 2 <= d_end; d += 2) {
            multiply_column(first, end, q + d * BLOCK_VECTORS, k, d * k_column, sum);
            multiply_column(first, end, q + (d + 1) * BLOCK_VECTORS, k, (d + 1) * k_column, sum);
        }
        if (DIM_QK % 2 && d < d_end)
            multiply_column(first, end, q + d * BLOCK_VECTORS, k, d * k_column, sum);
    }
}

/* s[n] = k[n] . q for count keys; the scores after them repeat the last. top: their maximum.
 * s may be where the tile's biases are. */
NOINLINE void multiply_keys(const struct sight *sight, const lanes *q, source k, const long k_row,
                            const long k_column, const int count, struct ahead *ahead, lanes *s,
                            lanes *top)
{
    lanes most[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        most[m] = top[m];
    for (int n0 = 0; n0 < count; n0 += QK_KEYS) {
        source row[QK_KEYS];
        lanes sum[QK_KEYS][BLOCK_VECTORS], *to = s + n0 * BLOCK_VECTORS;
        if (!ASKS_OFTEN)
            ask_ahead(ahead);
        UNROLL
        for (int n = 0; n < QK_KEYS; n++) {
            row[n] = k + min(n0 + n, count - 1) * k_row;
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                sum[n][m] = 0.0f;
        }
        if (HAS_PARTS && n0 + QK_KEYS <= sight->lower_end)
            multiply_columns(0, LOWER, q, row, k_column, ahead, sum);
        else if (HAS_PARTS && HAS_WINDOW && n0 >= sight->upper_begin)
            multiply_columns(LOWER, BLOCK_VECTORS, q, row, k_column, ahead, sum);
        else
            multiply_columns(0, BLOCK_VECTORS, q, row, k_column, ahead, sum);
        change_scores(sight, n0, count, sum);
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
        top[m] = most[m];
}

/* Scores of keys n .. last - 1 become weights, which are added to sum; with marks, those of hidden
 * keys are -0. */
INLINE void weigh_keys(const int first, const int end, const int marks, const lanes *base, int n,
                       const int last, lanes *s, lanes *sum)
{
    for (; n < last; n++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            if (m >= first && m < end) {
                const lanes x = s[n * BLOCK_VECTORS + m];
                lanes p = EXPONENTIAL(x - base[m]);
                if (marks)
                    p = x == -INFINITY ? (lanes)(-0.0f) : p;
                s[n * BLOCK_VECTORS + m] = p;
                sum[m] += p;
            }
        }
    }
}

/* Those of count keys, and their sum. What a part does not see stays -inf, but with marks. */
NOINLINE void weigh(const struct sight *sight, const int marks, const lanes *base,
                    const int count, lanes *s, lanes *sum)
{
    lanes from[BLOCK_VECTORS], total[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        from[m] = base[m];
        total[m] = 0.0f;
    }
    if (HIDES && marks) {
        weigh_keys(0, BLOCK_VECTORS, 1, from, 0, count, s, total);
    } else if (HAS_PARTS) {
        const int both = min(sight->lower_end, count), upper = min(sight->upper_begin, count);
        weigh_keys(0, LOWER, 0, from, 0, both, s, total);
        weigh_keys(0, BLOCK_VECTORS, 0, from, both, upper, s, total);
        if (HAS_WINDOW)
            weigh_keys(LOWER, BLOCK_VECTORS, 0, from, upper, count, s, total);
    } else {
        weigh_keys(0, BLOCK_VECTORS, 0, from, 0, count, s, total);
    }
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        sum[m] = total[m];
}

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

/* Those of rows n .. last - 1. */
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

/* o[d] = o[d] * factor + sum_n p[n] v[n][d] for `columns` (constant, at most PV_COLUMNS) values of
 * d. The old o, which is far away, is needed only after the sums. */
INLINE void add_columns(const struct sight *sight, const int columns, const lanes *factor,
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
    if (HAS_PARTS) {
        const int both = min(sight->lower_end, count), upper = min(sight->upper_begin, count);
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

/* All of v. */
NOINLINE void add_values(const struct sight *sight, const lanes *factor, const lanes *p, source v,
                         const long v_row, const long v_column, const int count, lanes *o)
{
    for (int d = 0; d + PV_COLUMNS <= DIM_V; d += PV_COLUMNS)
        add_columns(sight, PV_COLUMNS, factor, p, v + d * v_column, v_row, v_column, count,
                    o + d * BLOCK_VECTORS);
    if (DIM_V % PV_COLUMNS)
        add_columns(sight, DIM_V % PV_COLUMNS, factor, p,
                    v + DIM_V / PV_COLUMNS * PV_COLUMNS * v_column, v_row, v_column, count,
                    o + DIM_V / PV_COLUMNS * PV_COLUMNS * BLOCK_VECTORS);
}

/* Whether one of the values is infinite or NaN, which a weight of 0 would not keep away. */
NOINLINE int has_nonfinite(source v, const long v_row, const long v_column, const int count)
{
    const int magnitude = 0x7fffffff, infinite = 0x7f800000;
    ints most = 0;
    int rest = 0;

    ROLLED
    for (int n = 0; n < count; n++) {
        int d = 0;
        if (v_column == 1) {
            ROLLED
            for (; d + SIMD_WIDTH <= DIM_V; d += SIMD_WIDTH) {
                const ints x = VECTOR(as_int)(VECTOR(vload)(0, v + n * v_row + d)) & magnitude;
                most = x > most ? x : most;
            }
        }
        ROLLED
        for (; d < DIM_V; d++) {
            const int x = as_int(v[n * v_row + d * v_column]) & magnitude;
            rest = x > rest ? x : rest;
        }
    }
    return rest >= infinite || any_lane(most >= infinite);
}

/* As add_values, but leaving out what a weight of -0 says is hidden. */
NOINLINE void add_visible(const lanes *factor, const lanes *p, source v, const long v_row,
                          const long v_column, const int count, lanes *o)
{
    ROLLED
    for (int d = 0; d < DIM_V; d++) {
        ROLLED
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes sum = o[d * BLOCK_VECTORS + m] * factor[m];
            ROLLED
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
