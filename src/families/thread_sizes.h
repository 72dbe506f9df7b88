/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the register blocks of cl/gpu/thread_tile.h, for kernels and the host.
 *
 * Before including this: THREADS_N, THREAD_M, STAGE_N; MAX_DIM, the longest row's dims. */
#ifndef CLATTN_THREAD_SIZES_H
#define CLATTN_THREAD_SIZES_H
#include "families/sizes.h"

#define QUADS (THREAD_M / 4)
#define DIMS4(dim) DIVIDE_UP(dim, 4 * THREADS_N)
#define MAX_DIMS4 DIMS4(MAX_DIM)
/* The number of streamed rows whose weights are in local memory at a time. */
#define WEIGHT_ROWS MAX(STAGE_N, THREADS_N)

#endif
