/* SPDX-License-Identifier: Apache-2.0 */
/* Plans, as callers create them. */
#include "base/log.h"
#include "base/structs.h"
#include "context/context.h"
#include "create/plan_create.h"
#include "problem/chosen_keys.h"
#include "problem/problem.h"
#include <clattn/tuning.h>

/* Reads a caller's options, which may be NULL, as this library's; 0, with a sentence, if they are
 * of no version. */
static int read_options(const clattn_plan_options **options, clattn_plan_options *own, char *why)
{
    if (!*options)
        return 1;
    *options = CA_READ(clattn_plan_options, "options", *options, own, why);
    return *options != NULL;
}

clattn_status clattn_plan_supports(const clattn_context *context, const clattn_problem *problem,
                                   const clattn_plan_options *options)
{
    struct ca_choices choices;
    struct ca_problem made;
    clattn_plan_options own;
    char why[8 * CA_REASON_BYTES];
    clattn_status status = CLATTN_INVALID_ARGUMENT;

    if (!context)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "context is null");
    if (read_options(&options, &own, why))
        status = ca_problem_make(problem, &made, why, sizeof why);
    if (status == CLATTN_SUCCESS)
        status = ca_lists_check(context, &made, why, sizeof why);
    if (status == CLATTN_SUCCESS) {
        made = ca_problem_chosen(&made);
        status = ca_choose(context, &made, options, &choices, why, sizeof why);
    }
    if (status != CLATTN_SUCCESS)
        ca_remember(&context->log, "%s", why);
    return status;
}

clattn_status clattn_plan_create(clattn_context *context, const clattn_problem *problem,
                                 const clattn_plan_options *options, clattn_plan **plan)
{
    char reason[8 * CA_REASON_BYTES];
    struct ca_choices choices;
    struct ca_problem made, chosen;
    clattn_plan_options own;

    if (plan)
        *plan = NULL;
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!plan)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "plan is null");
    if (!read_options(&options, &own, reason))
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "%s", reason);
    clattn_status status = ca_problem_make(problem, &made, reason, sizeof reason);
    if (status == CLATTN_SUCCESS)
        status = ca_lists_check(context, &made, reason, sizeof reason);
    if (status == CLATTN_SUCCESS) {
        chosen = ca_problem_chosen(&made);
        status = ca_choose(context, &chosen, options, &choices, reason, sizeof reason);
    }
    if (status == CLATTN_SUCCESS && options && options->flags & CLATTN_PLAN_MEASURE &&
        choices.list[0].origin > CA_EXACT) {
        const clattn_tuning_options tuning = {.struct_size = sizeof tuning,
                                              .seconds = options->measure_seconds};
        if (clattn_tune(context, problem, 1, &tuning, NULL) != CLATTN_SUCCESS)
            ca_warn(&context->log, "tuning failed, so the plan is made without it");
        status = ca_choose(context, &chosen, options, &choices, reason, sizeof reason);
    }
    if (status != CLATTN_SUCCESS)
        return ca_fail(&context->log, status, "%s", reason);
    return ca_plan_create(context, &choices, &made, plan);
}
