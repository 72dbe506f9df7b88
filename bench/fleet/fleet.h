/* SPDX-License-Identifier: Apache-2.0 */
/* Several devices, each in a process of its own: a driver that crashes costs only its own rows. */
#ifndef CLATTN_BENCH_FLEET_H
#define CLATTN_BENCH_FLEET_H

#include "bench/fleet/fleet_child.h"
#include "bench/records/results.h"

/* Options of the children. */
struct fleet {
    struct fleet_child child; /* Each of them, but for its device and its file. */
    const char *devices;      /* "all", or indices and parts of names, separated by commas. */
    const char *save; /* A file for the results so far, written after each device; or NULL. */
    bool quiet;       /* No tables: standard output is for something else, or for nothing. */
};

/* Returns whether --device asks for several: "all", or a comma. */
bool fleet_wanted(const char *devices);

/* Has a child list the devices, and runs one child after another. Their tables and progress are
 * passed through, and the results that each wrote are added to *results, in order. A child that
 * crashes, hangs, is killed or writes nothing leaves a device_run with `failed` and the results
 * that it had saved. Devices of the same name, platform and driver run once for "all". SIGINT,
 * SIGTERM and SIGHUP are passed on once to the child that runs, and the rest is left out; the
 * second kills it. Returns false, after a message, if something failed. All else is in *results,
 * which begins with results_begin(). */
bool fleet_run(const struct fleet *fleet, struct run_results *results);

#endif
