/* SPDX-License-Identifier: Apache-2.0 */
#include "families/candidate.h"
#include "base/writer.h"
#include "families/registry.h"

#include <stdio.h>
#include <string.h>

int ca_candidates_equal(const struct ca_candidate *a, const struct ca_candidate *b)
{
    return a->family == b->family &&
           memcmp(a->values, b->values, a->family->num_tunables * sizeof *a->values) == 0;
}

void ca_candidate_print(const struct ca_candidate *candidate, char text[CA_CANDIDATE_TEXT])
{
    const struct ca_family *family = candidate->family;
    const int length =
        snprintf(text, CA_CANDIDATE_TEXT, "%s%s", family->name, family->num_tunables ? " " : "");

    ca_tunables_print(family->tunables, family->num_tunables, candidate->values, text + length,
                      CA_CANDIDATE_TEXT - (size_t)length);
}

void ca_candidate_refuse_family(const char *name, clattn_operation operation, char *reason,
                                size_t reason_bytes)
{
    char names[CA_REASON_BYTES] = "";
    struct ca_writer writer = {names, sizeof names, 0};

    for (size_t n = 0; ca_family_at(n); n++) {
        const struct ca_family *family = ca_family_at(n);
        if (family->operation == operation &&
            (n == 0 || strcmp(family->name, ca_family_at(n - 1)->name) != 0))
            ca_put_item(&writer, family->name);
    }
    ca_reason(reason, reason_bytes, "no family is called '%.32s'; for such problems there are %s",
              name, names);
}

int ca_candidate_parse(const char *text, const struct ca_problem *p, const clattn_device_info *dev,
                       struct ca_candidate *candidate, char *reason, size_t reason_bytes)
{
    char name[64], made[CA_REASON_BYTES];
    const size_t length = strcspn(text, " \t\n");

    memset(candidate, 0, sizeof *candidate);
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), text);
    if (!ca_family_exists(name, strlen(name))) {
        ca_candidate_refuse_family(name, p->normal.operation, reason, reason_bytes);
        return 0;
    }
    const struct ca_family *family = ca_family_of(name, text + length, p, dev, made, sizeof made);
    if (!family) {
        ca_reason(reason, reason_bytes, "%s: %s", name, made);
        return 0;
    }
    candidate->family = family;
    ca_family_suggest(family, p, dev, candidate->values);
    const char *why = ca_tunables_parse(family->tunables, family->num_tunables, text + length,
                                        candidate->values, made, sizeof made)
                          ? ca_family_refusal(family, p, dev, candidate->values, made, sizeof made)
                          : made;
    if (why)
        ca_reason(reason, reason_bytes, "%s: %s", family->full_name, why);
    return !why;
}

struct ca_candidate ca_candidate_carried(const struct ca_candidate *found,
                                         const struct ca_problem *there,
                                         const struct ca_problem *here,
                                         const clattn_device_info *dev)
{
    const struct ca_family *family = found->family;
    size_t suggested_there[CA_MAX_TUNABLES], suggested_here[CA_MAX_TUNABLES];
    struct ca_candidate carried = *found;
    char reason[CA_REASON_BYTES];

    if (ca_family_unsupported(family, there, dev) || ca_family_unsupported(family, here, dev))
        return *found;
    ca_family_suggest(family, there, dev, suggested_there);
    ca_family_suggest(family, here, dev, suggested_here);
    for (size_t n = 0; n < family->num_tunables; n++)
        if (found->values[n] == suggested_there[n])
            carried.values[n] = suggested_here[n];
    return ca_family_refusal(family, here, dev, carried.values, reason, sizeof reason) ? *found
                                                                                       : carried;
}

/* Returns whether the family computes p with its suggested tunables. */
static int computes(const struct ca_family *family, const struct ca_problem *p,
                    const clattn_device_info *dev)
{
    size_t values[CA_MAX_TUNABLES];
    char reason[CA_REASON_BYTES];

    ca_family_suggest(family, p, dev, values);
    return !ca_family_refusal(family, p, dev, values, reason, sizeof reason);
}

int ca_candidate_was_compared(const struct ca_candidate *found, const struct ca_problem *there,
                              const struct ca_problem *here, const clattn_device_info *dev)
{
    const int preference = found->family->preference(here, dev);
    const struct ca_family *family;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        if (family->operation == here->normal.operation &&
            family->preference(here, dev) > preference && computes(family, here, dev) &&
            !computes(family, there, dev))
            return 0;
    return 1;
}
