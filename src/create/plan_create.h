/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a plan from choices. */
#ifndef CA_PLAN_CREATE_H
#define CA_PLAN_CREATE_H

#include "create/choose.h"

/* Makes the plan of the first choice that works. A broken compiler costs speed: if a choice does
 * not build or is miscompiled, or a device cannot build, the next is tried. */
clattn_status ca_plan_create(clattn_context *context, const struct ca_choices *choices,
                             const struct ca_problem *problem, clattn_plan **plan);

#endif
