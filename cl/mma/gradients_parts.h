/* SPDX-License-Identifier: Apache-2.0 */
/* f32 gradients: q, k, v and do as parts (mma/f32_parts.h) in the workspace, behind the sums of a bias. The parts of a
 * tensor follow each other. Each is row-major, (batch, heads, longest sequence, dim), with rows of PART_DIM(dim)
 * elements, 0 from dim on: pieces of 16 bytes.
 *
 * A part of backward_gpu_mma.cl, which includes it before its kernels. */
#pragma once

/* Elements of a row of a part. */
#define PART_DIM(dim) ROUND_UP(dim, 8)

#if OPERAND_PARTS > 1
#include "mma/f32_parts.h"

/* Rows of q and do, and of k and v, in all batches. */
INLINE long part_rows_q(const struct arguments *args)
{
    return args->shape->batch * args->shape->heads * longest_q(args);
}

INLINE long part_rows_kv(const struct arguments *args)
{
    return args->shape->batch * args->shape->kv_heads * longest_kv(args);
}

/* The first elements of each tensor's parts. */
INLINE __global ushort *parts_of_q(const struct arguments *args)
{
    return (__global ushort *)(args->workspace + parts_begin(args));
}

INLINE __global ushort *parts_of_do(const struct arguments *args)
{
    return parts_of_q(args) + OPERAND_PARTS * part_rows_q(args) * PART_DIM(DIM_QK);
}

INLINE __global ushort *parts_of_k(const struct arguments *args)
{
    return parts_of_do(args) + OPERAND_PARTS * part_rows_q(args) * PART_DIM(DIM_V);
}

INLINE __global ushort *parts_of_v(const struct arguments *args)
{
    return parts_of_k(args) + OPERAND_PARTS * part_rows_kv(args) * PART_DIM(DIM_QK);
}

/* The matrix of `rows` rows from number `row` on, of part_rows rows in a part. */
INLINE struct matrix matrix_of_parts(const __global ushort *parts, const int dim,
                                     const long part_rows, const long row, const int rows)
{
    const __global ushort *const p = parts + row * PART_DIM(dim);
    const struct matrix m = {
        p, PART_DIM(dim),        1, part_rows * PART_DIM(dim), PART_DIM(dim), rows,
        8, ((size_t)p & 15) == 0};

    return m;
}

INLINE struct matrix q_rows(const struct arguments *args, const long b, const long h, const long i,
                            const int rows)
{
    return matrix_of_parts(parts_of_q(args), DIM_QK, part_rows_q(args), row_of(args, b, h, i),
                           rows);
}

INLINE struct matrix do_rows(const struct arguments *args, const long b, const long h, const long i,
                             const int rows)
{
    return matrix_of_parts(parts_of_do(args), DIM_V, part_rows_q(args), row_of(args, b, h, i),
                           rows);
}

INLINE struct matrix k_rows(const struct arguments *args, const long b, const long kv_head,
                            const long j, const int rows)
{
    return matrix_of_parts(parts_of_k(args), DIM_QK, part_rows_kv(args),
                           (b * args->shape->kv_heads + kv_head) * longest_kv(args) + j, rows);
}

INLINE struct matrix v_rows(const struct arguments *args, const long b, const long kv_head,
                            const long j, const int rows)
{
    return matrix_of_parts(parts_of_v(args), DIM_V, part_rows_kv(args),
                           (b * args->shape->kv_heads + kv_head) * longest_kv(args) + j, rows);
}

/* Writes the parts of piece number `piece` of the rows of a head. */
INLINE void write_parts(const __global float *head, const long row_step, const long step,
                        const long rows, const int dim, __global ushort *parts,
                        const long part_step, const long piece)
{
    const int pieces = PART_DIM(dim) / 8;
    const long row = piece / pieces;
    const int d = (int)(piece % pieces) * 8;
    float rest[8];

    if (row >= rows)
        return;
#pragma unroll
    for (int n = 0; n < 8; n++)
        rest[n] = d + n < dim ? head[row * row_step + (d + n) * step] : 0.0f;
    for (int part = 0; part < OPERAND_PARTS; part++) {
        ushort8 x;
        x.s0 = take_part(rest[0], &rest[0]);
        x.s1 = take_part(rest[1], &rest[1]);
        x.s2 = take_part(rest[2], &rest[2]);
        x.s3 = take_part(rest[3], &rest[3]);
        x.s4 = take_part(rest[4], &rest[4]);
        x.s5 = take_part(rest[5], &rest[5]);
        x.s6 = take_part(rest[6], &rest[6]);
        x.s7 = take_part(rest[7], &rest[7]);
        vstore8(x, 0, parts + part * part_step + row * PART_DIM(dim) + d);
    }
}

/* Groups are numbered by (pieces, heads of q, do, k and v, batches). */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
backward_parts(PARAMETERS_backward_parts)
{
    struct arguments arguments = ARGUMENTS_backward_parts;
    const struct arguments *const args = enter_sequence(&arguments, get_group_id(2));
    const long b = get_group_id(2), piece = get_global_id(0);
    const long heads = args->shape->heads, kv_heads = args->shape->kv_heads;
    long h = get_group_id(1);

    if (h < heads) {
        write_parts(args->q + row_offset(args->shape->q_stride, b, h, 0), args->shape->q_stride[2],
                    Q_STEP, args->shape->seq_q, DIM_QK,
                    parts_of_q(args) + row_of(args, b, h, 0) * PART_DIM(DIM_QK),
                    part_rows_q(args) * PART_DIM(DIM_QK), piece);
        return;
    }
    h -= heads;
    if (h < heads) {
        write_parts(args->d_o + row_offset(args->shape->d_o_stride, b, h, 0),
                    args->shape->d_o_stride[2], DO_STEP, args->shape->seq_q, DIM_V,
                    parts_of_do(args) + row_of(args, b, h, 0) * PART_DIM(DIM_V),
                    part_rows_q(args) * PART_DIM(DIM_V), piece);
        return;
    }
    h -= heads;
    const bool of_k = h < kv_heads;
    h = of_k ? h : h - kv_heads;
    const long row = (b * kv_heads + h) * longest_kv(args);
    if (of_k)
        write_parts(args->k + row_offset(args->shape->k_stride, b, h, 0), args->shape->k_stride[2],
                    K_STEP, args->shape->seq_kv, DIM_QK, parts_of_k(args) + row * PART_DIM(DIM_QK),
                    part_rows_kv(args) * PART_DIM(DIM_QK), piece);
    else
        write_parts(args->v + row_offset(args->shape->v_stride, b, h, 0), args->shape->v_stride[2],
                    V_STEP, args->shape->seq_kv, DIM_V, parts_of_v(args) + row * PART_DIM(DIM_V),
                    part_rows_kv(args) * PART_DIM(DIM_V), piece);
}
#endif
