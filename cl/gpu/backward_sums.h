/* The last stage of gradients for GPUs: sums over rows that earlier stages have left in the workspace, for
 * dslopes and for a dbias that broadcasts over queries or keys, and dsinks.
 *
 * Before including this: backward_tile.h; THREADS. */
#ifndef CLATTN_BACKWARD_SUMS_H
#define CLATTN_BACKWARD_SUMS_H

#if HAS_DSLOPES || HAS_DSINKS || HAS_DBIAS
/* The sum of what the group's threads hold, for each of them. */
INLINE float sum_of_group(const float x, __local float *partial)
{
    float total = 0.0f;

    LOCAL_BARRIER(); /* what was there may be overwritten */
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

/* This thread's part in the sum of values over a box, without rows that sequences do not have. */
INLINE float sum_of_box(SHAPE_PARAMS, const struct box box,
                        const __global float *values Q_STARTS_PARAM)
{
    float sum = 0.0f;

    for (long n = get_local_id(0); n < box.count[0] * box.count[1] * box.count[2]; n += THREADS) {
        const long s = box.first[2] + n % box.count[2];
        const long h = box.first[1] + n / box.count[2] % box.count[1];
        const long b = box.first[0] + n / box.count[2] / box.count[1];
#if HAS_TOTAL_Q
        if (s >= queries_of(a, at, b Q_STARTS_ARG))
            continue;
#endif
        sum += values[(b * a.heads + h) * box.seq + s];
    }
    return sum;
}

#if HAS_DSINKS
/* This thread's part in dsinks of head h. */
INLINE float sum_of_sinks(SHAPE_PARAMS, const float sink, const long h, const __global float *lse,
                          const __global float *workspace Q_STARTS_PARAM)
{
    float sum = 0.0f;

    for (long b = 0; b < a.batch; b++) {
        long first = 0, queries = a.seq_q;
#if HAS_TOTAL_Q
        find_rows_of(q_starts + at.q_starts, b, a.total_q, a.seq_q, &first, &queries);
#endif
        for (long i = get_local_id(0); i < queries; i += THREADS)
            sum += sink_term(sink, lse[at.lse + lse_of(a, b, h, first + i)],
                             place_of_statistic(a, at, workspace, b, h, i));
    }
    return sum;
}
#endif

#if HAS_DBIAS
/* What element n of a dbias that broadcasts over queries or keys is summed over; the box begins at the
 * element's own position. */
INLINE struct box box_of_bias(const struct attention_shape a, const long n)
{
    const bool over_b = a.bias_stride[0] == 0, over_h = a.bias_stride[1] == 0;
    const bool over_i = a.bias_stride[2] == 0, over_j = a.bias_stride[3] == 0;
    const long seq = over_j ? a.seq_q : a.seq_kv, places = over_i && over_j ? 1 : seq;
    const long heads = over_h ? 1 : a.heads;
    const struct box box = {{n / places / heads, n / places % heads, n % places},
                            {over_b ? a.batch : 1, over_h ? a.heads : 1, seq / places},
                            seq};

    return box;
}
#endif

/* A group for each head's sum for dslopes, then one for each head's for dsinks, if it has these, then
 * one for each element of dbias. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void backward_sums(PARAMETERS_backward_sums)
{
    ENTER_BATCH;
    __local float partial[THREADS];
    const long group = get_group_id(0), slopes_end = HAS_DSLOPES ? a.heads : 0;
    const long sinks_end = slopes_end + (HAS_DSINKS ? a.heads : 0);
    float part = 0.0f;

#if HAS_DSLOPES
    const struct box head = {{0, group, 0}, {a.batch, 1, a.seq_q}, a.seq_q};
    if (group < slopes_end)
        part = sum_of_box(a, at, head,
                          workspace + at.workspace + slope_sums_begin(a) Q_STARTS_ARG);
#endif
#if HAS_DSINKS
    const long h = group - slopes_end;
    if (group >= slopes_end && group < sinks_end)
        part = sum_of_sinks(a, at, sinks[at.sinks + h], h, lse, workspace Q_STARTS_ARG);
#endif
#if HAS_DBIAS
    if (group >= sinks_end)
        part = sum_of_box(a, at, box_of_bias(a, group - sinks_end),
                          workspace + at.workspace + bias_sums_begin(a) Q_STARTS_ARG);
#endif
    const float sum = sum_of_group(part, partial);
    if (get_local_id(0) != 0)
        return;
#if HAS_DSLOPES
    if (group < slopes_end)
        dslopes[at.dslopes + group] = sum;
#endif
#if HAS_DSINKS
    if (group >= slopes_end && group < sinks_end)
        dsinks[at.dsinks + h] = sum;
#endif
#if HAS_DBIAS
    if (group >= sinks_end) {
        const struct box box = box_of_bias(a, group - sinks_end);
        STORE_BIAS(sum, dbias, at.dbias + box.first[0] * a.bias_stride[0] +
                                   box.first[1] * a.bias_stride[1] +
                                   box.first[2] * (a.bias_stride[2] + a.bias_stride[3]));
    }
#endif
}
#endif

#endif
