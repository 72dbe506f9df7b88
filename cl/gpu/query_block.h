/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of fused kernels for GPUs: work-groups own BLOCK_M queries of one (batch, head)
 * and walk over the keys visible to any of them. Tiles of BLOCK_N keys count from the first of
 * them, those of invariant problems from key 0. Tiles without a listed pair, or marked as empty by
 * a mask or a bias (score/mark_pairs.h), are skipped; a tile of paged keys ends where the table
 * masks keys (common/key_rows.h).
 *
 * Kernels define marks_begin(), where marks or bits of block lists begin in the workspace, in floats.
 *
 * Sizes      BLOCK_M, BLOCK_N. */
#pragma once
#include "families/sizes.h"
#include "score/score.h"
#include "gpu/tile_exp.h"
#include "common/key_rows.h"
#include "common/sequence.h"
#include "gpu/pair_dropout.h"
#include "score/blocks.h"
#define MARK_M BLOCK_M
#define MARK_N BLOCK_N
#include "score/mark_pairs.h"

/* Is 1 if rows without a visible key must be distinguished from rows far below a sink: masks,
 * biases and page tables mask more than windows and lengths do. */
#define TRACKS_SEEN (HAS_SINKS && (HIDES_ANYWHERE || PAGE_SIZE))

struct query_block {
    long bh, b, h, i0; /* b * heads + h for batch b and head h; the first query */
    struct extent e;
    int queries;     /* the number of queries in use, 0..BLOCK_M */
    long begin, end; /* a range that includes all visible keys */
    long seen_by_all_from, seen_by_all_to;
    struct block_bits bits;      /* the bits of the head's block list (HAS_BLOCKS) */
    const __global uchar *marks; /* the marks of this block's tiles; null if none were made */
};

/* The number of blocks of queries in the longest sequence. */
INLINE long query_blocks(const struct arguments *args)
{
    return (longest_q(args) + BLOCK_M - 1) / BLOCK_M;
}

/* Finds the work-group's block and its range of keys. Both limits grow with the query: no row sees
 * keys outside of the range, and each row sees those from seen_by_all_from to seen_by_all_to. With
 * a limit to the right, later blocks see more keys, so the longest start first. */
__attribute__((always_inline)) static inline struct query_block
find_query_block(const struct arguments *args)
{
    const long blocks = query_blocks(args);
    struct query_block p;

    p.bh = get_group_id(0) / blocks;
    p.b = p.bh / args->shape->heads;
    p.h = p.bh % args->shape->heads;
    const long n = get_group_id(0) % blocks;
    p.i0 = (HAS_WINDOW_RIGHT ? blocks - 1 - n : n) * BLOCK_M;
    p.e = extent_of(args, p.b);
    p.queries = clamp(p.e.queries - p.i0, 0L, (long)BLOCK_M);
    const long last = p.i0 + max(p.queries, 1) - 1;
    const long seen_from = first_key(args, p.e, p.i0);
    p.begin = HAS_INVARIANT ? seen_from / BLOCK_N * BLOCK_N /* a key has one place in a tile */
              : HAS_DROPOUT ? seen_from / 4 * 4             /* four keys share random numbers */
                            : seen_from;
    p.end = end_key(args, p.e, last);
    p.seen_by_all_from = first_key(args, p.e, last);
    p.seen_by_all_to = end_key(args, p.e, p.i0);
    if (HAS_BLOCKS)
        p.bits = block_bits_of(args, args->workspace + marks_begin(args), p.b, p.h);
    const __global uchar *marks = HAS_MARKS ? all_marks(args) : 0;
    p.marks = marks ? marks + marks_of_block(args, p.b, p.h, p.i0) : 0;
    return p;
}

/* A tile of keys. */
struct keys {
    long j0; /* the first key; the block's end if there is no tile */
    int count;
    bool partial; /* some key may be masked for some row */
};

/* The first tile with a listed pair from key j0 on. If a run of pages ended within j0's tile, the
 * rest of that tile comes first. */
INLINE long next_listed_tile(const struct query_block block, const long j0)
{
    const int queries = TILES_IN_BLOCKS(BLOCK_M, BLOCK_N) ? 1 : max(block.queries, 1);

    return next_tile_of_keys(block.bits, block_rows_of(block.i0, queries), block.begin, j0,
                             block.end, BLOCK_N);
}

/* Returns the mark of the tile from key j0 on. With pages it may begin within one that has a mark, and end in the next. */
INLINE int mark_at(const struct query_block block, const long j0)
{
    const long last = PAGE_SIZE ? (min(j0 + BLOCK_N, block.end) - 1) / BLOCK_N : j0 / BLOCK_N;

    return block.marks ? block.marks[j0 / BLOCK_N] & block.marks[last] : 0;
}

/* Returns whether some pair of the tile may be masked, but for windows and lengths. */
INLINE bool hides_in_tile(const struct query_block block, const long j0, const int count)
{
    if (HIDES_BY_SCORE || TRACKS_SEEN)
        return true;
    if (HAS_BLOCKS)
        return hides_listed(TILES_IN_BLOCKS(BLOCK_M, BLOCK_N), block.bits, block.i0,
                            max(block.queries, 1), j0, count);
    return HAS_MARKS ? !(mark_at(block, j0) & MARK_FULL) : HIDES_ANYWHERE;
}

/* Returns the tile from key j0 on, or the first after it that some row may see. */
INLINE struct keys find_keys(const struct arguments *args, const struct query_block block, long j0)
{
    struct keys keys;

    if (HAS_BLOCKS)
        j0 = next_listed_tile(block, j0);
    else
        while (HAS_MARKS && j0 < block.end && mark_at(block, j0) & MARK_EMPTY)
            j0 += BLOCK_N;
    keys.count = min(block.end - j0, (long)BLOCK_N);
    if (PAGE_SIZE) {
        const long j1 = next_run(args, block.b, block.begin, block.end, BLOCK_N, &j0);
        keys.count = (int)(j1 - j0);
    }
    keys.j0 = j0;
    keys.partial = (PAGE_SIZE && keys.count < BLOCK_N) || j0 < block.seen_by_all_from ||
                   j0 + BLOCK_N > block.seen_by_all_to ||
                   (j0 < block.end && hides_in_tile(block, j0, keys.count));
    return keys;
}

/* The score parameters of the block and the tile. */
INLINE struct score_tile score_tile_of(const struct arguments *args, const struct query_block block,
                                       const struct keys keys)
{
    struct score_tile tile = score_tile_at(args, block.e, block.b, block.h, block.i0, keys.j0,
                                           block.queries, keys.count, MAX(BLOCK_M, BLOCK_N));

    if (HAS_BLOCKS)
        find_blocks(block.bits, block.i0, keys.j0, TILES_IN_BLOCKS(BLOCK_M, BLOCK_N), &tile);
    return tile;
}

/* The begin of the next tile, if no tile is skipped. */
INLINE long after_keys(const struct keys keys)
{
    return keys.j0 + (PAGE_SIZE ? keys.count : BLOCK_N);
}
