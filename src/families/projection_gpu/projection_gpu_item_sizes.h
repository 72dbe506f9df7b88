/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of projection_gpu_item.cl's arrays, for the kernels and, with the names of families/names.h, for the host. */
#include "families/projection_gpu/projection_gpu_sizes.h"

#define THREADS_M (BLOCK_M / THREAD_M)
#define THREADS_N (BLOCK_N / THREAD_N)
#define THREADS (THREADS_M * THREADS_N)

/* A tile's row in float4; each depth of the stage has one row. */
#define X_STRIDE ((BLOCK_M + PADDING) / 4)
#define W_STRIDE ((BLOCK_N + PADDING) / 4)
#define LOCAL_BYTES (STAGES * BLOCK_K * (X_STRIDE + W_STRIDE) * FLOAT4_BYTES + PLACES_BYTES)

/* The number of 4-element loads of a thread for a tile of this many rows or columns. */
#define LOADS(block) DIVIDE_UP((block)*BLOCK_K / 4, THREADS)
