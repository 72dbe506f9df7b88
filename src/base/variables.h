/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables that clattn reads. */
#ifndef CA_VARIABLES_H
#define CA_VARIABLES_H

#include "base/variables.def"

enum ca_variable {
#define VARIABLE(ID, ...) CA_VARIABLE_##ID,
    CA_VARIABLES(VARIABLE)
#undef VARIABLE
};

/* The value of a variable; NULL where it is not set. */
const char *ca_environment(enum ca_variable variable);

#endif
