/* SPDX-License-Identifier: Apache-2.0 */
/* Packed batches: with HAS_TOTAL_Q the queries of all sequences follow each other in one buffer, and so do
 * keys and values with HAS_TOTAL_KV.
 *
 * A kernel enters the sequence that it computes: its arguments become those of a problem of one
 * batch with the sequence's numbers of queries and keys, and batch strides of 0. Ranges of
 * work-items and the workspace are sized for the longest sequence, with longest_q() and longest_kv().
 *
 * Starts may hold anything: they are clamped to the buffer's rows. A sequence that ends before it
 * starts is empty; one longer than the longest ends early. */
#pragma once
#include "common/common.h"
#include "common/quantized.h"

/* Queries and keys of the longest sequence. */
INLINE long longest_q(const struct arguments *args)
{
    return HAS_TOTAL_Q ? args->shape->longest_q : args->shape->seq_q;
}

INLINE long longest_kv(const struct arguments *args)
{
    return HAS_TOTAL_KV ? args->shape->longest_kv : args->shape->seq_kv;
}

/* The offset of a head's rows in lse; bh numbers the head among all batches' heads. */
INLINE long lse_head(const struct arguments *args, const long bh, const long h)
{
    return HAS_TOTAL_Q ? h * args->shape->total_q : bh * args->shape->seq_q;
}

/* Finds the first row of sequence b, among `total` rows, and its number of rows. */
INLINE void find_rows_of(const __global int *starts, const long b, const long total,
                         const long longest, long *first, long *rows)
{
    *first = clamp((long)starts[b], 0L, total);
    *rows = clamp((long)starts[b + 1] - *first, 0L, min(longest, total - *first));
}

/* Queries of sequence b, for kernels that do not enter one. */
INLINE long queries_of(const struct arguments *args, const long b)
{
    long first, rows = args->shape->seq_q;

    if (HAS_TOTAL_Q)
        find_rows_of(args->q_starts, b, args->shape->total_q, args->shape->seq_q, &first, &rows);
    return rows;
}

/* The gradients of a sequence begin with this row. */
#if IS_BACKWARD
INLINE void enter_query_gradients(struct arguments *args, const struct attention_shape *shape,
                                  const long first)
{
    args->d_o += first * shape->d_o_stride[2];
    args->dq += first * shape->dq_stride[2];
}

INLINE void enter_key_gradients(struct arguments *args, const struct attention_shape *shape,
                                const long first)
{
    args->dk += first * shape->dk_stride[2];
    args->dv += first * shape->dv_stride[2];
}
#else
INLINE void enter_query_gradients(struct arguments *args, const struct attention_shape *shape,
                                  const long first)
{
}

INLINE void enter_key_gradients(struct arguments *args, const struct attention_shape *shape,
                                const long first)
{
}
#endif

/* Declares `name`: a kernel's arguments, which become those of sequence b, or of the last one; without packed
 * batches they are as they were. The shape of the sequence is a variable of its own: arguments that pointed
 * into themselves would stay in memory, once for each thread. */
#define ENTER_SEQUENCE(name, own, b)                                                               \
    struct attention_shape shape_of_sequence;                                                      \
    const struct arguments *const name = enter_sequence(own, &shape_of_sequence, b)
INLINE const struct arguments *enter_sequence(struct arguments *args, struct attention_shape *shape,
                                              const long b)
{
    const long sequence = min(b, args->shape->batch - 1);
    long first;

    if (!(HAS_TOTAL_Q || HAS_TOTAL_KV))
        return args;
    *shape = *args->shape;
    args->shape = shape;
    if (HAS_TOTAL_Q) {
        find_rows_of(args->q_starts, sequence, shape->total_q, shape->seq_q, &first, &shape->seq_q);
        args->q += first * shape->q_stride[2];
        args->o += first * shape->o_stride[2];
        args->topk_indices += first * shape->topk;
        args->dlse += first;
        args->lse += first;
        enter_query_gradients(args, shape, first);
    }
    if (HAS_TOTAL_KV) {
        find_rows_of(args->kv_starts, sequence, shape->total_kv, shape->seq_kv, &first,
                     &shape->seq_kv);
        args->k = k_place(args->k, first * shape->k_stride[2]);
        args->v = v_place(args->v, first * shape->v_stride[2]);
        args->k_scales += first * shape->k_scales_stride[2];
        args->v_scales += first * shape->v_scales_stride[2];
        enter_key_gradients(args, shape, first);
    }
    return args;
}

/* Leaves a kernel that has no rows of its sequence from `row` on. A kernel with barriers needs
 * END_KERNEL() at its end then (gpu/local_barrier.h). */
#define LEAVE_IF_BEYOND(row, rows)                                                                 \
    if (HAS_TOTAL_Q && (row) >= (rows))                                                            \
    return
