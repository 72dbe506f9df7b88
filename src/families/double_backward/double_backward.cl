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
#include "double_backward/pairs.h"

/* ggq, ggk and ggv are optional. Without one its operand is 0, which is never read. */
#if HAS_GGQ
#define GGQ args->ggq
#else
#define GGQ 0
#endif
#if HAS_GGK
#define GGK args->ggk
#else
#define GGK 0
#endif
#if HAS_GGV
#define GGV args->ggv
#else
#define GGV 0
#endif

/* What the items of a tile share: a kernel declares it in local memory, or as its own. */
#if ROW_ITEMS > 1
#define DECLARE_AREA                                                                               \
    __local struct area areas[GROUP_TILES];                                                        \
    __local struct area *const area = &areas[get_local_id(1)]
#else
#define DECLARE_AREA                                                                               \
    struct area areas;                                                                             \
    struct area *const area = &areas
#endif

/* The first row of the work-group's tiles, and of the item's. */
INLINE long first_of_group(void)
{
    return (long)get_group_id(1) * (GROUP_TILES * OWNED);
}

INLINE long first_of_tile(void)
{
    return ((long)get_group_id(1) * GROUP_TILES + get_local_id(1)) * OWNED;
}

/* A tile of queries, and the rows of keys that it goes through. */
struct query_tile {
    long bh, b, h, first;
    struct extent e;
    struct range range;
    struct streamed_rows rows;
};

INLINE struct query_tile query_tile_of(const struct double_backward_arguments *args)
{
    const struct double_backward_shape *shape = args->shape;
    const long bh = get_group_id(2), b = bh / shape->heads, h = bh - b * shape->heads;
    const long kv_head = h / shape->group, group = first_of_group();
    struct query_tile t = {bh, b, h, first_of_tile()};

    t.e = batch_extent(args, b);
    t.range = keys_of(args, t.e, group, group + GROUP_TILES * OWNED);
    t.rows.x = rows_of(args->k, shape->k_stride, b, kv_head, shape->seq_kv);
    t.rows.ggx = rows_of(GGK, shape->ggk_stride, b, kv_head, shape->seq_kv);
    t.rows.y = rows_of(args->v, shape->v_stride, b, kv_head, shape->seq_kv);
    t.rows.ggy = rows_of(GGV, shape->ggv_stride, b, kv_head, shape->seq_kv);
    t.rows.has_ggx = HAS_GGK;
    t.rows.has_ggy = HAS_GGV;
    return t;
}

/* What an item keeps of the queries that the tile owns. */
struct query_rows {
    lanes q[OWNED_QK], d_o[OWNED_V], ggq[HAS_GGQ ? OWNED_QK : 1];
};

INLINE struct owned_rows load_owned_queries(const struct double_backward_arguments *args,
                                            const struct query_tile *t, struct query_rows *own)
{
    const struct double_backward_shape *shape = args->shape;
    const struct rows q = rows_of(args->q, shape->q_stride, t->b, t->h, shape->seq_q);
    const struct rows d_o = rows_of(args->d_o, shape->d_o_stride, t->b, t->h, shape->seq_q);
    const struct rows ggq = rows_of(GGQ, shape->ggq_stride, t->b, t->h, shape->seq_q);

    load_owned_rows(&q, t->first, QK_BLOCKS, DIM_QK, own->q);
    load_owned_rows(&d_o, t->first, V_BLOCKS, DIM_V, own->d_o);
    if (HAS_GGQ)
        load_owned_rows(&ggq, t->first, QK_BLOCKS, DIM_QK, own->ggq);
    return (struct owned_rows){own->q, own->ggq, own->d_o, 0};
}

/* Owned rows whose pairs an item weighs. */
#define ITEM_ROWS DIVIDE_UP(OWNED, ROW_ITEMS)
#define FOR_ITEM_ROWS(n, o)                                                                        \
    for (int n = 0, o = COLUMN; n < ITEM_ROWS && o < OWNED; n++, o += ROW_ITEMS)

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, GROUP_TILES, 1))) void
double_backward_rows(PARAMETERS_double_backward_rows)
{
    const struct double_backward_arguments arguments = ARGUMENTS_double_backward_rows,
                                           *const args = &arguments;
    DECLARE_AREA;
    const struct query_tile t = query_tile_of(args);
    const long seq_q = args->shape->seq_q;
    struct query_rows loaded;
    const struct owned_rows own = load_owned_queries(args, &t, &loaded);
    struct row_sums sums[ITEM_ROWS];

    for (int n = 0; n < ITEM_ROWS; n++)
        sums[n] = no_row_sums();
    for (long j = t.range.first; j < t.range.end; j += SIMD_WIDTH) {
        form_products(area, &own, HAS_GGQ, false, &t.rows, j);
        FOR_ITEM_ROWS(n, o)
        {
            const struct pairs p =
                pairs_of(args, area, o, keys_seen_by_row(args, t.e, t.first + o, j));
            add_pairs(&sums[n], &p);
        }
        SYNCHRONIZE();
    }
    FOR_ITEM_ROWS(n, o)
    {
        if (t.first + o < seq_q)
            store_row_numbers(&sums[n], args->workspace, t.bh * seq_q + t.first + o,
                              args->shape->batch * args->shape->heads * seq_q);
    }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, GROUP_TILES, 1))) void
double_backward_queries(PARAMETERS_double_backward_queries)
{
    const struct double_backward_arguments arguments = ARGUMENTS_double_backward_queries,
                                           *const args = &arguments;
    DECLARE_AREA;
    const struct query_tile t = query_tile_of(args);
    const long seq_q = args->shape->seq_q;
    const long all = args->shape->batch * args->shape->heads * seq_q;
    struct query_rows loaded;
    const struct owned_rows own = load_owned_queries(args, &t, &loaded);
    lanes sum_q[OWNED_QK], sum_do[OWNED_V];

    zero_row_sums(sum_q, OWNED_QK);
    zero_row_sums(sum_do, OWNED_V);
    for (long j = t.range.first; j < t.range.end; j += SIMD_WIDTH) {
        form_products(area, &own, HAS_GGQ, false, &t.rows, j);
        FOR_ITEM_ROWS(n, o)
        {
            const struct pairs p =
                pairs_of(args, area, o, keys_seen_by_row(args, t.e, t.first + o, j));
            const __global float *at = args->workspace + t.bh * seq_q + min(t.first + o, seq_q - 1);
            lanes of_row[NUM_SUMS];
            for (int m = 0; m < NUM_SUMS; m++)
                of_row[m] = (lanes)(at[m * all]);
            weigh_pairs(args, area, o, &p, of_row);
        }
        SYNCHRONIZE();
        const bool whole = is_whole(area);
        add_weighted(area, OF_OTHER, &t.rows.x, j, QK_BLOCKS, DIM_QK, whole, sum_q);
        if (HAS_GGK)
            add_weighted(area, OF_OTHER_GRADIENT, &t.rows.ggx, j, QK_BLOCKS, DIM_QK, whole, sum_q);
        add_weighted(area, OF_VALUE_GRADIENT, &t.rows.y, j, V_BLOCKS, DIM_V, whole, sum_do);
        if (HAS_GGV)
            add_weighted(area, OF_VALUE, &t.rows.ggy, j, V_BLOCKS, DIM_V, whole, sum_do);
    }
    store_gradient_rows(args->gq + head_offset(args->shape->gq_stride, t.b, t.h),
                        args->shape->gq_stride, t.first, seq_q, QK_BLOCKS, DIM_QK, sum_q);
    store_gradient_rows(args->gdo + head_offset(args->shape->gdo_stride, t.b, t.h),
                        args->shape->gdo_stride, t.first, seq_q, V_BLOCKS, DIM_V, sum_do);
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, GROUP_TILES, 1))) void
double_backward_keys(PARAMETERS_double_backward_keys)
{
    const struct double_backward_arguments arguments = ARGUMENTS_double_backward_keys,
                                           *const args = &arguments;
    const struct double_backward_shape *const shape = args->shape;
    DECLARE_AREA;
    const long seq_q = shape->seq_q, seq_kv = shape->seq_kv;
    const long all = shape->batch * shape->heads * seq_q;
    const long bh = get_group_id(2), b = bh / shape->kv_heads, kv_head = bh - b * shape->kv_heads;
    const long first = first_of_tile(), group = first_of_group();
    const struct extent e = batch_extent(args, b);
    const struct range range = queries_of_group(args, e, group, group + GROUP_TILES * OWNED);
    const struct rows k_rows = rows_of(args->k, shape->k_stride, b, kv_head, seq_kv);
    const struct rows v_rows = rows_of(args->v, shape->v_stride, b, kv_head, seq_kv);
    const struct rows ggk_rows = rows_of(GGK, shape->ggk_stride, b, kv_head, seq_kv);
    const struct rows ggv_rows = rows_of(GGV, shape->ggv_stride, b, kv_head, seq_kv);
    lanes own_k[OWNED_QK], own_v[OWNED_V];
    lanes own_ggk[HAS_GGK ? OWNED_QK : 1], own_ggv[HAS_GGV ? OWNED_V : 1];
    lanes sum_k[OWNED_QK], sum_v[OWNED_V];
    const struct owned_rows own = {own_k, own_ggk, own_v, own_ggv};

    load_owned_rows(&k_rows, first, QK_BLOCKS, DIM_QK, own_k);
    load_owned_rows(&v_rows, first, V_BLOCKS, DIM_V, own_v);
    if (HAS_GGK)
        load_owned_rows(&ggk_rows, first, QK_BLOCKS, DIM_QK, own_ggk);
    if (HAS_GGV)
        load_owned_rows(&ggv_rows, first, V_BLOCKS, DIM_V, own_ggv);
    zero_row_sums(sum_k, OWNED_QK);
    zero_row_sums(sum_v, OWNED_V);
    for (long h = kv_head * shape->group; h < (kv_head + 1) * shape->group; h++) {
        struct streamed_rows rows = {.has_ggx = HAS_GGQ};
        rows.x = rows_of(args->q, shape->q_stride, b, h, seq_q);
        rows.ggx = rows_of(GGQ, shape->ggq_stride, b, h, seq_q);
        rows.y = rows_of(args->d_o, shape->d_o_stride, b, h, seq_q);
        for (long i = range.first; i < range.end; i += SIMD_WIDTH) {
            lanes sums[NUM_SUMS];
            form_products(area, &own, HAS_GGK, HAS_GGV, &rows, i);
            load_sums(args->workspace + (b * shape->heads + h) * seq_q, all, i, seq_q, sums);
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
    store_gradient_rows(args->gk + head_offset(shape->gk_stride, b, kv_head), shape->gk_stride,
                        first, seq_kv, QK_BLOCKS, DIM_QK, sum_k);
    store_gradient_rows(args->gv + head_offset(shape->gv_stride, b, kv_head), shape->gv_stride,
                        first, seq_kv, V_BLOCKS, DIM_V, sum_v);
}
