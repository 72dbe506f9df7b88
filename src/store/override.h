/* SPDX-License-Identifier: Apache-2.0 */
/* A context's overrides: a user's choice of family and tunables by class of problem. Safe to share
 * between threads. */
#ifndef CA_OVERRIDE_H
#define CA_OVERRIDE_H

#include "base/log.h"
#include "families/candidate.h"

struct ca_overrides;

/* Creates overrides that hold only that of the environment variable CLATTN_OVERRIDE, which is read
 * now; a malformed one is reported by a warning. NULL without memory. */
struct ca_overrides *ca_overrides_create(const struct ca_log *log);
void ca_overrides_destroy(struct ca_overrides *overrides);

/* The override of a problem's class, else the environment's; one that does not fit the problem or
 * the device is ignored. False if there is none. */
int ca_overrides_find(struct ca_overrides *overrides, const struct ca_problem *p,
                      const clattn_device_info *dev, struct ca_candidate *candidate);

#endif
