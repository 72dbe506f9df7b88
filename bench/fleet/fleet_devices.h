/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the devices in a child process, since a driver may crash while it is loaded. */
#ifndef CLATTN_BENCH_FLEET_DEVICES_H
#define CLATTN_BENCH_FLEET_DEVICES_H

#include "bench/fleet/fleet_child.h"

#include <clattn/device.h>
#include <stdbool.h>

struct fleet_device {
    size_t index; /* The device's index, for --device. */
    clattn_device_info info;
    struct message failed; /* Why its facts are not known, only its name; "" otherwise. */
};

struct fleet_devices {
    struct fleet_device *device; /* Owned. */
    size_t count;
    bool failed; /* A driver did not say which devices it has, or one of its devices failed. */
};

/* All that `devices --json` of such a child lists. On failure, which was said, there are none. */
bool fleet_devices_list(const struct fleet_child *such, struct fleet_devices *devices);

/* Keeps what is wanted, in that order: "all", or indices and parts of names with commas between
 * them. "all" leaves out what is there twice, and says so unless quiet. False if one is not there,
 * which was said. */
bool fleet_devices_choose(struct fleet_devices *devices, const char *wanted, bool quiet);

void fleet_devices_free(struct fleet_devices *devices);

#endif
