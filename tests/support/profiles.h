/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles of bench/profiles, as the tests read them. */
#ifndef TEST_PROFILES_H
#define TEST_PROFILES_H

#include "tests/support/cpus.h"

enum { MOST_PROFILES = 32, MOST_DESCRIBED = NUM_CPUS + MOST_PROFILES };

/* No pointers: it crosses processes. */
struct profile {
    char name[32]; /* of its file, without .json */
    clattn_device_info info;
};

/* Reads them all, sorted by name; fails the test if one cannot be read. */
size_t profiles_read(struct profile *list);

/* The devices of all profiles, and the CPUs of cpus.h: for tests that run nothing. */
size_t devices_described(clattn_device_info *list);

/* One that must be there. */
struct profile profile_named(const char *name);

/* The text of a file, to be freed; fails the test if it cannot be read. */
char *profile_text(const char *name);

#endif
