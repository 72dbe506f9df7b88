/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/journal_measurer.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct journaling {
    struct ca_measurer within;
    struct ca_journal *journal;
    struct ca_journal_hooks hooks;
    char (*classes)[CA_JOURNAL_CLASS]; /* the class of each problem */
    size_t count;
    struct ca_earlier *known; /* the array that the last known() returned */
    double since;             /* the clock at the last entry */
};

/* ---- calls ----------------------------------------------------------------------------------- */

/* Enters a reading. A candidate that could not be tried (outcome CA_CONSTRAINT_FAILED) is not
 * known. One whose failure may pass is tried again before the failure is final. */
static void enter(struct journaling *m, size_t problem, const struct ca_candidate *candidate,
                  bool built, const struct ca_reading *reading)
{
    struct ca_journal_entry entry = {.candidate = *candidate, .reading = *reading, .built = built};

    if (reading->outcome == CA_CONSTRAINT_FAILED || reading->outcome == CA_RUNTIME_FAILED)
        return;
    snprintf(entry.problem_class, sizeof entry.problem_class, "%s", m->classes[problem]);
    entry.seconds = ca_stopwatch_now() - m->since;
    m->since += entry.seconds;
    ca_journal_add(m->journal, &entry);
}

/* Returns true if the journal knows how the build ended. */
static bool recall_build(const struct journaling *m, const struct ca_candidate *candidate,
                         struct ca_reading *reading)
{
    for (size_t n = 0; n < m->count; n++) {
        const struct ca_journal_entry *entry =
            ca_journal_find(m->journal, m->classes[n], candidate);
        if (!entry)
            continue;
        if (!entry->built)
            *reading = entry->reading;
        else
            *reading = (struct ca_reading){.outcome = CA_CORRECT,
                                           .binary = entry->reading.binary,
                                           .compile_seconds = entry->reading.compile_seconds};
        return true;
    }
    return false;
}

/* A failure counts for all problems, as the program is the same. */
static void build(void *user, const struct ca_candidate *candidate, struct ca_reading *reading)
{
    struct journaling *m = user;

    if (recall_build(m, candidate, reading))
        return;
    if (m->hooks.building)
        m->hooks.building(m->hooks.user, candidate);
    m->within.build(m->within.user, candidate, reading);
    if (m->hooks.built)
        m->hooks.built(m->hooks.user, reading->compile_seconds);
    for (size_t n = 0; reading->outcome != CA_CORRECT && n < m->count; n++)
        enter(m, n, candidate, false, reading);
}

/* The reading comes as its build left it. */
static void measure(void *user, size_t problem, const struct ca_candidate *candidate, double best,
                    struct ca_reading *reading)
{
    struct journaling *m = user;
    const struct ca_journal_entry *entry =
        ca_journal_find(m->journal, m->classes[problem], candidate);
    const uint64_t binary = reading->binary;
    const double compile_seconds = reading->compile_seconds;

    if (entry) {
        *reading = entry->reading;
        return;
    }
    m->within.measure(m->within.user, problem, candidate, best, reading);
    reading->binary = binary;
    reading->compile_seconds = compile_seconds;
    enter(m, problem, candidate, true, reading);
}

/* Measures a round. Times that were not read, because the tuning was interrupted, stay as they
 * were: nothing has failed. */
static void round_of(void *user, size_t problem, const struct ca_candidate *candidates,
                     size_t count, double *seconds)
{
    struct journaling *m = user;

    m->within.round(m->within.user, problem, candidates, count, seconds);
    for (size_t n = 0; n < count; n++) {
        const struct ca_journal_entry *entry =
            isnan(seconds[n]) ? ca_journal_find(m->journal, m->classes[problem], &candidates[n])
                              : NULL;
        if (entry && entry->reading.num_times > 0)
            seconds[n] = entry->reading.times[0];
    }
}

static enum ca_outcome failure(void *user)
{
    struct journaling *m = user;

    return m->within.failure(m->within.user);
}

static void announce(void *user, const struct ca_candidate *candidates, size_t count)
{
    struct journaling *m = user;
    struct ca_candidate *unknown = calloc(count, sizeof *unknown);
    struct ca_reading reading;
    size_t num = 0;

    for (size_t n = 0; unknown && n < count; n++)
        if (!recall_build(m, &candidates[n], &reading))
            unknown[num++] = candidates[n];
    m->within.announce(m->within.user, unknown, num);
    free(unknown);
}

static size_t known(void *user, const struct ca_earlier **known)
{
    struct journaling *m = user;
    size_t found = 0;

    free(m->known);
    *known = m->known = malloc((ca_journal_count(m->journal) + 1) * sizeof *m->known);
    for (size_t n = 0; m->known && n < ca_journal_count(m->journal); n++) {
        const struct ca_journal_entry *entry = ca_journal_at(m->journal, n);
        for (size_t p = 0; p < m->count && entry->reading.outcome != CA_RUNTIME_FAILED; p++)
            if (strcmp(entry->problem_class, m->classes[p]) == 0)
                m->known[found++] = (struct ca_earlier){p, &entry->candidate, &entry->reading};
    }
    return found;
}

static void end(void *user)
{
    struct journaling *m = user;

    for (size_t n = 0; m->hooks.closing && n < m->count; n++)
        m->hooks.closing(m->hooks.user, m->classes[n]);
    if (m->within.close)
        m->within.close(m->within.user);
    free(m->known);
    free(m->classes);
    free(m);
}

bool ca_journal_measurer(const struct ca_measurer *within, struct ca_journal *journal,
                         const struct ca_problem *problems, size_t count,
                         const struct ca_journal_hooks *hooks, struct ca_measurer *measurer)
{
    struct journaling *made = calloc(1, sizeof *made);
    char(*classes)[CA_JOURNAL_CLASS] = calloc(count, sizeof *classes);

    if (!made || !classes) {
        free(classes);
        free(made);
        return false;
    }
    *made = (struct journaling){.within = *within,
                                .journal = journal,
                                .hooks = *hooks,
                                .classes = classes,
                                .count = count,
                                .since = ca_stopwatch_now()};
    for (size_t n = 0; n < count; n++)
        clattn_problem_class(&problems[n].given, classes[n], sizeof classes[n], NULL);
    *measurer = (struct ca_measurer){.user = made,
                                     .announce = within->announce ? announce : NULL,
                                     .build = build,
                                     .measure = measure,
                                     .round = round_of,
                                     .failure = within->failure ? failure : NULL,
                                     .known = known,
                                     .close = end,
                                     .batch = within->batch};
    return true;
}
