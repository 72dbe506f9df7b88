/* SPDX-License-Identifier: Apache-2.0 */
/* Products become scores where SIMD lanes are keys: softcap, bias, ALiBi, masks, windows and
 * lengths (clattn/problem.h). split_cpu, unfused_lanes and backward_cpu all call finish_scores():
 * an option that changes scores is a step of it. */
#pragma once
#include "cpu/simd_storage.h"
#include "score/blocks.h"
#include "score/function.h"
#include "score/score_unit.h"

/* 1 if a kernel whose tiles have several queries, DISTANCE_ROWS at most, and DISTANCE_KEYS keys computes a function of the
 * distance once for each distance of a tile. */
#if HAS_DISTANCE_FUNCTION && defined(DISTANCE_ROWS)
#define SHARES_DISTANCES 1
#define DISTANCE_VECTORS ((DISTANCE_ROWS - 1 + DISTANCE_KEYS + SIMD_WIDTH - 1) / SIMD_WIDTH)

/* What a function of the distance gives for each difference of a key and a query, from that of the tile's first key and its
 * query DISTANCE_ROWS - 1 on. */
struct distances {
    lanes scores[DISTANCE_VECTORS];
    int hide; /* whether one of them is -INFINITY */
#if HAS_DFUNCTION && SCORE_LOADS_OF_DISTANCE
    ints places[SCORE_FUNCTION_LOADS][DISTANCE_VECTORS];
    lanes by_load[SCORE_FUNCTION_LOADS][DISTANCE_VECTORS];
#endif
};

/* first: the tile's first query and key. */
NOINLINE void find_distances(const struct arguments *args, const struct function_pair first,
                             const int queries, const int keys, struct distances *to)
{
    const struct score_function_operands o = score_operands(args);
    ints hidden = 0;

    for (int n = 0; n < DISTANCE_VECTORS; n++) {
        lanes x;
        float *const each = (float *)&x;
        EACH_LANE
        for (int c = 0; c < SIMD_WIDTH; c++) {
            const int behind =
                clamp(n * SIMD_WIDTH + c - (DISTANCE_ROWS - 1), 1 - queries, keys - 1);
            const struct function_pair p =
                function_pair_after(first, max(-behind, 0), max(behind, 0));
            each[c] = score_function(0.0f, p, o);
#if HAS_DFUNCTION && SCORE_LOADS_OF_DISTANCE
            UNROLL
            for (int load = 0; load < SCORE_FUNCTION_LOADS; load++) {
                ((int *)&to->places[load][n])[c] = score_function_place(load, 0.0f, p, o);
                ((float *)&to->by_load[load][n])[c] = score_function_by_load(load, 0.0f, p, o);
            }
#endif
        }
        to->scores[n] = x;
        hidden |= x == -INFINITY;
    }
    to->hide = any_lane(hidden);
}
#else
#define SHARES_DISTANCES 0
#endif

/* ADDS_DISTANCES: the score function needs no call for a pair, since it adds what was found for the pair's distance.
 * CALLS_SCORE_FUNCTION: it does. */
#if SHARES_DISTANCES && (SCORE_LOADS_OF_DISTANCE || !HAS_DFUNCTION)
#define ADDS_DISTANCES 1
#define CALLS_SCORE_FUNCTION 0
#else
#define ADDS_DISTANCES 0
#define CALLS_SCORE_FUNCTION HAS_SCORE_FUNCTION
#endif

/* A query and a tile of keys; keys are counted from the tile's first one, key j. */
struct score_row {
    long b, h, i, j;
    float begin, end; /* the keys that the query may see by lengths, windows and causality */
    float distance;   /* key j's distance from the diagonal at the query */
    struct function_pair first; /* the query and key j (HAS_FUNCTIONS) */
#if SHARES_DISTANCES
    const struct distances *distances; /* those of the tile */
    int distance_of_first;             /* the number of that of the query and key j */
#endif
    struct block_bits bits; /* the bits of the head's block list (HAS_BLOCKS) */
    long mask_begin; /* the key of the mask's first column, counted from key j (HAS_MASK_KEYS) */
};

/* The tile has `keys` keys in use. */
INLINE struct score_row score_row_at(const struct arguments *args, const struct extent e,
                                     const long b, const long h, const long i, const long j,
                                     const int keys)
{
    struct score_row row = {b, h, i, j};

    row.begin = (float)clamp(first_key(args, e, i) - j, 0L, (long)keys);
    row.end = (float)clamp(end_key(args, e, i) - j, 0L, (long)keys);
    row.distance = (float)(j - i - e.diagonal);
    if (HAS_FUNCTIONS)
        row.first = function_pair_of(args, b, h, i, j);
    if (HAS_MASK_KEYS)
        row.mask_begin = e.mask_begin - j;
    return row;
}

/* Loads the mask's bytes of the row and keys n .. of the tile; keys without a column count as
 * unmasked. */
INLINE lanes load_mask_of_keys(const struct arguments *args, const struct score_row row,
                               const int n, const int left)
{
    const __global uchar *p =
        args->mask + row_offset(args->shape->mask_stride, row.b, row.h, row.i);
    const long column = n - row.mask_begin;
    const int end = (int)clamp(args->shape->mask_keys - column, 0L, (long)left);
    float x[SIMD_WIDTH];

    if (!HAS_MASK_KEYS)
        return load_mask(p + (row.j + n) * args->shape->mask_stride[3], args->shape->mask_stride[3],
                         left);
    if (column >= 0)
        return load_mask(p + column * args->shape->mask_stride[3], args->shape->mask_stride[3],
                         end);
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = column + c < 0 ? 1.0f
               : c < end      ? p[(column + c) * args->shape->mask_stride[3]]
                              : 0.0f;
    return VECTOR(vload)(0, x);
}

/* 1 if the derivative of a score by its product is not the scale alone. */
#define HAS_DERIVATIVE (HAS_SOFTCAP || HAS_SCORE_FUNCTION)

/* The scores of a query and SIMD_WIDTH keys, which keys are masked, and values for gradients. */
struct score_vector {
    lanes scores;     /* undefined for masked keys */
    ints hidden;      /* -1 for keys that the query does not see */
    lanes softcapped; /* the scores after the softcap, without bias and ALiBi */
    lanes derivative; /* by the product, but for the scale; valid with HAS_DERIVATIVE */
    lanes distance;   /* the factor of ALiBi's slope; valid with HAS_ALIBI */
    /* with HAS_DFUNCTION: */
    ints places[SCORE_FUNCTION_LOADS];   /* the elements of dfunction that were loaded; -1: none */
    lanes by_load[SCORE_FUNCTION_LOADS]; /* the scores' derivatives by them */
};

/* The block lists' entries of the row and the tile's keys from n on; 0 for unlisted keys. */
INLINE ints listed_keys(const struct arguments *args, const struct score_row row, const int n)
{
    const long j = row.j + n, r = row.i / BLOCK_Q, most = block_columns(args) - 1;
    int said[SIMD_WIDTH];

    if (j / BLOCK_KV == (j + SIMD_WIDTH - 1) / BLOCK_KV)
        return (ints)(block_at(row.bits, r, min(j / BLOCK_KV, most)));
    for (int c = 0; c < SIMD_WIDTH; c++)
        said[c] = block_at(row.bits, r, min((j + c) / BLOCK_KV, most));
    return VECTOR(vload)(0, said);
}

/* Scores after softcap become those of the function; keys from `left` on repeat the last one. */
INLINE void apply_function_to_lanes(const struct arguments *args, const struct score_row row,
                                    const int n, const int left, struct score_vector *s)
{
#if ADDS_DISTANCES
    const int at = row.distance_of_first + n;
    const lanes more = VECTOR(vload)(0, (const float *)row.distances->scores + at);

    s->scores = SCORE_HIDES_DISTANCES && more == -INFINITY ? more : s->scores + more;
#if HAS_DFUNCTION
    UNROLL
    for (int load = 0; load < SCORE_FUNCTION_LOADS; load++) {
        s->places[load] = VECTOR(vload)(0, (const int *)row.distances->places[load] + at);
        s->by_load[load] = VECTOR(vload)(0, (const float *)row.distances->by_load[load] + at);
    }
#endif
    if (!HAS_SOFTCAP)
        s->derivative = 1.0f;
#else
    const struct score_function_operands o = score_operands(args);
    lanes derivative = 1.0f, scores = s->scores;
    float *const score = (float *)&scores, *const slope = (float *)&derivative;

    ints places[SCORE_FUNCTION_LOADS];
    lanes by_load[SCORE_FUNCTION_LOADS];

    EACH_LANE
    for (int c = 0; c < SIMD_WIDTH; c++) {
        const struct function_pair p = function_pair_after(row.first, 0, n + min(c, left - 1));
        if (IS_BACKWARD)
            slope[c] = derivative_of_function(score[c], p, o);
        UNROLL
        for (int load = 0; HAS_DFUNCTION && load < SCORE_FUNCTION_LOADS; load++) {
            ((int *)&places[load])[c] = score_function_place(load, score[c], p, o);
            ((float *)&by_load[load])[c] = score_function_by_load(load, score[c], p, o);
        }
        score[c] = score_function(score[c], p, o);
    }
    s->scores = scores;
    for (int load = 0; HAS_DFUNCTION && load < SCORE_FUNCTION_LOADS; load++) {
        s->places[load] = places[load];
        s->by_load[load] = by_load[load];
    }
    s->derivative = HAS_SOFTCAP ? s->derivative * derivative : derivative;
#endif
    s->hidden |= s->scores == -INFINITY;
}

/* -1 for keys of the tile from n on that the mask function hides. */
INLINE ints hidden_by_function(const struct arguments *args, const struct score_row row,
                               const int n, const int left)
{
    const struct mask_function_operands o = mask_operands(args);
    ints hidden;
    int *const each = (int *)&hidden;

    EACH_LANE
    for (int c = 0; c < SIMD_WIDTH; c++)
        each[c] = mask_function(function_pair_after(row.first, 0, n + min(c, left - 1)), o) - 1;
    return hidden;
}

/* 1 if tiles in which a function hides a key are told from others (mark_pairs.h). */
#ifdef PARAMETERS_mark_pairs
#define MARKS_FUNCTIONS (HAS_MASK_FUNCTION && !HAS_BLOCKS)
#else
#define MARKS_FUNCTIONS 0
#endif

/* products: of the row's query and the tile's keys n .., scaled, and in SCORE_UNIT but with a softcap.
 * hides (constant): whether lengths, windows or a mask of the last keys may hide a key. Keys from `left` on have any
 * score. */
INLINE struct score_vector finish_scores(const int hides, const struct arguments *args,
                                         const struct score_row row, const int n, const int left,
                                         const lanes products)
{
    const lanes key = COUNT_UP + (float)n;
    struct score_vector s;

    s.scores = products;
    s.hidden = 0;
    if (HAS_SOFTCAP) {
        const lanes t = simd_tanh(s.scores * min(1.0f / args->shape->softcap, FLT_MAX));
        s.derivative = FMA(-t, t, (lanes)(1.0f));
        s.scores = t * (args->shape->softcap * SCORE_UNIT);
    }
    s.softcapped = s.scores;
    if (HAS_SCORE_FUNCTION)
        apply_function_to_lanes(args, row, n, left, &s);
    if (HAS_BIAS) {
        const lanes biases =
            load_row_of(BIAS_DTYPE,
                        args->bias + row_offset(args->shape->bias_stride, row.b, row.h, row.i) +
                            (row.j + n) * args->shape->bias_stride[3],
                        args->shape->bias_stride[3], left);
        s.hidden |= biases == -INFINITY;
        s.scores += biases;
    }
    if (HAS_ALIBI) {
        s.distance = ALIBI_DISTANCE(key + row.distance);
        s.scores = FMA((lanes)(args->slopes[row.h] * SCORE_UNIT), s.distance, s.scores);
    }
    const ints listed = HAS_BLOCKS && hides ? listed_keys(args, row, n) : (ints)(BLOCK_LISTED);
    if (HAS_BLOCKS)
        s.hidden |= listed == 0;
    if (HAS_MASK_KEYS ? hides : HAS_MASK)
        s.hidden |= (load_mask_of_keys(args, row, n, left) == 0.0f) & (listed != BLOCK_FULL);
    if (MARKS_FUNCTIONS ? hides : HAS_MASK_FUNCTION)
        s.hidden |= hidden_by_function(args, row, n, left) & (listed != BLOCK_FULL);
    if (hides)
        s.hidden |= key < row.begin | key >= row.end;
    return s;
}

/* The scores, with -INFINITY for masked keys. */
INLINE lanes visible_scores(const struct score_vector s)
{
    return s.hidden ? (lanes)(-INFINITY) : s.scores;
}
