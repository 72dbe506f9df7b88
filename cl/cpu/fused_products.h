/* SPDX-License-Identifier: Apache-2.0 */
/* The two products of fused_cpu between a block of BLOCK_VECTORS vectors of queries and a tile of
 * at most BLOCK_N keys and values, and the weights between them. An element of K or V is broadcast
 * to all lanes and multiplied with vectors; the accumulators are register tiles of QK_KEYS *
 * BLOCK_VECTORS and PV_COLUMNS * BLOCK_VECTORS vectors. Loops over the depth and over keys, which
 * compilers leave as they are, take two steps at a time, which is faster than one or four.
 *
 * With OPERAND_PAIRS both multiply pairs (cpu/fused_operands.h): scores are then scaled after their
 * product. Weights of keys n and n + 1 are rounded to a pair, stored where the weight of key n / 2
 * was. The last weight of an odd number is multiplied by itself: the value beside it may be masked.
 *
 * Vectors `first` .. `end` - 1 (constants) of the block take part: all of them, unless a window
 * leaves the keys visible to half of the block only, or the block has few queries.
 *
 * Tunables   SIMD_WIDTH, BLOCK_VECTORS, QK_KEYS, PV_COLUMNS, BLOCK_N. */
#pragma once
#include "common/common.h"
#include "cpu/fused_operands.h"
#include "score/query_lanes.h"

#if OPERAND_TILES
#include "bf16/fused_products.h"
#else
/* The first product of bytes is of integers: sums are integers in the registers of floats. */
#if OPERAND_BYTES
#define MULTIPLY_QK dot_bytes
#else
#define MULTIPLY_QK MULTIPLY
#endif

/* ---- Q K^T ---------------------------------------------------------------------------------- */

/* Adds k[n][d] q[d] to the sums of QK_KEYS keys. */
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
        const spread y = SPREAD(k[n] + d);
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            if (m >= first && m < end)
                sum[n][m] = MULTIPLY_QK(x[m], y, sum[n][m]);
    }
}

/* Adds k[n] . q to the sums of QK_KEYS keys. */
INLINE void multiply_columns(const int first, const int end, const lanes *q, const source *k,
                             const long k_column, struct prefetch_streams *streams,
                             lanes (*sum)[BLOCK_VECTORS])
{
    for (int d0 = 0; d0 < QK_OPERANDS(DIM_QK); d0 += PREFETCH_DEPTH) {
        const int d_end =
            d0 + PREFETCH_DEPTH < QK_OPERANDS(DIM_QK) ? d0 + PREFETCH_DEPTH : QK_OPERANDS(DIM_QK);
        int d = d0;
        if (PREFETCH_OFTEN)
            prefetch_step(streams);
        for (; d + 2 <= d_end; d += 2) {
            multiply_column(first, end, q + d * BLOCK_VECTORS, k, d * k_column, sum);
            multiply_column(first, end, q + (d + 1) * BLOCK_VECTORS, k, (d + 1) * k_column, sum);
        }
        if (QK_OPERANDS(DIM_QK) % 2 && d < d_end)
            multiply_column(first, end, q + d * BLOCK_VECTORS, k, d * k_column, sum);
    }
}

/* Computes s[n], the score of key n, from k[n] . q for `count` keys; s of further keys is undefined. Raises row_max to their
 * maximum. s may overlap the tile's biases. */
NOINLINE void multiply_qk(const struct score_tile *tile, const lanes *q, source k, const long k_row,
                          const long k_column, const int count, struct prefetch_streams *streams,
                          lanes *s, lanes *row_max)
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
                sum[n][m] = OPERAND_BYTES ? (lanes)(row[n][KEY_OPERANDS - 1]) : (lanes)(0.0f);
        }
        if (HAS_HALVES && n0 + QK_KEYS <= tile->lower_end)
            multiply_columns(0, LOWER, q, row, k_column, streams, sum);
        else if (HAS_HALVES && ENDS_BY_HALVES && n0 >= tile->upper_begin)
            multiply_columns(LOWER, BLOCK_VECTORS, q, row, k_column, streams, sum);
        else
            multiply_columns(0, BLOCK_VECTORS, q, row, k_column, streams, sum);
        if (OPERAND_PAIRS)
            EACH_SCORE(sum[n][m] *= scale_of_products(tile, n0 + n))
#if OPERAND_BYTES
        EACH_SCORE(sum[n][m] = product_of_bytes(q, m, row[n], sum[n][m]))
#endif
        finish_tile_scores(tile, n0, count, sum);
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
#endif

/* ---- weights -------------------------------------------------------------------------------- */

/* The keys that both halves of the block see, in a tile of count keys. Only the lower half sees
 * keys before both_begin(), only the upper half those from both_end() on. Both limits are rounded
 * to whole operands of the whole block. */
INLINE int both_begin(const struct score_tile *tile, const int count)
{
    return tile->lower_end >= count ? count : tile->lower_end / KEYS_TOGETHER * KEYS_TOGETHER;
}

INLINE int both_end(const struct score_tile *tile, const int count)
{
    return tile->upper_begin >= count
               ? count
               : (tile->upper_begin + KEYS_TOGETHER - 1) / KEYS_TOGETHER * KEYS_TOGETHER;
}

/* The weight of a score; that of tiles is scaled only here. */
INLINE lanes weight_of_scores(const float scale, const lanes x, const lanes base)
{
    return exponential(OPERAND_TILES ? FMA(x, (lanes)(scale), -base) : x - base);
}

/* Turns scores of keys n .. last - 1, times scale, into weights exp(score - base), and adds these
 * to sum. With mark_hidden, the weight of a masked pair is -0. */
INLINE void weights_of_keys(const int first, const int end, const int mark_hidden,
                            const float scale, const lanes *base, int n, const int last, lanes *s,
                            lanes *sum)
{
    for (; n < last; n++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            if (m >= first && m < end) {
                const lanes x = s[n * BLOCK_VECTORS + m];
                lanes p = weight_of_scores(scale, x, base[m]);
                if (mark_hidden)
                    p = x == -INFINITY ? (lanes)(-0.0f) : p;
                s[n * BLOCK_VECTORS + m] = p;
                sum[m] += p;
            }
        }
    }
}

/* ---- of pairs, and of floats ------------------------------------------------------------------ */

/* Weights of keys are packed as pairs, unless dropout follows. has_nonfinite() returns whether a value is infinite or
 * NaN: its product with a weight of 0 would be NaN. The value after the last of an odd number may be tested too, as
 * half of a pair. */
#if OPERAND_PAIRS
/* Rounds two weights to a pair, and what that leaves of them to their second part. */
INLINE void store_pair_of_weights(const lanes p, const lanes r, lanes *to)
{
    const lanes pair = pack_pairs(p, r);

    *to = pair;
    if (Q_PARTS > 1)
        to[SECOND_WEIGHTS] = pack_pairs(p - first_of(pair), r - second_of(pair));
}

/* Like weights_of_keys(), but without marks and from an even n on; weights are rounded to pairs. */
INLINE void pairs_of_keys(const int first, const int end, const float scale, const lanes *base,
                          const float *v_scales, int n, const int last, lanes *s, lanes *sum)
{
    for (; n + 2 <= last; n += 2) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            if (m >= first && m < end) {
                const lanes p = weight_of_scores(scale, s[n * BLOCK_VECTORS + m], base[m]);
                const lanes r = weight_of_scores(scale, s[(n + 1) * BLOCK_VECTORS + m], base[m]);
                store_pair_of_weights(scaled_weights(v_scales, n, p),
                                      scaled_weights(v_scales, n + 1, r),
                                      s + n / 2 * BLOCK_VECTORS + m);
                sum[m] += p + r;
            }
        }
    }
    if (n < last) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            if (m >= first && m < end) {
                const lanes p = weight_of_scores(scale, s[n * BLOCK_VECTORS + m], base[m]);
                store_pair_of_weights(scaled_weights(v_scales, n, p), (lanes)(0.0f),
                                      s + n / 2 * BLOCK_VECTORS + m);
                sum[m] += p;
            }
        }
    }
}
/* Rounds the weights of count keys to pairs. */
NOINLINE void pair_block_weights(const int count, const float *v_scales, lanes *p)
{
    for (int n = 0; n < count; n += 2)
        for (int m = 0; m < BLOCK_VECTORS; m++)
            store_pair_of_weights(
                scaled_weights(v_scales, n, p[n * BLOCK_VECTORS + m]),
                n + 1 < count ? scaled_weights(v_scales, n + 1, p[(n + 1) * BLOCK_VECTORS + m])
                              : (lanes)(0.0f),
                p + n / 2 * BLOCK_VECTORS + m);
}

/* Like add_value_row(), but for the first value of each pair alone. */
INLINE void add_first_of_row(const int first, const int end, const int columns, const lanes *p,
                             source v, const long v_column, lanes (*sum)[BLOCK_VECTORS])
{
    UNROLL
    for (int c = 0; c < PV_COLUMNS; c++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            if (c < columns && m >= first && m < end)
                sum[c][m] = FMA(first_of(p[m]), (lanes)(first_of_word(v[c * v_column])), sum[c][m]);
    }
}

NOINLINE int has_nonfinite(source v, const long v_row, const long v_column, const int count)
{
    const uint first = 0x7f80u, second = 0x7f800000u;
    uint some = 0;

    for (int n = 0; n < OPERANDS(count); n++)
        for (int d = 0; d < DIM_V; d++) {
            const uint x = v[n * v_row + d * v_column];
            some |= (x & first) == first || (x & second) == second;
        }
    return some != 0;
}
#else
INLINE void pairs_of_keys(const int first, const int end, const float scale, const lanes *base,
                          const float *v_scales, const int n, const int last, lanes *s, lanes *sum)
{
}

INLINE void pair_block_weights(const int count, const float *v_scales, lanes *p)
{
}

INLINE void add_first_of_row(const int first, const int end, const int columns, const lanes *p,
                             source v, const long v_column, lanes (*sum)[BLOCK_VECTORS])
{
}

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
#endif

/* The same of the scales of count keys' values, which are not in the operands. */
INLINE int has_nonfinite_scale(const struct score_tile *tile, const int count)
{
    int some = 0;

    for (int n = 0; SCALES_APART && HAS_V_SCALES && n < count; n++)
        some |= (as_int(tile->v_scales[n]) & 0x7f800000) == 0x7f800000;
    return some;
}

INLINE void weigh_operands(const int first, const int end, const float scale, const lanes *base,
                           const float *v_scales, const int n, const int last, lanes *s, lanes *sum)
{
    if (OPERAND_PAIRS & !HAS_DROPOUT)
        pairs_of_keys(first, end, scale, base, v_scales, n, last, s, sum);
    else
        weights_of_keys(first, end, 0, scale, base, n, last, s, sum);
}

/* Computes the weights of count keys, and their sum. Without mark_hidden, scores of a half without
 * visible keys stay -INFINITY. With mark_hidden or dropout, weights are not packed as pairs. */
NOINLINE void weigh_keys_of_block(const struct score_tile *tile, const int mark_hidden,
                                  const lanes *base, const int count, lanes *s, lanes *sum)
{
    lanes from[BLOCK_VECTORS], row_sum[BLOCK_VECTORS];
    const float scale = OPERAND_TILES ? tile->deferred_scale : 1.0f;

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        from[m] = base[m];
        row_sum[m] = 0.0f;
    }
    if ((HIDES | IN_PARTS) && mark_hidden) {
        weights_of_keys(0, BLOCK_VECTORS, 1, scale, from, 0, count, s, row_sum);
    } else if (HAS_HALVES) {
        const int both = both_begin(tile, count), upper = both_end(tile, count);
        weigh_operands(0, LOWER, scale, from, tile->v_scales, 0, both, s, row_sum);
        weigh_operands(0, BLOCK_VECTORS, scale, from, tile->v_scales, both, upper, s, row_sum);
        if (ENDS_BY_HALVES)
            weigh_operands(LOWER, BLOCK_VECTORS, scale, from, tile->v_scales, upper, count, s,
                           row_sum);
    } else {
        weigh_operands(0, BLOCK_VECTORS, scale, from, tile->v_scales, 0, count, s, row_sum);
    }
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        sum[m] = row_sum[m];
}

#if !OPERAND_TILES
/* ---- P V ------------------------------------------------------------------------------------ */

/* sum += p v for `columns` (constant, at most PV_COLUMNS) values of a row, or of a row of pairs. */
INLINE void add_value_row(const int first, const int end, const int columns, const lanes *p,
                          source v, const long v_column, lanes (*sum)[BLOCK_VECTORS])
{
    lanes x[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        if (m >= first && m < end)
            x[m] = p[m];
    UNROLL
    for (int c = 0; c < PV_COLUMNS; c++) {
        if (c < columns) {
            const spread y = SPREAD(v + c * v_column);
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                if (m >= first && m < end)
                    sum[c][m] = MULTIPLY(x[m], y, sum[c][m]);
        }
    }
}

/* sum += p[n] v[n] for keys key .. end_key - 1; the first key begins an operand. */
INLINE void add_value_rows(const int first, const int end, const int columns, const lanes *p,
                           source v, const long v_row, const long v_column, const int key,
                           const int end_key, lanes (*sum)[BLOCK_VECTORS])
{
    const int last = OPERANDS_BEFORE(end_key);
    int n = OPERANDS_BEFORE(key);

    for (; n + 2 <= last; n += 2) {
        add_value_row(first, end, columns, p + n * BLOCK_VECTORS, v + n * v_row, v_column, sum);
        add_value_row(first, end, columns, p + (n + 1) * BLOCK_VECTORS, v + (n + 1) * v_row,
                      v_column, sum);
    }
    if (n < last)
        add_value_row(first, end, columns, p + n * BLOCK_VECTORS, v + n * v_row, v_column, sum);
    if (OPERAND_PAIRS && key < end_key && end_key % 2)
        add_first_of_row(first, end, columns, p + last * BLOCK_VECTORS, v + last * v_row, v_column,
                         sum);
}

/* o[d] = o[d] * rescale + sum_n p[n] v[n][d] for `columns` (constant, at most PV_COLUMNS) columns d.
 * The old o, which is not in L1, is needed only after the sums. */
INLINE void add_value_columns(const struct score_tile *tile, const int columns,
                              const lanes *rescale, const lanes *p, source v, const long v_row,
                              const long v_column, const int count, lanes *o)
{
    lanes sum[PV_COLUMNS][BLOCK_VECTORS];

    UNROLL
    for (int c = 0; c < PV_COLUMNS; c++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            sum[c][m] = 0.0f;
    }
    if (HAS_HALVES) {
        const int both = both_begin(tile, count), upper = both_end(tile, count);
        add_value_rows(0, LOWER, columns, p, v, v_row, v_column, 0, both, sum);
        add_value_rows(0, BLOCK_VECTORS, columns, p, v, v_row, v_column, both, upper, sum);
        if (ENDS_BY_HALVES)
            add_value_rows(LOWER, BLOCK_VECTORS, columns, p, v, v_row, v_column, upper, count, sum);
    } else {
        add_value_rows(0, BLOCK_VECTORS, columns, p, v, v_row, v_column, 0, count, sum);
    }
    UNROLL
    for (int c = 0; c < PV_COLUMNS; c++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++)
            if (c < columns)
                o[c * BLOCK_VECTORS + m] = FMA(o[c * BLOCK_VECTORS + m], rescale[m], sum[c][m]);
    }
}

/* o = o * rescale + sum_n p[n] v[n]. */
NOINLINE void multiply_pv(const struct score_tile *tile, const lanes *rescale, const lanes *p,
                          source v, const long v_row, const long v_column, const int count,
                          lanes *o)
{
    for (int d = 0; d + PV_COLUMNS <= DIM_V; d += PV_COLUMNS)
        add_value_columns(tile, PV_COLUMNS, rescale, p, v + d * v_column, v_row, v_column, count,
                          o + d * BLOCK_VECTORS);
    if (DIM_V % PV_COLUMNS)
        add_value_columns(tile, DIM_V % PV_COLUMNS, rescale, p,
                          v + DIM_V / PV_COLUMNS * PV_COLUMNS * v_column, v_row, v_column, count,
                          o + DIM_V / PV_COLUMNS * PV_COLUMNS * BLOCK_VECTORS);
}
#endif

/* Like multiply_pv(), but leaves out pairs that a weight of -0 masks. Partially visible tiles with
 * non-finite values need it. */
NOINLINE void add_visible(const struct score_tile *tile, const lanes *rescale, const lanes *p,
                          source v, const long v_row, const long v_column, const int count,
                          lanes *o)
{
    NO_UNROLL
    for (int d = 0; d < DIM_V; d++) {
        NO_UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes sum = HAS_INVARIANT ? (lanes)(0.0f) : o[d * BLOCK_VECTORS + m] * rescale[m];
            NO_UNROLL
            for (int n = 0; n < count; n++) {
                const lanes x = p[n * BLOCK_VECTORS + m];
                const lanes y =
                    scaled_weights(tile->v_scales, n, value_of(v, n, d, v_row, v_column));
                sum = VECTOR(as_int)(x) < 0 ? sum : FMA(x, y, sum);
            }
            o[d * BLOCK_VECTORS + m] =
                HAS_INVARIANT ? FMA(o[d * BLOCK_VECTORS + m], rescale[m], sum) : sum;
        }
    }
}
