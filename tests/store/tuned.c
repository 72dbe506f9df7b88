/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/store/tuned.h"
#include "families/candidate.h"

#include "problem/problem.h"
#include <criterion/criterion.h>
#include <string.h>

void tuned_entry(struct tuned *t, const struct ca_candidate *candidate, const double seconds)
{
    memset(t, 0, sizeof *t);
    ca_candidate_texts(candidate, &t->texts);
    for (size_t n = 0; n < 3; n++)
        t->samples[n] = seconds;
    t->entry = (struct ca_entry){.family = t->texts.family,
                                 .tunables = t->texts.tunables,
                                 .source = t->texts.source,
                                 .declaration = t->texts.declaration,
                                 .seconds = seconds,
                                 .low = seconds,
                                 .high = seconds,
                                 .samples = t->samples,
                                 .num_samples = 3,
                                 .error = 0.5,
                                 .when = (char *)"2026-11-21T09:30:00Z",
                                 .policy = (char *)"none"};
}

void tuned_stale(struct tuned *t)
{
    memset(t->texts.source, '0', sizeof t->texts.source - 1);
}

struct ca_candidate tuned_candidate(const char *text, const clattn_problem *p,
                                    const clattn_device_info *dev)
{
    const clattn_problem normal = ca_problem_normal(p);
    struct ca_candidate candidate;
    char reason[256];

    cr_assert(ca_candidate_parse(text, &normal, dev, &candidate, reason, sizeof reason), "'%s': %s",
              text, reason);
    return candidate;
}

struct ca_device_table tuned_device(const clattn_device_info *dev)
{
    return (struct ca_device_table){.platform = (char *)dev->platform_name,
                                    .platform_version = (char *)dev->platform_version,
                                    .vendor = (char *)dev->vendor,
                                    .device = (char *)dev->name,
                                    .device_version = (char *)dev->device_version,
                                    .driver = (char *)dev->driver_version};
}
