/* SPDX-License-Identifier: Apache-2.0 */
/* One merge run through the public API on host memory and compared, element by element, with the
 * reference. It needs no Criterion: tests/races runs it as well. */
#ifndef TEST_MERGE_TRIAL_H
#define TEST_MERGE_TRIAL_H

#include "bench/judge/merge.h"
#include "tests/support/rng.h"
#include <clattn/clattn.h>

/* The data of a merge; what accumulates is in o and lse. */
struct merge_trial {
    clattn_problem problem;
    size_t parts_extent, o_extent,
        rows;                          /* elements from the first to the last; of one state's lse */
    unsigned char *parts, *o, *before; /* before: what o held */
    float *parts_lse, *sinks, *lse, *lse_before;
};

/* Random states, and sinks: lse within +-spread, one in `empty` of them empty (0: none), whose rows are NaN. Gaps
 * between elements hold NaN. 0 without memory. */
int merge_trial_fill(struct merge_trial *t, const clattn_problem *problem, struct rng *r,
                     double spread, size_t empty);
void merge_trial_free(struct merge_trial *t);

/* Element (b, h, i, d) of a state (of o, if s is the number of states), as it is now. */
void merge_trial_set(struct merge_trial *t, size_t s, size_t b, size_t h, size_t i, size_t d,
                     double value);

/* The call. o and lse, and the gaps of o, must not have changed since the data were filled in. */
clattn_status merge_trial_run(struct merge_trial *t, clattn_context *context,
                              const clattn_plan_options *options);

/* How many numbers of o and lse are not what the reference says, and how many of the bytes between o's
 * elements have changed. */
size_t merge_trial_compare(const struct merge_trial *t);

/* A problem with random sizes and layouts; its options are those of base. */
clattn_problem merge_trial_draw(struct rng *r, const clattn_problem *base);

#endif
