/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of families with scores in memory. */
#ifndef CA_UNFUSED_H
#define CA_UNFUSED_H

#include "families/family.h"

/* Members of struct ca_family: all scores have to fit one allocation. */
const char *ca_unfused_unsupported(const struct ca_problem *p, const clattn_device_info *dev);
size_t ca_unfused_workspace_bytes(const struct ca_problem *p, const size_t *values);

#endif
