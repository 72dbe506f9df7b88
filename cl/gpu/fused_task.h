/* SPDX-License-Identifier: Apache-2.0 */
/* The task of a work-group of fused_gpu: its block of queries, and where its matrices begin. Kernels that multiply bytes
 * include gpu/byte_rows.h before. */
#pragma once
#include "common/key_rows.h"
#include "common/quantized.h"
#include "gpu/query_block.h"
#include "gpu/tile_load.h"
#if OPERAND_PARTS > 1
#include "mma/attention_parts.h"
#endif

struct task {
    struct query_block block;
    const __global storage *q;   /* the row of the first query */
    const __global k_storage *k; /* the kv head's first key; paged: its first row in page 0 */
    const __global v_storage *v;
    bool q_aligned, k_aligned, v_aligned; /* wide loads are possible */
#if OPERAND_PARTS > 1
    struct part_rows parts; /* of the same rows */
#endif
#if HAS_INT8
    const __global float *q_lines, *k_lines; /* of the same rows (byte_rows.h) */
#endif
};

INLINE struct task find_task(const struct arguments *args, const struct query_block block)
{
    const long b = block.b, h = block.h;
    struct task t;

    t.block = block;
    t.q = args->q + row_offset(args->shape->q_stride, b, h, block.i0);
    t.k = k_place(args->k,
                  head_offset(args->shape->k_stride, cache_batch(b), h / args->shape->group));
    t.v = v_place(args->v,
                  head_offset(args->shape->v_stride, cache_batch(b), h / args->shape->group));
    t.q_aligned = rows_aligned(t.q, args->shape->q_stride[2], WIDTH(UNIT_Q, DIM_QK));
    t.k_aligned =
        K_CACHE || cache_aligned(K_DTYPE, t.k, args->shape->k_stride[0], args->shape->k_stride[2],
                                 WIDTH_OF(K_DTYPE, UNIT_K, DIM_QK));
    t.v_aligned =
        V_CACHE || cache_aligned(V_DTYPE, t.v, args->shape->v_stride[0], args->shape->v_stride[2],
                                 WIDTH_OF(V_DTYPE, UNIT_V, DIM_V));
#if OPERAND_PARTS > 1
    t.parts = find_part_rows(args, b, h, block.i0);
    t.q_aligned = t.k_aligned = t.v_aligned = true;
#endif
#if HAS_INT8
    t.q_lines = query_line(args, b, h, block.i0);
    t.k_lines = key_line(args, b, h / args->shape->group, 0);
#endif
    return t;
}
