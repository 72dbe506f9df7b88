/* SPDX-License-Identifier: Apache-2.0 */
/* A measurer that keeps the journal: what an interrupted tuning measured is answered from it, all
 * else is measured by another measurer and entered. */
#ifndef CA_TUNE_MEASURER_H
#define CA_TUNE_MEASURER_H

#include "internal.h"
#include "tuner/journal.h"

struct ca_tune_measurer;

/* Who is told of what it does; each may be NULL. */
struct ca_tune_measurer_hooks {
    void *user;
    void (*trying)(void *user, const struct ca_candidate *candidate); /* What will be built. */
    void (*closing)(void *user, const struct ca_tune_measurer *measurer);
};

/* Makes *measurer, which keeps the journal (borrowed) of what the measurer within does for the problems; the rounds of
 * that one may hold NaN for what was not tried. False without memory. Closing it closes the other. */
bool ca_tune_measurer_make(const struct ca_measurer *within, struct ca_journal *journal,
                           const clattn_problem *problems, size_t count,
                           const struct ca_tune_measurer_hooks *hooks,
                           struct ca_measurer *measurer);

/* Its problems' classes. */
size_t ca_tune_measurer_count(const struct ca_tune_measurer *measurer);
const char *ca_tune_measurer_class(const struct ca_tune_measurer *measurer, size_t problem);

/* What compilers took for all that it has built. */
double ca_tune_measurer_compile_seconds(const struct ca_tune_measurer *measurer);

#endif
