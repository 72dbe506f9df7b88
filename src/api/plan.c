/* Plans, as callers ask for them. */
#include "base/log.h"
#include "context/context.h"
#include "create/plan_create.h"
#include "problem/problem.h"
#include <clattn/tuning.h>

clattn_status clattn_plan_supports(const clattn_context *context, const clattn_problem *problem,
                                   const clattn_plan_options *options, char *reason,
                                   size_t reason_bytes)
{
    struct ca_choices choices;
    struct ca_problem made;

    if (!context) {
        ca_reason(reason, reason_bytes, "context is null");
        return CLATTN_INVALID_ARGUMENT;
    }
    const clattn_status status = ca_problem_make(problem, &made, reason, reason_bytes);
    return status == CLATTN_SUCCESS
               ? ca_choose(context, &made, options, &choices, reason, reason_bytes)
               : status;
}

clattn_status clattn_plan_create(clattn_context *context, const clattn_problem *problem,
                                 const clattn_plan_options *options, clattn_plan **plan)
{
    char reason[8 * CA_REASON_BYTES];
    struct ca_choices choices;
    struct ca_problem made;

    if (plan)
        *plan = NULL;
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!plan)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "plan is null");
    clattn_status status = ca_problem_make(problem, &made, reason, sizeof reason);
    if (status == CLATTN_SUCCESS)
        status = ca_choose(context, &made, options, &choices, reason, sizeof reason);
    if (status == CLATTN_SUCCESS && options && options->flags & CLATTN_PLAN_MEASURE &&
        choices.list[0].origin > CA_EXACT) {
        const clattn_tuning_options tuning = {.struct_size = sizeof tuning,
                                              .seconds = options->measure_seconds};
        if (clattn_tune(context, problem, 1, &tuning, NULL) != CLATTN_SUCCESS)
            ca_warn(&context->log, "tuning failed, so the plan is made without it");
        status = ca_choose(context, &made, options, &choices, reason, sizeof reason);
    }
    if (status != CLATTN_SUCCESS)
        return ca_fail(&context->log, status, "%s", reason);
    return ca_plan_create(context, &choices, &made, plan);
}
