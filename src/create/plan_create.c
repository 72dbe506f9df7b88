/* SPDX-License-Identifier: Apache-2.0 */
#include "create/plan_create.h"
#include "base/sizes.h"
#include "execute/plan.h"
#include "families/chosen_gradients/chosen_gradients.h"
#include "families/chosen_keys/chosen_keys.h"
#include "families/limits.h"
#include "families/registry.h"
#include "families/weight_sums/weight_sums.h"
#include "problem/chosen_keys.h"
#include "problem/function.h"
#include "problem/problem.h"
#include "program/program.h"
#include "selfcheck/selfcheck.h"
#include "store/store.h"

#include <string.h>

static enum ca_quarantine quarantine_of(const struct ca_verdict *verdict)
{
    if (verdict->status == CLATTN_MISCOMPILED)
        return CA_QUARANTINE_WRONG;
    return ca_verdict_blames_source(verdict->reason) ? CA_QUARANTINE_SOURCE : CA_QUARANTINE_CRASH;
}

/* Stores that a candidate does not work, if that is for good, so that no process tries it again. */
static void ban(clattn_context *context, const struct ca_candidate *candidate,
                const clattn_problem *problem, const struct ca_verdict *verdict)
{
    if (verdict->status != CLATTN_SUCCESS && verdict->until == 0)
        ca_store_ban_candidate(context->store, candidate, problem, quarantine_of(verdict),
                               verdict->reason);
}

static void print_verdict(clattn_context *context, const struct ca_family *family,
                          clattn_status status, char text[2 * CA_REASON_BYTES])
{
    const char *refused =
        family->refused_by_system ? family->refused_by_system(&context->device) : NULL;
    char cause[CA_REASON_BYTES];

    if (status == CLATTN_BUILD_FAILED && ca_program_last_failure(context, cause))
        ca_reason(text, 2 * CA_REASON_BYTES, "does not build: %s", cause);
    else if (status == CLATTN_UNSUPPORTED && refused)
        ca_reason(text, 2 * CA_REASON_BYTES, "cannot be used: %s", refused);
    else
        ca_reason(text, 2 * CA_REASON_BYTES, "%s",
                  status == CLATTN_MISCOMPILED   ? "failed its self-check"
                  : status == CLATTN_NO_COMPILER ? "is not in the cache, and there is no compiler"
                  : status == CLATTN_UNSUPPORTED ? "cannot be used"
                                                 : "does not build");
}

/* Adds to the reason of a plan that a family better than its own was not used. */
static void add_passed(clattn_context *context, const struct ca_family *family,
                       clattn_status status, const struct ca_verdict *verdict, char *passed,
                       size_t passed_bytes)
{
    const size_t length = strlen(passed);
    char why[2 * CA_REASON_BYTES];

    if (verdict->status != CLATTN_SUCCESS)
        ca_reason(why, sizeof why, "%s", verdict->reason);
    else
        print_verdict(context, family, status, why);
    ca_reason(passed + length, passed_bytes - length, "; %s was passed over: %s%s",
              family->full_name, verdict->status != CLATTN_SUCCESS ? "" : "it ", why);
}

/* Two plans that run one after the other share a workspace as large as either needs. */
static void share_workspace(clattn_plan *one, clattn_plan *other)
{
    clattn_plan *const larger = one->workspace_bytes > other->workspace_bytes ? one : other;

    one->operands[CA_WORKSPACE] = other->operands[CA_WORKSPACE] = larger->operands[CA_WORKSPACE];
    one->workspace_bytes = other->workspace_bytes = larger->workspace_bytes;
}

/* Makes the plan of sums of weights that runs after `plan`, if the problem has any; else or on failure there is none. */
static clattn_status add_weight_sums(clattn_context *context, const struct ca_problem *problem,
                                     clattn_plan *plan)
{
    clattn_status status = CLATTN_SUCCESS;

    if (!ca_has_weight_sums(&problem->normal))
        return CLATTN_SUCCESS;
    for (int plain = 0; plain < 2; plain++) {
        struct ca_candidate candidate = {.family = &ca_weight_sums};
        cl_program program = NULL;
        ca_family_suggest(candidate.family, problem, &context->device, candidate.values);
        if (plain)
            ca_weight_sums_plain(&context->device, candidate.values);
        status = context->cl ? ca_program_get(context, &candidate, problem,
                                              ca_trust_check_weight_sums, &program)
                             : CLATTN_SUCCESS;
        if (program)
            ca_program_keep(context, program);
        if (status != CLATTN_SUCCESS)
            continue;
        status = ca_plan_make(context, &candidate, "it follows attention", problem, program, 1,
                              &plan->then);
        if (status == CLATTN_SUCCESS) /* executions look at its operands (ca_plan_whole()) */
            share_workspace(plan, plan->then);
        return status;
    }
    return ca_fail(&context->log, status, "sums of weights cannot be computed on '%s'",
                   context->device.name);
}

clattn_status ca_lists_check(const clattn_context *context, const struct ca_problem *problem,
                             char *reason, size_t reason_bytes)
{
    size_t values[CA_MAX_TUNABLES];
    char made[CA_REASON_BYTES];

    if (!ca_has_chosen_keys(&problem->normal))
        return CLATTN_SUCCESS;
    ca_chosen_keys_suggest(problem, &context->device, values);
    const char *why = ca_limits_refusal(&ca_family_chosen_keys, problem, &context->device, values,
                                        made, sizeof made);
    return why ? ca_status_with(CLATTN_UNSUPPORTED, reason, reason_bytes,
                                "what is made of the lists of chosen keys does not fit: %s", why)
               : CLATTN_SUCCESS;
}

/* Makes a plan whose family reads or writes what the lists need; nothing checks its results. */
static clattn_status make_unchecked(clattn_context *context, const struct ca_candidate *candidate,
                                    const char *why, const struct ca_problem *problem,
                                    clattn_plan **plan)
{
    cl_program program = NULL;
    const clattn_status status =
        context->cl ? ca_program_get(context, candidate, problem, ca_program_unchecked, &program)
                    : CLATTN_SUCCESS;

    if (program)
        ca_program_keep(context, program);
    return status == CLATTN_SUCCESS
               ? ca_plan_make(context, candidate, why, problem, program, 1, plan)
               : status;
}

/* Makes the plans that read lists of chosen keys before `plan`, and copy what they name, if the problem has any; else or on
 * failure there are none. */
static clattn_status add_lists(clattn_context *context, const struct ca_problem *problem,
                               clattn_plan *plan)
{
    struct ca_candidate lists = {.family = &ca_family_chosen_keys};
    struct ca_candidate copies = {.family = &ca_family_chosen_gradients};
    char reason[2 * CA_REASON_BYTES];

    if (!ca_has_chosen_keys(&problem->normal))
        return CLATTN_SUCCESS;
    ca_chosen_keys_suggest(problem, &context->device, lists.values);
    clattn_status status = ca_lists_check(context, problem, reason, sizeof reason);
    if (status != CLATTN_SUCCESS)
        return ca_fail(&context->log, status, "%s", reason);
    ca_chosen_keys(&problem->normal, &plan->chosen);
    ca_chosen_gradients_suggest(&context->device, copies.values);
    if (plan->chosen.way == CA_BY_COPIES)
        status =
            make_unchecked(context, &copies, "it copies what lists name", problem, &plan->copies);
    if (status == CLATTN_SUCCESS)
        status = make_unchecked(context, &lists, "it reads lists before attention", problem,
                                &plan->lists);
    if (status != CLATTN_SUCCESS)
        return status;
    plan->workspace_bytes += plan->lists->workspace_bytes;
    plan->lists->operands[CA_WORKSPACE].span =
        ca_divide_up(plan->workspace_bytes, sizeof(cl_float));
    return CLATTN_SUCCESS;
}

/* The place and the sentence of an error in a caller's function, from why a program did not build; NULL if it is another. */
static const char *error_in_function(const clattn_problem *p, const char *why)
{
    const clattn_function *const functions[] = {p->score_function, p->mask_function};

    for (size_t n = 0; n < sizeof functions / sizeof *functions; n++) {
        const char *name = functions[n] ? clattn_function_name(functions[n]) : NULL;
        const size_t length = name ? strcspn(name, ":") : 0;
        for (const char *at = why; length && (at = strchr(at, *name)) != NULL; at++)
            if (strncmp(at, name, length) == 0 && at[length] == ':')
                return at;
    }
    return NULL;
}

clattn_status ca_plan_create(clattn_context *context, const struct ca_choices *choices,
                             const struct ca_problem *problem, clattn_plan **plan)
{
    clattn_status status = CLATTN_SUCCESS;
    char passed[8 * CA_REASON_BYTES] = "", last[CA_REASON_BYTES] = "";
    const struct ca_problem chosen = ca_problem_chosen(problem);

    for (size_t n = 0; n < choices->count; n++) {
        const struct ca_choice *choice = &choices->list[n];
        cl_program program = NULL;
        status = context->cl ? ca_program_get(context, &choice->candidate, &chosen, ca_trust_check,
                                              &program)
                             : CLATTN_SUCCESS;
        if (status == CLATTN_SUCCESS) {
            char why[10 * CA_REASON_BYTES];
            ca_reason(why, sizeof why, "%s%s", ca_origin_sentence(choice->origin), passed);
            if (program)
                ca_program_keep(context, program);
            status = ca_plan_make(context, &choice->candidate, why, &chosen, program, 1, plan);
            if (status == CLATTN_SUCCESS)
                status = add_weight_sums(context, problem, *plan);
            if (status == CLATTN_SUCCESS)
                status = add_lists(context, problem, *plan);
            if (status != CLATTN_SUCCESS) {
                clattn_plan_release(*plan);
                *plan = NULL;
            }
            return status;
        }
        if (status != CLATTN_BUILD_FAILED && status != CLATTN_MISCOMPILED &&
            status != CLATTN_NO_COMPILER && status != CLATTN_UNSUPPORTED)
            return status;
        struct ca_verdict verdict = {.status = CLATTN_SUCCESS};
        ca_program_condemned(context, &choice->candidate, &chosen, &verdict);
        ban(context, &choice->candidate, &chosen.normal, &verdict);
        add_passed(context, choice->candidate.family, status, &verdict, passed, sizeof passed);
        const char *error = error_in_function(&chosen.normal, verdict.reason);
        if (error && strcmp(verdict.reason, last) == 0) /* and so it would be in other families */
            return ca_fail(&context->log, status, "a function does not compile on '%s': %s",
                           context->device.name, error);
        ca_reason(last, sizeof last, "%s", verdict.reason);
    }
    char what[2 * CA_REASON_BYTES];
    print_verdict(context, choices->list[choices->count - 1].candidate.family, status, what);
    if (choices->list[0].origin == CA_FORCED)
        return ca_fail(&context->log, status, "%s was forced, but it %s",
                       choices->list[0].candidate.family->full_name, what);
    return ca_fail(&context->log, status,
                   "none of %zu ways to compute it works on '%s'; the last one %s", choices->count,
                   context->device.name, what);
}
