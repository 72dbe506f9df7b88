/* A measurer that keeps the journal: what an interrupted tuning measured is answered from it, all
 * else is measured by another measurer and entered. */
#ifndef CA_TUNE_MEASURER_H
#define CA_TUNE_MEASURER_H

#include "internal.h"
#include "tuner/journal.h"

struct ca_tune_measurer;

/* The measurer within, whose rounds may hold NaN for what was not tried, is copied, the journal
 * borrowed. `trying` is told what will be built; it gets the user too. NULL without memory. */
struct ca_tune_measurer *ca_tune_measurer_create(
    const struct ca_measurer *within, struct ca_journal *journal, const clattn_problem *problems,
    size_t count, void (*trying)(void *user, const struct ca_candidate *candidate), void *user);
void ca_tune_measurer_destroy(struct ca_tune_measurer *measurer);

/* Its problems' classes. */
size_t ca_tune_measurer_count(const struct ca_tune_measurer *measurer);
const char *ca_tune_measurer_class(const struct ca_tune_measurer *measurer, size_t problem);

/* What compilers took for all that it has built. */
double ca_tune_measurer_compile_seconds(const struct ca_tune_measurer *measurer);

struct ca_measurer ca_tune_measurer_calls(struct ca_tune_measurer *measurer);

#endif
