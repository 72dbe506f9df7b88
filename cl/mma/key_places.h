/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of rows of K and V in pages, listed in local memory for this tile and the next one,
 * which is copied while this one is computed.
 *
 * Kernels have `__local long places[PLACES]`. */
#pragma once
#include "common/key_rows.h"
#include "common/quantized.h"

/* Addresses count elements, or bytes where quantized rows arrive as bytes. */
INLINE long listed_place(const int cache, const long place)
{
    return BYTES ? place / BLOCK_VALUES * BLOCK_BYTES(cache) : place;
}

/* The part of the list with the addresses of a tile's rows in K or V, or null; number: the tile's number modulo 2. */
INLINE __local long *places_of(__local long *places, const int number, const int is_v)
{
    return PAGE_SIZE ? places + (number * 2 + is_v) * BLOCK_N : 0;
}

/* The offset of key j from the tensor's first row; 0 if rows are listed. */
INLINE long from_key(const long j, const long *stride)
{
    return PAGE_SIZE ? 0 : j * stride[2];
}

/* Lists the addresses of count keys from key j0 of batch b on; they are read after the next
 * barrier. */
INLINE void list_places(const struct arguments *args, const long b, const long j0, const int count,
                        const int number, __local long *places)
{
    for (int n = get_local_id(0); PAGE_SIZE && n < count; n += THREADS) {
        places_of(places, number, 0)[n] =
            listed_place(K_CACHE, key_row(args, b, j0 + n, args->shape->k_stride));
        places_of(places, number, 1)[n] =
            listed_place(V_CACHE, key_row(args, b, j0 + n, args->shape->v_stride));
    }
}

/* Lists the addresses of the first tile, and waits at a barrier. */
INLINE void list_first_places(const struct arguments *args, const long b, const long j0,
                              const int count, __local long *places)
{
    list_places(args, b, j0, count, 0, places);
    if (PAGE_SIZE)
        LOCAL_BARRIER();
}
