/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of keys and tiles of queries of backward_cpu in private memory: load and store.
 *
 * Tunables   BLOCK_M, and those of cpu/backward_products.h. A row of v has ROW_V floats. */
#pragma once
#include "cpu/backward_products.h"
#include "cpu/prefetch.h"
#include "score/mark_pairs.h"

#include "common/backward.h"

/* A query head of a batch. */
struct head {
    long b, h;
    struct extent e;
    long keys_end; /* blocks that begin before this key end at it or earlier (HAS_BLOCKS) */
    struct block_bits bits;      /* the bits of the head's block list (HAS_BLOCKS) */
    const __global uchar *marks; /* the marks of all pairs; null if none were made (HAS_MARKS) */
    __global float *of_loads;    /* the work-item's sums of dfunction (HAS_DFUNCTION) */
};

/* A block of keys of one kv head, packed with keys in SIMD lanes, and the gradients summed so
 * far. */
struct key_block {
    long j;        /* the block's first key */
    int keys;      /* the number of its keys in use, 0..BLOCK_N */
    int nonfinite; /* whether k has an infinity or a NaN */
    lanes k[BLOCK_OPERANDS(ROW_QK)], v[BLOCK_OPERANDS(ROW_V)];
    lanes dk[BLOCK_SUMS(ROW_QK)], dv[BLOCK_SUMS(ROW_V)];
    lanes k_rows[BLOCK_ROWS]; /* rows of k as in memory, or as pairs of rows */
};

/* A tile of queries of one head, as operands, and its P and dS with keys in SIMD lanes. Rows after the
 * last in use are zeros. */
struct query_tile {
    long i; /* the tile's first query */
    int count;
    int nonfinite; /* whether q or do has an infinity or a NaN */
    lanes q[TILE_OPERANDS(ROW_QK)], d_o[TILE_OPERANDS(ROW_V)];
#if OPERAND_PAIRS /* q, do as pairs of rows (UNIT=amx: transposed); dS as pairs of keys, for dq */
    lanes q_rows[TILE_PAIRS(ROW_QK)], d_o_rows[TILE_PAIRS(ROW_V)];
    lanes ds_keys[TILE_PAIR_KEYS];
#endif
#if OPERAND_TILES
    lanes dq[TILE_SUMS]; /* sums over the blocks of a chunk, [query][column] */
#endif
    float minus_lse[BLOCK_M], minus_delta[BLOCK_M];
    float missing[BLOCK_M]; /* the factors that correct the rows' weights for a rounded lse */
    int lacks;              /* whether a factor in `missing` differs from 1 */
    lanes p[TILE_WEIGHTS], ds[TILE_WEIGHTS];
#if SHARES_DISTANCES
    struct distances distances; /* of the block of keys at hand */
#endif
};

/* The rows begin .. end - 1 of a tile. */
struct row_range {
    int begin, end;
};

/* Prefetches row n; a copy of `count` rows of dim elements, `row` apart, calls this for a later
 * row. Hardware prefetching stops at the end of a page of 4 KiB, so each distant row would wait for
 * memory and its address. */
INLINE void prefetch_rows_apart(const __global storage *p, const long row, const int dim,
                                const int n, const int count)
{
    const int ahead = n + 4;

    if (row > dim && ahead < count)
        for (int d = 0; d < dim; d += 64 / (int)sizeof(storage))
            prefetch_l1(p + ahead * row + d);
}

/* The units differ in operands:
 *
 *   load_key_operands()      the keys and values of a block
 *   load_query_operands()    q and do of a tile
 *   q_operands(), d_o_operands()   a tile's operands of dk and dv
 *   compute_whole_tile()     P and dS of rows that see all keys, as operands (UNIT=amx)
 *   operands_of_weights()          makes operands of P and dS; returns those of dq
 *   add_to_query_sums()      adds dS K to the sums of dq: to those in the workspace, or the tile's (UNIT=amx), which
 *                            end_query_sums() then adds to them */
#if OPERAND_PAIRS
#include "bf16/backward_pairs.h"

INLINE void load_key_operands(const struct arguments *args, const __global k_storage *k,
                              const __global v_storage *v, struct key_block *block)
{
    load_key_pairs(args, k, v, block);
}
#endif
#if OPERAND_TILES
#include "bf16/backward_tiles.h"

INLINE void load_query_operands(const struct arguments *args, const __global storage *q,
                                const __global storage *d_o, const int count,
                                struct query_tile *tile)
{
    const int copied = (count + ROWS_OF_STEP - 1) / ROWS_OF_STEP * ROWS_OF_STEP;

    copy_pairs(DIM_QK, q, args->shape->q_stride[2], q_step(args), count, copied, (uint *)tile->q);
    copy_pairs(DIM_V, d_o, args->shape->d_o_stride[2], do_step(args), count, copied,
               (uint *)tile->d_o);
    tile->nonfinite =
        transpose_pairs(OPERANDS(ROW_QK) / SIMD_WIDTH, tile->q, copied, tile->q_rows) |
        transpose_pairs(OPERANDS(ROW_V) / SIMD_WIDTH, tile->d_o, copied, tile->d_o_rows);
    for (int n = 0; n < copied * VECTORS_QK; n++)
        tile->dq[n] = 0.0f;
}

INLINE const operand *q_operands(const struct query_tile *tile)
{
    return (const operand *)tile->q_rows;
}

INLINE const operand *d_o_operands(const struct query_tile *tile)
{
    return (const operand *)tile->d_o_rows;
}

INLINE const operand *compute_whole_tile(const float scale, const struct key_block *block,
                                         const struct row_range rows, struct query_tile *tile)
{
    compute_pairs(scale, block, rows, tile);
    return (const operand *)tile->ds_keys;
}

INLINE const operand *operands_of_weights(const struct row_range rows, struct query_tile *tile)
{
    pair_weights_of_tiles(rows, tile);
    return (const operand *)tile->ds_keys;
}

INLINE void add_to_query_sums(const operand *ds, const struct key_block *block,
                              const struct row_range rows, struct query_tile *tile,
                              __global float *dq)
{
    add_query_gradients_by_tiles(ds, block->k_rows, block->keys, rows.begin, rows.end, tile->dq);
}

INLINE void end_query_sums(const struct query_tile *tile, __global float *dq)
{
    add_query_sums(tile, dq);
}
#elif OPERAND_PAIRS
INLINE void load_query_operands(const struct arguments *args, const __global storage *q,
                                const __global storage *d_o, const int count,
                                struct query_tile *tile)
{
    copy_pairs(DIM_QK, q, args->shape->q_stride[2], q_step(args), count, BLOCK_M, (uint *)tile->q);
    copy_pairs(DIM_V, d_o, args->shape->d_o_stride[2], do_step(args), count, BLOCK_M,
               (uint *)tile->d_o);
    tile->nonfinite = pack_row_pairs(DIM_QK, q, args->shape->q_stride[2], q_step(args), count,
                                     BLOCK_M, 1, (uint *)tile->q_rows) |
                      pack_row_pairs(DIM_V, d_o, args->shape->d_o_stride[2], do_step(args), count,
                                     BLOCK_M, 1, (uint *)tile->d_o_rows);
}

INLINE const operand *q_operands(const struct query_tile *tile)
{
    return (const operand *)tile->q_rows;
}

INLINE const operand *d_o_operands(const struct query_tile *tile)
{
    return (const operand *)tile->d_o_rows;
}

INLINE const operand *operands_of_weights(const struct row_range rows, struct query_tile *tile)
{
    pair_weights(rows, tile);
    return (const operand *)tile->ds_keys;
}
#else
/* Packs rows of a tensor with rows in SIMD lanes, columns[d][row], times factor; also copies them
 * to `rows` if that is not null. Zeros follow the last row. Returns whether a value is infinite or
 * NaN. */
NOINLINE int pack_rows(const int dim, const __global storage *p, const long row, const long column,
                       const int count, const float factor, lanes *columns, float *rows)
{
    lanes zero = 0.0f;

    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int d = 0; d < dim; d += SIMD_WIDTH) {
            lanes x[SIMD_WIDTH], *to = columns + d * BLOCK_VECTORS + m;
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++) {
                const int n = m * SIMD_WIDTH + r;
                x[r] = 0.0f;
                if (n < count)
                    x[r] = load_row(p + n * row + d * column, column, dim - d);
                zero = FMA(x[r], (lanes)(0.0f), zero);
                if (rows)
                    VECTOR(vstore)(x[r], 0, rows + n * ROUNDED(dim) + d);
            }
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                to[c * BLOCK_VECTORS] = x[c] * factor;
        }
    }
    return any_lane(zero != 0.0f);
}

/* Copies BLOCK_M rows of a tensor, count of them in use, as f32. Returns whether a value is
 * infinite or NaN. */
NOINLINE int copy_rows_as_floats(const int dim, const __global storage *p, const long row,
                                 const long column, const int count, float *to)
{
    lanes zero = 0.0f;

    for (int n = 0; n < count; n++) {
        prefetch_rows_apart(p, row, dim, n, count);
        for (int d = 0; d < dim; d += SIMD_WIDTH) {
            /* The last vector overlaps the one before. */
            const int at = dim < SIMD_WIDTH ? 0 : min(d, dim - SIMD_WIDTH);
            const lanes x = load_row(p + n * row + at * column, column, dim - at);
            zero = FMA(x, (lanes)(0.0f), zero);
            VECTOR(vstore)(x, 0, to + n * ROUNDED(dim) + at);
        }
    }
    for (int n = count * ROUNDED(dim); n < BLOCK_M * ROUNDED(dim); n++)
        to[n] = 0.0f;
    return any_lane(zero != 0.0f);
}

INLINE void load_key_operands(const struct arguments *args, const __global k_storage *k,
                              const __global v_storage *v, struct key_block *block)
{
    block->nonfinite = pack_rows(DIM_QK, k, args->shape->k_stride[2], k_step(args), block->keys,
                                 HAS_SOFTCAP ? args->shape->scale : args->shape->scale * SCORE_UNIT,
                                 block->k, (float *)block->k_rows);
    pack_rows(DIM_V, v, args->shape->v_stride[2], v_step(args), block->keys, 1.0f, block->v, 0);
}

INLINE void load_query_operands(const struct arguments *args, const __global storage *q,
                                const __global storage *d_o, const int count,
                                struct query_tile *tile)
{
    tile->nonfinite = copy_rows_as_floats(DIM_QK, q, args->shape->q_stride[2], q_step(args), count,
                                          (float *)tile->q) |
                      copy_rows_as_floats(DIM_V, d_o, args->shape->d_o_stride[2], do_step(args),
                                          count, (float *)tile->d_o);
}

INLINE const operand *q_operands(const struct query_tile *tile)
{
    return (const operand *)tile->q;
}

INLINE const operand *d_o_operands(const struct query_tile *tile)
{
    return (const operand *)tile->d_o;
}

INLINE const operand *operands_of_weights(const struct row_range rows, struct query_tile *tile)
{
    return (const operand *)tile->ds;
}
#endif
#if !OPERAND_TILES
INLINE const operand *compute_whole_tile(const float scale, const struct key_block *block,
                                         const struct row_range rows, struct query_tile *tile)
{
    return (const operand *)tile->ds;
}

INLINE void add_to_query_sums(const operand *ds, const struct key_block *block,
                              const struct row_range rows, struct query_tile *tile,
                              __global float *dq)
{
    add_query_gradients(ds, block->k_rows, block->keys, rows.begin, rows.end, dq);
}

INLINE void end_query_sums(const struct query_tile *tile, __global float *dq)
{
}
#endif

/* The inverse of pack_rows(): stores rows of a tensor from columns[d][row] times factor. */
NOINLINE void unpack_rows(const int dim, const lanes *columns, const float factor, const int count,
                          __global o_storage *p, const long row, const long column)
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

/* Loads keys from j on and their values. */
INLINE void load_key_block(const struct arguments *args, const struct head head, const long j,
                           struct key_block *block)
{
    const long kv_head = head.h / args->shape->group;

    block->j = j;
    block->keys = (int)clamp(head.e.keys - j, 0L, (long)BLOCK_N);
    const __global k_storage *k = args->k + row_offset(args->shape->k_stride, head.b, kv_head, j);
    const __global v_storage *v = args->v + row_offset(args->shape->v_stride, head.b, kv_head, j);
    load_key_operands(args, k, v, block);
}

/* Stores dk and dv of the block's keys. */
INLINE void store_key_gradients(const struct arguments *args, const struct head head,
                                const struct key_block *block)
{
    const long kv_head = head.h / args->shape->group, j = block->j;
    const long end = HAS_BLOCKS ? head.keys_end : args->shape->seq_kv;
    const int count = (int)clamp(end - j, 0L, (long)BLOCK_N);

    __global o_storage *dk = args->dk + row_offset(args->shape->dk_stride, head.b, kv_head, j);
    __global o_storage *dv = args->dv + row_offset(args->shape->dv_stride, head.b, kv_head, j);
    unpack_rows(DIM_QK, block->dk, args->shape->scale, count, dk, args->shape->dk_stride[2],
                dk_step(args));
    unpack_rows(DIM_V, block->dv, 1.0f, count, dv, args->shape->dv_stride[2], dv_step(args));
}

/* Returns a NaN that stays a NaN when it is rounded to bf16. */
INLINE float without_payload(const float x)
{
    /* Tests bits: LLVM returns any NaN for x in x == x ? x : NAN. */
    return (as_uint(x) & 0x7fffffffu) > 0x7f800000u ? as_float(0x7fc00000u) : x;
}

/* Loads count queries from i on; `rows` has the statistics of all rows. */
INLINE void load_query_tile(const struct arguments *args, const struct head head, const long i,
                            const int count, const __global float *rows, struct query_tile *tile)
{
    tile->i = i;
    tile->count = count;
    const __global storage *q = args->q + row_offset(args->shape->q_stride, head.b, head.h, i);
    const __global storage *d_o =
        args->d_o + row_offset(args->shape->d_o_stride, head.b, head.h, i);
    rows += ROW_STATISTICS * (row_of(args, head.b, head.h, 0) + i);
    load_query_operands(args, q, d_o, count, tile);
    tile->lacks = 0;
    for (int n = 0; n < BLOCK_M; n++, rows += ROW_STATISTICS) {
        tile->minus_lse[n] = n < count ? without_payload(rows[MINUS_LSE]) : 0.0f;
        tile->minus_delta[n] = n < count ? without_payload(rows[MINUS_DELTA]) : 0.0f;
        tile->missing[n] = n < count ? rows[MISSING_FACTOR] : 1.0f;
        tile->lacks |= tile->missing[n] != 1.0f;
    }
}

/* The mark of row r and the block's keys; MARK_M neighbouring rows share it. */
INLINE int mark_of_row(const struct arguments *args, const struct head head,
                       const struct key_block *block, const struct query_tile *tile, const int r)
{
    return mark_of_pairs(args, head.marks, head.b, head.h, tile->i + r, 1, block->j, block->keys);
}

/* Shortens the range by leading and trailing rows whose tiles are marked as empty. */
INLINE struct row_range unmarked_rows(const struct arguments *args, const struct head head,
                                      const struct key_block *block, const struct query_tile *tile,
                                      struct row_range rows)
{
    while (rows.begin < rows.end && (mark_of_row(args, head, block, tile, rows.begin) & MARK_EMPTY))
        rows.begin += MARK_M - (int)((tile->i + rows.begin) % MARK_M);
    while (rows.begin < rows.end &&
           (mark_of_row(args, head, block, tile, rows.end - 1) & MARK_EMPTY))
        rows.end -= 1 + (int)((tile->i + rows.end - 1) % MARK_M);
    return rows;
}

/* Finds the first and last row of the tile that may see keys of the block, by lengths, window,
 * causality and marks. All rows between them are included. */
INLINE struct row_range visible_rows(const struct arguments *args, const struct head head,
                                     const struct key_block *block, const struct query_tile *tile)
{
    const long begin = first_query(args, head.e, block->j) - tile->i;
    const long end = end_query(args, head.e, block->j, block->keys) - tile->i;
    struct row_range rows = {(int)clamp(begin, 0L, (long)tile->count),
                             (int)clamp(end, 0L, (long)tile->count)};

    return HAS_MARKS ? unmarked_rows(args, head, block, tile, rows) : rows;
}

/* The begin of the next tile of queries: the first query of [i, end) that lists one of `keys` keys
 * from key j on; end if there is none. */
INLINE long next_listed_query(const struct head head, const long j, const int keys, const long i,
                              const long end)
{
    const long r = next_row(head.bits, j / BLOCK_KV, (j + keys - 1) / BLOCK_KV + 1, 0, i / BLOCK_Q,
                            (end + BLOCK_Q - 1) / BLOCK_Q);

    return clamp(r * BLOCK_Q, i, max(i, end));
}

/* Returns the end of the run of listed queries that begins with query i; at most `end`. */
INLINE long end_listed_query(const struct head head, const long j, const int keys, const long i,
                             const long end)
{
    const long r = next_row(head.bits, j / BLOCK_KV, (j + keys - 1) / BLOCK_KV + 1, 1,
                            i / BLOCK_Q + 1, (end + BLOCK_Q - 1) / BLOCK_Q);

    return min(r * BLOCK_Q, end);
}

/* Returns whether the lists have any pair of a block of keys and a tile of queries. */
INLINE int is_listed(const struct head head, const struct key_block *block,
                     const struct query_tile *tile)
{
    const long end = (block->j + block->keys - 1) / BLOCK_KV + 1;

    if (!HAS_BLOCKS)
        return 1;
    return block->keys > 0 && next_column(head.bits, block_rows_of(tile->i, tile->count), 0, 0,
                                          block->j / BLOCK_KV, end) < end;
}

/* Is 1 if only a pair's score says whether the pair is masked. A function of the distance says it for a tile (struct
 * distances). */
enum { SCORES_HIDE = HAS_BIAS || CALLS_SCORE_FUNCTION };

/* Returns whether the block sees the tile only in part: a key is masked for some row, or rows are
 * missing. With block lists only an incomplete register tile of dq counts as missing rows. UNIT=amx
 * ignores missing rows, since their dq is dropped. */
INLINE int is_partial_tile(const struct arguments *args, const struct head head,
                           const struct key_block *block, const struct query_tile *tile)
{
    const struct extent e = head.e;
    const bool is_ragged =
        !OPERAND_TILES && (HAS_BLOCKS ? tile->count % DQ_ROWS != 0 : tile->count < BLOCK_M);
    int hides = SCORES_HIDE || HAS_MASK || HAS_MASK_FUNCTION || is_ragged;

    if (HAS_BLOCKS) {
        const struct listed_tile listed =
            listed_tile_at(head.bits, tile->i, tile->count, block->j, block->keys);
        hides = SCORES_HIDE || (HAS_MASKS ? !listed.all_full : !listed.all) || is_ragged;
    } else if (HAS_MARKS) {
        const int mark = mark_of_pairs(args, head.marks, head.b, head.h, tile->i, tile->count,
                                       block->j, block->keys);
        hides = SCORES_HIDE || !(mark & MARK_FULL) || is_ragged;
    }
    return hides || block->keys < BLOCK_N || end_key(args, e, tile->i) < block->j + BLOCK_N ||
           first_key(args, e, tile->i + tile->count - 1) > block->j;
}
