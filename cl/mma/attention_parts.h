/* SPDX-License-Identifier: Apache-2.0 */
/* q, k and v of f32 as parts of bf16 (f32_parts.h): the stage that makes them, one line for each row, and the offsets of a
 * work-group's rows in the planes. The parts are at the beginning of the workspace. */
#pragma once
#include "common/sequence.h"
#include "mma/f32_parts.h"

/* The numbers of batches and rows of q, and of k and v. */
INLINE long q_batches(const struct arguments *args)
{
    return HAS_TOTAL_Q ? 1 : args->shape->batch;
}

INLINE long kv_batches(const struct arguments *args)
{
    return HAS_TOTAL_KV ? 1 : args->shape->batch;
}

INLINE long rows_of_q(const struct arguments *args)
{
    return HAS_TOTAL_Q ? args->shape->total_q : args->shape->seq_q;
}

INLINE long rows_of_kv(const struct arguments *args)
{
    return HAS_TOTAL_KV ? args->shape->total_kv : args->shape->seq_kv;
}

INLINE long q_lines(const struct arguments *args)
{
    return q_batches(args) * args->shape->heads * rows_of_q(args);
}

INLINE long kv_lines(const struct arguments *args)
{
    return kv_batches(args) * args->shape->kv_heads * rows_of_kv(args);
}

/* The offsets of the parts of k and of v, and the end of all parts, in bytes. */
INLINE long k_parts_at(const struct arguments *args)
{
    return PARTS_BYTES(q_lines(args), PART_LINE(DIM_QK));
}

INLINE long v_parts_at(const struct arguments *args)
{
    return k_parts_at(args) + PARTS_BYTES(kv_lines(args), PART_LINE(DIM_QK));
}

INLINE long attention_parts_end(const struct arguments *args)
{
    return PARTS_ALIGNMENT + v_parts_at(args) + PARTS_BYTES(kv_lines(args), PART_LINE(DIM_V));
}

INLINE struct parts q_parts(const struct arguments *args)
{
    return parts_at(args->workspace, 0, q_lines(args), PART_LINE(DIM_QK));
}

INLINE struct parts k_parts(const struct arguments *args)
{
    return parts_at(args->workspace, k_parts_at(args), kv_lines(args), PART_LINE(DIM_QK));
}

INLINE struct parts v_parts(const struct arguments *args)
{
    return parts_at(args->workspace, v_parts_at(args), kv_lines(args), PART_LINE(DIM_V));
}

#ifdef PARAMETERS_attention_parts
/* Dimension 1 of the global range counts q, k and v. */
__kernel __attribute__((reqd_work_group_size(PART_ITEMS, 1, 1))) void
attention_parts(PARAMETERS_attention_parts)
{
    LEAVE_FIRST_ASSEMBLY();
    const struct arguments arguments = ARGUMENTS_attention_parts, *const args = &arguments;
    const struct attention_shape *s = args->shape;
    const bool is_q = get_group_id(1) == 0, is_k = get_group_id(1) == 1;
    const struct parts to = is_q ? q_parts(args) : is_k ? k_parts(args) : v_parts(args);
    const long *const steps = is_q ? s->q_stride : is_k ? s->k_stride : s->v_stride;
    const struct lines from = {is_q   ? args->q
                               : is_k ? args->k
                                      : args->v,
                               {is_q ? q_batches(args) : kv_batches(args),
                                is_q ? s->heads : s->kv_heads,
                                is_q ? rows_of_q(args) : rows_of_kv(args)},
                               {steps[0], steps[1], steps[2]},
                               {1, is_q || is_k ? DIM_QK : DIM_V},
                               {0, is_q   ? q_step(args)
                                   : is_k ? k_step(args)
                                          : v_step(args)}};
    __local int flags[PART_ITEMS];

    split_lines(&from, &to, flags);
}
#endif

/* The rows of a work-group's q, k and v in their first planes, and the number of elements of a
 * plane. */
struct part_rows {
    const __global ushort *q, *k, *v;
    long q_plane, k_plane, v_plane;
};

/* Finds the rows of batch b and head h, those of q from query i0 on; args are those of the current
 * sequence. */
INLINE struct part_rows find_part_rows(const struct arguments *args, const long b, const long h,
                                       const long i0)
{
    const long kv_h = h / args->shape->group;
    const struct parts q = q_parts(args), k = k_parts(args), v = v_parts(args);
    long q_row = i0, kv_row = 0;

#if HAS_TOTAL_Q || HAS_TOTAL_KV
    const long sequence = min(b, args->shape->batch - 1);
    long rows;
#endif
#if HAS_TOTAL_Q
    find_rows_of(args->q_starts, sequence, args->shape->total_q, args->shape->longest_q, &q_row,
                 &rows);
    q_row += i0;
#endif
#if HAS_TOTAL_KV
    find_rows_of(args->kv_starts, sequence, args->shape->total_kv, args->shape->longest_kv, &kv_row,
                 &rows);
#endif
    q_row += ((HAS_TOTAL_Q ? 0 : b * args->shape->heads) + h) * rows_of_q(args);
    kv_row += ((HAS_TOTAL_KV ? 0 : b * args->shape->kv_heads) + kv_h) * rows_of_kv(args);
    return (struct part_rows){q.planes + q_row * q.elements,  k.planes + kv_row * k.elements,
                              v.planes + kv_row * v.elements, q.lines * q.elements,
                              k.lines * k.elements,           v.lines * v.elements};
}
