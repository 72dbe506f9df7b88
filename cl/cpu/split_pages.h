/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of split_cpu with paged keys: a tile is a run of keys (common/key_rows.h). Needs
 * BLOCK_N and PREFETCH_TILES.
 *
 * If a page is whole tiles, and tiles begin at multiples of a tile within it, the table is read
 * once a tile and rows are evenly spaced, as in a contiguous cache. Otherwise each row of a tile is
 * looked up once and listed, and so are the rows to prefetch. */
#pragma once
#include "common/key_rows.h"
#include "cpu/split_keys.h"

#if PAGE_SIZE

/* The pool from page 0's row of the work-item's first kv head on, and the batch's keys to go
 * over. */
struct paged_keys {
    const __global k_storage *k;
    const __global v_storage *v;
    long b, begin, end;
#if KV_HEADS > 1
    long k_head, v_head; /* steps from one kv head to the next */
    int head;            /* the current one of the work-item's kv heads */
#endif
};

/* The places of key j in its page. */
INLINE const __global k_storage *k_in_page(const struct arguments *args,
                                           const struct paged_keys keys, const long j)
{
    return k_place(keys.k, key_row(args, keys.b, j, args->shape->k_stride));
}

INLINE const __global v_storage *v_in_page(const struct arguments *args,
                                           const struct paged_keys keys, const long j)
{
    return v_place(keys.v, key_row(args, keys.b, j, args->shape->v_stride));
}

INLINE bool is_key(const struct arguments *args, const struct paged_keys keys, const long j)
{
    return j < keys.end && page_of(args, keys.b, j) >= 0;
}

/* Prefetches one line of each page of memory for TLB_TILES tiles at once, so that their page walks
 * overlap. A prefetch waits for the page walk of its address (a TLB miss) as a load does, and pages
 * of a cache are in random order. */
enum {
    TLB_TILES = 8,
    MEMORY_PAGE = 4096,
    /* Is 1 if the first listed row of each page is prefetched. It slowed down pages of one row and quantized pages; sizes
     * between 1 and 8 were not measured. */
    LISTED_TLB = (V_TILES_AHEAD > 0) & (PAGE_SIZE >= 8) & (K_CACHE == 0) & (V_CACHE == 0)
};

/* Rows of this many bytes in a page of memory, at least one. */
INLINE long rows_in_memory_page(const long bytes)
{
    return max(1L, MEMORY_PAGE / max(1L, bytes));
}

/* Prefetches for the tiles from key `begin` on, with the strides of `tile`. */
INLINE void prefetch_tlb(const struct arguments *args, const struct paged_keys keys,
                         const struct key_range tile, const long begin)
{
    const long end = min(keys.end, begin + TLB_TILES * BLOCK_N);
    const long k_step =
        min((long)BLOCK_N, rows_in_memory_page(tile.k_row * (long)sizeof(k_storage)));
    const long v_step =
        min((long)BLOCK_N, rows_in_memory_page(tile.v_row * (long)sizeof(v_storage)));

    for (long j = begin; j < end; j += BLOCK_N) {
        if (!is_key(args, keys, j))
            continue;
        for (long n = 0; n < BLOCK_N; n += k_step)
            prefetch_l2(k_in_page(args, keys, j) + n * tile.k_row);
        for (long n = 0; n < BLOCK_N; n += v_step)
            prefetch_l2(v_in_page(args, keys, j) + n * tile.v_row);
    }
}

/* Lists the tile's rows and the rows to prefetch, which are the tile's own if no more follow. Rows
 * of one page are listed together, with one look-up in the tables. */
INLINE void list_rows(const struct arguments *args, const struct paged_keys keys,
                      const struct key_range tile, struct row_list *list)
{
    const long k_ahead = K_TILES_AHEAD * BLOCK_N, v_ahead = V_TILES_AHEAD * BLOCK_N;
    int together;

    for (int n = 0; n < tile.count; n += together) {
        const long j = tile.j + n;
        together = (int)rows_in_page(rows_in_page(rows_in_page(tile.count - n, j), j + k_ahead),
                                     j + v_ahead);
        const __global k_storage *k = k_in_page(args, keys, j), *k_soon = k;
        const __global v_storage *v = v_in_page(args, keys, j), *v_soon = v;
        if (is_key(args, keys, j + k_ahead))
            k_soon = k_in_page(args, keys, j + k_ahead);
        if (V_TILES_AHEAD > 0 && is_key(args, keys, j + v_ahead))
            v_soon = v_in_page(args, keys, j + v_ahead);
        if (LISTED_TLB && (j + k_ahead) % PAGE_SIZE == 0)
            prefetch_l2(k_soon);
        if (LISTED_TLB && (j + v_ahead) % PAGE_SIZE == 0)
            prefetch_l2(v_soon);
        for (int r = 0; r < together; r++) {
            list->k[n + r] = k + head_of(tile) * k_head_step(tile) + r * tile.k_row;
            list->v[n + r] = v + head_of(tile) * v_head_step(tile) + r * tile.v_row;
            list->k_soon[n + r] = k_soon + r * tile.k_row;
            list->v_soon[n + r] = v_soon + r * tile.v_row;
        }
    }
}

/* Returns the next tile from key j on, or a tile without keys after the last. */
INLINE struct key_range tile_of_pages(const struct arguments *args, const struct paged_keys keys,
                                      long j, float *v_scales, struct row_list *list)
{
    struct key_range tile;

    const long end = next_run(args, keys.b, keys.begin, keys.end, BLOCK_N, &j);
    tile.j = j;
    tile.count = (int)(end - j);
    tile.left = keys.end - j;
    tile.v_scales = v_scales;
    tile.k_row = k_place(keys.k, args->shape->k_stride[2]) - keys.k;
    tile.v_row = v_place(keys.v, args->shape->v_stride[2]) - keys.v;
    tile.list = list;
#if KV_HEADS > 1
    tile.k_head = keys.k_head;
    tile.v_head = keys.v_head;
    tile.head = keys.head;
#endif
    if (tile.left <= 0)
        return tile;
    tile.k = k_in_page(args, keys, j) + head_of(tile) * k_head_step(tile);
    tile.v = v_in_page(args, keys, j) + head_of(tile) * v_head_step(tile);
#if ROW_LISTS
    list_rows(args, keys, tile, list);
#else
    const long k_soon = j + K_TILES_AHEAD * BLOCK_N, v_soon = j + V_TILES_AHEAD * BLOCK_N;
    if (PREFETCH_TILES && head_of(tile) == 0 && (j - keys.begin) / BLOCK_N % TLB_TILES == 0)
        prefetch_tlb(args, keys, tile, k_soon);
    tile.k_soon = k_in_page(args, keys, is_key(args, keys, k_soon) ? k_soon : j);
    tile.v_soon =
        v_in_page(args, keys, V_TILES_AHEAD > 0 && is_key(args, keys, v_soon) ? v_soon : j);
#endif
    return tile;
}

#endif
