/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of split_gpu_item.cl's arrays, for the kernels and, with the names of families/names.h, for the host. */
#include "families/split_gpu/split_gpu_sizes.h"

#define THREADS_N (THREADS / THREADS_D)
#define BLOCK_N (THREADS_N * THREAD_N)
#define PIECES (LOAD_WIDTH / 4) /* the float4 of a thread in a chunk */
#define CHUNK (THREADS_D * LOAD_WIDTH)
#define CHUNKS(dim) DIVIDE_UP(dim, CHUNK)
#define QUADS (THREAD_N / 4)
/* The distance between the products of two threads of a thread group. The 1 avoids bank conflicts. */
#define THREAD_STRIDE (BLOCK_M * QUADS * THREADS_N + 1)

/* Local memory, in float4. */
#define Q_FLOAT4S (BLOCK_M * CHUNKS(DIM_QK) * PIECES * THREADS_D)
#define SUM_FLOAT4S (THREADS * CHUNKS(DIM_V) * PIECES) /* one row's sums of all thread groups */
#define SHARED_FLOAT4S MAX(THREADS_D *THREAD_STRIDE, SUM_FLOAT4S)
#define WEIGHT_FLOAT4S (BLOCK_M * QUADS * THREADS_N)
/* The floats of each row and thread group: the maximum, the sum and the factor. */
#define GROUP_STATES (BLOCK_M * THREADS_N)
#define SPLIT_BYTES                                                                                \
    ((Q_FLOAT4S + SHARED_FLOAT4S + WEIGHT_FLOAT4S) * FLOAT4_BYTES +                                \
     3 * GROUP_STATES * FLOAT_BYTES + SEEN_WORDS * INT_BYTES)
#define COMBINE_THREADS THREADS

/* The most that a thread keeps in registers: the sums of its columns, and the products of its keys
 * or as many of these and of the values as are read at a time. Places of paged keys and of values
 * are two registers each. */
#define THREAD_COLUMNS (CHUNKS(DIM_V) * LOAD_WIDTH)
#define REGISTER_FLOATS                                                                            \
    (BLOCK_M * (THREAD_COLUMNS + THREAD_N) + THREAD_N * LOAD_WIDTH +                               \
     (EARLY_V ? THREAD_N * THREAD_COLUMNS : 0) +                                                   \
     (PAGE_SIZE ? 4 * (PAGE_SIZE % 4 ? THREAD_N : THREAD_N / 4) : 0))
