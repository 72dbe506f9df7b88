/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of a query and a key in double_backward: which are visible, their products, the sums of a query over its keys, and the
 * weights that follow from these sums. */
#pragma once
#include "common/double_backward_arguments.h"
#include "double_backward/tile.h"

/* The tensors that the kernels read and write (src/program/program_parameters.h). */
struct double_backward_arguments {
    const struct double_backward_shape *shape;
    const struct double_backward_offsets *at;
    ARGUMENTS_MEMBERS
};

/* ---- pairs that see each other -------------------------------------------------------------- */

struct extent {
    long queries, keys, diagonal;
};

INLINE struct extent batch_extent(const struct double_backward_arguments *args, const long b)
{
    struct extent e = {args->shape->seq_q, args->shape->seq_kv, args->shape->diagonal};

#if HAS_Q_LENGTHS
    e.queries = clamp((long)args->q_lengths[b], 0L, e.queries);
#endif
#if HAS_KV_LENGTHS
    e.keys = clamp((long)args->kv_lengths[b], 0L, e.keys);
#endif
    if (DIAGONAL_FOLLOWS_LENGTHS)
        e.diagonal = e.keys - e.queries;
    return e;
}

INLINE bool pair_is_seen(const struct double_backward_arguments *args, const struct extent e,
                         const long i, const long j)
{
    const bool left = HAS_WINDOW_LEFT ? j >= i + e.diagonal - args->shape->window_left : true;
    const bool right = HAS_WINDOW_RIGHT ? j <= i + e.diagonal + args->shape->window_right : true;

    return i < e.queries && j < e.keys && left && right;
}

/* Rows [first, end) of the other side, which hold all that rows [a, b) of the owned side see. */
struct range {
    long first, end;
};

INLINE struct range keys_of(const struct double_backward_arguments *args, const struct extent e,
                            const long a, const long b)
{
    struct range r = {0, a < e.queries ? e.keys : 0};

    if (HAS_WINDOW_LEFT)
        r.first = max(a + e.diagonal - args->shape->window_left, 0L);
    if (HAS_WINDOW_RIGHT)
        r.end = min(min(b, e.queries) + e.diagonal + args->shape->window_right, r.end);
    return r;
}

INLINE struct range queries_of_group(const struct double_backward_arguments *args,
                                     const struct extent e, const long a, const long b)
{
    struct range r = {0, a < e.keys ? e.queries : 0};

    if (HAS_WINDOW_RIGHT)
        r.first = max(a - e.diagonal - args->shape->window_right, 0L);
    if (HAS_WINDOW_LEFT)
        r.end = min(min(b, e.keys) - e.diagonal + args->shape->window_left, r.end);
    return r;
}

/* ---- pairs of a step ------------------------------------------------------------------------- */

/* An owned row's pairs with the keys or queries of a step. Values of hidden pairs are 0. */
struct pairs {
    ints seen; /* -1 or 0 */
    lanes score, gradient, tangent, cross;
};

INLINE lanes seen_of(const ints seen, const lanes x)
{
    return VECTOR(as_float)(VECTOR(as_int)(x) & seen);
}

INLINE struct pairs pairs_of(const struct double_backward_arguments *args,
                             const SHARED struct area *area, const int o, const ints seen)
{
    const float scale = args->shape->scale;

    return (struct pairs){seen, seen_of(seen, product_of(area, SCORE, o) * scale),
                          seen_of(seen, product_of(area, GRADIENT, o)),
                          seen_of(seen, product_of(area, TANGENT, o) * scale),
                          seen_of(seen, product_of(area, CROSS, o))};
}

/* Which of the pairs of query i with keys j, j + 1, ... see each other; or of key j with queries. */
INLINE ints keys_seen_by_row(const struct double_backward_arguments *args, const struct extent e,
                             const long i, const long j)
{
    int seen[SIMD_WIDTH];

    for (int s = 0; s < SIMD_WIDTH; s++)
        seen[s] = pair_is_seen(args, e, i, j + s) ? -1 : 0;
    return VECTOR(vload)(0, seen);
}

INLINE ints seen_queries(const struct double_backward_arguments *args, const struct extent e,
                         const long i, const long j)
{
    int seen[SIMD_WIDTH];

    for (int s = 0; s < SIMD_WIDTH; s++)
        seen[s] = pair_is_seen(args, e, i + s, j) ? -1 : 0;
    return VECTOR(vload)(0, seen);
}

/* ---- numbers of a row ------------------------------------------------------------------------ */

/* Sums over the keys that an owned query has seen, a lane each. */
struct row_sums {
    lanes most, sum, tangent, gradient, cross, both;
    float first_tangent, first_gradient;
    int started;
};

INLINE struct row_sums no_row_sums(void)
{
    const lanes zero = 0.0f;

    return (struct row_sums){(lanes)(-INFINITY), zero, zero, zero, zero, zero, 0.0f, 0.0f, 0};
}

/* Takes what the first visible pair has for the shift of the row. */
INLINE void start_row(struct row_sums *r, const struct pairs *p)
{
    int seen[SIMD_WIDTH];
    float tangent[SIMD_WIDTH], gradient[SIMD_WIDTH];

    VECTOR(vstore)(p->seen, 0, seen);
    VECTOR(vstore)(p->tangent, 0, tangent);
    VECTOR(vstore)(p->gradient, 0, gradient);
    for (int s = SIMD_WIDTH - 1; s >= 0; s--) {
        if (seen[s]) {
            r->first_tangent = tangent[s];
            r->first_gradient = gradient[s];
            r->started = 1;
        }
    }
}

TILE_STEP void add_pairs(struct row_sums *r, const struct pairs *p)
{
    const lanes none = -INFINITY;

    if (!r->started)
        start_row(r, p);
    if (!r->started)
        return;
    const lanes score =
        VECTOR(as_float)((VECTOR(as_int)(p->score) & p->seen) | (VECTOR(as_int)(none) & ~p->seen));
    const lanes most = score > r->most ? score : r->most;
    const lanes base = most == none ? (lanes)(0.0f) : most;
    const lanes kept = exponential2((r->most - base) * M_LOG2E_F);
    const lanes weight = exponential2((score - base) * M_LOG2E_F);
    const lanes tangent = seen_of(p->seen, p->tangent - r->first_tangent);
    const lanes gradient = seen_of(p->seen, p->gradient - r->first_gradient);

    r->most = most;
    r->sum = FMA(r->sum, kept, weight);
    r->tangent = FMA(r->tangent, kept, weight * tangent);
    r->gradient = FMA(r->gradient, kept, weight * gradient);
    r->cross = FMA(r->cross, kept, weight * p->cross);
    r->both = FMA(r->both, kept, weight * (tangent * gradient));
}

/* Stores the numbers of row `row` of `rows`. */
TILE_STEP void store_row_numbers(const struct row_sums *r, __global float *sums, const long row,
                                 const long rows)
{
    const float most = max_lanes(r->most, -INFINITY);
    const float base = most == -INFINITY ? 0.0f : most;
    const lanes share = exponential2((r->most - base) * M_LOG2E_F);
    const float sum = sum_lanes(r->sum * share);
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum; /* 0: no key, or scores of -inf alone */
    const float tangent = sum_lanes(r->tangent * share) * inverse;
    const float gradient = sum_lanes(r->gradient * share) * inverse;
    const float both = sum_lanes(r->both * share) * inverse - tangent * gradient;

    sums[MAXIMUM * rows + row] = base;
    sums[INVERSE * rows + row] = inverse;
    sums[MEAN_TANGENT * rows + row] = tangent + r->first_tangent;
    sums[MEAN_GRADIENT * rows + row] = gradient + r->first_gradient;
    sums[MEAN_ALL * rows + row] = sum_lanes(r->cross * share) * inverse + both;
}

/* The numbers of queries i, i + 1, ... of a head; those behind the last have the last one's. */
INLINE void load_sums(const __global float *head, const long all, const long i, const long seq_q,
                      lanes *sums)
{
    for (int m = 0; m < NUM_SUMS; m++) {
        float x[SIMD_WIDTH];
        for (int s = 0; s < SIMD_WIDTH; s++)
            x[s] = head[m * all + min(i + s, seq_q - 1)];
        sums[m] = VECTOR(vload)(0, x);
    }
}

/* ---- the weights of pairs --------------------------------------------------------------------- */

/* Writes the weights of an owned row's pairs, given the numbers of their queries. */
TILE_STEP void weigh_pairs(const struct double_backward_arguments *args, SHARED struct area *area,
                           const int o, const struct pairs *p, const lanes *sums)
{
    const float scale = args->shape->scale;
    const lanes weight =
        seen_of(p->seen, exponential2((p->score - sums[MAXIMUM]) * M_LOG2E_F) * sums[INVERSE]);
    const lanes tangent = p->tangent - sums[MEAN_TANGENT];
    const lanes gradient = p->gradient - sums[MEAN_GRADIENT];
    const lanes all = p->cross + tangent * gradient - sums[MEAN_ALL];
    const lanes weights[NUM_WEIGHTS] = {weight * all * scale, weight * gradient * scale, weight,
                                        weight * tangent};
    int seen[SIMD_WIDTH];
    uint bits = 0;

    for (int n = 0; n < NUM_WEIGHTS; n++)
        VECTOR(vstore)(seen_of(p->seen, weights[n]), n * OWNED + o, area->weights);
    VECTOR(vstore)(p->seen, 0, seen);
    for (int s = 0; s < SIMD_WIDTH; s++)
        bits |= (uint)(seen[s] & 1) << s;
    area->seen[o] = bits;
}
