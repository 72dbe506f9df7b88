/* SPDX-License-Identifier: Apache-2.0 */
/* The space that a tuning searches: the union of the tunables of several families. */
#ifndef CA_TUNE_SPACE_H
#define CA_TUNE_SPACE_H

#include "families/candidate.h"
#include "families/registry.h"
#include "search/space.h"

/* All candidates of the families (a bit for each, by ca_family_at()'s index) that fit at least one
 * of the problems (normal). Its first parameter is the family, the others are tunables, by name, in
 * the order of their declaration, 0 where a family has none of that name. NULL without memory. */
struct ca_space *ca_tune_space_create(ca_family_set families, const struct ca_problem *problems,
                                      size_t count, const clattn_device_info *dev);

/* Returns whether a candidate fits a problem (normal). */
int ca_tune_fits(const struct ca_candidate *candidate, const struct ca_problem *p,
                 const clattn_device_info *dev);

#endif
