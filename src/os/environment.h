/* SPDX-License-Identifier: Apache-2.0 */
/* The surroundings of this process, besides getenv(). */
#ifndef CA_ENVIRONMENT_H
#define CA_ENVIRONMENT_H

#include <stdbool.h>

/* The number of this process in the system (its PID). */
long ca_process_number(void);

/* The value of an environment variable in UTF-8; NULL where it is not set. On Windows it is valid until the process ends, on
 * POSIX until the variable is changed. */
const char *ca_environment_value(const char *name);

/* Where users' caches lie: variables that name a folder, and the rest of the way to clattn's own. The first variable that
 * is set and names an absolute path counts; a variable that is NULL stands for none. */
enum { CA_CACHE_PLACES = 2 };
extern const struct ca_cache_place {
    const char *variable, *rest;
} ca_cache_places[CA_CACHE_PLACES];

/* The address of a function that this process's OpenCL library exports; NULL where it has none of that name. */
void *ca_opencl_symbol(const char *name);

/* Returns whether the program runs with other rights than those of the user who started it (set-
 * user-ID); then its environment must not be trusted. */
bool ca_environment_is_borrowed(void);

#endif
