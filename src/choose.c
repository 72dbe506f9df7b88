#include "choose.h"
#include "log.h"
#include "problem.h"

#include <stdio.h>
#include <string.h>

/* NULL if the family with these values can compute p, else why not; values passed their lists. */
static const char *refusal(const struct ca_family *family, const clattn_problem *p,
                           const clattn_device_info *dev, const size_t *values)
{
    const char *why = family->unsupported(p, dev);

    return why ? why : family->reject(p, dev, values);
}

static void suggest(const struct ca_family *family, const clattn_problem *p,
                    const clattn_device_info *dev, size_t *values)
{
    ca_tunables_default(family->tunables, family->num_tunables, values);
    family->adapt(p, dev, values);
}

static clattn_status choose_forced(const clattn_device_info *dev, const clattn_problem *p,
                                   const clattn_plan_options *options, struct ca_choice *choice,
                                   char *reason, size_t reason_bytes)
{
    const struct ca_family *family = NULL;
    char detail[CA_REASON_BYTES];

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        if (strcmp(family->name, options->family) == 0)
            break;
    if (!family) {
        ca_reason(reason, reason_bytes, "no family is called '%s'", options->family);
        return CLATTN_UNSUPPORTED;
    }
    suggest(family, p, dev, choice->values);
    if (!ca_tunables_parse(family->tunables, family->num_tunables,
                           options->tunables ? options->tunables : "", choice->values, detail,
                           sizeof detail)) {
        ca_reason(reason, reason_bytes, "%s: %s", family->name, detail);
        return CLATTN_UNSUPPORTED;
    }
    const char *why = refusal(family, p, dev, choice->values);
    if (why) {
        ca_reason(reason, reason_bytes, "%s: %s", family->name, why);
        return CLATTN_UNSUPPORTED;
    }
    choice->family = family;
    choice->why = options->tunables ? "family and tunables are the caller's"
                                    : "the family is the caller's, its tunables are untuned";
    return CLATTN_SUCCESS;
}

static clattn_status choose_best(const clattn_device_info *dev, const clattn_problem *p,
                                 unsigned excluded, struct ca_choice *choice, char *reason,
                                 size_t reason_bytes)
{
    const struct ca_family *family;
    char refusals[4 * CA_REASON_BYTES] = "";
    size_t length = 0;
    int best = -1;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        size_t values[CA_MAX_TUNABLES];
        suggest(family, p, dev, values);
        const char *why =
            excluded & 1u << n ? "does not work on this device" : refusal(family, p, dev, values);
        if (why && length < sizeof refusals)
            length += (size_t)snprintf(refusals + length, sizeof refusals - length, "%s%s: %s",
                                       length ? "; " : "", family->name, why);
        if (why || family->preference(p, dev) <= best)
            continue;
        best = family->preference(p, dev);
        choice->family = family;
        choice->bit = 1u << n;
        memcpy(choice->values, values, sizeof values);
    }
    if (!choice->family) {
        ca_reason(reason, reason_bytes, "no family can compute it: %s", refusals);
        return CLATTN_UNSUPPORTED;
    }
    choice->why = "the family suits this kind of device best, its tunables are untuned";
    return CLATTN_SUCCESS;
}

clattn_status ca_choose(const clattn_device_info *dev, const clattn_problem *problem,
                        const clattn_plan_options *options, unsigned excluded,
                        struct ca_choice *choice, char *reason, size_t reason_bytes)
{
    memset(choice, 0, sizeof *choice);
    ca_reason(reason, reason_bytes, "%s", "");
    if (options && options->struct_size != sizeof *options) {
        ca_reason(reason, reason_bytes, "options->struct_size is not that of this library");
        return CLATTN_INVALID_ARGUMENT;
    }
    const clattn_status status = clattn_problem_check(problem, reason, reason_bytes);
    if (status != CLATTN_SUCCESS)
        return status;
    if (options && options->tunables && !options->family) {
        ca_reason(reason, reason_bytes, "options->tunables are given without a family");
        return CLATTN_INVALID_ARGUMENT;
    }
    const clattn_problem normal = ca_problem_normal(problem);
    if (options && options->family)
        return choose_forced(dev, &normal, options, choice, reason, reason_bytes);
    return choose_best(dev, &normal, excluded, choice, reason, reason_bytes);
}
