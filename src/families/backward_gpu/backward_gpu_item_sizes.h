/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of backward_gpu_item.cl's arrays, for the kernels and, with the names of families/names.h, for the host. */
#define MAX_DIM MAX(DIM_QK, DIM_V)
#include "families/thread_sizes.h"

#define OWNED_KEYS BLOCK_OWNED
#define THREADS_M (BLOCK_OWNED / THREAD_M)
#define THREADS (THREADS_N * THREADS_M)
#define THREAD_N (BLOCK_STREAMED / THREADS_N)

/* Local memory, counted in float4. Columns are padded with zeros to whole stages. With two STAGES
 * each stage's buffer exists twice, STAGE_FLOAT4S apart. */
#define ROW_STRIDE ((BLOCK_OWNED + PADDING) / 4)
#define STAGE(dim) MIN(BLOCK_K, ROUND_UP(dim, 4))
#define STAGED_DIM(dim) ROUND_UP(dim, STAGE(dim))
#define STREAMED_STRIDE(dim) ((STAGE(dim) + PADDING) / 4)
#define OWNED_STRIDE(dim) (OWNED_RESIDENT ? (STAGED_DIM(dim) + PADDING) / 4 : STREAMED_STRIDE(dim))
#define OWNED_V_AT (OWNED_RESIDENT ? BLOCK_OWNED * OWNED_STRIDE(DIM_QK) : 0)
#define STREAMED_AT (OWNED_V_AT + BLOCK_OWNED * OWNED_STRIDE(OWNED_RESIDENT ? DIM_V : MAX_DIM))
#define STREAMED_END (STREAMED_AT + BLOCK_STREAMED * STREAMED_STRIDE(MAX_DIM))
#define WEIGHTS_AT (OWNED_RESIDENT ? STREAMED_AT : 0)
#define ROWS_AT (WEIGHTS_AT + WEIGHT_ROWS * ROW_STRIDE)
#define ROWS_END (ROWS_AT + STAGE_N * THREADS_N * DIMS4(MAX_DIM))
#define STAGE_END MAX(STREAMED_END, ROWS_END)
#define STAGE_FLOAT4S (STAGE_END - (OWNED_RESIDENT ? STREAMED_AT : 0))
#define LOCAL_FLOAT4S (STAGE_END + (STAGES - 1) * STAGE_FLOAT4S)

/* Dropout's bits follow the tiles. */
#define KEPT_BYTES (BLOCK_OWNED * (BLOCK_STREAMED / 4))
#define LOCAL_BYTES (LOCAL_FLOAT4S * FLOAT4_BYTES + (HAS_DROPOUT ? KEPT_BYTES : 0) + SPARE_BYTES)

/* The registers of a thread of backward_keys: p and ds, and the sums of dk and dv. */
#define REGISTER_FLOATS (THREAD_M * (2 * THREAD_N + 4 * DIMS4(DIM_QK) + 4 * DIMS4(DIM_V)))
