/* SPDX-License-Identifier: Apache-2.0 */
/* append_tokens: new keys and values are written to their places in a cache, in its format, keys and
 * queries rotated on the way.
 *
 * NDRange   One dimension, GROUP_ITEMS items in a group. Item n takes TOKENS tokens of every HEAD_GROUPS-th
 *           head: with WHOLE_ROWS all columns of their rows, else 32. It writes the rows of one head of k
 *           and v, which are adjacent in memory, before those of the next head. Items past the last have
 *           nothing to do.
 * Places    Token i of batch b goes to row kv_lengths[b] + i of its batch, or, with PAGE_SIZE, of the pages
 *           that page_table names, or to slot slots[b, i], which counts the rows of all batches, or pages,
 *           one after the other. Tokens outside of the cache are skipped.
 * Rotation  Columns in pairs, (2 i, 2 i + 1) or (i, i + ROTARY_DIM / 2), become (x cos - y sin,
 *           x sin + y cos), for an angle of position * base^(-2 i / ROTARY_DIM), or of given tables. An
 *           item computes the powers of its columns once for all tokens, and cosines and sines of a token's
 *           once for all heads (cl/elementwise/rotation.h).
 * Exact     Columns without rotation have the bits of a conversion, or of clattn/quantize.h.
 *
 * Defined by the host, besides the tunables:
 *   DTYPE                     of k, v and q (cl/common/storage.h)
 *   PAGE_SIZE                 rows of a page, or 0
 *   CACHE_DTYPE               of a cache that is not quantized
 *   K_FORMAT, V_FORMAT        of the caches, as K_CACHE elsewhere (src/problem/formats.def)
 *   UNIT_IN, UNIT_OUT         1: all innermost strides of inputs, of outputs, are 1
 *   ROTARY                    0 none, 1 pairs, 2 halves
 *   ROTARY_DIM, HAS_TABLES
 *   QUERIES                   0 untouched, 1 rotated to q_out, 2 in place
 *   HAS_SLOTS, HAS_POSITIONS, HAS_KV_LENGTHS
 *   HAS_K_SCALES, HAS_V_SCALES  a row is divided by the scale of its place
 *
 * Sizes and strides: struct append_shape (cl/elementwise/append_arguments.h). */
#include "cpu/prefetch.h"
#include "cpu/simd_storage.h"
#include "elementwise/append.h"
#include "families/append_tokens/append_tokens_sizes.h"

#define IN_PLACE 2

#include "elementwise/rotation.h"
#include "elementwise/quantize_chunks.h"

#define IN_STEP(step) (UNIT_IN ? 1 : (step))
#define OUT_STEP(step) (UNIT_OUT ? 1 : (step))

#if CACHE_DTYPE == DTYPE_F32
typedef float cache_storage;
#define STORE_CACHE(x, p) (*(p) = (x))
#elif CACHE_DTYPE == DTYPE_F16
typedef half cache_storage;
#define STORE_CACHE(x, p) vstore_half_rte(x, 0, p)
#else
typedef ushort cache_storage;
#define STORE_CACHE(x, p) (*(p) = bf16_round(x))
#endif

/* ---- columns -------------------------------------------------------------------------------- */

/* Loads the partners of columns d .. of a row, x. Columns that are not rotated get any value but
 * NaN. */
INLINE lanes load_partners(const __global storage *row, const long step, const int d, const int dim,
                           const lanes x)
{
    float y[SIMD_WIDTH];

#if ROTARY == HALVES
    if (step == 1 &&
        (d + SIMD_WIDTH <= ROTARY_DIM / 2 || (d >= ROTARY_DIM / 2 && d + SIMD_WIDTH <= ROTARY_DIM)))
        return load_lanes(DTYPE, row + partner_of(d));
#elif ROTARY == PAIRS && SIMD_WIDTH == 8
    if (d + SIMD_WIDTH <= ROTARY_DIM)
        return CHOOSE(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#endif
    for (int n = 0; n < SIMD_WIDTH; n++)
        y[n] = d + n < ROTARY_DIM ? load1_of(DTYPE, row, partner_of(d + n) * step) : 0.0f;
    return VECTOR(vload)(0, y);
}

/* Loads columns d .. d + CHUNK - 1 of a row, with zeros past its end, rotated if `turn` says so. */
INLINE void load_chunk(const __global storage *row, const long step, const int d, const int dim,
                       const bool rotates, const lanes *cosine, const lanes *sine, lanes *x)
{
    const bool whole = step == 1 && dim - d >= CHUNK;

    UNROLL
    for (int v = 0; v < VECTORS; v++) {
        const int c = d + v * SIMD_WIDTH;
        x[v] = whole ? load_lanes(DTYPE, row + c) : load_row(row + c * step, step, dim - c);
#if ROTARY
        if (rotates && c < ROTARY_DIM) {
            const lanes y = load_partners(row, step, c, dim, x[v]);
            const lanes turned = FMA(x[v], cosine[v], y * sine[v]);
            float all[SIMD_WIDTH], as_is[SIMD_WIDTH];
            if (c + SIMD_WIDTH <= ROTARY_DIM) {
                x[v] = turned;
                continue;
            }
            VECTOR(vstore)(turned, 0, all);
            VECTOR(vstore)(x[v], 0, as_is);
            for (int n = 0; n < SIMD_WIDTH; n++)
                all[n] = c + n < ROTARY_DIM ? all[n] : as_is[n];
            x[v] = VECTOR(vload)(0, all);
        }
#endif
    }
}

/* The address of column d's block in a row of a cache that starts at position `first`. */
INLINE __global uchar *block_of_column(const int format, __global void *cache, const long first,
                                       const int d)
{
    return (__global uchar *)cache + ((first + d) >> 5) * BLOCK_BYTES(format);
}

/* What the values of a row are divided by before they are stored, and its reciprocal; `has` is a constant. */
struct row_scale {
    bool has;
    float by, reciprocal;
};

/* Stores a chunk of a row of a cache that starts at position `first`. */
INLINE void store_chunk(const int format, const struct row_scale scale, lanes *x,
                        __global void *cache, const long first, const long step, const int d,
                        const int dim)
{
    if (format) {
        UNROLL
        for (int v = 0; v < VECTORS; v++)
            x[v] = scale.has ? divide_lanes(x[v], scale.by, scale.reciprocal) : x[v];
        store_block(format, x, block_of_column(format, cache, first, d));
        return;
    }
    __global cache_storage *p = (__global cache_storage *)cache + first;
    const bool whole = step == 1 && dim - d >= CHUNK;
    UNROLL
    for (int v = 0; v < VECTORS; v++) {
        const int c = d + v * SIMD_WIDTH;
        float y[SIMD_WIDTH];
        if (whole || (step == 1 && dim - c >= SIMD_WIDTH)) {
            store_lanes(CACHE_DTYPE, x[v], p + c);
            continue;
        }
        VECTOR(vstore)(x[v], 0, y);
        for (int n = 0; n < min(dim - c, SIMD_WIDTH); n++)
            STORE_CACHE(y[n], p + (c + n) * step);
    }
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Token i of batch b, and its row in batch, or page, `to` of the caches; lies is true if that row
 * exists. */
struct token {
    long b, i, to, row;
    bool lies;
};

/* An item's share: `count` tokens from token `first` of all batches on, with its heads and columns.
 * Loops over them also test TOKENS, so that one token needs no loop: Intel's runtime for CPUs would
 * run it once too often (doc/design/drivers.md). */
struct share {
    long first, first_head;
    int count, column;
};

/* Rows have `columns` columns. */
INLINE struct share share_of_item(const struct append_arguments *args, const long columns)
{
    const int row_items = WHOLE_ROWS ? 1 : (int)((columns + CHUNK - 1) / CHUNK);
    const long n = get_global_id(0), block = n / (row_items * HEAD_GROUPS);
    const int rest = (int)(n - block * (row_items * HEAD_GROUPS));
    const struct share share = {
        block * TOKENS, rest / row_items,
        (int)clamp(args->shape->batch * args->shape->tokens - block * TOKENS, 0L, (long)TOKENS),
        rest % row_items * CHUNK};

    return share;
}

/* The end of an item's columns of a row. */
INLINE int end_of(const struct share share, const long columns)
{
    return WHOLE_ROWS ? (int)columns : (int)min((long)share.column + CHUNK, columns);
}

#if HAS_KV_LENGTHS
#define CACHED(b) args->kv_lengths[b] /* the number of tokens in the batch's cache */
#else
#define CACHED(b) 0
#endif
#if HAS_POSITIONS
#define POSITION(token, number) args->positions[number]
#else
#define POSITION(token, number) (CACHED((token).b) + (token).i)
#endif

/* Finds token `number` of all batches, without its row in the caches. */
INLINE struct token token_of(const struct append_arguments *args, const long number)
{
    const long b = number / args->shape->tokens;
    const struct token token = {b, number - b * args->shape->tokens, 0, 0, false};

    return token;
}

/* Finds the cosines and sines that an item's tokens are rotated by. */
INLINE void find_turns(const struct append_arguments *args, const struct share share,
                       struct turn *turns)
{
#if ROTARY
    struct twice powers[TURNED];

    find_powers(args, share.column, powers);
    for (int t = 0; t < TOKENS && t < share.count; t++) {
        const struct token token = token_of(args, share.first + t);
        find_turn(args, POSITION(token, share.first + t), share.column, powers, turns + t);
    }
#endif
}

/* ---- the kernels ---------------------------------------------------------------------------- */

/* 1 if both rotated halves are whole chunks of an item: each is then loaded once for both. */
#define WHOLE_HALVES (ROTARY == HALVES && WHOLE_ROWS && UNIT_IN && ROTARY_DIM / 2 % CHUNK == 0)
#if WHOLE_HALVES
/* Writes the first ROTARY_DIM columns of a row, rotated, to a row of a cache that starts at
 * position `first`. */
INLINE void turn_halves(const __global storage *row, const struct turn *turn, const int format,
                        const struct row_scale scale, __global void *cache, const long first,
                        const long to_step)
{
    const int middle = ROTARY_DIM / 2;
    /* The number of chunks of a half that are turned together. */
    const int together = middle % (2 * CHUNK) == 0 && made_together(format) ? TOGETHER / 2 : 1;
    const int bytes = BLOCK_BYTES(format);

    for (int c = 0; c < middle; c += together * CHUNK) {
        const lanes *cosine = turn->cosine + c / SIMD_WIDTH, *sine = turn->sine + c / SIMD_WIDTH;
        lanes x[TOGETHER * VECTORS], *y = x + together * VECTORS;
        UNROLL
        for (int v = 0; v < together * VECTORS; v++) {
            const lanes low = load_lanes(DTYPE, row + c + v * SIMD_WIDTH);
            const lanes high = load_lanes(DTYPE, row + middle + c + v * SIMD_WIDTH);
            const int w = v + middle / SIMD_WIDTH;
            x[v] = FMA(low, cosine[v], high * sine[v]);
            y[v] = FMA(high, cosine[w], low * sine[w]);
        }
        if (together > 1) {
            __global uchar *const low = block_of_column(format, cache, first, c);
            __global uchar *const high = block_of_column(format, cache, first, middle + c);
            __global uchar *const blocks[TOGETHER] = {low, low + bytes, high, high + bytes};
            store_blocks_together(format, x, blocks);
            continue;
        }
        store_chunk(format, scale, x, cache, first, to_step, c, c + CHUNK);
        store_chunk(format, scale, y, cache, first, to_step, middle + c, middle + c + CHUNK);
    }
}
#endif

/* Prefetches a later row: the rows of a head are a short stream, and processors do not predict the
 * next stream. */
INLINE void fetch_row(const __global storage *row, const long columns)
{
#if GROUP_ITEMS == 1 && UNIT_IN && WHOLE_ROWS
    for (long c = 0; c < columns; c += 64 / (long)sizeof(storage))
        prefetch_l1(row + c);
#endif
}

/* Writes columns c .. of a row, at most CHUNK and before end; `turn` is of columns from
 * share.column on. */
INLINE void append_chunk(const struct share share, const __global storage *row, const long step,
                         const int c, const int end, const bool rotates, const struct turn *turn,
                         const int format, const struct row_scale scale, __global void *cache,
                         const long first, const long to_step)
{
    lanes x[VECTORS];

#if ROTARY
    const int v = (c - share.column) / SIMD_WIDTH;
    load_chunk(row, step, c, end, rotates, turn->cosine + v, turn->sine + v, x);
#else
    load_chunk(row, step, c, end, false, 0, 0, x);
#endif
    store_chunk(format, scale, x, cache, first, to_step, c, end);
}

#if WHOLE_ROWS
/* Writes columns c .. c + TOGETHER * CHUNK - 1, to blocks that are made together. */
INLINE void append_together(const struct share share, const __global storage *row, const long step,
                            const int c, const bool rotates, const struct turn *turn,
                            const int format, __global void *cache, const long first)
{
    const int bytes = BLOCK_BYTES(format);
    __global uchar *const begin = block_of_column(format, cache, first, c);
    __global uchar *const blocks[TOGETHER] = {begin, begin + bytes, begin + 2 * bytes,
                                              begin + 3 * bytes};
    lanes x[TOGETHER * VECTORS];

    UNROLL
    for (int n = 0; n < TOGETHER; n++) {
        const int d = c + n * CHUNK;
#if ROTARY
        const int v = (d - share.column) / SIMD_WIDTH;
        load_chunk(row, step, d, d + CHUNK, rotates, turn->cosine + v, turn->sine + v,
                   x + n * VECTORS);
#else
        load_chunk(row, step, d, d + CHUNK, false, 0, 0, x + n * VECTORS);
#endif
    }
    store_blocks_together(format, x, blocks);
}

/* Writes the last columns of a row, an incomplete chunk. Whole chunks need no test then. */
NOINLINE void append_rest(const struct share share, const __global storage *row, const long step,
                          const int c, const int end, const bool rotates, const struct turn *turn,
                          const int format, const struct row_scale scale, __global void *cache,
                          const long first, const long to_step)
{
    append_chunk(share, row, step, c, end, rotates, turn, format, scale, cache, first, to_step);
}
#else
#define append_rest append_chunk
#endif

/* Writes columns from share.column on of a row to a row of a cache that starts at position
 * `first`. */
INLINE void append_row(const struct share share, const __global storage *row, const long step,
                       const long columns, const bool rotates, const struct turn *turn,
                       const int format, const struct row_scale scale, __global void *cache,
                       const long first, const long to_step)
{
    const int end = end_of(share, columns);
    int c = share.column;

#if WHOLE_HALVES
    if (rotates) {
        turn_halves(row, turn, format, scale, cache, first, to_step);
        c = ROTARY_DIM;
    }
#endif
#if WHOLE_ROWS
    for (; made_together(format) && c + TOGETHER * CHUNK <= end; c += TOGETHER * CHUNK)
        append_together(share, row, step, c, rotates, turn, format, cache, first);
#endif
    for (; WHOLE_ROWS && c + CHUNK <= end; c += CHUNK)
        append_chunk(share, row, step, c, c + CHUNK, rotates, turn, format, scale, cache, first,
                     to_step);
    if (c < end)
        append_rest(share, row, step, c, end, rotates, turn, format, scale, cache, first, to_step);
}

/* Writes the rows of kv head h of an item's tokens, of k (rotates) or of v, to their cache from
 * element `at` on. soon: the head's next rows, which are prefetched. */
INLINE void append_head(const struct share share, const struct token *tokens,
                        const struct turn *turns, const long h, const bool rotates,
                        const __global storage *rows, const long *stride, const long columns,
                        const __global storage *soon, const long *soon_stride,
                        const long soon_columns, const int format, __global void *cache,
                        const long at, const long *to_stride, const bool scaled,
                        const __global float *scales, const long *scale_stride)
{
    for (int t = 0; t < TOKENS && t < share.count; t++) {
        const struct token token = tokens[t];
        fetch_row(soon + token.b * soon_stride[0] + token.i * soon_stride[2], soon_columns);
        struct row_scale scale = {scaled, 1.0f, 1.0f};

        if (scaled && token.lies) {
            scale.by = scales[row_offset(scale_stride, token.to, h, token.row)];
            scale.reciprocal = reciprocal(scale.by);
        }
        if (token.lies)
            append_row(share, rows + row_offset(stride, token.b, h, token.i), IN_STEP(stride[3]),
                       columns, rotates, turns + t, format, scale, cache,
                       at + row_offset(to_stride, token.to, h, token.row), OUT_STEP(to_stride[3]));
    }
}

__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void
append_tokens(PARAMETERS_append_tokens)
{
    const struct append_arguments arguments = ARGUMENTS_append_tokens, *const args = &arguments;
    const struct share share = share_of_item(args, max(args->shape->dim_qk, args->shape->dim_v));
    /* the number of the row in its page or batch */
    const long rows = PAGE_SIZE ? PAGE_SIZE : args->shape->capacity;
    struct token tokens[TOKENS];
    struct turn turns[TOKENS];

    for (int t = 0; t < TOKENS && t < share.count; t++) {
        struct token token = token_of(args, share.first + t);
#if HAS_SLOTS
        const long slot = args->slots[share.first + t];
        token.lies =
            slot >= 0 && slot < (PAGE_SIZE ? args->shape->pages : args->shape->batch) * rows;
        token.to = token.lies ? slot / rows : 0;
        token.row = token.lies ? slot - token.to * rows : 0;
#elif PAGE_SIZE
        const long key = CACHED(token.b) + token.i;
        const long pages = (args->shape->capacity + PAGE_SIZE - 1) / PAGE_SIZE; /* a batch's */
        const bool is_key = key >= 0 && key < args->shape->capacity;
        token.to = is_key ? args->page_table[token.b * pages + key / PAGE_SIZE] : -1;
        token.row = key % rows;
        token.lies = token.to >= 0 && token.to < args->shape->pages;
#else
        token.to = token.b;
        token.row = CACHED(token.b) + token.i;
        token.lies = token.row >= 0 && token.row < rows;
#endif
        tokens[t] = token;
    }
    find_turns(args, share, turns);
    for (long h = share.first_head; h < args->shape->kv_heads; h += HEAD_GROUPS) {
        const long soon = min(h + HEAD_GROUPS, args->shape->kv_heads - 1);
        append_head(share, tokens, turns, h, true, args->k, args->shape->k_stride,
                    args->shape->dim_qk, args->v + h * args->shape->v_stride[1],
                    args->shape->v_stride, args->shape->dim_v, K_FORMAT, args->k_cache,
                    args->at->k_cache, args->shape->k_cache_stride, HAS_K_SCALES, args->k_scales,
                    args->shape->k_scales_stride);
        append_head(share, tokens, turns, h, false, args->v, args->shape->v_stride,
                    args->shape->dim_v, args->k + soon * args->shape->k_stride[1],
                    args->shape->k_stride, args->shape->dim_qk, V_FORMAT, args->v_cache,
                    args->at->v_cache, args->shape->v_cache_stride, HAS_V_SCALES, args->v_scales,
                    args->shape->v_scales_stride);
    }
}

#if QUERIES
/* Returns in each lane the value of the lane's partner in its pair. */
INLINE lanes swap_pairs(const lanes x)
{
#if SIMD_WIDTH == 8
    return CHOOSE(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    float y[SIMD_WIDTH], z[SIMD_WIDTH];

    VECTOR(vstore)(x, 0, y);
    for (int n = 0; n < SIMD_WIDTH; n++)
        z[n] = y[n ^ 1];
    return VECTOR(vload)(0, z);
#endif
}

/* Rotates columns c .. of a row, at most SIMD_WIDTH, and with halves their partners as well. No
 * other work-item reads or writes these, so that `to` may be the row itself. */
INLINE void turn_columns(const __global storage *row, const long step, __global storage *to,
                         const long to_step, const int c, const lanes cosine, const lanes sine)
{
    const int middle = ROTARY_DIM / 2, left = (ROTARY == PAIRS ? ROTARY_DIM : middle) - c;

    if (left <= 0)
        return;
    const lanes x = load_row(row + c * step, step, left);
#if ROTARY == PAIRS
    store_row(FMA(x, cosine, swap_pairs(x) * sine), to + c * to_step, to_step, left);
#else
    const lanes y = load_row(row + (c + middle) * step, step, left);
    store_row(FMA(x, cosine, y * sine), to + c * to_step, to_step, left);
    store_row(FMA(y, cosine, -(x * sine)), to + (c + middle) * to_step, to_step, left);
#endif
}

/* Rotates columns from share.column on of a row, and the partners of those that are rotated. */
INLINE void rotate_row(const struct share share, const __global storage *row, const long step,
                       const long columns, const struct turn *turn, __global storage *to,
                       const long to_step)
{
    const int end = end_of(share, columns);

    for (int c = share.column; c < end; c += SIMD_WIDTH) {
        const int v = (c - share.column) / SIMD_WIDTH;
        if (c < ROTARY_DIM)
            turn_columns(row, step, to, to_step, c, turn->cosine[v], turn->sine[v]);
#if QUERIES != IN_PLACE
        const int rest = max(c, ROTARY_DIM), left = min(c + SIMD_WIDTH, (int)columns) - rest;
        if (left > 0)
            store_row(load_row(row + rest * step, step, left), to + rest * to_step, to_step, left);
#endif
    }
}

/* Rotates q: one item has both columns of each pair. */
__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void
rotate_queries(PARAMETERS_rotate_queries)
{
    const struct append_arguments arguments = ARGUMENTS_rotate_queries, *const args = &arguments;
    const struct share share = share_of_item(args, args->shape->dim_qk);
    struct turn turns[TOKENS];

    find_turns(args, share, turns);
    for (long h = share.first_head; h < args->shape->heads; h += HEAD_GROUPS) {
        for (int t = 0; t < TOKENS && t < share.count; t++) {
            const struct token token = token_of(args, share.first + t);
            const long to_step = OUT_STEP(args->shape->q_out_stride[3]);
            __global storage *to =
                args->q_out + row_offset(args->shape->q_out_stride, token.b, h, token.i);
#if QUERIES == IN_PLACE
            const __global storage *row = to;
            const long step = to_step;
#else
            const long step = IN_STEP(args->shape->q_stride[3]);
            const __global storage *row =
                args->q + row_offset(args->shape->q_stride, token.b, h, token.i);
#endif
            rotate_row(share, row, step, args->shape->dim_qk, turns + t, to, to_step);
        }
    }
}
#endif
