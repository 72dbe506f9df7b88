/* SPDX-License-Identifier: Apache-2.0 */
/* Block lists (clattn/problem.h): row i / BLOCK_Q of blocks lists the columns j / BLOCK_KV that are
 * visible to query i.
 *
 * Kernels that walk over tiles read bits, which the first stage of their family makes of the lists
 * in the workspace (score/mark_blocks.h). Each row of each list has one bit a column for "listed",
 * and with a mask a second one for "listed as full". So columns may be listed in any order, more
 * than once, or may not exist. The visible keys of a row form runs, from a listed column to the
 * next that is not; a kernel takes them in tiles of any length. The few kernels that test single
 * pairs look for the column in the list itself: find_listed_block(). */
#pragma once
#include "common/common.h"

/* Results of a look-up in the lists: 0 if the block is not listed. */
enum {
    BLOCK_LISTED = 1,
    BLOCK_FULL = 2 /* listed as full: the mask need not be read */
};

#if !HAS_BLOCKS /* no list is looked into */
enum { BLOCK_Q = 1, BLOCK_KV = 1 };
#endif

enum {
    HAS_MASKS = HAS_MASK || HAS_MASK_FUNCTION,
    BLOCK_FULL_BIT = 0x40000000, /* the bit CLATTN_BLOCK_FULL of a list's entry */
    BLOCK_PLANES = HAS_MASKS ? 2 : 1
};

INLINE long block_rows(const struct arguments *args)
{
    return (args->shape->seq_q + BLOCK_Q - 1) / BLOCK_Q;
}

INLINE long block_columns(const struct arguments *args)
{
    return (args->shape->seq_kv + BLOCK_KV - 1) / BLOCK_KV;
}

/* Finds the entries of a row: [begin, end) of a list. */
struct block_range {
    long list, begin, end;
};

INLINE struct block_range listed_in_row(const struct arguments *args, const long list,
                                        const long row)
{
    const __global int *offsets = args->block_offsets + list * (block_rows(args) + 1) + row;
    const struct block_range range = {list, clamp((long)offsets[0], 0L, args->shape->max_blocks),
                                      clamp((long)offsets[1], 0L, args->shape->max_blocks)};

    return range;
}

/* The column of an entry; -1 if there is no such column. */
INLINE long listed_column(const struct arguments *args, const int entry)
{
    const long column = entry & ~BLOCK_FULL_BIT;

    return entry < 0 || column >= block_columns(args) ? -1 : column;
}

/* Looks up the block of query i and key j: 0, BLOCK_LISTED or BLOCK_FULL. */
static inline int find_listed_block(const struct arguments *args, const long b, const long h,
                                    const long i, const long j)
{
    const struct block_range range = listed_in_row(
        args, b * args->shape->list_of_batch + h * args->shape->list_of_head, i / BLOCK_Q);
    const __global int *entries = args->block_entries + range.list * args->shape->max_blocks;
    int found = 0;

    for (long n = range.begin; n < range.end && found < BLOCK_PLANES; n++)
        if (listed_column(args, entries[n]) == j / BLOCK_KV)
            found = max(found, entries[n] & BLOCK_FULL_BIT ? BLOCK_FULL : BLOCK_LISTED);
    return found;
}

/* ---- bits ----------------------------------------------------------------------------------- */

/* The number of bits in a list: BLOCK_PLANES * words for each row. */
struct block_bits {
    const __global uint *at;
    long words;
};

INLINE long block_words(const struct arguments *args)
{
    return (block_columns(args) + 31) / 32;
}

/* The bits of the list of batch b and head h; `begin` points to the bits of all lists. */
INLINE struct block_bits block_bits_of(const struct arguments *args, const __global float *begin,
                                       const long b, const long h)
{
    const long words = block_words(args);
    const long list = b * args->shape->list_of_batch + h * args->shape->list_of_head;
    const struct block_bits bits = {
        (const __global uint *)begin + list * block_rows(args) * BLOCK_PLANES * words, words};

    return bits;
}

/* The rows first .. last of blocks, with last included. */
struct block_rows {
    long first, last;
};

/* Returns the rows of blocks that have queries i .. i + queries - 1; at least one query. */
INLINE struct block_rows block_rows_of(const long i, const long queries)
{
    const struct block_rows rows = {i / BLOCK_Q, (i + queries - 1) / BLOCK_Q};

    return rows;
}

/* Returns the first column of [c, end) whose bit is 1 in some of the rows; end if there is none.
 * With `inverted`, its bit is 0 in all of them. plane 0 selects the bits "listed", 1 the bits
 * "full". */
static inline long next_column(const struct block_bits bits, const struct block_rows rows,
                               const int plane, const int inverted, long c, const long end)
{
    while (c < end) {
        uint word = 0;
        for (long row = rows.first; row <= rows.last; row++)
            word |= bits.at[(row * BLOCK_PLANES + plane) * bits.words + c / 32];
        word = (inverted ? ~word : word) & 0xffffffffu << c % 32;
        if (word)
            return min(c / 32 * 32 + 31 - (long)clz(word & -word), end);
        c = (c / 32 + 1) * 32;
    }
    return end;
}

/* Returns whether each of the rows has a bit of 1 in all columns of [c, end). */
static inline bool have_all(const struct block_bits bits, const struct block_rows rows,
                            const int plane, const long c, const long end)
{
    bool all = true;

    for (long row = rows.first; all && row <= rows.last; row++) {
        const struct block_rows one = {row, row};
        all = next_column(bits, one, plane, 1, c, end) == end;
    }
    return all;
}

/* Returns the first key from j on that some of the rows see; end if there is none before end. */
INLINE long run_begin(const struct block_bits bits, const struct block_rows rows, const long j,
                      const long end)
{
    const long c = next_column(bits, rows, 0, 0, j / BLOCK_KV, (end + BLOCK_KV - 1) / BLOCK_KV);

    return clamp(c * BLOCK_KV, j, max(j, end));
}

/* Returns whether a key of [j, end) is visible to one of `queries` queries from i on. */
INLINE bool lists_some(const struct block_bits bits, const long i, const long queries, const long j,
                       const long end)
{
    return run_begin(bits, block_rows_of(i, queries), j, end) < end;
}

/* The end, at most `end`, of the run of visible keys that begins with j. For a single row with a
 * mask the run also ends where columns start or stop being full. */
INLINE long run_end(const struct block_bits bits, const struct block_rows rows, const long j,
                    const long end)
{
    const long c = j / BLOCK_KV, columns = (end + BLOCK_KV - 1) / BLOCK_KV;
    long last = next_column(bits, rows, 0, 1, c, columns);

    if (HAS_MASKS && rows.first == rows.last) {
        const int full = next_column(bits, rows, 1, 0, c, columns) == c;
        last = next_column(bits, rows, 1, full, c, last);
    }
    return min(last * BLOCK_KV, end);
}

/* Returns the first row of [r, end) that lists some column of [c, column_end), or, if `inverted`,
 * lists none of them; end if there is none. */
static inline long next_row(const struct block_bits bits, const long c, const long column_end,
                            const int inverted, long r, const long end)
{
    for (; r < end; r++) {
        const struct block_rows row = {r, r};
        if ((next_column(bits, row, 0, 0, c, column_end) < column_end) != inverted)
            return r;
    }
    return end;
}

/* Returns the first key (or query) of the tile that contains x, or `from` if that is greater. Tiles
 * have `tile` keys or queries; the first begins at `begin`. */
INLINE long tile_of(const long begin, const long from, const long x, const int tile)
{
    return max(begin + (x - begin) / tile * tile, from);
}

/* The first tile from key j on with a key that some of the rows see; end if there is none. */
INLINE long next_tile_of_keys(const struct block_bits bits, const struct block_rows rows,
                              const long begin, const long j, const long end, const int tile)
{
    const long seen = run_begin(bits, rows, j, end);

    return seen < end ? tile_of(begin, j, seen, tile) : end;
}

/* The first tile from query i on with a query that sees one of `keys` keys from key j on. */
INLINE long next_tile_of_queries(const struct block_bits bits, const long j, const long keys,
                                 const long begin, const long i, const long end, const int tile)
{
    const long row = next_row(bits, j / BLOCK_KV, (j + keys - 1) / BLOCK_KV + 1, 0, i / BLOCK_Q,
                              (end + BLOCK_Q - 1) / BLOCK_Q);

    return row * BLOCK_Q < end ? tile_of(begin, i, max(row * BLOCK_Q, i), tile) : end;
}

/* The visibility of a tile's pairs by block lists. */
struct listed_tile {
    bool some, all;           /* whether some pair, or every pair, is in a listed block */
    bool some_full, all_full; /* the same for blocks listed as full */
};

/* Looks up the visibility of `queries` queries from i on and `keys` keys from j on. */
static inline struct listed_tile listed_tile_at(const struct block_bits bits, const long i,
                                                const long queries, const long j, const long keys)
{
    const struct block_rows rows = block_rows_of(i, queries);
    const long c = j / BLOCK_KV, end = (j + keys - 1) / BLOCK_KV + 1;
    struct listed_tile tile = {next_column(bits, rows, 0, 0, c, end) < end, false, false, false};

    if (tile.some)
        tile.all = have_all(bits, rows, 0, c, end);
    if (HAS_MASKS && tile.some)
        tile.some_full = next_column(bits, rows, BLOCK_PLANES - 1, 0, c, end) < end;
    if (HAS_MASKS && tile.some_full)
        tile.all_full = have_all(bits, rows, BLOCK_PLANES - 1, c, end);
    return tile;
}

/* 1 if tiles of `queries` by `keys` lie in one block each: a tile that is visited is then listed, all
 * of it, and no pair is looked up. Tiles begin at multiples of their sizes but after a window or in
 * pages. A mask must know which blocks are listed as full. */
#define TILES_IN_BLOCKS(queries, keys)                                                             \
    (!HAS_MASKS && !HAS_WINDOW_LEFT && !PAGE_SIZE && BLOCK_Q % (queries) == 0 &&                   \
     BLOCK_KV % (keys) == 0)

/* Returns whether a pair of the tile is masked, or must be looked up in the mask. in_block:
 * TILES_IN_BLOCKS() of tiles that are visited. */
INLINE bool hides_listed(const bool in_block, const struct block_bits bits, const long i,
                         const long queries, const long j, const long keys)
{
    if (in_block)
        return false;
    const struct listed_tile tile = listed_tile_at(bits, i, queries, j, keys);

    return HAS_MASKS ? !tile.all_full : !tile.all;
}

/* The entry of a block: 0 if it is not listed. */
INLINE int block_at(const struct block_bits bits, const long row, const long column)
{
    const __global uint *word = bits.at + row * BLOCK_PLANES * bits.words + column / 32;
    const int listed = *word >> column % 32 & 1;

    return HAS_MASKS ? listed + (word[bits.words] >> column % 32 & 1) : listed;
}

/* ---- rows that share a kv head --------------------------------------------------------------- */

/* The first tile from key j on with a key that is visible to one of `rows` rows; end if there is
 * none. Rows are queries of all heads that share a kv head, head after head, from number `row` on.
 * bits: the begin of the bits of all lists. */
INLINE long next_tile_of_rows(const struct arguments *args, const __global float *bits,
                              const long b, const long kv_head, const long row, const int rows,
                              const long begin, const long j, const long end, const int tile)
{
    long seen = end, list = -1,
         block_row = -1; /* the list and the row of blocks that were tested last */

    for (int r = 0; r < rows && seen > j; r++) {
        const long h = kv_head * args->shape->group + (row + r) / args->shape->seq_q;
        const struct block_rows here = block_rows_of((row + r) % args->shape->seq_q, 1);
        if (h * args->shape->list_of_head == list && here.first == block_row)
            continue;
        list = h * args->shape->list_of_head;
        block_row = here.first;
        seen = run_begin(block_bits_of(args, bits, b, h), here, j, seen);
    }
    return seen < end ? tile_of(begin, j, seen, tile) : end;
}

/* Looks up the block of query i and key j; all are listed where there are no lists. */
INLINE int listed_block(const struct arguments *args, const long b, const long h, const long i,
                        const long j)
{
    return HAS_BLOCKS ? find_listed_block(args, b, h, i, j) : BLOCK_LISTED;
}
