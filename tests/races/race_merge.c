/* SPDX-License-Identifier: Apache-2.0 */
#include "race_merge.h"

#include "tests/trials/merge_trial.h"

int race_merge(clattn_context *context, const clattn_problem *p, const clattn_plan_options *options)
{
    struct rng r = rng_seed(1);
    struct merge_trial t;
    const int ok = merge_trial_fill(&t, p, &r, 5.0, 4) &&
                   merge_trial_run(&t, context, options) == CLATTN_SUCCESS &&
                   merge_trial_compare(&t) == 0;

    merge_trial_free(&t);
    return ok;
}
