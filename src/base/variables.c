/* SPDX-License-Identifier: Apache-2.0 */
#include "base/variables.h"

#include "os/environment.h"

const char *ca_environment(enum ca_variable variable)
{
    static const char *const names[] = {
#define VARIABLE(ID, name, ...) [CA_VARIABLE_##ID] = name,
        CA_VARIABLES(VARIABLE)
#undef VARIABLE
    };

    return ca_environment_value(names[variable]);
}
