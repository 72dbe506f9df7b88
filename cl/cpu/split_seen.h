/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of keys that split_cpu visits. It skips tiles that block lists, or else a mask, a bias or a mask function,
 * hide from all rows of a block. The pairs of a mask or a bias are read, and the function is called, just before the tile,
 * up to the first visible one. Needs BLOCK_N, split_rows.h, key_lanes.h. */
#pragma once
#include "cpu/split_rows.h"
#include "score/blocks.h"

#define MARKS_TILES (!HAS_BLOCKS && (HAS_MASK || HAS_BIAS || HAS_MASK_FUNCTION))
#define SKIPS_TILES (HAS_BLOCKS || MARKS_TILES)

/* Returns whether the mask function leaves one of count keys from key j on visible to row r. */
INLINE bool may_see_by_function(const struct arguments *args, const struct row_block *block,
                                const int r, const long j, const int count)
{
    const struct mask_function_operands o = mask_operands(args);
    const struct function_pair first =
        function_pair_within(args, block->e, block->b, block->head[r], block->query[r], j);
    int sees = !HAS_MASK_FUNCTION;

    for (int n = 0; n < count && !sees; n += SIMD_WIDTH) {
        EACH_LANE
        for (int c = 0; c < SIMD_WIDTH; c++)
            sees |= mask_function(function_pair_after(first, 0, min(n + c, count - 1)), o);
    }
    return sees;
}

/* Returns whether mask, bias and mask function leave one of count keys from key j on visible to row r. A mask with
 * fewer columns than keys must cover all of these. */
INLINE bool may_see(const struct arguments *args, const struct row_block *block, const int r,
                    const long j, const int count)
{
    const __global uchar *p =
        args->mask +
        row_offset(args->shape->mask_stride, block->b, block->head[r], block->query[r]) +
        (j - block->e.mask_begin) * args->shape->mask_stride[3];
    const __global bias_storage *biases =
        args->bias +
        row_offset(args->shape->bias_stride, block->b, block->head[r], block->query[r]) +
        j * args->shape->bias_stride[3];
    bool sees = !HAS_MASK, finds = !HAS_BIAS;

    for (int n = 0; n < count && !sees; n++)
        sees = p[n * args->shape->mask_stride[3]] != 0;
    for (int n = 0; n < count && sees && !finds; n++)
        finds = load1_of(BIAS_DTYPE, biases, n * args->shape->bias_stride[3]) != -INFINITY;
    return sees && finds && may_see_by_function(args, block, r, j, count);
}

/* Returns whether rows r - 1 and r have the same mask and bias, and one answer of the mask function. */
INLINE bool looks_alike(const struct arguments *args, const struct row_block *block, const int r)
{
    const long heads = block->head[r] - block->head[r - 1];
    const long queries = block->query[r] - block->query[r - 1];

    if (HAS_MASK_FUNCTION && (MASK_FUNCTION_OF_HEADS || queries != 0))
        return false;
    return heads * args->shape->mask_stride[1] + queries * args->shape->mask_stride[2] == 0 &&
           heads * args->shape->bias_stride[1] + queries * args->shape->bias_stride[2] == 0;
}

/* Returns whether all heads have the same mask, bias and answers of the mask function. */
INLINE bool shares_pairs(const struct arguments *args)
{
    return (args->shape->mask_stride[1] | args->shape->bias_stride[1] | MASK_FUNCTION_OF_HEADS) ==
           0;
}

/* Returns whether a key of [j, end) is visible to a row. */
INLINE bool is_seen(const struct arguments *args, const struct row_block *block, const long j,
                    const long end)
{
    bool sees = HAS_MASK_KEYS && j < block->e.mask_begin;

    for (int r = 0; r < block->rows && !sees; r++)
        if (r == 0 || !looks_alike(args, block, r))
            sees = may_see(args, block, r, j, (int)(end - j));
    return sees;
}

/* Returns the tile from key j on, or the first after it that some row may see; end if there is
 * none. Tiles count from begin. */
INLINE long next_seen_tile(const struct arguments *args, const struct row_block *block,
                           const long begin, long j, const long end)
{
    if (HAS_BLOCKS)
        return next_tile_of_rows(args, block->bits, block->b, block->kv_head, block->row,
                                 block->rows, begin, j, end, BLOCK_N);
    while (MARKS_TILES && j < end) {
        const long tile_end = min(begin + ((j - begin) / BLOCK_N + 1) * BLOCK_N, end);
        if (is_seen(args, block, j, tile_end))
            break;
        j = tile_end;
    }
    return j;
}

/* Like next_seen_tile(), for rows of several kv heads: a tile counts if one head sees it. If all
 * heads share them, only the first head is tested. */
INLINE long next_tile_of_heads(const struct arguments *args, const struct row_block *blocks,
                               const int heads, const long begin, const long j, const long end)
{
    long next = next_seen_tile(args, blocks, begin, j, end);

    for (int h = 1; SKIPS_TILES && h < heads && next > j && !shares_pairs(args); h++)
        next = min(next, next_seen_tile(args, blocks + h, begin, j, end));
    return next;
}
