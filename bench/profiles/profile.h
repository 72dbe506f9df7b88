/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: devices that are not at hand, described by JSON (bench/profiles). */
#ifndef CLATTN_BENCH_PROFILE_H
#define CLATTN_BENCH_PROFILE_H

#include "cli/message.h"

#include <clattn/device.h>
#include <stddef.h>

/* The name of a profile that is built in; NULL past the last. */
const char *profile_name(size_t index);

/* Reads the profile of this name, or else the file. On failure *why names it, the fact and what is
 * wrong with it. */
bool profile_read(const char *name, clattn_device_info *info, struct message *why);

#endif
