/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of unfused.cl's arrays, for the kernels and, with the names of families/names.h, for the host. */
#include "families/sizes.h"

#define THREADS (THREADS_N * THREADS_M)
#define BLOCK_N (THREADS_N * THREAD_N)
#define BLOCK_M (THREADS_M * THREAD_M)

/* Local memory, in floats: tiles of k and q, or of v and the weights; and places of the keys in pages. */
#define X_TILE_FLOATS (BLOCK_K * BLOCK_N)
#define Y_TILE_FLOATS (BLOCK_K * BLOCK_M)
#define LOCAL_BYTES                                                                                \
    ((X_TILE_FLOATS + Y_TILE_FLOATS) * FLOAT_BYTES + (PAGE_SIZE ? BLOCK_N * LONG_BYTES : 0))
