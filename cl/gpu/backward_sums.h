/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage of gradients for GPUs: sums over rows that earlier stages have left in the workspace, for
 * dslopes and for a dbias that broadcasts over queries or keys, and dsinks.
 *
 * Sizes      THREADS, the work-items of a group. */
#pragma once
#include "gpu/backward_tile.h"

#if HAS_DSLOPES || HAS_DSINKS || HAS_DBIAS
/* Returns to each thread the sum of all threads' values. */
INLINE float sum_of_group(const float x, __local float *partial)
{
    float total = 0.0f;

    LOCAL_BARRIER(); /* all have read the old contents */
    partial[get_local_id(0)] = x;
    LOCAL_BARRIER(); /* the threads' parts are complete */
    for (int n = 0; n < THREADS; n++)
        total += partial[n];
    return total;
}

/* A box of positions in (batch, heads, seq). */
struct box {
    long first[3], count[3], seq;
};

/* Returns this thread's part of the sum of values over a box. Rows that belong to no sequence are left out. */
INLINE float sum_of_box(const struct arguments *args, const struct box box,
                        const __global float *values)
{
    float sum = 0.0f;

    for (long n = get_local_id(0); n < box.count[0] * box.count[1] * box.count[2]; n += THREADS) {
        const long s = box.first[2] + n % box.count[2];
        const long h = box.first[1] + n / box.count[2] % box.count[1];
        const long b = box.first[0] + n / box.count[2] / box.count[1];
        if (HAS_TOTAL_Q && s >= queries_of(args, b))
            continue;
        sum += values[(b * args->shape->heads + h) * box.seq + s];
    }
    return sum;
}

/* Returns this thread's part of dsinks of head h. */
INLINE float sum_of_sinks(const struct arguments *args, const float sink, const long h)
{
    float sum = 0.0f;

    for (long b = 0; b < args->shape->batch; b++) {
        long first = 0, queries = args->shape->seq_q;
        if (HAS_TOTAL_Q)
            find_rows_of(args->q_starts, b, args->shape->total_q, args->shape->seq_q, &first,
                         &queries);
        for (long i = get_local_id(0); i < queries; i += THREADS)
            sum += sink_term(sink, args->lse[lse_of(args, b, h, first + i)],
                             place_of_statistic(args, b, h, i));
    }
    return sum;
}

/* The box that element n of a dbias is summed over if it broadcasts over queries or keys; it begins
 * at the element's own position. */
INLINE struct box box_of_bias(const struct arguments *args, const long n)
{
    const bool over_b = args->shape->bias_stride[0] == 0, over_h = args->shape->bias_stride[1] == 0;
    const bool over_i = args->shape->bias_stride[2] == 0, over_j = args->shape->bias_stride[3] == 0;
    const long seq = over_j ? args->shape->seq_q : args->shape->seq_kv,
               places = over_i && over_j ? 1 : seq;
    const long heads = over_h ? 1 : args->shape->heads;
    const struct box box = {
        {n / places / heads, n / places % heads, n % places},
        {over_b ? args->shape->batch : 1, over_h ? args->shape->heads : 1, seq / places},
        seq};

    return box;
}

/* The sums of dslopes of all heads come first, each by one group. Those of dsinks follow, if
 * requested, then the elements of dbias. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
backward_sums(PARAMETERS_backward_sums)
{
    const struct arguments arguments = ARGUMENTS_backward_sums, *const args = &arguments;
    __local float partial[THREADS];
    const long group = get_group_id(0), slopes_end = HAS_DSLOPES ? args->shape->heads : 0;
    const long sinks_end = slopes_end + (HAS_DSINKS ? args->shape->heads : 0);
    const long h = group - slopes_end;
    float part = 0.0f;

    if (group < slopes_end) {
        const struct box head = {
            {0, group, 0}, {args->shape->batch, 1, args->shape->seq_q}, args->shape->seq_q};
        part = sum_of_box(args, head, args->workspace + slope_sums_begin(args));
    } else if (HAS_DSINKS && group < sinks_end) {
        part = sum_of_sinks(args, args->sinks[h], h);
    } else if (HAS_DBIAS) {
        part = sum_of_box(args, box_of_bias(args, group - sinks_end),
                          args->workspace + bias_sums_begin(args));
    }
    const float sum = sum_of_group(part, partial);
    if (get_local_id(0) != 0)
        return;
    if (group < slopes_end) {
        args->dslopes[group] = sum;
    } else if (HAS_DSINKS && group < sinks_end) {
        args->dsinks[h] = sum;
    } else if (HAS_DBIAS) {
        const struct box box = box_of_bias(args, group - sinks_end);
        store1_of(BIAS_DTYPE, sum, args->dbias,
                  head_offset(args->shape->bias_stride, box.first[0], box.first[1]) +
                      box.first[2] * (args->shape->bias_stride[2] + args->shape->bias_stride[3]));
    }
}
#endif
