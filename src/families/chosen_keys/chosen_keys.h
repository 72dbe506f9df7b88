/* SPDX-License-Identifier: Apache-2.0 */
/* The first program of plans with lists of chosen keys. It is no choice of a plan, and so not among the families of
 * registry.h. */
#ifndef CA_FAMILY_CHOSEN_KEYS_H
#define CA_FAMILY_CHOSEN_KEYS_H

#include "families/family.h"

extern const struct ca_family ca_family_chosen_keys;

/* Its values for a problem, forward or backward. */
void ca_chosen_keys_suggest(const struct ca_problem *p, const clattn_device_info *dev,
                            size_t *values);

#endif
