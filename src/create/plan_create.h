/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a plan from choices. */
#ifndef CA_PLAN_CREATE_H
#define CA_PLAN_CREATE_H

#include "create/choose.h"

/* Refuses a problem whose lists of chosen keys need more memory than the device gives at once, with a reason; else
 * CLATTN_SUCCESS. */
clattn_status ca_lists_check(const clattn_context *context, const struct ca_problem *problem,
                             char *reason, size_t reason_bytes);

/* Makes the plan of the first choice that works. A broken compiler costs speed: if a choice does
 * not build or is miscompiled, or a device cannot build, the next is tried. */
clattn_status ca_plan_create(clattn_context *context, const struct ca_choices *choices,
                             const struct ca_problem *problem, clattn_plan **plan);

#endif
