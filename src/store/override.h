/* SPDX-License-Identifier: Apache-2.0 */
/* A user's choice of family and tunables for all problems that they fit: the environment variable CLATTN_OVERRIDE. */
#ifndef CA_OVERRIDE_H
#define CA_OVERRIDE_H

#include "base/log.h"

#include <stdbool.h>

/* Reads the variable: "FAMILY NAME=value ...", to be freed, whose family and values exist; what it leaves open depends on
 * the problem (ca_candidate_parse()). NULL if it is not set, or malformed, which a warning says. False without memory. */
bool ca_override_read(const struct ca_log *log, char **override);

#endif
