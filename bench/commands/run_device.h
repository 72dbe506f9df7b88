/* SPDX-License-Identifier: Apache-2.0 */
/* A run on one device. */
#ifndef CLATTN_BENCH_RUN_DEVICE_H
#define CLATTN_BENCH_RUN_DEVICE_H

#include "bench/commands/items.h"
#include "bench/commands/run_state.h"

/* Runs the items on the settings' device, prints the table and adds the device to the results.
 * False if anything of ours failed or was wrong. */
bool run_device(const struct run_settings *settings, const struct items *items,
                struct run_results *results);

#endif
