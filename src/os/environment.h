/* SPDX-License-Identifier: Apache-2.0 */
/* The surroundings of this process, besides getenv(). */
#ifndef CA_ENVIRONMENT_H
#define CA_ENVIRONMENT_H

#include <stdbool.h>

/* The number of this process in the system (its PID). */
long ca_process_number(void);

/* Returns whether the program runs with other rights than those of the user who started it (set-
 * user-ID); then its environment must not be trusted. */
bool ca_environment_is_borrowed(void);

#endif
