/* SPDX-License-Identifier: Apache-2.0 */
#include "race_append.h"

#include "tests/trials/append_trial.h"

int race_append(clattn_context *context, const clattn_problem *p,
                const clattn_plan_options *options)
{
    struct rng r = rng_seed(1);
    struct append_trial t;
    const int ok = append_trial_fill(&t, p, &r, 0) &&
                   append_trial_run(&t, context, options) == CLATTN_SUCCESS &&
                   append_trial_compare(&t) == 0;

    append_trial_free(&t);
    return ok;
}
