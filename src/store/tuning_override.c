/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides as the user sees them. */
#include "context/context.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "problem/classes/problem_class.h"
#include "problem/problem.h"
#include "store/override.h"
#include <clattn/tuning.h>

#include <stdio.h>
#include <string.h>

/* Checks the problem, logs what is wrong with it, and prints its class. */
static clattn_status name_class(const clattn_context *context, const clattn_problem *problem,
                                struct ca_problem *made, char problem_class[CA_CLASS_TEXT])
{
    char reason[CA_REASON_BYTES];
    const clattn_status status = ca_problem_make(problem, made, reason, sizeof reason);

    if (status != CLATTN_SUCCESS)
        return ca_fail(&context->log, status, "%s", reason);
    ca_problem_class(&made->normal, problem_class);
    return CLATTN_SUCCESS;
}

clattn_status clattn_tuning_override_set(clattn_context *context, const clattn_problem *problem,
                                         const char *family, const char *tunables)
{
    char problem_class[CA_CLASS_TEXT], text[CA_CANDIDATE_TEXT], reason[CA_REASON_BYTES];
    struct ca_problem made;
    struct ca_candidate candidate;

    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!problem || !family)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "problem or family is null");
    const clattn_status status = name_class(context, problem, &made, problem_class);
    if (status != CLATTN_SUCCESS)
        return status;
    if (!ca_family_exists(family, strlen(family)) && !ca_family_find(family)) {
        ca_candidate_refuse_family(family, made.normal.operation, reason, sizeof reason);
        return ca_fail(&context->log, CLATTN_UNSUPPORTED, "%s", reason);
    }
    if (snprintf(text, sizeof text, "%s %s", family, tunables ? tunables : "") >= (int)sizeof text)
        return ca_fail(&context->log, CLATTN_UNSUPPORTED, "the tunables' text is too long");
    if (!ca_candidate_parse(text, &made.normal, &context->device, &candidate, reason,
                            sizeof reason))
        return ca_fail(&context->log, CLATTN_UNSUPPORTED, "%s", reason);
    if (!ca_overrides_set(context->overrides, problem_class, &candidate))
        return ca_fail(&context->log, CLATTN_OUT_OF_MEMORY, "no host memory for an override");
    return CLATTN_SUCCESS;
}

clattn_status clattn_tuning_override_get(const clattn_context *context,
                                         const clattn_problem *problem, char *text,
                                         size_t text_bytes, size_t *needed)
{
    char problem_class[CA_CLASS_TEXT], found[CA_CANDIDATE_TEXT] = "";
    struct ca_problem made;
    struct ca_candidate candidate;

    if (needed)
        *needed = 0;
    if (text && text_bytes > 0)
        text[0] = '\0';
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!problem || (!text && text_bytes > 0))
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "problem or text is null");
    const clattn_status status = name_class(context, problem, &made, problem_class);
    if (status != CLATTN_SUCCESS)
        return status;
    if (ca_overrides_get(context->overrides, problem_class, &candidate))
        ca_candidate_print(&candidate, found);
    const size_t bytes = strlen(found) + 1;
    if (needed)
        *needed = bytes;
    if (text)
        snprintf(text, text_bytes, "%s", found);
    return bytes <= text_bytes ? CLATTN_SUCCESS : CLATTN_BUFFER_TOO_SMALL;
}

clattn_status clattn_tuning_override_clear(clattn_context *context, const clattn_problem *problem)
{
    char problem_class[CA_CLASS_TEXT];
    struct ca_problem made;

    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (problem) {
        const clattn_status status = name_class(context, problem, &made, problem_class);
        if (status != CLATTN_SUCCESS)
            return status;
    }
    ca_overrides_clear(context->overrides, problem ? problem_class : NULL);
    return CLATTN_SUCCESS;
}
