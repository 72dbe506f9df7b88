/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of fused_gpu_item.cl's arrays, for the kernel and, with the names of families/names.h, for the host. */
#define MAX_DIM DIM_V
#include "families/byte_row_sizes.h"
#include "families/thread_sizes.h"
#include "families/units.h"

#define THREADS_M (BLOCK_M / THREAD_M)
#define THREADS (THREADS_N * THREADS_M)
#define THREAD_N (BLOCK_N / THREADS_N)

/* The depth of q k^T: columns, or words of four bytes. */
#define QK_DEPTH (OPERAND_BYTES ? BYTE_WORDS : DIM_QK)

/* Local memory, counted in float4. Columns of q and k are padded with zeros to whole stages. With
 * two STAGES each stage's buffer, of q k^T or of p v, exists twice, STAGE_FLOAT4S apart. */
#define ROW_STRIDE ((BLOCK_M + PADDING) / 4)
#define STAGE MIN(BLOCK_K, ROUND_UP(QK_DEPTH, 4))
#define STAGED_DIM ROUND_UP(QK_DEPTH, STAGE)
#define K_STRIDE ((STAGE + PADDING) / 4)
#define Q_STRIDE (Q_RESIDENT ? (STAGED_DIM + PADDING) / 4 : K_STRIDE)
#define V_STRIDE (THREADS_N * MAX_DIMS4)
#define K_AT (BLOCK_M * Q_STRIDE)
#define K_END (K_AT + BLOCK_N * K_STRIDE)
#define WEIGHTS_AT (!SHARE_KV ? K_END : Q_RESIDENT ? K_AT : 0)
#define V_AT (WEIGHTS_AT + WEIGHT_ROWS * ROW_STRIDE)
#define V_END (V_AT + STAGE_N * V_STRIDE)
#define STAGE_END MAX(K_END, V_END)
#define STAGE_FLOAT4S (STAGE_END - (Q_RESIDENT ? K_AT : 0))
#define PARTIAL_AT (STAGE_END + (STAGES - 1) * STAGE_FLOAT4S)
#define LOCAL_FLOAT4S (PARTIAL_AT + THREADS_N * ROW_STRIDE)

/* Dropout's bits follow the tiles, those of four pairs in the low half of a byte. With sinks each
 * row has a flag for a visible key. With pages the offsets of a tile's rows follow. */
#define KEPT_BYTES (BLOCK_M * (BLOCK_N / 4))
#define ROW_FLAGS BLOCK_M
#define LISTED_ROWS BLOCK_N

/* The largest size that the kernel needs; options that need less are not considered. */
#define LOCAL_BYTES                                                                                \
    (LOCAL_FLOAT4S * FLOAT4_BYTES + 2 * BLOCK_M * FLOAT_BYTES + ROW_FLAGS * INT_BYTES +            \
     (PAGE_SIZE ? 2 * LISTED_ROWS * LONG_BYTES : 0) + (HAS_DROPOUT ? KEPT_BYTES : 0) +             \
     SPARE_BYTES)

/* The registers that a thread keeps throughout: its scores and its outputs. */
#define REGISTER_FLOATS (THREAD_M * (THREAD_N + 4 * MAX_DIMS4))
