/* Blocks of keys and tiles of queries in private memory, how they are filled and how gradients
 * leave them.
 *
 * Before including this: lane_gradients.h, backward.h, BLOCK_M, and ROW_V, floats in a row of v. */
#ifndef CLATTN_LANE_BLOCKS_H
#define CLATTN_LANE_BLOCKS_H
#include "cpu/lane_gradients.h"

#include "common/backward.h"

struct place {
    long b, h; /* h: of the query heads */
    struct extent e;
};

/* A block of keys of one kv head, packed, and its sums over the queries. Lanes are keys, but in
 * k_rows, which are as in memory. */
struct block {
    long j;        /* its first key */
    int keys;      /* of it in use, 0..BLOCK_N */
    int nonfinite; /* one of them holds an infinity or a NaN */
    lanes k[ROW_QK * BLOCK_VECTORS], v[ROW_V * BLOCK_VECTORS], dk[ROW_QK * BLOCK_VECTORS],
        dv[ROW_V * BLOCK_VECTORS];
    lanes k_rows[BLOCK_N * ROW_QK / SIMD_WIDTH];
};

/* Queries of one head, in f32. Rows after the last in use are zeros. */
struct tile {
    long i; /* the first */
    int count;
    int nonfinite;
    lanes q[BLOCK_M * ROW_QK / SIMD_WIDTH], d_o[BLOCK_M * ROW_V / SIMD_WIDTH];
    float base[BLOCK_M], delta[BLOCK_M]; /* -lse and -delta */
    lanes p[BLOCK_M * BLOCK_VECTORS], ds[BLOCK_M * BLOCK_VECTORS];
};

/* Some of a tile: begin .. end - 1. */
struct rows {
    int begin, end;
};

/* Rows of a tensor as lanes, columns[d][row] times factor, and as they are where rows is not null;
 * zeros after the last. Whether a value is infinite or NaN. */
NOINLINE int pack_keys(const int dim, const __global storage *p, const long row, const long column,
                       const int count, const float factor, lanes *columns, float *rows)
{
    lanes nothing = 0.0f;

    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int d = 0; d < dim; d += SIMD_WIDTH) {
            lanes x[SIMD_WIDTH], *to = columns + d * BLOCK_VECTORS + m;
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++) {
                const int n = m * SIMD_WIDTH + r;
                x[r] = 0.0f;
                if (n < count)
                    x[r] = load_row(p + n * row + d * column, column, dim - d);
                nothing = fma(x[r], (lanes)(0.0f), nothing);
                if (rows)
                    VECTOR(vstore)(x[r], 0, rows + n * ROUNDED(dim) + d);
            }
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                to[c * BLOCK_VECTORS] = x[c] * factor;
        }
    }
    return any_lane(nothing != 0.0f);
}

NOINLINE void unpack_keys(const int dim, const lanes *columns, const float factor, const int count,
                          __global storage *p, const long row, const long column)
{
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int d = 0; d < dim; d += SIMD_WIDTH) {
            const lanes *from = columns + d * BLOCK_VECTORS + m;
            lanes x[SIMD_WIDTH];
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                x[c] = from[c * BLOCK_VECTORS] * factor;
            transpose(x);
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++)
                if (m * SIMD_WIDTH + r < count)
                    store_row(x[r], p + (m * SIMD_WIDTH + r) * row + d * column, column, dim - d);
        }
    }
}

/* Packs keys from j on and their values. */
INLINE void open_block(SHAPE_PARAMS, const struct place place, const long j,
                       const __global storage *k, const __global storage *v, struct block *block)
{
    const long kv_head = place.h / a.group;

    block->j = j;
    block->keys = (int)clamp(place.e.keys - j, 0L, (long)BLOCK_N);
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
    const int count = (int)clamp(a.seq_kv - j, 0L, (long)BLOCK_N);

    dk += at.dk + place.b * a.dk_stride[0] + kv_head * a.dk_stride[1] + j * a.dk_stride[2];
    dv += at.dv + place.b * a.dv_stride[0] + kv_head * a.dv_stride[1] + j * a.dv_stride[2];
    unpack_keys(DIM_QK, block->dk, a.scale, count, dk, a.dk_stride[2], DK_STEP);
    unpack_keys(DIM_V, block->dv, 1.0f, count, dv, a.dv_stride[2], DV_STEP);
}

/* BLOCK_M rows of a tensor, count of them in use, as lanes are along their columns. Whether a value
 * is infinite or NaN. */
NOINLINE int copy_rows(const int dim, const __global storage *p, const long row, const long column,
                       const int count, float *to)
{
    lanes nothing = 0.0f;

    for (int n = 0; n < count; n++) {
        for (int d = 0; d < dim; d += SIMD_WIDTH) {
            const int at =
                dim < SIMD_WIDTH ? 0 : min(d, dim - SIMD_WIDTH); /* the last vector overlaps */
            const lanes x = load_row(p + n * row + at * column, column, dim - at);
            nothing = fma(x, (lanes)(0.0f), nothing);
            VECTOR(vstore)(x, 0, to + n * ROUNDED(dim) + at);
        }
    }
    for (int n = count * ROUNDED(dim); n < BLOCK_M * ROUNDED(dim); n++)
        to[n] = 0.0f;
    return any_lane(nothing != 0.0f);
}

/* Fills the tile with count queries from i on. rows: -lse and -delta of each. */
INLINE void open_tile(SHAPE_PARAMS, const struct place place, const long i, const int count,
                      const __global storage *q, const __global storage *d_o,
                      const __global float *rows, struct tile *tile)
{
    tile->i = i;
    tile->count = count;
    q += at.q + place.b * a.q_stride[0] + place.h * a.q_stride[1] + i * a.q_stride[2];
    d_o += at.d_o + place.b * a.d_o_stride[0] + place.h * a.d_o_stride[1] + i * a.d_o_stride[2];
    rows += 2 * (row_of(a, place.b, place.h, 0) + i);
    tile->nonfinite = copy_rows(DIM_QK, q, a.q_stride[2], Q_STEP, count, (float *)tile->q) |
                      copy_rows(DIM_V, d_o, a.d_o_stride[2], DO_STEP, count, (float *)tile->d_o);
    for (int n = 0; n < BLOCK_M; n++) {
        tile->base[n] = n < count ? rows[2 * n] : 0.0f;
        tile->delta[n] = n < count ? rows[2 * n + 1] : 0.0f;
    }
}

/* The rows of the tile that may see keys of the block, by lengths, window and causality. */
INLINE struct rows seeing_rows(const struct attention_shape a, const struct extent e,
                               const struct block *block, const struct tile *tile)
{
    const long begin = first_query(a, e, block->j) - tile->i;
    const long end = end_query(a, e, block->j, block->keys) - tile->i;

    return (struct rows){(int)clamp(begin, 0L, (long)tile->count),
                         (int)clamp(end, 0L, (long)tile->count)};
}

/* Whether rows of the tile are missing, or may not see some key of the block. */
INLINE int tile_hides(const struct attention_shape a, const struct extent e,
                      const struct block *block, const struct tile *tile)
{
    return HIDES_ANYWHERE || tile->count < BLOCK_M || block->keys < BLOCK_N ||
           end_key(a, e, tile->i) < block->j + BLOCK_N ||
           first_key(a, e, tile->i + tile->count - 1) > block->j;
}

#endif
