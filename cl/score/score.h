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
#if HAS_SOFTCAP
#include "score/tanh.h"
#endif

/* ---- softcap -------------------------------------------------------------------------------- */

/* Applies the softcap to s, a float or a vector of floats; `args` is in scope. The built-in tanh
 * keeps small scores exact to a few ulp, where 1 - 2 / (exp(2x) + 1) would cancel. */
#define SOFTCAPPED(s) (HAS_SOFTCAP ? args->shape->softcap * tanh((s) / args->shape->softcap) : (s))

/* ---- pairs by their numbers ----------------------------------------------------------------- */

/* Returns whether mask and bias leave key j visible to query i. listed: the block lists' entry of
 * the pair (LISTED). */
static inline bool unmasked(const struct arguments *args, const struct extent e, const int listed,
                            const long b, const long h, const long i, const long j)
{
    if (!listed)
        return false;
#if HAS_MASK
    if (listed != BLOCK_FULL && j >= e.mask_begin &&
        !args->mask[row_offset(args->shape->mask_stride, b, h, i) +
                    (j - e.mask_begin) * args->shape->mask_stride[3]])
        return false;
#endif
#if HAS_BIAS
    if (load1_of(BIAS_DTYPE, args->bias,
                 row_offset(args->shape->bias_stride, b, h, i) + j * args->shape->bias_stride[3]) ==
        -INFINITY)
        return false;
#endif
#if HAS_MASK_FUNCTION
    if (listed != BLOCK_FULL && !function_visible(args, function_pair_of(args, b, h, i, j)))
        return false;
#endif
    return true;
}

/* Returns whether key j is visible to query i, with its first = first_key() and end = end_key(). */
static inline bool visible(const struct arguments *args, const struct extent e, const long first,
                           const long end, const long b, const long h, const long i, const long j)
{
    if (j < first || j >= end)
        return false;
    return unmasked(args, e, listed_block(args, b, h, i, j), b, h, i, j);
}

/* The final score of query i and key j, which is visible to it, from s = scale * dot after softcap.
 * Reads nothing beyond the batch's lengths. */
static inline float biased(const struct arguments *args, const struct extent e, const long b,
                           const long h, const long i, const long j, float s)
{
#if HAS_SCORE_FUNCTION
    s = function_score(args, function_pair_of(args, b, h, i, j), s);
#endif
#if HAS_BIAS
    s += load1_of(BIAS_DTYPE, args->bias,
                  row_offset(args->shape->bias_stride, b, h, i) + j * args->shape->bias_stride[3]);
#endif
#if HAS_ALIBI
    s += args->slopes[h] * ALIBI_DISTANCE((float)(j - i - e.diagonal));
#endif
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
    int rows, keys; /* the numbers of rows and keys that exist */
    int window_begin,
        window_end; /* row r may see keys from window_begin + r on, before window_end + r */
    long distance;  /* key 0's distance from the diagonal at row 0 */
    float scale, slope;
    const __global uchar *mask; /* the mask's byte of row 0 and key 0; bias likewise */
    int mask_begin;             /* the first key that has a column in the mask (HAS_MASK_KEYS) */
    const __global bias_storage *bias;
#if HAS_FUNCTIONS
    struct function_pair first; /* row 0 and key 0 */
#endif
#if HAS_BLOCKS                       /* find_blocks() sets these */
    bool in_block;                   /* all pairs are in one block, which is listed */
    struct block_bits blocks;        /* the bits of the row of blocks that contains row 0 */
    uint row_in_block, key_in_block; /* row 0's and key 0's offsets in their block */
    long column;                     /* the column of blocks that contains key 0 */
#endif
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
#if HAS_ALIBI
    t.slope = args->slopes[h];
#endif
#if HAS_MASK
    t.mask = args->mask + row_offset(args->shape->mask_stride, b, h, i0) +
             (j0 - e.mask_begin) * args->shape->mask_stride[3];
    t.mask_begin = HAS_MASK_KEYS ? (int)clamp(e.mask_begin - j0, 0L, most) : 0;
#endif
#if HAS_BIAS
    t.bias = args->bias + row_offset(args->shape->bias_stride, b, h, i0) +
             j0 * args->shape->bias_stride[3];
#endif
#if HAS_FUNCTIONS
    t.first = function_pair_of(args, b, h, i0, j0);
#endif
    return t;
}

#if HAS_BLOCKS
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
#endif

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

#if HAS_FUNCTIONS
/* A pair of the tile. Beyond the last row and key it is the last one's. */
INLINE struct function_pair function_pair_in(const struct score_tile t, const int row,
                                             const int key)
{
    return function_pair_after(t.first, min(row, t.rows - 1), min(key, t.keys - 1));
}
#endif

/* A score, and values that its gradients need. */
struct score {
    float value;
    float derivative; /* by the product, but for the scale: 1 without softcap and score function */
    float distance;   /* the factor of ALiBi's slope; valid with HAS_ALIBI */
#if HAS_DFUNCTION
    float softcapped; /* what the score function was given */
#endif
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
    struct score s = {(HAS_SOFTCAP ? args->shape->softcap : t.scale) * bent, 1.0f, 0.0f};

    if (HAS_SOFTCAP)
        s.derivative = MULTIPLY_ADD(-bent, bent, 1.0f);
#if HAS_SCORE_FUNCTION
    const struct function_pair pair = function_pair_in(t, row, key);
#if HAS_DFUNCTION
    s.softcapped = s.value;
#endif
#ifdef UNIT_DO
    s.derivative *= function_derivative(args, pair, s.value);
#endif
    s.value = function_score(args, pair, s.value);
#endif
#if HAS_ALIBI
    s.distance = ALIBI_DISTANCE((float)(t.distance + (key - row)));
    s.value += t.slope * s.distance;
#endif
    return s;
}

/* Computes it from the product. */
INLINE struct score score_of(const struct arguments *args, const struct score_tile t, const int row,
                             const int key, const float product)
{
#if HAS_SOFTCAP
    return score_of_bent(args, t, row, key, score_tanh(bend_of(args, t) * product));
#else
    return score_of_bent(args, t, row, key, product);
#endif
}

/* Returns whether a pair is visible, from sees = in_window() of it; adds the bias to its score.
 * Beyond the last row and key the last ones are read again. */
INLINE bool hide(const struct arguments *args, const struct score_tile t, bool sees, const int row,
                 const int key, struct score *s)
{
#if HAS_BLOCKS
    const int listed =
        t.in_block ? BLOCK_LISTED
                   : block_at(t.blocks, (t.row_in_block + (uint)min(row, t.rows - 1)) / BLOCK_Q,
                              t.column + (t.key_in_block + (uint)min(key, t.keys - 1)) / BLOCK_KV);
    sees = sees && listed;
#endif
#if HAS_MASK
#if HAS_BLOCKS
    const bool unmasked = listed == BLOCK_FULL || (bool)(HAS_MASK_KEYS && key < t.mask_begin);
#else
    const bool unmasked = (HAS_MASK_KEYS && key < t.mask_begin);
#endif
    sees = sees && (unmasked || t.mask[min(row, t.rows - 1) * args->shape->mask_stride[2] +
                                       min(key, t.keys - 1) * args->shape->mask_stride[3]]);
#endif
#if HAS_BIAS
    const float bias_here = load1_of(BIAS_DTYPE, t.bias,
                                     min(row, t.rows - 1) * args->shape->bias_stride[2] +
                                         min(key, t.keys - 1) * args->shape->bias_stride[3]);
    sees = sees && bias_here != -INFINITY;
    s->value += bias_here;
#endif
#if HAS_SCORE_FUNCTION
    sees = sees && s->value != -INFINITY;
#endif
#if HAS_MASK_FUNCTION
#if HAS_BLOCKS
    sees = sees && (listed == BLOCK_FULL || function_visible(args, function_pair_in(t, row, key)));
#else
    sees = sees && function_visible(args, function_pair_in(t, row, key));
#endif
#endif
    return sees;
}
