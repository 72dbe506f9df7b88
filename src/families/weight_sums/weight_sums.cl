/* SPDX-License-Identifier: Apache-2.0 */
/* weight_sums: sums of the softmax weights p = exp(s - lse) that forward has used, computed once more from
 * q, k and the lse that it left. No score matrix is in memory.
 *
 *   key_sums      for each batch, kv head and key the sum of p over the queries, of all query heads of the kv head
 *   mean_weights  for each batch, query and key the mean of p over all query heads
 *
 * NDRange    local (ITEMS, 1, 1). key_sums: groups along (tiles of TILE_KEYS keys, kv heads, batches). mean_weights:
 *            (tiles of keys, tiles of MEAN_ROWS queries, batches). A group owns what it writes and adds it up in
 *            an order of its own: the same inputs give the same bits.
 * SIMD lanes are keys where SIMD_WIDTH exceeds 1 (CPUs): a work-item packs its keys once for each kv head and multiplies
 *            ROWS queries at a time. Else a work-item has one key, and the group shares tiles of both in local memory.
 * Lists      Queries of whose blocks none is listed in a tile of keys are not multiplied. The first stage makes bits of the
 *            block lists (cl/score/mark_blocks.h).
 * Masked     Keys beyond the length and in no page are not read; the weight of a masked pair is chosen to be 0, whatever
 *            its product is. A row whose lse is -inf has no weights.
 * Rounding   lse is one float: beside large scores a weight is off by as much, but never above 1.
 * Tunables   src/families/weight_sums/weight_sums.def, all defined by the host; no fallbacks here. */
#if !defined(SIMD_WIDTH) || !defined(KEY_VECTORS) || !defined(ITEMS)
#error "weight_sums.cl must be built with all of its tunables defined"
#endif
#define UNIT UNIT_VECTOR
#include "families/units.h"
#include "common/common.h"
#include "families/weight_sums/weight_sums_sizes.h"
#include "common/key_rows.h"
#include "common/quantized.h"
#include "common/sequence.h"
#include "gpu/local_barrier.h"

/* The workspace has the bits of block lists alone. */
INLINE long marks_begin(const struct arguments *args)
{
    return 0;
}
#include "score/mark_blocks.h"
#include "score/score.h"
#include "score/stored_scores.h"
#if SIMD_WIDTH > 1 /* each header is there once: those that both forms need come before */
#define STAGE_KV 1
#include "score/key_lanes.h"
#include "cpu/quantized_simd.h"
#endif

/* A tile of keys of a kv head. */
struct key_tile {
    long b, kv_head, j;
    int count; /* keys in use, of all batches' TILE_KEYS */
    int exist; /* keys that the result has */
    struct extent e;
    long first_query, end_query; /* the queries that may see one of the keys */
};

INLINE struct key_tile key_tile_at(const struct arguments *args, const long b, const long kv_head,
                                   const long j)
{
    struct key_tile t = {b, kv_head, j};

    t.e = extent_of(args, b);
    t.count = (int)clamp(t.e.keys - j, 0L, (long)TILE_KEYS);
    t.exist = (int)clamp(args->shape->seq_kv - j, 0L, (long)TILE_KEYS);
    t.first_query = first_query(args, t.e, j);
    t.end_query = end_query(args, t.e, j, t.count);
    return t;
}

INLINE long offset_of_key(const struct arguments *args, const struct key_tile t, const long j)
{
    return head_offset(args->shape->k_stride, cache_batch(t.b), t.kv_head) +
           key_row(args, t.b, j, args->shape->k_stride);
}

/* Returns whether the block lists have some pair of `count` queries from i on and the tile's keys. */
INLINE bool lists_pairs(const struct arguments *args, const struct key_tile t, const long h,
                        const long i, const int count)
{
#if HAS_BLOCKS
    return lists_some(block_bits_of(args, args->workspace, t.b, h), i, count, t.j, t.j + t.count);
#else
    return true;
#endif
}

INLINE float lse_of_row(const struct arguments *args, const long b, const long h, const long i)
{
    return args->lse[lse_head(args, b * args->shape->heads + h, h) + i];
}

#if SIMD_WIDTH > 1
/* ---- keys in SIMD lanes ---------------------------------------------------------------------- */

typedef lanes number;

struct packed_keys {
    lanes k[WIDE_DIM * KEY_VECTORS]; /* [column][key] */
    ints missing[KEY_VECTORS];       /* -1: in no page */
};

/* Zeros follow the last key, and stand for keys in no page. */
NOINLINE void load_key_tile(const struct arguments *args, const struct key_tile *t,
                            struct packed_keys *to)
{
    for (int m = 0; m < KEY_VECTORS; m++) {
        float rows[SIMD_WIDTH][WIDE_DIM];
        int missing[SIMD_WIDTH];
        for (int r = 0; r < SIMD_WIDTH; r++) {
            const int n = m * SIMD_WIDTH + r;
            missing[r] = n < t->count && has_row(args, t->b, t->j + n) ? 0 : -1;
            for (int d = missing[r] ? 0 : DIM_QK; d < WIDE_DIM; d++)
                rows[r][d] = 0.0f;
            if (!missing[r])
                stage_key(rows[r], k_place(args->k, offset_of_key(args, *t, t->j + n)),
                          k_step(args),
                          scale_of_row(k_scales_from(args, t->b, t->kv_head, t->j), n));
        }
        to->missing[m] = VECTOR(vload)(0, missing);
        for (int d = 0; d < WIDE_DIM; d += SIMD_WIDTH) {
            lanes x[SIMD_WIDTH];
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = VECTOR(vload)(0, rows[r] + d);
            transpose(x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                to->k[(d + c) * KEY_VECTORS + m] = x[c];
        }
    }
}

/* Adds factor times the weights of `count` queries from i on, at most ROWS, to sums: to its first row, or, with `apart`
 * (constant), to a row for each query. */
NOINLINE void sum_weights(const int apart, const float factor, const struct arguments *args,
                          const struct key_tile *t, const struct packed_keys *keys, const long h,
                          const long i, const int count, lanes *sums)
{
    float q[ROWS][WIDE_DIM];
    lanes products[ROWS][KEY_VECTORS];

    if (!lists_pairs(args, *t, h, i, count))
        return;
    for (int r = 0; r < ROWS; r++)
        for (int d = 0; d < WIDE_DIM; d += SIMD_WIDTH) {
            const lanes x =
                r < count ? load_row(args->q + row_offset(args->shape->q_stride, t->b, h, i + r) +
                                         d * q_step(args),
                                     q_step(args), DIM_QK - d)
                          : (lanes)(0.0f);
            VECTOR(vstore)(x * (score_scale(args, h) * SCALE_UNIT), 0, q[r] + d);
        }
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
    for (int m = 0; m < KEY_VECTORS; m++)
        products[r][m] = 0.0f;
    for (int d = 0; d < DIM_QK; d++)
        UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
    for (int m = 0; m < KEY_VECTORS; m++)
        products[r][m] = FMA((lanes)(q[r][d]), keys->k[d * KEY_VECTORS + m], products[r][m]);
    for (int r = 0; r < count; r++) {
        const float lse = lse_of_row(args, t->b, h, i + r);
        if (lse == -INFINITY)
            continue;
        struct score_row row = score_row_at(args, t->e, t->b, h, i + r, t->j, t->count);
#if HAS_BLOCKS
        row.bits = block_bits_of(args, args->workspace, t->b, h);
#endif
        for (int m = 0; m < KEY_VECTORS; m++) {
            const int left = t->count - m * SIMD_WIDTH;
            if (left <= 0)
                break;
            const struct score_vector s =
                finish_scores(1, args, row, m * SIMD_WIDTH, left, products[r][m]);
            const lanes weight = exponential(s.scores - lse * SCORE_UNIT);
            const lanes sound = weight > 1.0f ? (lanes)(1.0f) : weight;
            sums[(apart ? r : 0) * KEY_VECTORS + m] +=
                s.hidden | keys->missing[m] ? (lanes)(0.0f) : sound * factor;
        }
    }
}

INLINE void write_key_sums(const lanes *sums, const int exist, __global float *to)
{
    const float *from = (const float *)sums;

    for (int n = 0; n < exist; n++)
        to[n] = from[n];
}

#define DECLARE_TILES() struct packed_keys keys
#define LOAD_KEYS(t) load_key_tile(args, &t, &keys)
#define ADD_WEIGHTS(apart, factor, t, h, i, count, sums)                                           \
    sum_weights(apart, factor, args, &t, &keys, h, i, count, sums)
#define STORE_SUMS(sums, t, to) write_key_sums(sums, t.exist, to)

#else
/* ---- a key of each work-item ------------------------------------------------------------------- */

typedef float number;

struct shared_tiles {
    float k[DEPTH][ITEMS + 1], q[ROWS][DEPTH];
};

/* As above, for this work-item's key. All work-items of the group call it. */
INLINE void sum_weights(const int apart, const float factor, const struct arguments *args,
                        const struct key_tile t, __local struct shared_tiles *tiles, const long h,
                        const long i, const int count, float *sums)
{
    const int item = (int)get_local_id(0);
    const long j = t.j + item;
    float products[ROWS];

    if (!lists_pairs(args, t, h, i, count)) /* of the whole group */
        return;
    for (int r = 0; r < ROWS; r++)
        products[r] = 0.0f;
    for (int d0 = 0; d0 < DIM_QK; d0 += DEPTH) {
        LOCAL_BARRIER_OF(ITEMS); /* all have read the old contents */
        for (int n = item; n < ITEMS * DEPTH; n += ITEMS) {
            const int key = n / DEPTH, d = n % DEPTH;
            float x = 0.0f;
            if (key < t.count && d0 + d < DIM_QK && has_row(args, t.b, t.j + key))
                x = load_k(args->k, offset_of_key(args, t, t.j + key), (d0 + d) * k_step(args));
            tiles->k[d][key] = x;
        }
        for (int n = item; n < ROWS * DEPTH; n += ITEMS) {
            const int r = n / DEPTH, d = n % DEPTH;
            float x = 0.0f;
            if (r < count && d0 + d < DIM_QK)
                x = load1_of(DTYPE, args->q,
                             row_offset(args->shape->q_stride, t.b, h, i + r) +
                                 (d0 + d) * q_step(args));
            tiles->q[r][d] = x;
        }
        LOCAL_BARRIER_OF(ITEMS); /* both tiles are complete */
        for (int d = 0; d < DEPTH; d++)
            for (int r = 0; r < ROWS; r++)
                products[r] = MULTIPLY_ADD(tiles->q[r][d], tiles->k[d][item], products[r]);
    }
    for (int r = 0; r < count; r++) {
        const float lse = lse_of_row(args, t.b, h, i + r);
        if (lse == -INFINITY || item >= t.count)
            continue;
        if (!has_row(args, t.b, j))
            continue;
        const float product = score_scale(args, h) * products[r] *
                              scale_of_row(k_scales_from(args, t.b, t.kv_head, j), 0);
        const float s =
            biased_score(args, t.e, first_key(args, t.e, i + r), end_key(args, t.e, i + r), t.b, h,
                         i + r, j, SOFTCAPPED(product));
        if (s == -INFINITY) /* no weight, even if lse is NaN */
            continue;
        const float weight = exp(s - lse);
        sums[apart ? r : 0] += (weight > 1.0f ? 1.0f : weight) * factor;
    }
}

#define DECLARE_TILES() __local struct shared_tiles tiles
#define LOAD_KEYS(t)
#define ADD_WEIGHTS(apart, factor, t, h, i, count, sums)                                           \
    sum_weights(apart, factor, args, t, &tiles, h, i, count, sums)
#define STORE_SUMS(sums, t, to)                                                                    \
    if ((int)get_local_id(0) < t.exist)                                                            \
    (to)[get_local_id(0)] = *(sums)
#endif

/* ---- kernels --------------------------------------------------------------------------------- */

#if HAS_KEY_SUMS
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void key_sums(PARAMETERS_key_sums)
{
    struct arguments arguments = ARGUMENTS_key_sums;
    ENTER_SEQUENCE(args, &arguments, get_group_id(2));
    const long b = get_group_id(2), kv_head = get_group_id(1);
    const struct key_tile t = key_tile_at(args, b, kv_head, (long)get_group_id(0) * TILE_KEYS);
    DECLARE_TILES();
    number sums[KEY_VECTORS];
    long row = (b * args->shape->kv_heads + kv_head) * args->shape->longest_kv;

#if HAS_TOTAL_KV
    long first, count;
    find_rows_of(args->kv_starts, b, args->shape->total_kv, args->shape->longest_kv, &first,
                 &count);
    row = kv_head * args->shape->total_kv + first;
#endif
    for (int m = 0; m < KEY_VECTORS; m++)
        sums[m] = 0.0f;
    LOAD_KEYS(t);
    for (long h = kv_head * args->shape->group; h < (kv_head + 1) * args->shape->group; h++)
        for (long i = t.first_query; i < t.end_query; i += ROWS)
            ADD_WEIGHTS(0, 1.0f, t, h, i, (int)min(t.end_query - i, (long)ROWS), sums);
    STORE_SUMS(sums, t, args->key_sums + row + t.j);
}
#endif

#if SCORES == SCORES_MEAN
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
mean_weights(PARAMETERS_mean_weights)
{
    const struct arguments arguments = ARGUMENTS_mean_weights, *const args = &arguments;
    const long b = get_group_id(2), i0 = (long)get_group_id(1) * MEAN_ROWS;
    const long rows = min(args->shape->seq_q - i0, (long)MEAN_ROWS);
    const float factor = 1.0f / (float)args->shape->heads;
    DECLARE_TILES();
    number sums[MEAN_ROWS * KEY_VECTORS];
    struct key_tile t;

    for (int n = 0; n < MEAN_ROWS * KEY_VECTORS; n++)
        sums[n] = 0.0f;
    for (long kv_head = 0; kv_head < args->shape->kv_heads; kv_head++) {
        t = key_tile_at(args, b, kv_head, (long)get_group_id(0) * TILE_KEYS);
        LOAD_KEYS(t);
        for (long h = kv_head * args->shape->group; h < (kv_head + 1) * args->shape->group; h++)
            for (long r = 0; r < rows; r += ROWS)
                if (i0 + r < t.end_query && i0 + r + ROWS > t.first_query)
                    ADD_WEIGHTS(1, factor, t, h, i0 + r, (int)min(rows - r, (long)ROWS),
                                sums + r * KEY_VECTORS);
    }
    for (long r = 0; r < rows; r++)
        STORE_SUMS(sums + r * KEY_VECTORS, t,
                   args->scores + (b * args->shape->seq_q + i0 + r) * args->shape->seq_kv + t.j);
}
#endif
