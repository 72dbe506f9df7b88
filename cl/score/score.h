/* SPDX-License-Identifier: Apache-2.0 */
/* The product of a query and a key becomes their score, with one score a work-item in a register:
 * scale, softcap, bias, ALiBi and masks (clattn/problem.h). An option that changes scores is
 * written here, for all kernels of this kind; its tensors are members of struct arguments.
 *
 *   naive, unfused, split_gpu_item   SOFTCAPPED(score_scale() * product), then biased_score(): keys and
 *                                 queries by their numbers, each pair with its own test whether it is
 *                                 visible
 *   fused_gpu_item, fused_gpu_mma,       score_of(), and hide() in tiles that are not visible in full: by rows
 *   backward_gpu_item                and keys of a tile, without a branch */
#pragma once
#include "common/common.h"
#include "common/multiply_add.h"
#include "score/blocks.h"
#include "score/function.h"
#include "score/score_scale.h"
#include "score/tanh.h"

/* ---- softcap -------------------------------------------------------------------------------- */

/* Applies the softcap to s, a float or a vector of floats; `args` is in scope. The built-in tanh
 * keeps small scores exact to a few ulp, where 1 - 2 / (exp(2x) + 1) would cancel. */
#define SOFTCAPPED(s) (HAS_SOFTCAP ? args->shape->softcap * tanh((s) / args->shape->softcap) : (s))

/* ---- pairs by their numbers ----------------------------------------------------------------- */

/* The bias of query i and key j. */
static inline float bias_of(const struct arguments *args, const long b, const long h, const long i,
                            const long j)
{
    return load1_of(BIAS_DTYPE, args->bias,
                    row_offset(args->shape->bias_stride, b, h, i) +
                        j * args->shape->bias_stride[3]);
}

/* Returns whether mask and bias leave key j visible to query i. listed: the block lists' entry of
 * the pair (LISTED). */
static inline bool unmasked(const struct arguments *args, const struct extent e, const int listed,
                            const long b, const long h, const long i, const long j)
{
    if (!listed)
        return false;
    if (HAS_MASK && listed != BLOCK_FULL && j >= e.mask_begin &&
        !args->mask[row_offset(args->shape->mask_stride, b, h, i) +
                    (j - e.mask_begin) * args->shape->mask_stride[3]])
        return false;
    if (HAS_BIAS && bias_of(args, b, h, i, j) == -INFINITY)
        return false;
    return !HAS_MASK_FUNCTION || listed == BLOCK_FULL ||
           function_visible(args, function_pair_of(args, b, h, i, j));
}

/* Returns whether key j is visible to query i, with its first = first_key() and end = end_key(). */
static inline bool visible(const struct arguments *args, const struct extent e, const long first,
                           const long end, const long b, const long h, const long i, const long j)
{
    if (j < first || j >= end)
        return false;
    return unmasked(args, e, listed_block(args, b, h, i, j), b, h, i, j);
}

/* Computes the final score of a visible pair from s, its product after scale and softcap: score function, bias and ALiBi. Reads
 * nothing beyond the batch's lengths. */
static inline float biased(const struct arguments *args, const struct extent e, const long b,
                           const long h, const long i, const long j, float s)
{
    if (HAS_SCORE_FUNCTION)
        s = function_score(args, function_pair_of(args, b, h, i, j), s);
    if (HAS_BIAS)
        s += bias_of(args, b, h, i, j);
    if (HAS_ALIBI)
        s += args->slopes[h] * ALIBI_DISTANCE((float)(j - i - e.diagonal));
    return s;
}

/* The final score of any pair: -INFINITY if it is masked. first and end are as in visible(). */
static inline float biased_score(const struct arguments *args, const struct extent e,
                                 const long first, const long end, const long b, const long h,
                                 const long i, const long j, const float s)
{
    if (!visible(args, e, first, end, b, h, i, j))
        return -INFINITY;
    return biased(args, e, b, h, i, j, s);
}

/* ---- pairs of a tile ------------------------------------------------------------------------ */

/* A tile of queries (rows) and keys of one head, counted from its first ones: 32-bit indices take
 * fewer registers for each row than 64-bit ones. */
struct score_tile {
    int rows, keys; /* rows and keys of the tile that lie within the tensors */
    int window_begin,
        window_end; /* row r may see keys from window_begin + r on, before window_end + r */
    long distance;  /* key 0's distance from the diagonal at row 0 */
    float scale, slope;
    const __global uchar *mask; /* the mask's byte of row 0 and key 0; bias likewise */
    int mask_begin;             /* the first key that has a column in the mask (HAS_MASK_KEYS) */
    const __global bias_storage *bias;
    struct function_pair first; /* row 0 and key 0 (HAS_FUNCTIONS) */
    /* find_blocks() sets these (HAS_BLOCKS) */
    bool in_block;                   /* all pairs are in one block, which is listed */
    struct block_bits blocks;        /* the bits of the row of blocks that contains row 0 */
    uint row_in_block, key_in_block; /* row 0's and key 0's offsets in their block */
    long column;                     /* the column of blocks that contains key 0 */
};

/* The tile of queries from i0 on and keys from j0 on. most: no tile has more rows or keys. */
INLINE struct score_tile score_tile_at(const struct arguments *args, const struct extent e,
                                       const long b, const long h, const long i0, const long j0,
                                       const int rows, const int keys, const long most)
{
    struct score_tile t;

    t.rows = rows;
    t.keys = keys;
    t.distance = j0 - i0 - e.diagonal;
    t.scale = score_scale(args, h);
    if (HAS_WINDOW_LEFT)
        t.window_begin = clamp(-t.distance - args->shape->window_left, -most, most);
    if (HAS_WINDOW_RIGHT)
        t.window_end = clamp(-t.distance + args->shape->window_right + 1, -most, most);
    if (HAS_ALIBI)
        t.slope = args->slopes[h];
    t.mask = args->mask + row_offset(args->shape->mask_stride, b, h, i0) +
             (j0 - e.mask_begin) * args->shape->mask_stride[3];
    t.mask_begin = HAS_MASK_KEYS ? (int)clamp(e.mask_begin - j0, 0L, most) : 0;
    t.bias = args->bias + row_offset(args->shape->bias_stride, b, h, i0) +
             j0 * args->shape->bias_stride[3];
    if (HAS_FUNCTIONS)
        t.first = function_pair_of(args, b, h, i0, j0);
    return t;
}

/* Locates the blocks of the tile that begins with query i0 and key j0; bits: those of its head.
 * in_block: TILES_IN_BLOCKS() of tiles that are visited. */
INLINE void find_blocks(const struct block_bits bits, const long i0, const long j0,
                        const bool in_block, struct score_tile *t)
{
    t->in_block = in_block;
    t->blocks = bits;
    t->blocks.at += i0 / BLOCK_Q * BLOCK_PLANES * bits.words;
    t->row_in_block = (uint)(i0 % BLOCK_Q);
    t->key_in_block = (uint)(j0 % BLOCK_KV);
    t->column = j0 / BLOCK_KV;
}

/* Returns whether the pair exists and is visible by window and causality. */
INLINE bool in_window(const struct score_tile t, const int row, const int key)
{
    bool sees = row < t.rows && key < t.keys;

    if (HAS_WINDOW_LEFT)
        sees = sees && key >= row + t.window_begin;
    if (HAS_WINDOW_RIGHT)
        sees = sees && key < row + t.window_end;
    return sees;
}

/* A pair of the tile. Beyond the last row and key it is the last one's. */
INLINE struct function_pair function_pair_in(const struct score_tile t, const int row,
                                             const int key)
{
    return function_pair_after(t.first, min(row, t.rows - 1), min(key, t.keys - 1));
}

/* A score, and values that its gradients need. */
struct score {
    float value;
    float derivative; /* by the product, but for the scale: 1 without softcap and score function */
    float distance;   /* the factor of ALiBi's slope; valid with HAS_ALIBI */
    float softcapped; /* the score that the score function takes */
};

/* The factor of a product in the tanh of softcap. */
INLINE float bend_of(const struct arguments *args, const struct score_tile t)
{
    return t.scale / args->shape->softcap;
}

/* Computes the score of a visible pair, without a bias, from its product or, with softcap, from tanh(bend_of() *
 * product). */
INLINE struct score score_of_bent(const struct arguments *args, const struct score_tile t,
                                  const int row, const int key, const float bent)
{
    struct score s = {(HAS_SOFTCAP ? args->shape->softcap : t.scale) * bent, 1.0f, 0.0f, 0.0f};

    if (HAS_SOFTCAP)
        s.derivative = MULTIPLY_ADD(-bent, bent, 1.0f);
    s.softcapped = s.value;
    if (HAS_SCORE_FUNCTION) {
        const struct function_pair pair = function_pair_in(t, row, key);
        s.derivative *= function_derivative(args, pair, s.value);
        s.value = function_score(args, pair, s.value);
    }
    if (HAS_ALIBI) {
        s.distance = ALIBI_DISTANCE((float)(t.distance + (key - row)));
        s.value += t.slope * s.distance;
    }
    return s;
}

/* Computes it from the product. */
INLINE struct score score_of(const struct arguments *args, const struct score_tile t, const int row,
                             const int key, const float product)
{
    return score_of_bent(args, t, row, key,
                         HAS_SOFTCAP ? score_tanh(bend_of(args, t) * product) : product);
}

/* Returns whether a pair is visible, from sees = in_window() of it; adds the bias to its score.
 * Beyond the last row and key the last ones are read again. */
INLINE bool hide(const struct arguments *args, const struct score_tile t, bool sees, const int row,
                 const int key, struct score *s)
{
    const int row_here = min(row, t.rows - 1), key_here = min(key, t.keys - 1);
    int listed = BLOCK_LISTED;

    if (HAS_BLOCKS && !t.in_block)
        listed = block_at(t.blocks, (t.row_in_block + (uint)row_here) / BLOCK_Q,
                          t.column + (t.key_in_block + (uint)key_here) / BLOCK_KV);
    const bool full = listed == BLOCK_FULL;
    sees = sees && listed;
    if (HAS_MASK)
        sees = sees && (full || (bool)(HAS_MASK_KEYS && key < t.mask_begin) ||
                        t.mask[row_here * args->shape->mask_stride[2] +
                               key_here * args->shape->mask_stride[3]]);
    if (HAS_BIAS) {
        const float bias_here = load1_of(BIAS_DTYPE, t.bias,
                                         row_here * args->shape->bias_stride[2] +
                                             key_here * args->shape->bias_stride[3]);
        sees = sees && bias_here != -INFINITY;
        s->value += bias_here;
    }
    if (HAS_SCORE_FUNCTION)
        sees = sees && s->value != -INFINITY;
    if (HAS_MASK_FUNCTION)
        sees = sees && (full || function_visible(args, function_pair_in(t, row, key)));
    return sees;
}
