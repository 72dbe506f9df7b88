/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of rows of K and V in pages, listed in local memory for this tile and the next one,
 * which is copied while this one is computed.
 *
 * Kernels have `__local long places[PLACES]`. */
#pragma once
#include "common/key_rows.h"
#include "common/quantized.h"

/* Addresses count elements, or bytes where quantized rows arrive as bytes. */
#if BYTES
#define LISTED_PLACE(cache, place) ((place) / BLOCK_VALUES * BLOCK_BYTES(cache))
#else
#define LISTED_PLACE(cache, place) (place)
#endif
#if PAGE_SIZE
/* The part of the list with the addresses of a tile's rows in K or V; number: the tile's number
 * modulo 2. */
#define KV_PLACES(all, number, is_v) ((all) + ((number)*2 + (is_v)) * BLOCK_N)
/* The offset of key j from the tensor's first row; 0 if rows are listed. */
#define FROM_KEY(j, stride) 0

/* Lists the addresses of count keys from key j0 of batch b on; they are read after the next
 * barrier. */
INLINE void list_places(const struct arguments *args, const long b, const long j0, const int count,
                        const int number, __local long *all)
{
    for (int n = get_local_id(0); n < count; n += THREADS) {
        KV_PLACES(all, number, 0)
        [n] = LISTED_PLACE(K_CACHE, key_row(args, b, j0 + n, args->shape->k_stride));
        KV_PLACES(all, number, 1)
        [n] = LISTED_PLACE(V_CACHE, key_row(args, b, j0 + n, args->shape->v_stride));
    }
}
#define LIST_PLACES(b, keys, number) list_places(args, b, (keys).j0, (keys).count, number, places)
/* Lists the addresses of the first tile, and waits at a barrier. */
#define LIST_FIRST_PLACES(b, keys, number)                                                         \
    LIST_PLACES(b, keys, number);                                                                  \
    LOCAL_BARRIER()
#else
#define LIST_PLACES(b, keys, number) ((void)0)
#define LIST_FIRST_PLACES(b, keys, number) ((void)0)
#define KV_PLACES(all, number, is_v) ((const __local long *)0)
#define FROM_KEY(j, stride) ((j) * (stride)[2])
#endif
