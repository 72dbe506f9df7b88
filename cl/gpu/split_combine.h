/* SPDX-License-Identifier: Apache-2.0 */
/* The second kernel of split-K on GPUs: o and lse from the partial results of each row, in the
 * order of the
 * ranges (gpu/split_task.h). A work-group of COMBINE_THREADS computes COMBINED_COLUMNS columns of a
 * row.
 *
 * Tunables   SPLIT_K. A group has COMBINE_THREADS work-items, a multiple of 32. */
#pragma once
#include "common/sequence.h"
#include "gpu/local_barrier.h"
#include "gpu/row_end.h"
#include "common/multiply_add.h"

#define COMBINE_PARTS (COMBINE_THREADS / COMBINED_COLUMNS)
#define COMBINE_TILES ((DIM_V + COMBINED_COLUMNS - 1) / COMBINED_COLUMNS)

INLINE float highest_of(const __local float *row_maxima, const int count)
{
    float highest = -INFINITY;

    for (int n = 0; n < count; n++)
        highest = fmax(highest, row_maxima[n]);
    return highest;
}

__kernel __attribute__((reqd_work_group_size(COMBINE_THREADS, 1, 1))) void
combine(PARAMETERS_combine)
{
    struct arguments arguments = ARGUMENTS_combine;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / COMBINE_TILES / longest_q(&arguments) /
                       arguments.shape->heads);
#if HAS_INVARIANT
    __local float maxima[COMBINE_THREADS];
#else
    __local float row_maxima[SPLIT_K], row_sums[SPLIT_K], rescales[SPLIT_K];
#endif
    __local float sums[COMBINE_THREADS];
    const int thread = get_local_id(0), tiles = COMBINE_TILES;
    const long row = get_group_id(0) / tiles, i = row % longest_q(args);
    const long bh = row / longest_q(args), b = bh / args->shape->heads, h = bh % args->shape->heads;
    const int d = (int)(get_group_id(0) % tiles) * COMBINED_COLUMNS + thread % COMBINED_COLUMNS;
    const long parts = count_ranges(args);
    const __global float *const results = args->workspace;
    const __global float *const statistics =
        results +
        (args->shape->batch * args->shape->heads * longest_q(args) * DIM_V + 2 * row) * parts;
    const __global float *const column = results + row * parts * DIM_V + min(d, DIM_V - 1);
    float x = 0.0f;

    LEAVE_IF_BEYOND(i, args->shape->seq_q);
#if HAS_INVARIANT /* there may be many ranges */
    maxima[thread] = -INFINITY;
    for (long n = thread; n < parts; n += COMBINE_THREADS)
        maxima[thread] = fmax(maxima[thread], statistics[2 * n]);
    LOCAL_BARRIER(); /* row_max of the threads' ranges is complete */
    float highest = highest_of(maxima, COMBINE_THREADS);
#define ROW_SUM(n) statistics[2 * (n) + 1]
#define RESCALE(n) power_of_two((statistics[2 * (n)] - finite_maximum(highest)) * M_LOG2E_F)
#else
    for (int n = thread; n < SPLIT_K; n += COMBINE_THREADS) {
        row_maxima[n] = statistics[2 * n];
        row_sums[n] = statistics[2 * n + 1];
    }
    LOCAL_BARRIER(); /* row_max and row_sum of all ranges are complete */
    float highest = highest_of(row_maxima, SPLIT_K);
#define ROW_SUM(n) row_sums[n]
#define RESCALE(n) rescales[n]
#endif
#if HAS_SINKS
    highest = fmax(highest, args->sinks[h]);
#endif
#if !HAS_INVARIANT
    for (int n = thread; n < SPLIT_K; n += COMBINE_THREADS)
        rescales[n] = power_of_two((row_maxima[n] - finite_maximum(highest)) * M_LOG2E_F);
    LOCAL_BARRIER(); /* the ranges' factors are complete */
#endif
    for (int n = thread / COMBINED_COLUMNS; n < parts; n += COMBINE_PARTS)
        x = MULTIPLY_ADD(column[n * (long)DIM_V], RESCALE(n), x);
    sums[thread] = x;
    LOCAL_BARRIER(); /* the sums of COMBINE_PARTS threads for each column are complete */
    float row_sum = 0.0f, seen = 0.0f;
    for (int n = 0; n < parts; n++) {
        row_sum = MULTIPLY_ADD(ROW_SUM(n), RESCALE(n), row_sum);
        seen += ROW_SUM(n);
    }
    /* A row counts as empty if all keys are masked or have -inf scores, but not if scores are far
     * below a sink. */
    const struct row_end ended = finish_row(args, h, seen != 0.0f, highest, row_sum);
    if (thread == 0 && get_group_id(0) % tiles == 0)
        store_lse(args, ended, bh, h, i);
    if (thread < COMBINED_COLUMNS && d < DIM_V) {
        for (int n = 1; n < COMBINE_PARTS; n++)
            x += sums[n * COMBINED_COLUMNS + thread];
        store1_of(O_DTYPE, ended.zero ? 0.0f : x / ended.total,
                  args->o + row_offset(args->shape->o_stride, b, h, i), d * o_step(args));
    }
    END_KERNEL();
}
