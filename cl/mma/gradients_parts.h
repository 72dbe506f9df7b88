/* SPDX-License-Identifier: Apache-2.0 */
/* f32 gradients: q, k, v and do as parts (mma/f32_parts.h) in the workspace, behind the sums of a bias. The parts of a
 * tensor follow each other. Each is row-major, (batch, heads, longest sequence, dim), with rows of PART_LINE(dim)
 * elements, 0 from dim on: pieces of 16 bytes. */
#pragma once
#include "gpu/backward_tile.h"
#include "mma/fragment.h"

#if OPERAND_PARTS > 1
#include "mma/f32_parts.h"

/* Writes the parts of piece number `piece` of a head's rows, which begin at row number first_row of
 * each part. */
INLINE void write_parts(const __global float *head, const long row_step, const long step,
                        const long rows, const int dim, __global ushort *planes,
                        const long part_rows, const long first_row, const long piece)
{
    const struct parts parts = {0, planes, part_rows, PART_LINE(dim)};
    const int pieces = PART_LINE(dim) / 8;
    const long row = piece / pieces;
    const int d = (int)(piece % pieces) * 8;
    const __global float *const from = head + row * row_step + d * step;
    float x[8];

    if (row >= rows)
        return;
    if (step == 1 && d + 8 <= dim && rows_aligned_of(DTYPE_F32, head, row_step, 4)) {
        vstore4(((const __global float4 *)from)[0], 0, x);
        vstore4(((const __global float4 *)from)[1], 1, x);
    } else {
        UNROLL
        for (int n = 0; n < 8; n++)
            x[n] = d + n < dim ? from[n * step] : 0.0f;
    }
    split_eight(x, &parts, (first_row + row) * PART_LINE(dim) + d);
}

/* Groups are numbered by (pieces, heads of q, do, k and v, batches). */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
backward_parts(PARAMETERS_backward_parts)
{
    struct arguments arguments = ARGUMENTS_backward_parts;
    ENTER_SEQUENCE(args, &arguments, get_group_id(2));
    const long b = get_group_id(2), piece = get_global_id(0);
    const long heads = args->shape->heads, kv_heads = args->shape->kv_heads;
    const bool of_queries = get_group_id(1) < 2 * heads;
    const long head = of_queries ? get_group_id(1) : get_group_id(1) - 2 * heads;
    const long h = head % (of_queries ? heads : kv_heads);
    const bool is_first = head == h; /* q or k rather than do or v */
    const long first_row =
        of_queries ? row_of(args, b, h, 0) : (b * kv_heads + h) * longest_kv(args);

#define WRITE_PARTS(name, steps, step, seq, dim, parts, part_rows)                                 \
    write_parts(args->name + row_offset(args->shape->steps, b, h, 0), args->shape->steps[2], step, \
                args->shape->seq, dim, parts(args), part_rows(args), first_row, piece)
    if (of_queries && is_first)
        WRITE_PARTS(q, q_stride, q_step(args), seq_q, DIM_QK, parts_of_q, part_rows_q);
    else if (of_queries)
        WRITE_PARTS(d_o, d_o_stride, do_step(args), seq_q, DIM_V, parts_of_do, part_rows_q);
    else if (is_first)
        WRITE_PARTS(k, k_stride, k_step(args), seq_kv, DIM_QK, parts_of_k, part_rows_kv);
    else
        WRITE_PARTS(v, v_stride, v_step(args), seq_kv, DIM_V, parts_of_v, part_rows_kv);
}
#endif
