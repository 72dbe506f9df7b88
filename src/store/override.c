/* SPDX-License-Identifier: Apache-2.0 */
#include "store/override.h"
#include "base/text.h"
#include "base/variables.h"
#include "context/context.h"
#include "families/registry.h"
#include "os/thread.h"
#include "problem/classes/problem_class.h"
#include "problem/problem.h"
#include <clattn/tuning.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One override. There are few, so a list suffices. */
struct override {
    struct override *next;
    struct ca_candidate candidate;
    char problem_class[CA_CLASS_TEXT];
};

struct ca_overrides {
    struct ca_mutex lock; /* guards the list */
    struct override *list;
    char *environment; /* well-formed, or NULL; what it leaves open depends on the problem */
};

/* Returns whether the family and the tunables' values exist, whatever the problem. */
static int is_well_formed(const char *text, char *reason, size_t reason_bytes)
{
    size_t values[CA_MAX_TUNABLES];
    char name[64] = "";
    const char *begin = text + strspn(text, " \t\n");
    const size_t length = strcspn(begin, " \t\n");

    if (length < sizeof name)
        memcpy(name, begin, length);
    if (!name[0] || !ca_family_exists(name, strlen(name))) {
        ca_reason(reason, reason_bytes, "it does not begin with the name of a family");
        return 0;
    }
    const struct ca_family *family;
    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        if (strcmp(family->name, name) != 0)
            continue;
        ca_tunables_default(family->tunables, family->num_tunables, values);
        if (ca_tunables_parse(family->tunables, family->num_tunables, begin + length, values,
                              reason, reason_bytes))
            return 1;
    }
    if (strstr(begin, "UNIT=")) /* if there is no such unit, this reason is the better one */
        ca_family_of(name, begin + length, NULL, NULL, reason, reason_bytes);
    return 0;
}

/* Returns the link to a class's override, or the last link, which holds NULL. Locked. */
static struct override **find(struct ca_overrides *overrides, const char *problem_class)
{
    struct override **link = &overrides->list;

    while (*link && strcmp((*link)->problem_class, problem_class) != 0)
        link = &(*link)->next;
    return link;
}

/* Sets a class's override, or replaces its previous one. False without memory. */
static int set(struct ca_overrides *overrides, const char *problem_class,
               const struct ca_candidate *candidate)
{
    ca_mutex_lock(&overrides->lock);
    struct override **link = find(overrides, problem_class);
    if (!*link) {
        *link = calloc(1, sizeof **link);
        if (*link)
            snprintf((*link)->problem_class, CA_CLASS_TEXT, "%s", problem_class);
    }
    const int done = *link != NULL;
    if (done)
        (*link)->candidate = *candidate;
    ca_mutex_unlock(&overrides->lock);
    return done;
}

/* Returns false if nothing was set. */
static int get(struct ca_overrides *overrides, const char *problem_class,
               struct ca_candidate *candidate)
{
    ca_mutex_lock(&overrides->lock);
    const struct override *found = *find(overrides, problem_class);
    if (found)
        *candidate = found->candidate;
    ca_mutex_unlock(&overrides->lock);
    return found != NULL;
}

/* Clears a class's override, or all if it is NULL. */
static void clear(struct ca_overrides *overrides, const char *problem_class)
{
    ca_mutex_lock(&overrides->lock);
    struct override **link = problem_class ? find(overrides, problem_class) : &overrides->list;
    while (*link) {
        struct override *gone = *link;
        *link = gone->next;
        free(gone);
        if (problem_class)
            break; /* a class has one at most */
    }
    ca_mutex_unlock(&overrides->lock);
}

/* ---- a context's ---------------------------------------------------------------------------- */

struct ca_overrides *ca_overrides_create(const struct ca_log *log)
{
    const char *text = ca_environment(CA_VARIABLE_OVERRIDE);
    char reason[CA_REASON_BYTES];
    struct ca_overrides *overrides = calloc(1, sizeof *overrides);

    if (!overrides)
        return NULL;
    if (text && *text && !is_well_formed(text, reason, sizeof reason)) {
        ca_warn(log, "CLATTN_OVERRIDE='%s' is ignored: %s", text, reason);
        text = NULL;
    }
    if (text && *text) {
        text += strspn(text, " \t\n");
        overrides->environment = ca_text_copy(text);
        if (!overrides->environment) {
            free(overrides);
            return NULL;
        }
    }
    if (!ca_mutex_init(&overrides->lock)) {
        free(overrides->environment);
        free(overrides);
        return NULL;
    }
    return overrides;
}

void ca_overrides_destroy(struct ca_overrides *overrides)
{
    if (!overrides)
        return;
    clear(overrides, NULL);
    ca_mutex_destroy(&overrides->lock);
    free(overrides->environment);
    free(overrides);
}

int ca_overrides_find(struct ca_overrides *overrides, const struct ca_problem *p,
                      const clattn_device_info *dev, struct ca_candidate *candidate)
{
    char problem_class[CA_CLASS_TEXT], reason[CA_REASON_BYTES];

    ca_problem_class(&p->normal, problem_class);
    if (get(overrides, problem_class, candidate))
        return !ca_family_refusal(candidate->family, p, dev, candidate->values, reason,
                                  sizeof reason);
    return overrides->environment &&
           ca_candidate_parse(overrides->environment, p, dev, candidate, reason, sizeof reason);
}

/* ---- as the user sees them ------------------------------------------------------------------- */

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
    if (!ca_candidate_parse(text, &made, &context->device, &candidate, reason, sizeof reason))
        return ca_fail(&context->log, CLATTN_UNSUPPORTED, "%s", reason);
    if (!set(context->overrides, problem_class, &candidate))
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

    const int has_text = ca_text_begin(text, text_bytes, needed);
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!problem || !has_text)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "problem or text is null");
    const clattn_status status = name_class(context, problem, &made, problem_class);
    if (status != CLATTN_SUCCESS)
        return status;
    if (get(context->overrides, problem_class, &candidate))
        ca_candidate_print(&candidate, found);
    return ca_text_give(found, text, text_bytes, needed);
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
    clear(context->overrides, problem ? problem_class : NULL);
    return CLATTN_SUCCESS;
}
