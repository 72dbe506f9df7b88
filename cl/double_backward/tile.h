/* SPDX-License-Identifier: Apache-2.0 */
/* A step of a tile of double_backward: the products of the rows that it owns with rows of the other side, and the sums of
 * those with weights. src/families/double_backward/double_backward.cl says who owns what. */
#pragma once
#include "cpu/simd_math.h"
#include "cpu/simd_storage.h"
#include "families/double_backward/double_backward_sizes.h"

/* Streamed rows whose products an item forms at a time. */
enum { PART = 4 };

/* What the items of a tile share; and the steps of a tile, which are functions of their own on CPUs: that shortens
 * builds. */
#if ROW_ITEMS > 1
#define SHARED __local
#define SYNCHRONIZE() barrier(CLK_LOCAL_MEM_FENCE)
#define COLUMN ((int)get_local_id(0))
#define TILE_STEP INLINE
#else
#define SHARED
#define SYNCHRONIZE()
#define COLUMN 0
#define TILE_STEP NOINLINE
#endif

/* Loops over owned rows and over their blocks are unrolled where items share few columns, so that their vectors are
 * registers; else they would be arrays in memory. */
#if ROW_ITEMS > 1 && QK_BLOCKS <= 4 && V_BLOCKS <= 4
#define UNROLL_OWNED UNROLL
#define UNROLL_PRODUCTS UNROLL
#else
#define UNROLL_OWNED
#define UNROLL_PRODUCTS NO_UNROLL
#endif
struct area {
    float parts[PRODUCT_PARTS];  /* of products: [product][owned][item][streamed] */
    float weights[PAIR_WEIGHTS]; /* [weight][owned][streamed] */
    uint seen[OWNED];            /* a bit for each streamed row */
};

/* A head's rows in memory. */
struct rows {
    const __global storage *p; /* the first row */
    long stride, step, last;   /* from row to row, from column to column; the last row's number */
};

INLINE struct rows rows_of(const __global storage *tensor, const long *stride, const long b,
                           const long h, const long count)
{
    return (struct rows){tensor + head_offset(stride, b, h), stride[2], UNIT_IN ? 1 : stride[3],
                         count - 1};
}

/* The item's vector of a block of a row; rows behind the last are the last. */
INLINE lanes load_block(const struct rows *rows, const long row, const int block, const int dim)
{
    const int c = block * COLUMNS + COLUMN * SIMD_WIDTH;

    return load_row(rows->p + min(row, rows->last) * rows->stride + c * rows->step,
                    UNIT_IN ? 1 : rows->step, dim - c);
}

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
    UNROLL_PRODUCTS
    for (int n = 0; n < blocks; n++) {
        lanes x[PART];
        UNROLL
        for (int s = 0; s < PART; s++)
            x[s] = load_block(rows, first + s, n, dim);
        UNROLL
        for (int o = 0; o < OWNED; o++)
            UNROLL
        for (int s = 0; s < PART; s++)
            sum[o * PART + s] = FMA(owned[o * blocks + n], x[s], sum[o * PART + s]);
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

    UNROLL_BY_8
    for (int n = 1; n < ROW_ITEMS; n++)
        sum += VECTOR(vload)(n, part);
    return sum;
}

/* Adds streamed rows with one of the four weights to the sums of owned rows. */
TILE_STEP void add_weighted(const SHARED struct area *area, const int weight,
                            const struct rows *rows, const long first, const int blocks,
                            const int dim, const bool whole, lanes *sums)
{
    const SHARED float *weights = area->weights + weight * PAIRS;

    UNROLL_OWNED
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
                    sum[o] = FMA((lanes)(weights[o * SIMD_WIDTH + s]), x, sum[o]);
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
        whole = whole && area->seen[o] == (1u << SIMD_WIDTH) - 1u;
    return whole;
}

/* Stores the sums of owned rows below `count`, given the head's first row and the strides of the tensor. */
TILE_STEP void store_gradient_rows(__global storage *p, const long *stride, const long first,
                                   const long count, const int blocks, const int dim,
                                   const lanes *sums)
{
    const long step = UNIT_OUT ? 1 : stride[3];

    UNROLL_OWNED
    for (int o = 0; o < OWNED; o++)
        for (int n = 0; n < blocks && first + o < count; n++) {
            const int c = n * COLUMNS + COLUMN * SIMD_WIDTH;
            if (c < dim)
                store_row(sums[o * blocks + n], p + (first + o) * stride[2] + c * step, step,
                          dim - c);
        }
}
