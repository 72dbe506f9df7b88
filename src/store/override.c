/* SPDX-License-Identifier: Apache-2.0 */
#include "store/override.h"
#include "base/text.h"
#include "base/variables.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "os/thread.h"
#include "problem/classes/problem_class.h"

#include <stdlib.h>
#include <string.h>

/* One that was set. There are few, so a list will do. */
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

/* Whether a family of that name and candidates of its tunables are named, whatever the problem. */
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
    if (strstr(begin, "UNIT=")) /* its reason, if there is no such unit, is the better one */
        ca_family_of(name, begin + length, NULL, NULL, reason, reason_bytes);
    return 0;
}

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
    ca_overrides_clear(overrides, NULL);
    ca_mutex_destroy(&overrides->lock);
    free(overrides->environment);
    free(overrides);
}

/* The link that holds a class's override, or the last one, which holds NULL. Locked. */
static struct override **find(struct ca_overrides *overrides, const char *problem_class)
{
    struct override **link = &overrides->list;

    while (*link && strcmp((*link)->problem_class, problem_class) != 0)
        link = &(*link)->next;
    return link;
}

int ca_overrides_find(struct ca_overrides *overrides, const clattn_problem *p,
                      const clattn_device_info *dev, struct ca_candidate *candidate)
{
    char problem_class[CA_CLASS_TEXT], reason[CA_REASON_BYTES];

    ca_problem_class(p, problem_class);
    if (ca_overrides_get(overrides, problem_class, candidate))
        return !ca_family_refusal(candidate->family, p, dev, candidate->values, reason,
                                  sizeof reason);
    return overrides->environment &&
           ca_candidate_parse(overrides->environment, p, dev, candidate, reason, sizeof reason);
}

int ca_overrides_set(struct ca_overrides *overrides, const char *problem_class,
                     const struct ca_candidate *candidate)
{
    ca_mutex_lock(&overrides->lock);
    struct override **link = find(overrides, problem_class);
    if (!*link) {
        *link = calloc(1, sizeof **link);
        if (*link)
            strncpy((*link)->problem_class, problem_class, CA_CLASS_TEXT - 1);
    }
    const int done = *link != NULL;
    if (done)
        (*link)->candidate = *candidate;
    ca_mutex_unlock(&overrides->lock);
    return done;
}

int ca_overrides_get(struct ca_overrides *overrides, const char *problem_class,
                     struct ca_candidate *candidate)
{
    ca_mutex_lock(&overrides->lock);
    const struct override *found = *find(overrides, problem_class);
    if (found)
        *candidate = found->candidate;
    ca_mutex_unlock(&overrides->lock);
    return found != NULL;
}

void ca_overrides_clear(struct ca_overrides *overrides, const char *problem_class)
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
