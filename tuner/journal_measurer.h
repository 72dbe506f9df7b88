/* SPDX-License-Identifier: Apache-2.0 */
/* A measurer that keeps the journal: what an interrupted tuning measured is answered from it, all
 * else is measured by another measurer and entered. */
#ifndef CA_JOURNAL_MEASURER_H
#define CA_JOURNAL_MEASURER_H

#include "internal.h"
#include "tuner/journal.h"

/* Functions that are told what the measurer does; each may be NULL. */
struct ca_journal_hooks {
    void *user;
    void (*building)(void *user, const struct ca_candidate *candidate);
    void (*built)(void *user, double compile_seconds);
    /* called for the class of each problem */
    void (*closing)(void *user, const char *problem_class);
};

/* Makes *measurer, which keeps the journal (borrowed) of what the measurer within does for the problems; the rounds of
 * that one may hold NaN for what was not tried. False without memory. Closing it closes the other. */
bool ca_journal_measurer(const struct ca_measurer *within, struct ca_journal *journal,
                         const struct ca_problem *problems, size_t count,
                         const struct ca_journal_hooks *hooks, struct ca_measurer *measurer);

#endif
