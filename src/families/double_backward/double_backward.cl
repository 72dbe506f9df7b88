/* SPDX-License-Identifier: Apache-2.0 */
/* double_backward: the gradients of attention's gradients; "Double backward" in clattn/problem.h has the formula.
 *
 * Three kernels. double_backward_rows finds five numbers of each query: its largest score, the inverse sum of the
 * weights, r, D and c. double_backward_queries owns tiles of queries and goes through their keys for gq and
 * gdo; double_backward_keys owns tiles of keys and goes through the queries of all heads for gk and gv. No sum
 * has two writers.
 *
 * A tile owns OWNED rows, which stay in registers or private memory as f32, and takes SIMD_WIDTH rows of the
 * other side in a step: their OWNED x SIMD_WIDTH pairs' four products, then the weights of the pairs, then the
 * sums of rows with these weights. ROW_ITEMS items share the columns of a tile: each forms its part of the products, which
 * are added in local memory. On CPUs an item has whole rows, and nothing is shared. A work-group has
 * GROUP_TILES tiles, which take their steps together.
 *
 * Row sums are online: of exp(s - m) for the largest score m so far of a lane. c is a covariance, so that t and dP are
 * first shifted by those of the first visible pair: what all of a row have in common does not cancel.
 *
 * Defined by the host, besides the tunables:
 *   DTYPE                    cl/common/storage.h
 *   DIM_QK, DIM_V
 *   UNIT_IN, UNIT_OUT        1: the innermost strides of all that is read, or written, are 1
 *   HAS_GGQ HAS_GGK HAS_GGV  1: there is such a tensor
 *   HAS_Q_LENGTHS HAS_KV_LENGTHS HAS_WINDOW_LEFT HAS_WINDOW_RIGHT DIAGONAL_FOLLOWS_LENGTHS  cl/common/common.h
 */
#include "cpu/simd_math.h"
#include "cpu/simd_storage.h"
#include "common/double_backward_arguments.h"

#define COLUMNS (ROW_ITEMS * SIMD_WIDTH) /* of a block: a vector of each item */
#define QK_BLOCKS ((DIM_QK + COLUMNS - 1) / COLUMNS)
#define V_BLOCKS ((DIM_V + COLUMNS - 1) / COLUMNS)
#define PAIRS (OWNED * SIMD_WIDTH)
#define PART 4 /* streamed rows whose products an item forms at a time */
#define ALL_SEEN ((1u << SIMD_WIDTH) - 1u)

/* The tensors that the kernels read and write (src/program/program_parameters.h). */
struct double_backward_arguments {
    const struct double_backward_shape *shape;
    const struct double_backward_offsets *at;
    ARGUMENTS_MEMBERS
};

/* The four products of a pair, and its four weights: of rows of the other side, of the gradients that are given with
 * respect to theirs, of values, and of values for their gradients. */
enum { SCORE, GRADIENT, TANGENT, CROSS, NUM_PRODUCTS };
enum { OF_OTHER, OF_OTHER_GRADIENT, OF_VALUE, OF_VALUE_GRADIENT };

/* What the items of a tile share. */
#if ROW_ITEMS > 1
#define SHARED __local
#define SYNCHRONIZE() barrier(CLK_LOCAL_MEM_FENCE)
#define COLUMN ((int)get_local_id(0))
#else
#define SHARED
#define SYNCHRONIZE()
#define COLUMN 0
#endif
struct area {
    float
        parts[NUM_PRODUCTS * PAIRS * ROW_ITEMS]; /* of products: [product][owned][item][streamed] */
    float weights[4 * PAIRS];                    /* [weight][owned][streamed] */
    uint seen[OWNED];                            /* a bit for each streamed row */
};
#if ROW_ITEMS > 1
#define DECLARE_AREA                                                                               \
    __local struct area areas[GROUP_TILES];                                                        \
    __local struct area *const area = &areas[get_local_id(1)]
#else
#define DECLARE_AREA                                                                               \
    struct area areas;                                                                             \
    struct area *const area = &areas
#endif

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

/* ---- rows ----------------------------------------------------------------------------------- */

/* A head's rows in memory. */
struct rows {
    const __global storage *p; /* the first row */
    long stride, step, last;   /* from row to row, from column to column; the last row's number */
};

#if UNIT_IN
#define STEP_OF(tensor) 1
#else
#define STEP_OF(tensor) args->shape->tensor##_stride[3]
#endif
#define ROWS_OF(tensor, b, h, count)                                                               \
    {                                                                                              \
        args->tensor + head_offset(args->shape->tensor##_stride, b, h),                            \
            args->shape->tensor##_stride[2], STEP_OF(tensor), (count)-1                            \
    }

/* The item's vector of a block of a row; rows behind the last are the last. */
INLINE lanes load_block(const struct rows *rows, const long row, const int block, const int dim)
{
    const int c = block * COLUMNS + COLUMN * SIMD_WIDTH;

    return load_row(rows->p + min(row, rows->last) * rows->stride + c * rows->step,
                    UNIT_IN ? 1 : rows->step, dim - c);
}

/* Marks the steps of a tile: on CPUs functions of their own, which shortens builds. */
#if ROW_ITEMS > 1
#define TILE_STEP INLINE
#else
#define TILE_STEP NOINLINE
#endif

TILE_STEP void load_owned_rows(const struct rows *rows, const long first, const int blocks,
                               const int dim, lanes *to)
{
    for (int o = 0; o < OWNED; o++)
        for (int n = 0; n < blocks; n++)
            to[o * blocks + n] = load_block(rows, first + o, n, dim);
}

/* Adds the products of owned rows with PART streamed ones. */
TILE_STEP void add_products(const lanes *owned, const struct rows *rows, const long first,
                            const int blocks, const int dim, lanes *sums)
{
    lanes sum[OWNED * PART];

    UNROLL
    for (int n = 0; n < OWNED * PART; n++)
        sum[n] = sums[n];
    NO_UNROLL
    for (int n = 0; n < blocks; n++) {
        lanes x[PART];
        UNROLL
        for (int s = 0; s < PART; s++)
            x[s] = load_block(rows, first + s, n, dim);
        UNROLL
        for (int o = 0; o < OWNED; o++)
            UNROLL
        for (int s = 0; s < PART; s++)
            sum[o * PART + s] = fma(owned[o * blocks + n], x[s], sum[o * PART + s]);
    }
    UNROLL
    for (int n = 0; n < OWNED * PART; n++)
        sums[n] = sum[n];
}

INLINE void zero_row_sums(lanes *rows, const int count)
{
    for (int n = 0; n < count; n++)
        rows[n] = (lanes)(0.0f);
}

TILE_STEP void keep_products(SHARED struct area *area, const int product, const int at, lanes *sums)
{
    UNROLL
    for (int o = 0; o < OWNED; o++)
        UNROLL
    for (int s = 0; s < PART; s++)
        area->parts[((product * OWNED + o) * ROW_ITEMS + COLUMN) * SIMD_WIDTH + at + s] =
            sum_lanes(sums[o * PART + s]);
    zero_row_sums(sums, OWNED * PART);
}

/* What products are formed of, on the owned side or the streamed one: q or k, do or v, and the
 * gradients that are given with respect to theirs. */
struct owned_rows {
    const lanes *x, *ggx, *y, *ggy; /* NULL: there is none */
};
struct streamed_rows {
    struct rows x, ggx, y, ggy;
    bool has_ggx, has_ggy; /* constants */
};

/* Forms the products of the tile's pairs with streamed rows from `first` on. */
INLINE void form_products(SHARED struct area *area, const struct owned_rows *own,
                          const bool has_own_ggx, const bool has_own_ggy,
                          const struct streamed_rows *rows, const long first)
{
    lanes sums[OWNED * PART];

    zero_row_sums(sums, OWNED * PART);
    for (int at = 0; at < SIMD_WIDTH; at += PART) {
        add_products(own->x, &rows->x, first + at, QK_BLOCKS, DIM_QK, sums);
        keep_products(area, SCORE, at, sums);
        if (has_own_ggx)
            add_products(own->ggx, &rows->x, first + at, QK_BLOCKS, DIM_QK, sums);
        if (rows->has_ggx)
            add_products(own->x, &rows->ggx, first + at, QK_BLOCKS, DIM_QK, sums);
        keep_products(area, TANGENT, at, sums);
        add_products(own->y, &rows->y, first + at, V_BLOCKS, DIM_V, sums);
        keep_products(area, GRADIENT, at, sums);
        if (has_own_ggy)
            add_products(own->ggy, &rows->y, first + at, V_BLOCKS, DIM_V, sums);
        if (rows->has_ggy)
            add_products(own->y, &rows->ggy, first + at, V_BLOCKS, DIM_V, sums);
        keep_products(area, CROSS, at, sums);
    }
    SYNCHRONIZE();
}

/* A product of owned row o with all streamed rows. */
INLINE lanes product_of(const SHARED struct area *area, const int product, const int o)
{
    const SHARED float *part = area->parts + (product * OWNED + o) * ROW_ITEMS * SIMD_WIDTH;
    lanes sum = VECTOR(vload)(0, part);

    for (int n = 1; n < ROW_ITEMS; n++)
        sum += VECTOR(vload)(n, part);
    return sum;
}

/* The pairs of an owned row in a step; what is hidden is 0. */
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
INLINE ints seen_keys(const struct double_backward_arguments *args, const struct extent e,
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

enum { MAXIMUM, INVERSE, MEAN_TANGENT, MEAN_GRADIENT, MEAN_ALL, NUM_SUMS };

/* Sums over the keys that an owned query has seen, a lane each. */
struct row_sums {
    lanes most, sum, tangent, gradient, cross, both;
    float first_tangent, first_gradient;
    int started;
};

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
    const lanes kept = exponential2((r->most - base) * LOG2E);
    const lanes weight = exponential2((score - base) * LOG2E);
    const lanes tangent = seen_of(p->seen, p->tangent - r->first_tangent);
    const lanes gradient = seen_of(p->seen, p->gradient - r->first_gradient);

    r->most = most;
    r->sum = fma(r->sum, kept, weight);
    r->tangent = fma(r->tangent, kept, weight * tangent);
    r->gradient = fma(r->gradient, kept, weight * gradient);
    r->cross = fma(r->cross, kept, weight * p->cross);
    r->both = fma(r->both, kept, weight * (tangent * gradient));
}

/* Stores the numbers of row `row` of `rows`. */
TILE_STEP void store_row_sums(const struct row_sums *r, __global float *sums, const long row,
                              const long rows)
{
    const float most = max_lanes(r->most, -INFINITY);
    const float base = most == -INFINITY ? 0.0f : most;
    const lanes share = exponential2((r->most - base) * LOG2E);
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

/* ---- the weights of pairs --------------------------------------------------------------------- */

/* Writes the weights of an owned row's pairs, given the numbers of their queries. */
TILE_STEP void weigh_pairs(const struct double_backward_arguments *args, SHARED struct area *area,
                           const int o, const struct pairs *p, const lanes *sums)
{
    const float scale = args->shape->scale;
    const lanes weight =
        seen_of(p->seen, exponential2((p->score - sums[MAXIMUM]) * LOG2E) * sums[INVERSE]);
    const lanes tangent = p->tangent - sums[MEAN_TANGENT];
    const lanes gradient = p->gradient - sums[MEAN_GRADIENT];
    const lanes all = p->cross + tangent * gradient - sums[MEAN_ALL];
    const lanes weights[4] = {weight * all * scale, weight * gradient * scale, weight,
                              weight * tangent};
    int seen[SIMD_WIDTH];
    uint bits = 0;

    for (int n = 0; n < 4; n++)
        VECTOR(vstore)(seen_of(p->seen, weights[n]), n * OWNED + o, area->weights);
    VECTOR(vstore)(p->seen, 0, seen);
    for (int s = 0; s < SIMD_WIDTH; s++)
        bits |= (uint)(seen[s] & 1) << s;
    area->seen[o] = bits;
}

/* Adds streamed rows with one of the four weights to the sums of owned rows. */
TILE_STEP void add_weighted(const SHARED struct area *area, const int weight,
                            const struct rows *rows, const long first, const int blocks,
                            const int dim, const bool whole, lanes *sums)
{
    const SHARED float *weights = area->weights + weight * PAIRS;

    for (int n = 0; n < blocks; n++) {
        lanes sum[OWNED];
        UNROLL
        for (int o = 0; o < OWNED; o++)
            sum[o] = sums[o * blocks + n];
        for (int s = 0; s < SIMD_WIDTH; s++) {
            const lanes x = load_block(rows, first + s, n, dim);
            UNROLL
            for (int o = 0; o < OWNED; o++)
                if (whole || area->seen[o] >> s & 1u)
                    sum[o] = fma((lanes)(weights[o * SIMD_WIDTH + s]), x, sum[o]);
        }
        UNROLL
        for (int o = 0; o < OWNED; o++)
            sums[o * blocks + n] = sum[o];
    }
}

INLINE bool is_whole(const SHARED struct area *area)
{
    bool whole = true;

    for (int o = 0; o < OWNED; o++)
        whole = whole && area->seen[o] == ALL_SEEN;
    return whole;
}

#if UNIT_OUT
#define RESULT_STEP(tensor) 1
#else
#define RESULT_STEP(tensor) args->shape->tensor##_stride[3]
#endif

/* Stores the sums of owned rows below `count`. */
TILE_STEP void store_gradient_rows(__global storage *p, const long stride, const long step,
                                   const long first, const long count, const int blocks,
                                   const int dim, const lanes *sums)
{
    for (int o = 0; o < OWNED && first + o < count; o++)
        for (int n = 0; n < blocks; n++) {
            const int c = n * COLUMNS + COLUMN * SIMD_WIDTH;
            if (c < dim)
                store_row(sums[o * blocks + n], p + (first + o) * stride + c * step, step, dim - c);
        }
}

/* ---- kernels ---------------------------------------------------------------------------------- */

#if HAS_GGQ
#define GGQ_ROWS(b, h, count) ROWS_OF(ggq, b, h, count)
#else
#define GGQ_ROWS(b, h, count)                                                                      \
    {                                                                                              \
        0                                                                                          \
    }
#endif
#if HAS_GGK
#define GGK_ROWS(b, h, count) ROWS_OF(ggk, b, h, count)
#else
#define GGK_ROWS(b, h, count)                                                                      \
    {                                                                                              \
        0                                                                                          \
    }
#endif
#if HAS_GGV
#define GGV_ROWS(b, h, count) ROWS_OF(ggv, b, h, count)
#else
#define GGV_ROWS(b, h, count)                                                                      \
    {                                                                                              \
        0                                                                                          \
    }
#endif

/* A tile of queries, what it owns, and the rows of its kv head. */
#define BEGIN_QUERIES                                                                              \
    DECLARE_AREA;                                                                                  \
    const long bh = get_group_id(2), b = bh / args->shape->heads, h = bh - b * args->shape->heads; \
    const long seq_q = args->shape->seq_q, seq_kv = args->shape->seq_kv;                           \
    const long first = ((long)get_group_id(1) * GROUP_TILES + get_local_id(1)) * OWNED;            \
    const long group_first = (long)get_group_id(1) * (GROUP_TILES * OWNED);                        \
    const long kv_head = h / args->shape->group;                                                   \
    const struct extent e = batch_extent(args, b);                                                 \
    const struct range range = keys_of(args, e, group_first, group_first + GROUP_TILES * OWNED);   \
    const struct rows q_rows = ROWS_OF(q, b, h, seq_q), do_rows = ROWS_OF(d_o, b, h, seq_q);       \
    const struct rows ggq_rows = GGQ_ROWS(b, h, seq_q);                                            \
    const struct streamed_rows rows = {ROWS_OF(k, b, kv_head, seq_kv),                             \
                                       GGK_ROWS(b, kv_head, seq_kv),                               \
                                       ROWS_OF(v, b, kv_head, seq_kv),                             \
                                       GGV_ROWS(b, kv_head, seq_kv),                               \
                                       HAS_GGK,                                                    \
                                       HAS_GGV};                                                   \
    lanes own_q[OWNED * QK_BLOCKS], own_do[OWNED * V_BLOCKS];                                      \
    lanes own_ggq[HAS_GGQ ? OWNED * QK_BLOCKS : 1];                                                \
    const struct owned_rows own = {own_q, own_ggq, own_do, 0};                                     \
    load_owned_rows(&q_rows, first, QK_BLOCKS, DIM_QK, own_q);                                     \
    load_owned_rows(&do_rows, first, V_BLOCKS, DIM_V, own_do);                                     \
    if (HAS_GGQ)                                                                                   \
    load_owned_rows(&ggq_rows, first, QK_BLOCKS, DIM_QK, own_ggq)

/* Owned rows whose pairs an item weighs. */
#define ITEM_ROWS ((OWNED + ROW_ITEMS - 1) / ROW_ITEMS)
#define FOR_ITEM_ROWS(n, o)                                                                        \
    for (int n = 0, o = COLUMN; n < ITEM_ROWS && o < OWNED; n++, o += ROW_ITEMS)

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, GROUP_TILES, 1))) void
double_backward_rows(PARAMETERS_double_backward_rows)
{
    const struct double_backward_arguments arguments = ARGUMENTS_double_backward_rows,
                                           *const args = &arguments;
    struct row_sums sums[ITEM_ROWS];
    BEGIN_QUERIES;

    for (int n = 0; n < ITEM_ROWS; n++)
        sums[n] = (struct row_sums){(lanes)(-INFINITY),
                                    (lanes)(0.0f),
                                    (lanes)(0.0f),
                                    (lanes)(0.0f),
                                    (lanes)(0.0f),
                                    (lanes)(0.0f),
                                    0.0f,
                                    0.0f,
                                    0};
    for (long j = range.first; j < range.end; j += SIMD_WIDTH) {
        form_products(area, &own, HAS_GGQ, false, &rows, j);
        FOR_ITEM_ROWS(n, o)
        {
            const struct pairs p = pairs_of(args, area, o, seen_keys(args, e, first + o, j));
            add_pairs(&sums[n], &p);
        }
        SYNCHRONIZE();
    }
    FOR_ITEM_ROWS(n, o)
    {
        if (first + o < seq_q)
            store_row_sums(&sums[n], args->workspace, bh * seq_q + first + o,
                           args->shape->batch * args->shape->heads * seq_q);
    }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, GROUP_TILES, 1))) void
double_backward_queries(PARAMETERS_double_backward_queries)
{
    const struct double_backward_arguments arguments = ARGUMENTS_double_backward_queries,
                                           *const args = &arguments;
    const long all = args->shape->batch * args->shape->heads * args->shape->seq_q;
    lanes sum_q[OWNED * QK_BLOCKS], sum_do[OWNED * V_BLOCKS];
    BEGIN_QUERIES;

    zero_row_sums(sum_q, OWNED * QK_BLOCKS);
    zero_row_sums(sum_do, OWNED * V_BLOCKS);
    for (long j = range.first; j < range.end; j += SIMD_WIDTH) {
        form_products(area, &own, HAS_GGQ, false, &rows, j);
        FOR_ITEM_ROWS(n, o)
        {
            const struct pairs p = pairs_of(args, area, o, seen_keys(args, e, first + o, j));
            const __global float *at = args->workspace + bh * seq_q + min(first + o, seq_q - 1);
            lanes of_row[NUM_SUMS];
            for (int m = 0; m < NUM_SUMS; m++)
                of_row[m] = (lanes)(at[m * all]);
            weigh_pairs(args, area, o, &p, of_row);
        }
        SYNCHRONIZE();
        const bool whole = is_whole(area);
        add_weighted(area, OF_OTHER, &rows.x, j, QK_BLOCKS, DIM_QK, whole, sum_q);
        if (HAS_GGK)
            add_weighted(area, OF_OTHER_GRADIENT, &rows.ggx, j, QK_BLOCKS, DIM_QK, whole, sum_q);
        add_weighted(area, OF_VALUE_GRADIENT, &rows.y, j, V_BLOCKS, DIM_V, whole, sum_do);
        if (HAS_GGV)
            add_weighted(area, OF_VALUE, &rows.ggy, j, V_BLOCKS, DIM_V, whole, sum_do);
    }
    store_gradient_rows(args->gq + head_offset(args->shape->gq_stride, b, h),
                        args->shape->gq_stride[2], RESULT_STEP(gq), first, seq_q, QK_BLOCKS, DIM_QK,
                        sum_q);
    store_gradient_rows(args->gdo + head_offset(args->shape->gdo_stride, b, h),
                        args->shape->gdo_stride[2], RESULT_STEP(gdo), first, seq_q, V_BLOCKS, DIM_V,
                        sum_do);
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

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, GROUP_TILES, 1))) void
double_backward_keys(PARAMETERS_double_backward_keys)
{
    const struct double_backward_arguments arguments = ARGUMENTS_double_backward_keys,
                                           *const args = &arguments;
    DECLARE_AREA;
    const long seq_q = args->shape->seq_q, seq_kv = args->shape->seq_kv;
    const long all = args->shape->batch * args->shape->heads * seq_q;
    const long bh = get_group_id(2), b = bh / args->shape->kv_heads,
               kv_head = bh - b * args->shape->kv_heads;
    const long first = ((long)get_group_id(1) * GROUP_TILES + get_local_id(1)) * OWNED;
    const long group_first = (long)get_group_id(1) * (GROUP_TILES * OWNED);
    const struct extent e = batch_extent(args, b);
    const struct range range =
        queries_of_group(args, e, group_first, group_first + GROUP_TILES * OWNED);
    const struct rows k_rows = ROWS_OF(k, b, kv_head, seq_kv),
                      v_rows = ROWS_OF(v, b, kv_head, seq_kv);
    const struct rows ggk_rows = GGK_ROWS(b, kv_head, seq_kv),
                      ggv_rows = GGV_ROWS(b, kv_head, seq_kv);
    lanes own_k[OWNED * QK_BLOCKS], own_v[OWNED * V_BLOCKS];
    lanes own_ggk[HAS_GGK ? OWNED * QK_BLOCKS : 1], own_ggv[HAS_GGV ? OWNED * V_BLOCKS : 1];
    lanes sum_k[OWNED * QK_BLOCKS], sum_v[OWNED * V_BLOCKS];
    const struct owned_rows own = {own_k, own_ggk, own_v, own_ggv};

    load_owned_rows(&k_rows, first, QK_BLOCKS, DIM_QK, own_k);
    load_owned_rows(&v_rows, first, V_BLOCKS, DIM_V, own_v);
    if (HAS_GGK)
        load_owned_rows(&ggk_rows, first, QK_BLOCKS, DIM_QK, own_ggk);
    if (HAS_GGV)
        load_owned_rows(&ggv_rows, first, V_BLOCKS, DIM_V, own_ggv);
    zero_row_sums(sum_k, OWNED * QK_BLOCKS);
    zero_row_sums(sum_v, OWNED * V_BLOCKS);
    for (long h = kv_head * args->shape->group; h < (kv_head + 1) * args->shape->group; h++) {
        const struct streamed_rows rows = {ROWS_OF(q, b, h, seq_q),
                                           GGQ_ROWS(b, h, seq_q),
                                           ROWS_OF(d_o, b, h, seq_q),
                                           {0},
                                           HAS_GGQ,
                                           false};
        for (long i = range.first; i < range.end; i += SIMD_WIDTH) {
            lanes sums[NUM_SUMS];
            form_products(area, &own, HAS_GGK, HAS_GGV, &rows, i);
            load_sums(args->workspace + (b * args->shape->heads + h) * seq_q, all, i, seq_q, sums);
            FOR_ITEM_ROWS(n, o)
            {
                const struct pairs p = pairs_of(args, area, o, seen_queries(args, e, i, first + o));
                weigh_pairs(args, area, o, &p, sums);
            }
            SYNCHRONIZE();
            const bool whole = is_whole(area);
            add_weighted(area, OF_OTHER, &rows.x, i, QK_BLOCKS, DIM_QK, whole, sum_k);
            if (HAS_GGQ)
                add_weighted(area, OF_OTHER_GRADIENT, &rows.ggx, i, QK_BLOCKS, DIM_QK, whole,
                             sum_k);
            add_weighted(area, OF_VALUE_GRADIENT, &rows.y, i, V_BLOCKS, DIM_V, whole, sum_v);
        }
    }
    store_gradient_rows(args->gk + head_offset(args->shape->gk_stride, b, kv_head),
                        args->shape->gk_stride[2], RESULT_STEP(gk), first, seq_kv, QK_BLOCKS,
                        DIM_QK, sum_k);
    store_gradient_rows(args->gv + head_offset(args->shape->gv_stride, b, kv_head),
                        args->shape->gv_stride[2], RESULT_STEP(gv), first, seq_kv, V_BLOCKS, DIM_V,
                        sum_v);
}
