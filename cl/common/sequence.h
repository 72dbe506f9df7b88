/* Packed batches: with HAS_TOTAL_Q the queries of all sequences follow each other in one buffer, and so do
 * keys and values with HAS_TOTAL_KV. Needs common.h.
 *
 * The first statement of a kernel enters the sequence that it computes: a and at are then those of a
 * problem of one batch with as many queries and keys as the sequence has, and batch strides are 0. They
 * are copies, since some drivers share a kernel's own parameters among work-items; the host calls those
 * whole_a and whole_at for such problems (src/program/program_parameters.c). What is laid out for the
 * longest sequence, ranges of work-items and the workspace, is counted with LONGEST_Q.
 *
 * Starts may hold anything: they are clamped to the buffer's rows, a sequence that ends before it starts
 * is empty, and one that is longer than the longest ends early. */
#ifndef CLATTN_SEQUENCE_H
#define CLATTN_SEQUENCE_H
#include "common/common.h"

#if HAS_TOTAL_Q
#define Q_STARTS_PARAM , const __global int *q_starts
#define Q_STARTS_ARG , q_starts
#define LONGEST_Q(a) ((a).longest_q)
/* Where a head's part of lse begins. */
#define LSE_HEAD(a, bh, h) ((h) * (a).total_q)
#else
#define Q_STARTS_PARAM
#define Q_STARTS_ARG
#define LONGEST_Q(a) ((a).seq_q)
#define LSE_HEAD(a, bh, h) ((bh) * (a).seq_q)
#endif
/* Keys of the longest sequence, in a kernel's own body. */
#if HAS_TOTAL_KV
#define LONGEST_KV whole_a.seq_kv
#else
#define LONGEST_KV a.seq_kv
#endif
#if HAS_TOTAL_KV
#define KV_STARTS_PARAM , const __global int *kv_starts
#define KV_STARTS_ARG , kv_starts
#else
#define KV_STARTS_PARAM
#define KV_STARTS_ARG
#endif

#if HAS_TOTAL_Q || HAS_TOTAL_KV
/* Sequence b's first row of so many, and how many it has. */
INLINE void find_rows_of(const __global int *starts, const long b, const long total,
                         const long longest, long *first, long *rows)
{
    *first = clamp((long)starts[b], 0L, total);
    *rows = clamp((long)starts[b + 1] - *first, 0L, min(longest, total - *first));
}

#if HAS_TOTAL_Q
/* How many queries sequence b has, to a kernel that is in none. */
INLINE long queries_of(SHAPE_PARAMS, const long b Q_STARTS_PARAM)
{
    long first, rows;

    find_rows_of(q_starts + at.q_starts, b, a.total_q, a.seq_q, &first, &rows);
    return rows;
}
#endif

INLINE void enter_sequence(struct attention_shape *a, struct attention_offsets *at,
                           const long b Q_STARTS_PARAM KV_STARTS_PARAM)
{
    long first;

#if HAS_TOTAL_Q
    find_rows_of(q_starts + at->q_starts, b, a->total_q, a->seq_q, &first, &a->seq_q);
    at->q += first * a->q_stride[2];
    at->o += first * a->o_stride[2];
    at->d_o += first * a->d_o_stride[2];
    at->dq += first * a->dq_stride[2];
    at->lse += first;
#endif
#if HAS_TOTAL_KV
    find_rows_of(kv_starts + at->kv_starts, b, a->total_kv, a->seq_kv, &first, &a->seq_kv);
    at->k += first * a->k_stride[2];
    at->v += first * a->v_stride[2];
    at->dk += first * a->dk_stride[2];
    at->dv += first * a->dv_stride[2];
#endif
}
#define ENTER_SEQUENCE(b)                                                                          \
    struct attention_shape a = whole_a;                                                            \
    struct attention_offsets at = whole_at;                                                        \
    enter_sequence(&a, &at, min((long)(b), a.batch - 1) Q_STARTS_ARG KV_STARTS_ARG)
/* Of a kernel that sums over all sequences. */
#define ENTER_BATCH                                                                                \
    const struct attention_shape a = whole_a;                                                      \
    const struct attention_offsets at = whole_at
#else
#define ENTER_SEQUENCE(b)
#define ENTER_BATCH
#endif

/* Leaves a kernel whose work is a sequence's rows from `row` on, of so many, if it has none there. One with
 * barriers ends with END_KERNEL() then (gpu/local_barrier.h). */
#if HAS_TOTAL_Q
#define LEAVE_IF_BEYOND(row, rows)                                                                 \
    if ((row) >= (rows))                                                                           \
    return
#else
#define LEAVE_IF_BEYOND(row, rows)
#endif

#endif
