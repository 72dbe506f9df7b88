/* SPDX-License-Identifier: Apache-2.0 */
/* Where the keys and values of a batch lie: one after the other, or, with PAGE_SIZE, in pages of so
 * many that a table in device memory names, an entry each.
 *
 * An entry may hold anything: one that is no page of the pool hides its keys. Kernels go over runs of
 * keys that do lie in pages and leave out what is between them, so that nothing is asked for each pair,
 * and what a table hides costs nothing. Where no key is hidden the runs are the tiles of a contiguous
 * cache: o is the same to the last bit. */
#ifndef CLATTN_KEY_ROWS_H
#define CLATTN_KEY_ROWS_H
#include "common/common.h"

#if PAGE_SIZE
/* The batch whose heads and rows follow each other: pages are shared by all. */
#define CACHE_BATCH(b) 0L
#else
#define CACHE_BATCH(b) (b)
#endif

#if PAGE_SIZE
/* The page of key j of batch b, for j below seq_kv; -1 if the table names none. */
INLINE long page_of(const struct arguments *args, const long b, const long j)
{
    const long columns = (args->shape->seq_kv + PAGE_SIZE - 1) / PAGE_SIZE;
    const int page = args->page_table[b * columns + j / PAGE_SIZE];

    return page >= 0 && page < args->shape->pages ? (long)page : -1L;
}

/* How many of `rows` keys from key j on are in its page. */
INLINE long rows_in_page(const long rows, const long j)
{
    return min(rows, PAGE_SIZE - j % PAGE_SIZE);
}
#endif

/* Where key j of batch b is, which is not hidden, from the first row of its head on, for a tensor with
 * these steps from batch to batch (or page to page) and from row to row. */
INLINE long key_row(const struct arguments *args, const long b, const long j, const long batch_step,
                    const long row_step)
{
#if PAGE_SIZE
    return page_of(args, b, j) * batch_step + j % PAGE_SIZE * row_step;
#else
    return j * row_step;
#endif
}

#define KEY_ROW(b, j, stride) key_row(args, b, j, (stride)[0], (stride)[2])

/* Whether key j of batch b, below seq_kv, is in a page. */
#if PAGE_SIZE
#define HAS_ROW(b, j) (page_of(args, b, j) >= 0)
#else
#define HAS_ROW(b, j) ((bool)true)
#endif

/* How many of `rows` keys from key j on follow each other in memory; 0 if the table hides key j. */
INLINE long rows_together(const struct arguments *args, const long b, const long j, const long rows)
{
#if PAGE_SIZE
    if (rows <= 0 || page_of(args, b, j) < 0)
        return 0;
    return rows_in_page(rows, j);
#else
    return rows;
#endif
}

/* Moves *j, which counts from begin, past keys before end that the table hides, and returns the end of
 * the run that starts there: that of its tile (tiles of `tile` keys count from begin), or where keys are
 * hidden again. *j is end if no key is left. */
INLINE long next_run(const struct arguments *args, const long b, const long begin, const long end,
                     const int tile, long *j)
{
#if PAGE_SIZE
    while (*j < end && page_of(args, b, *j) < 0)
        *j = min((*j / PAGE_SIZE + 1) * PAGE_SIZE, end);
    const long tile_end = min(begin + ((*j - begin) / tile + 1) * tile, end);
    long stop = min((*j / PAGE_SIZE + 1) * PAGE_SIZE, tile_end);
    while (stop < tile_end && page_of(args, b, stop) >= 0)
        stop = min(stop + PAGE_SIZE, tile_end);
    return stop;
#else
    return min(*j + tile, end);
#endif
}

#endif
