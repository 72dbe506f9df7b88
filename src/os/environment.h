/* SPDX-License-Identifier: Apache-2.0 */
/* What surrounds this process, besides getenv(). */
#ifndef CA_ENVIRONMENT_H
#define CA_ENVIRONMENT_H

#include <stdbool.h>

/* The number that this process has for people and for other processes. */
long ca_process_number(void);

/* Whether the program runs with other rights than those of who started it, who must not steer it by variables. */
bool ca_environment_is_borrowed(void);

#endif
