/* SPDX-License-Identifier: Apache-2.0 */
/* A block of queries in SIMD lanes and a tile of keys: what their scores need (struct score_tile), and their biases and
 * masks.
 *
 * A block has BLOCK_VECTORS vectors of queries, a tile at most BLOCK_N keys. Biases and masks are
 * stored with a query's keys in a row: they are read by rows and transposed before the products,
 * masks as ints of four keys' bytes. Lanes beyond the last query repeat it; nothing outside the tensors is read. */
#pragma once
#include "common/common.h"
#include "cpu/fused_prefetch.h"
#include "cpu/key_bytes.h"
#include "score/blocks.h"
#include "score/function.h"
#include "score/mark_sizes.h"
/* Where a block has two equal halves, those of a mask function have marks of their own. */
#define MARKS_HALVES (HAS_MASK_FUNCTION && BLOCK_VECTORS % 2 == 0 && !OPERAND_TILES)
#define MARK_M (MARKS_HALVES ? BLOCK_M / 2 : BLOCK_M)
#define MARK_N (HAS_MASK_FUNCTION ? FUNCTION_MARK_KEYS : BLOCK_N)

/* Marks, or bits of block lists, follow the means of keys in the workspace. */
INLINE long marks_begin(const struct arguments *args)
{
    return key_means_floats(args);
}

#include "score/mark_pairs.h"
#include "score/score_unit.h"

/* ints at any byte */
struct __attribute__((packed)) unaligned_ints {
    ints x;
};
#define UNALIGNED_INTS(p) (((const __global struct unaligned_ints *)(p))->x)

/* A block of queries of one head. */
struct query_block {
    long b, h, i; /* i: the block's first query */
    struct extent e;
    int queries; /* the number of its queries in use, 1..BLOCK_M */
    /* with HAS_MARKS: */
    const __global uchar *marks; /* the marks of all heads' tiles */
    int mark;                    /* the mark of this block and the tile at hand */
    /* with HAS_BLOCKS: */
    long end;               /* blocks that begin before this query end at it or earlier */
    struct block_bits bits; /* the bits of the head's block list */
    /* with SCALES_APART: of the keys and values of the tile at hand */
    const float *k_scales, *v_scales;
};

/* 1 if scales of keys or values are not in their operands, but applied to scores and weights. */
enum { SCALES_APART = OPERAND_PAIRS & (HAS_K_SCALES | HAS_V_SCALES) };

/* Returns the first query after a block's chunk, wherever the chunk ends. */
#define QUERIES_END(block) (HAS_BLOCKS ? (block).end : args->shape->seq_q)

/* 1 if scaling may be deferred: a positive scale changes neither the order of scores nor -inf. */
#define DEFERS_SCALE                                                                               \
    (OPERAND_TILES && !HAS_SOFTCAP && !HAS_SCORE_FUNCTION && !HAS_BIAS && !HAS_ALIBI &&            \
     !HAS_K_SCALES && !OPERAND_BYTES)

/* The pairs of some queries and keys. */
struct function_pairs {
    struct function_pair first; /* the first query and the first key */
    int queries, keys;          /* the numbers that exist */
};

/* A block of queries and a tile of keys; keys are counted from the tile's first one. */
struct score_tile {
    ints begin[BLOCK_VECTORS], last[BLOCK_VECTORS]; /* keys in the window of each query */
    int all_begin, all_end;                         /* keys in the window of every query */
    /* the lower half of the block sees keys before lower_end, the upper from upper_begin on */
    int lower_end, upper_begin;
    int hides;     /* whether bias, mask or block lists may hide a pair */
    int by_values; /* see bf16/fused_products.h (IN_PARTS) */
    /* Key 0's distance from the diagonal at each query; valid with HAS_ALIBI. */
    lanes distance[BLOCK_VECTORS];
    float slope;
    float softcap, inverse_softcap;
    float scale;          /* the factor that turns products into scores (OPERAND_PAIRS) */
    float deferred_scale; /* the factor of scores inside the exponential (OPERAND_TILES) */
    const float *k_scales, *v_scales; /* as in struct query_block */
    const lanes *bias; /* bias[n * BLOCK_VECTORS + m]: biases of key n and vector m of queries */
    const ints *mask;  /* four keys' bytes in an int: mask_of() */
    /* with HAS_FUNCTIONS: */
    const struct arguments *args;
    struct function_pairs pairs; /* those of the block and the tile */
    const lanes *by_distance;    /* see find_tile_distances() */
    /* the marks of the block's halves, or twice those of all its queries; null if none were made */
    const __global uchar *lower_marks, *upper_marks;
    int key;                /* key 0 */
    struct block_bits bits; /* the bits of the head's block list */
    long i, j;              /* the first query and key */
    int listed_full;        /* all blocks are listed as full */
    int mixed;              /* some are */
};

/* The lower half of a block has this many vectors. Where a window starts or ends, keys are visible
 * to one half alone; a block of few queries has only the lower half. Products of AMX tiles are of
 * whole blocks. */
#define LOWER (BLOCK_VECTORS / 2)
#define HAS_HALVES (LOWER > 0 && !OPERAND_TILES)

/* 1 if the last keys of a tile may be visible to the upper half alone. */
#define ENDS_BY_HALVES (HAS_WINDOW || (HAS_MARKS && MARKS_HALVES))

/* Leaves out keys at the begin and the end of a tile that the mask function hides from one half of the block. */
INLINE void find_halves(const struct arguments *args, struct score_tile *tile)
{
    const int first = tile->key;
    int end = (int)min(marked_tiles(args) * MARK_N - first, (long)BLOCK_N);

    while (tile->lower_end < end &&
           tile->upper_marks[(first + tile->lower_end) / MARK_N] & MARK_EMPTY)
        tile->lower_end += MARK_N - (first + tile->lower_end) % MARK_N;
    while (end > tile->lower_end && tile->lower_marks[(first + end - 1) / MARK_N] & MARK_EMPTY)
        end -= 1 + (first + end - 1) % MARK_N;
    tile->upper_begin = min(tile->upper_begin, max(end, tile->lower_end));
}

/* The factor of the products with key n. */
INLINE float scale_of_products(const struct score_tile *tile, const int n)
{
    return OPERAND_PAIRS && HAS_K_SCALES ? tile->scale * tile->k_scales[n] : tile->scale;
}

/* The weights p of key n times the scale of its values. */
INLINE lanes scaled_weights(const float *v_scales, const int n, const lanes p)
{
    return OPERAND_PAIRS && HAS_V_SCALES ? p * v_scales[n] : p;
}

/* Makes the score_tile of keys from j on; load_biases_and_masks() adds biases and masks. */
INLINE void find_score_tile(const struct arguments *args, const struct query_block block,
                            const long j, struct score_tile *tile)
{
    const ints lane = VECTOR(convert_int)(COUNT_UP);

    tile->hides = 0;
    tile->scale = score_scale(args, block.h) * SCALE_UNIT;
    tile->deferred_scale = 1.0f;
    if (SCALES_APART) {
        tile->k_scales = block.k_scales;
        tile->v_scales = block.v_scales;
    }
    if (DEFERS_SCALE && tile->scale > 0.0f) {
        tile->deferred_scale = tile->scale;
        tile->scale = 1.0f;
    }
#if HAS_WINDOW
    const long last = block.i + block.queries - 1;
    tile->all_begin = (int)clamp(first_key(args, block.e, last) - j, 0L, (long)BLOCK_N);
    tile->all_end = (int)clamp(end_key(args, block.e, block.i) - j, 0L, (long)BLOCK_N);
    const long upper = block.i + LOWER * SIMD_WIDTH; /* the upper half's first query */
    tile->lower_end = BLOCK_N;
    if (upper <= last)
        tile->lower_end = (int)clamp(first_key(args, block.e, upper) - j, 0L, (long)BLOCK_N);
    tile->upper_begin =
        (int)clamp(end_key(args, block.e, upper - 1) - j, (long)tile->lower_end, (long)BLOCK_N);
#else
    tile->lower_end = block.queries > LOWER * SIMD_WIDTH ? 0 : BLOCK_N;
    tile->upper_begin = BLOCK_N;
#endif
    if (HAS_ALIBI)
        tile->slope = args->slopes[block.h] * SCORE_UNIT;
    if (HAS_FUNCTIONS) {
        tile->args = args;
        tile->pairs.first = function_pair_of(args, block.b, block.h, block.i, j);
        tile->pairs.queries = block.queries;
        tile->pairs.keys = (int)min(args->shape->seq_kv - j, (long)BLOCK_N);
    }
    if (HAS_MARKS && HAS_MASK_FUNCTION) {
        tile->lower_marks = tile->upper_marks =
            block.marks ? block.marks + marks_of_block(args, block.b, block.h, block.i) : 0;
        tile->key = (int)j;
        if (MARKS_HALVES && block.marks && block.queries > MARK_M) {
            tile->upper_marks += marked_tiles(args);
            find_halves(args, tile);
        }
    }
    if (HAS_BLOCKS && HAS_FUNCTIONS) {
        tile->bits = block.bits;
        tile->i = block.i;
        tile->j = j;
        tile->listed_full = tile->mixed = 0;
    }
    if (HAS_SOFTCAP) {
        tile->softcap = args->shape->softcap * SCORE_UNIT;
        tile->inverse_softcap = min(1.0f / args->shape->softcap, FLT_MAX);
    }
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        /* The diagonal's key for the query of the first lane. */
        const long now = block.i + m * SIMD_WIDTH + block.e.diagonal - j;
        if (HAS_WINDOW_LEFT)
            tile->begin[m] =
                (int)clamp(now - args->shape->window_left, -(long)BLOCK_N, (long)BLOCK_N) + lane;
        if (HAS_WINDOW_RIGHT)
            tile->last[m] =
                (int)clamp(now + args->shape->window_right, -(long)BLOCK_M, (long)BLOCK_N) + lane;
        if (HAS_ALIBI)
            tile->distance[m] = (float)-now - COUNT_UP;
    }
}

/* ---- biases and masks, transposed ----------------------------------------------------------- */

/* The visibility of a tile for a block by biases and masks alone. */
enum visibility { EMPTY, FULL, PARTIAL };

/* Loads the biases of SIMD_WIDTH queries and `left` keys, at most SIMD_WIDTH, with queries in SIMD
 * lanes. last is the last query that exists. */
INLINE void load_biases_of_queries(const __global bias_storage *p, const long row, const long step,
                                   const int last, const int left, lanes *x)
{
    if (row == 0) {
        float each[SIMD_WIDTH];
        VECTOR(vstore)(load_row_of(BIAS_DTYPE, p, step, left), 0, each);
        UNROLL
        for (int c = 0; c < SIMD_WIDTH; c++)
            x[c] = each[c];
    } else {
        if (step == 1 && left >= SIMD_WIDTH && last >= SIMD_WIDTH - 1) {
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = load_row_of(BIAS_DTYPE, p + r * row, 1, SIMD_WIDTH);
        } else {
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = load_row_of(BIAS_DTYPE, p + min(r, last) * row, step, left);
        }
        transpose(x);
    }
}

/* Loads the biases of a block and keys j .. j + count - 1. */
NOINLINE enum visibility load_bias_tile(const struct arguments *restrict args,
                                        const struct query_block block, const long j,
                                        const int count, const __global bias_storage *p, lanes *to)
{
    const long row = args->shape->bias_stride[2], step = args->shape->bias_stride[3],
               rest = args->shape->seq_kv - j;
    const int square = step == 1 && rest >= SIMD_WIDTH;
    lanes least = 0.0f;
    ints some = 0;

    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int n0 = 0; n0 < count; n0 += SIMD_WIDTH) {
            /* The last square overlaps the one before it. */
            const int n = square ? (int)min((long)n0, rest - SIMD_WIDTH) : n0;
            const int left = (int)min(rest - n, (long)SIMD_WIDTH);
            lanes x[SIMD_WIDTH];
            load_biases_of_queries(p + m * SIMD_WIDTH * row + n * step, row, step,
                                   block.queries - 1 - m * SIMD_WIDTH, left, x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++) {
                to[(n + c) * BLOCK_VECTORS + m] = x[c];
                least = x[c] < least ? x[c] : least;
            }
        }
    }
    if (!any_lane(least == -INFINITY))
        return FULL;
    for (int n = 0; n < count * BLOCK_VECTORS; n++)
        some |= to[n] != -INFINITY;
    return any_lane(some) ? PARTIAL : EMPTY;
}

#define MASK_KEYS (4 * SIMD_WIDTH) /* the number of keys whose mask bytes fill a vector */
#define MASK_VECTORS                                                                               \
    (HAS_MASK || HAS_BLOCKS ? (BLOCK_N + MASK_KEYS - 1) / MASK_KEYS * SIMD_WIDTH * BLOCK_VECTORS   \
                            : 1)

/* Loads count bytes from p on, at most MASK_KEYS, in the order of memory; the rest are zeros. */
INLINE ints load_bytes(const __global uchar *p, const long step, const int count)
{
    ints x = 0;
    uchar *bytes = (uchar *)&x;

    if (step == 1 && count >= MASK_KEYS)
        return UNALIGNED_INTS(p);
    for (int c = 0; c < min(count, MASK_KEYS); c++)
        bytes[c] = p[c * step];
    return x;
}

/* Loads the mask bytes of SIMD_WIDTH queries and MASK_KEYS keys, with queries in SIMD lanes; count
 * keys exist. */
INLINE void load_mask_of_queries(const __global uchar *p, const long row, const long step,
                                 const int last, const int count, lanes *x)
{
    if (row == 0) {
        const ints y = load_bytes(p, step, count);
        const int *each = (const int *)&y;
        UNROLL
        for (int c = 0; c < SIMD_WIDTH; c++)
            x[c] = as_float(each[c]);
    } else {
        if (step == 1 && count >= MASK_KEYS && last >= SIMD_WIDTH - 1) {
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = VECTOR(as_float)(UNALIGNED_INTS(p + r * row));
        } else {
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = VECTOR(as_float)(load_bytes(p + min(r, last) * row, step, count));
        }
        transpose(x);
    }
}

/* Loads the mask of a block and keys j .. j + count - 1. The result may be PARTIAL where the mask
 * hides no pair. */
NOINLINE enum visibility load_mask_tile(const struct arguments *restrict args,
                                        const struct query_block block, const long j,
                                        const int count, const __global uchar *p, ints *to)
{
    const long row = args->shape->mask_stride[2], step = args->shape->mask_stride[3];
    ints some = 0, gaps = 0;

    for (int n0 = 0; n0 < count; n0 += MASK_KEYS) {
        const int left = (int)min((HAS_MASK_KEYS ? block.e.keys : args->shape->seq_kv) - j - n0,
                                  (long)MASK_KEYS);
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            ints *vectors = to + n0 / 4 * BLOCK_VECTORS + m;
            lanes x[SIMD_WIDTH];
            load_mask_of_queries(p + m * SIMD_WIDTH * row + n0 * step, row, step,
                                 block.queries - 1 - m * SIMD_WIDTH, left, x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                vectors[c * BLOCK_VECTORS] = VECTOR(as_int)(x[c]);
            for (int c = 0; n0 + 4 * c < count && c < SIMD_WIDTH; c++) {
                const ints y = vectors[c * BLOCK_VECTORS];
                some |= y;
                gaps |= (y - 0x01010101) & ~y; /* the highest bit of a byte that is 0 */
            }
        }
    }
    if (!any_lane(some))
        return EMPTY;
    return any_lane(gaps & (int)0x80808080) ? PARTIAL : FULL;
}

/* Merges the block lists into the mask's bytes of a block and keys j .. j + count - 1. If a mask
 * was loaded, its bytes stay as they are in blocks that are listed, but not as full. */
NOINLINE void mask_unlisted(const struct query_block block, const long j, const int count,
                            const int loaded, ints *to)
{
    for (int n = 0; !loaded && n < (count + 3) / 4 * BLOCK_VECTORS; n++)
        to[n] = 0x01010101;
    for (int r = 0; r < block.queries; r++) {
        const long row = (block.i + r) / BLOCK_Q;
        uchar *bytes = (uchar *)(to + r / SIMD_WIDTH) + 4 * (r % SIMD_WIDTH);
        int stop;
        for (int n = 0; n < count; n = stop) { /* one step is one column of blocks */
            const long column = (j + n) / BLOCK_KV;
            const int said = block_at(block.bits, row, column);
            stop = (int)min((column + 1) * BLOCK_KV - j, (long)count);
            for (int c = n; said != BLOCK_LISTED && c < stop; c++)
                bytes[c / 4 * BLOCK_VECTORS * (int)sizeof(ints) + c % 4] = said == BLOCK_FULL;
        }
    }
}

/* Is nonzero in the lanes of vector m whose queries see key n by mask and block lists. */
INLINE ints mask_of(const struct score_tile *tile, const int n, const int m)
{
#ifdef __ENDIAN_LITTLE__
    const int byte = n % 4;
#else
    const int byte = 3 - n % 4;
#endif
    return tile->mask[n / 4 * BLOCK_VECTORS + m] & (int)(0xffu << 8 * byte);
}

/* Applies block lists and mask to keys j .. j + count - 1, as load_biases_and_masks() does. The
 * mask is read only in blocks that are not full. */
INLINE int load_listed_mask(const struct arguments *args, const struct query_block block,
                            const long j, const int count, struct score_tile *tile,
                            struct prefetch_streams *streams, ints *masks)
{
    const struct listed_tile listed = listed_tile_at(block.bits, block.i, block.queries, j, count);
    enum visibility masked = FULL;
    int loaded = 0;

    if (!listed.some)
        return 0;
    if (HAS_MASK) {
        const __global uchar *p = args->mask +
                                  row_offset(args->shape->mask_stride, block.b, block.h, block.i) +
                                  (j - block.e.mask_begin) * args->shape->mask_stride[3];
        streams->stream[STREAM_MASK] = stream_of(p, 0, 0, 0, 0, 0); /* the next keys are unknown */
        loaded = !listed.all_full && j >= block.e.mask_begin;
        if (loaded)
            masked = load_mask_tile(args, block, j, count, p, masks);
        if (masked == EMPTY && !listed.some_full)
            return 0;
    }
    if ((HAS_BIAS && !loaded) || !listed.all || (masked != FULL && listed.some_full))
        mask_unlisted(block, j, count, loaded, masks);
    tile->mask = masks;
    tile->hides |= !listed.all || masked != FULL;
    tile->listed_full = listed.all_full;
    tile->mixed = listed.some_full;
    return 1;
}

/* Loads the mask of keys j .. j + count - 1, where there are no block lists. Returns 0 if it hides all pairs. */
INLINE int load_mask_alone(const struct arguments *args, const struct query_block block,
                           const long j, const int count, const int more, struct score_tile *tile,
                           struct prefetch_streams *streams, ints *masks)
{
    const __global uchar *p = args->mask +
                              row_offset(args->shape->mask_stride, block.b, block.h, block.i) +
                              (j - block.e.mask_begin) * args->shape->mask_stride[3];
    /* with a bias, the mask's bytes may be read even if no pair is masked */
    int has_columns = HAS_MASK_KEYS ? j >= block.e.mask_begin
                      : HAS_BIAS    ? 1
                      : HAS_MARKS   ? !(block.mark & MARK_FULL)
                                    : 1;
    const enum visibility masked =
        has_columns ? load_mask_tile(args, block, j, count, p, masks) : FULL;

    if (masked == EMPTY)
        return 0;
    for (int n = 0; HAS_MASK_KEYS && !has_columns && n < MASK_VECTORS; n++)
        masks[n] = 0x01010101;
    tile->mask = masks;
    streams->stream[STREAM_MASK] =
        stream_of(p + BLOCK_N, args->shape->mask_stride[2],
                  has_columns && more && args->shape->mask_stride[3] == 1,
                  args->shape->mask_stride[2] ? block.queries : 1, BLOCK_M, BLOCK_N);
    tile->hides |= masked == PARTIAL;
    return 1;
}

/* Loads the biases and masks of keys j .. j + count - 1 and prefetches those of the next tile.
 * Returns 0 if the tile is empty: none of its keys is visible to a query of the block. */
INLINE int load_biases_and_masks(const struct arguments *args, const struct query_block block,
                                 const long j, const int count, struct score_tile *tile,
                                 struct prefetch_streams *streams, lanes *biases, ints *masks)
{
    const int more = j + BLOCK_N < args->shape->seq_kv;

    if (HAS_BLOCKS && !load_listed_mask(args, block, j, count, tile, streams, masks))
        return 0;
    if (HAS_BIAS) {
        const __global bias_storage *b =
            args->bias + row_offset(args->shape->bias_stride, block.b, block.h, block.i) +
            j * args->shape->bias_stride[3];
        const enum visibility biased = load_bias_tile(args, block, j, count, b, biases);
        if (biased == EMPTY)
            return 0;
        tile->bias = biases;
        streams->stream[STREAM_BIAS] =
            stream_of(b + BLOCK_N, args->shape->bias_stride[2] * (long)sizeof(bias_storage),
                      more && args->shape->bias_stride[3] == 1,
                      args->shape->bias_stride[2] ? block.queries : 1, BLOCK_M,
                      BLOCK_N * (int)sizeof(bias_storage));
        tile->hides |= biased == PARTIAL;
    }
    return !HAS_MASK || HAS_BLOCKS ||
           load_mask_alone(args, block, j, count, more, tile, streams, masks);
}
