/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of what a score function loads, on CPUs: each work-item adds those of its pairs to sums of its own, in the
 * order in which it computes them. */
#pragma once
#include "cpu/backward_blocks.h"

#if HAS_DFUNCTION
/* Adds those of a vector of pairs, the row's keys from n on, with the scores s and the gradients of what the function
 * returns. Keys from `left` on, like all that are hidden, add nothing. */
INLINE void add_load_gradients(const struct arguments *args, const struct score_row row,
                               const int n, const int left, const struct score_vector s,
                               const lanes gradients, __global float *sums)
{
    const float *const score = (const float *)&s.softcapped;

    UNROLL
    for (int load = 0; load < SCORE_FUNCTION_LOADS; load++) {
        lanes terms;
        ints places;
        float *const term = (float *)&terms;
        int *const place = (int *)&places;
        EACH_LANE
        for (int c = 0; c < SIMD_WIDTH; c++) {
            const struct function_pair p =
                function_pair_after(row.first, 0, n + (c < left ? c : left - 1));
            place[c] = function_place(args, load, p, score[c]);
            term[c] = function_by_load(args, load, p, score[c]);
        }
        terms = s.hidden ? (lanes)(0.0f) : terms * gradients; /* a hidden pair's may be NaN */
        if (!any_lane(places != (ints)(place[0]))) {
            if (place[0] >= 0)
                sums[place[0]] += sum_lanes(terms);
            continue;
        }
        for (int c = 0; c < SIMD_WIDTH; c++)
            if (place[c] >= 0)
                sums[place[c]] += term[c];
    }
}
#endif
