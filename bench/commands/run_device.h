/* SPDX-License-Identifier: Apache-2.0 */
/* A run on one device: what it is asked for, and its state while it goes on. */
#ifndef CLATTN_BENCH_RUN_DEVICE_H
#define CLATTN_BENCH_RUN_DEVICE_H

#include "bench/commands/items.h"
#include "bench/commands/run_peers.h"
#include "bench/fleet/progress.h"
#include "bench/records/results.h"
#include "bench/timing/peaks.h"

/* The settings that the command line gives. */
struct run_settings {
    const char *program; /* Path of this program, for child processes. */
    const char *device;  /* Selects one device. */
    const char *json;    /* A file, "-" for standard output, or NULL. */
    clattn_plan_options plan;
    struct peer_choice peers;
    size_t repeat;   /* Samples; 0: as many as the problem's size suggests. */
    double patience; /* Seconds that one execution may take. */
    /* Seconds without a heartbeat (progress.h) that end the process; or INFINITY. */
    double silence;
    const char *save; /* A further file for the JSON so far, or NULL. */
    bool no_cold_start, quiet;
};

/* The state of a run on one device. */
struct run {
    const struct run_settings *settings;
    struct run_results *results; /* Saved after every problem. */
    struct device_run *device;   /* The results' device that is being filled. */
    struct target target;
    struct peaks peaks;
    struct run_peers peers;
    struct progress progress;
    double weight;  /* Weight of the problem that is being run. */
    double fastest; /* Operations per second that clattn has reached so far; 0 before. */
};

/* Returns whether standard output is for tables. */
bool run_has_table(const struct run_settings *settings);

/* Prints a sentence on standard error, below no progress; `run` may be NULL. False. */
bool run_complain(struct run *run, const char *text);

/* Runs the items on the settings' device, prints the table and adds the device to the results.
 * False if anything of ours failed or was wrong. */
bool run_device(const struct run_settings *settings, const struct items *items,
                struct run_results *results);

/* Returns an estimate of a problem's time before it has run: an execution's least time by the
 * peaks, and some constant work. */
double run_problem_weight(const struct job *job);

/* All implementations of a problem, checked, timed in turns and checked again. Fills the record,
 * whatever happens. False if there is nothing to show, because the user has interrupted it or there
 * was no memory, which was said. */
bool run_problem(struct run *run, const struct attention_case *attention, const char *name,
                 struct record *record);

#endif
