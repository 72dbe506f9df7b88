/* SPDX-License-Identifier: Apache-2.0 */
/* A run on one device while it goes on, and what it was asked for. */
#ifndef CLATTN_BENCH_RUN_STATE_H
#define CLATTN_BENCH_RUN_STATE_H

#include "bench/commands/run_peers.h"
#include "bench/fleet/progress.h"
#include "bench/records/results.h"
#include "bench/timing/peaks.h"

/* What the command line says. */
struct run_settings {
    const char *program;    /* This one's path, for processes of its own. */
    const char *device;     /* One. */
    const char *json, *csv; /* Files, "-" for standard output, or NULL. */
    clattn_plan_options plan;
    struct peer_choice peers;
    size_t repeat;   /* Samples; 0: as many as the problem's size suggests. */
    double patience; /* Seconds that one execution may take. */
    double silence; /* Without a sign of life (progress.h), after which it is ended; or INFINITY. */
    const char *save; /* One more file for the JSON so far; or NULL. */
    bool no_cold_start, quiet;
};

/* While it runs. */
struct run {
    const struct run_settings *settings;
    struct run_results *results; /* Saved after every problem. */
    struct device_run *device;   /* The one in there that is being filled. */
    struct target target;
    struct peaks peaks;
    struct run_peers peers;
    struct progress progress;
    double weight;  /* Of the problem that is being run. */
    double fastest; /* Operations per second that clattn has reached so far; 0 before. */
};

/* Whether standard output is for tables. */
bool run_has_table(const struct run_settings *settings);

/* Prints a sentence on standard error, below no progress; `run` may be NULL. False. */
bool run_complain(struct run *run, const char *text);

#endif
