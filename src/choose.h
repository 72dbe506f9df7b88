/* Which family computes a problem, with which tunables, and why. */
#ifndef CA_CHOOSE_H
#define CA_CHOOSE_H

#include "family.h"
#include <clattn/plan.h>

struct ca_choice {
    const struct ca_family *family;
    unsigned bit; /* the family's, for the excluded ones */
    size_t values[CA_MAX_TUNABLES];
    const char *why;
};

/* The one check behind clattn_plan_supports() and clattn_plan_create(). Families whose bit (by
 * ca_family_at()'s index) is set in excluded are not chosen, unless forced. On failure
 * choice->family is NULL and reason says why. */
clattn_status ca_choose(const clattn_device_info *dev, const clattn_problem *problem,
                        const clattn_plan_options *options, unsigned excluded,
                        struct ca_choice *choice, char *reason, size_t reason_bytes);

#endif
