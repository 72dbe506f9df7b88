/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of what a score function loads, on CPUs: each work-item adds those of its pairs to sums of its own, in the
 * order in which it computes them. */
#pragma once
#include "cpu/backward_blocks.h"

/* The sum of terms of one element that goes on while all pairs of a vector load that element, as a table by distances has it
 * far from the diagonal. */
struct load_run {
    int place; /* -1: none */
    lanes sum;
};

INLINE void begin_load_runs(struct load_run runs[SCORE_FUNCTION_LOADS])
{
    for (int load = 0; load < SCORE_FUNCTION_LOADS; load++) {
        runs[load].place = -1;
        runs[load].sum = 0.0f;
    }
}

INLINE void end_load_run(const struct load_run run, __global float *sums)
{
    if (run.place >= 0)
        sums[run.place] += sum_lanes(run.sum);
}

/* Adds the terms of a vector of pairs with the scores s and the gradients of what the function returns. */
INLINE void add_load_gradients(const struct score_vector s, const lanes gradients,
                               struct load_run runs[SCORE_FUNCTION_LOADS], __global float *sums)
{
    UNROLL
    for (int load = 0; load < SCORE_FUNCTION_LOADS; load++) {
        const ints places = s.places[load];
        const int *const place = (const int *)&places;
        /* a hidden pair's derivative may be NaN */
        const lanes terms = s.hidden ? (lanes)(0.0f) : s.by_load[load] * gradients;
        const float *const term = (const float *)&terms;
        if (!any_lane(places != (ints)(runs[load].place))) {
            runs[load].sum += terms;
        } else if (!any_lane(places != (ints)(place[0]))) {
            end_load_run(runs[load], sums);
            runs[load].place = place[0];
            runs[load].sum = terms;
        } else {
            float sum = term[0];
            for (int c = 1; c < SIMD_WIDTH; c++) {
                if (place[c] == place[c - 1]) {
                    sum += term[c];
                } else {
                    if (place[c - 1] >= 0)
                        sums[place[c - 1]] += sum;
                    sum = term[c];
                }
            }
            if (place[SIMD_WIDTH - 1] >= 0)
                sums[place[SIMD_WIDTH - 1]] += sum;
        }
    }
}
