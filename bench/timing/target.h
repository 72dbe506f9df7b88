/* SPDX-License-Identifier: Apache-2.0 */
/* The device that is measured: a clattn context, a queue with timers, the last complaint. */
#ifndef CLATTN_BENCH_TARGET_H
#define CLATTN_BENCH_TARGET_H

#include "cli/message.h"
#include <clattn/clattn.h>

struct target {
    clattn_context *context;
    cl_command_queue queue; /* An in-order queue with profiling. */
    const clattn_device_info *info;
    struct message log; /* The library's last error. */
};

/* `selector` as for clattn_device_select(). The target must not move while it is open. */
bool target_open(struct target *target, const char *selector, struct message *why);

/* Opens a device whose facts are narrowed to those of a profile, unless that is NULL. */
bool target_open_narrowed(struct target *target, const char *selector,
                          const clattn_device_info *profile, struct message *why);

void target_close(struct target *target);

/* The index of the target's device for --device. */
size_t target_index(const struct target *target);

/* "cpu", "gpu", "accelerator" or "other". */
const char *target_type_name(cl_device_type type);

#endif
