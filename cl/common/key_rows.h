/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of a batch's keys and values: contiguous, or, with PAGE_SIZE, in pages of that many
 * keys; each entry of a table in device memory names a page.
 *
 * An entry may hold anything: one that is no page of the pool masks its keys. Kernels go over runs
 * of keys with pages and skip the keys between them, so that no pair is tested and masked pages
 * cost nothing. Without masked keys the runs are the tiles of a contiguous cache: o is the same to
 * the last bit. */
#pragma once
#include "common/common.h"

enum { PAGE_KEYS = PAGE_SIZE ? PAGE_SIZE : 1 };

/* The batch index in K and V: 0 with pages, since all batches share these. */
INLINE long cache_batch(const long b)
{
    return PAGE_SIZE ? 0 : b;
}

/* The page of key j of batch b, for j below seq_kv; -1 if the table names none. */
INLINE long page_of(const struct arguments *args, const long b, const long j)
{
    const long columns = (args->shape->seq_kv + PAGE_KEYS - 1) / PAGE_KEYS;
    const int page = args->page_table[b * columns + j / PAGE_KEYS];

    return page >= 0 && page < args->shape->pages ? (long)page : -1L;
}

/* The number of `rows` keys from key j on that are in key j's page. */
INLINE long rows_in_page(const long rows, const long j)
{
    return min(rows, PAGE_KEYS - j % PAGE_KEYS);
}

/* The offset of key j of batch b from the first row of its head, for a tensor with these steps
 * between batches (or pages) and rows. The key must have a page. */
INLINE long row_in_cache(const struct arguments *args, const long b, const long j,
                         const long batch_step, const long row_step)
{
    return PAGE_SIZE ? page_of(args, b, j) * batch_step + j % PAGE_KEYS * row_step : j * row_step;
}

INLINE long key_row(const struct arguments *args, const long b, const long j, const long *stride)
{
    return row_in_cache(args, b, j, stride[0], stride[2]);
}

/* The scales of a kv head's keys or values from key j on; `has` is a constant. A key in no page has none. */
struct row_scales {
    const struct arguments *args;
    const __global float *first;
    const long *stride;
    long b, j;
    bool has;
};

INLINE struct row_scales row_scales_of(const struct arguments *args, const bool has,
                                       const __global float *all, const long *stride, const long b,
                                       const long kv_head, const long j)
{
    const struct row_scales scales = {
        args, all + head_offset(stride, cache_batch(b), kv_head), stride, b, j, has};

    return scales;
}

INLINE struct row_scales k_scales_from(const struct arguments *args, const long b,
                                       const long kv_head, const long j)
{
    return row_scales_of(args, HAS_K_SCALES, args->k_scales, args->shape->k_scales_stride, b,
                         kv_head, j);
}

INLINE struct row_scales v_scales_from(const struct arguments *args, const long b,
                                       const long kv_head, const long j)
{
    return row_scales_of(args, HAS_V_SCALES, args->v_scales, args->shape->v_scales_stride, b,
                         kv_head, j);
}

/* The scale of the n-th key; 1 without scales. */
INLINE float scale_of_row(const struct row_scales s, const long n)
{
    return s.has ? s.first[key_row(s.args, s.b, s.j + n, s.stride)] : 1.0f;
}

/* Returns whether key j of batch b, below seq_kv, is in a page. */
INLINE bool has_row(const struct arguments *args, const long b, const long j)
{
    return PAGE_SIZE == 0 || page_of(args, b, j) >= 0;
}

/* The number of `rows` keys from key j on that are contiguous; 0 if the table masks key j. */
INLINE long rows_together(const struct arguments *args, const long b, const long j, const long rows)
{
    if (!PAGE_SIZE)
        return rows;
    return rows <= 0 || page_of(args, b, j) < 0 ? 0 : rows_in_page(rows, j);
}

/* Moves *j past keys before end that the table masks, and returns the end of the run that starts
 * there: the end of its tile (tiles of `tile` keys count from begin, of invariant problems from key 0), or
 * the next masked key. *j is end if no key is left. */
INLINE long next_run(const struct arguments *args, const long b, const long begin, const long end,
                     const int tile, long *j)
{
    if (!PAGE_SIZE)
        return min(HAS_INVARIANT ? (*j / tile + 1) * tile : *j + tile, end);
    while (*j < end && page_of(args, b, *j) < 0)
        *j = min((*j / PAGE_KEYS + 1) * PAGE_KEYS, end);
    const long from = HAS_INVARIANT ? 0 : begin;
    const long tile_end = min(from + ((*j - from) / tile + 1) * tile, end);
    long stop = min((*j / PAGE_KEYS + 1) * PAGE_KEYS, tile_end);
    while (stop < tile_end && page_of(args, b, stop) >= 0)
        stop = min(stop + PAGE_KEYS, tile_end);
    return stop;
}
