/* Several devices, each in a process of its own: a driver that crashes costs only its own rows. */
#ifndef CLATTN_BENCH_FLEET_H
#define CLATTN_BENCH_FLEET_H

#include "results.h"

/* How the children are to be run. */
struct fleet {
    const char *program;     /* This program's path. */
    char **arguments;        /* For each child's `run`: everything but the devices, --json, --csv. */
    size_t num_arguments;
    const size_t *devices;   /* Their indices. */
    size_t num_devices;
    double silence;          /* Seconds without a sign of life after which a child is ended. */
};

/* Runs one child after another, their tables and progress passed through, and takes what each wrote
 * into *results, in order. A child that crashes, hangs, is killed or writes nothing leaves a
 * device_run with `failed` and the results that it had saved. Interrupted: the child that runs is
 * told, the rest is left out. False if something failed; all else is in *results. */
bool fleet_run(const struct fleet *fleet, struct run_results *results);

#endif
