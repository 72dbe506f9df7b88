/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `clattn-bench run`, for one device, a fleet, or ranks of MPI. */
#ifndef CLATTN_BENCH_RUN_REQUEST_H
#define CLATTN_BENCH_RUN_REQUEST_H

#include "bench/commands/options.h"
#include "bench/commands/run_device.h"

#define RUN_MOST_MODES 5

/* The values of --mpi and of the options that belong to it. */
struct run_mpi {
    bool wanted;
    const char *modes[RUN_MOST_MODES]; /* Parts of modes_text. */
    size_t num_modes;                  /* 0: not given. */
    char *modes_text;                  /* Owned. */
    bool strong, weak;
    /* Speed of this rank, in any unit that all ranks share; 0: all ranks are alike. */
    double speed;
    bool measured;      /* The ranks' speeds are measured instead. */
    const char *option; /* Name of one of these options that was given, or NULL. */
};

/* The command line as it was understood. */
struct request {
    struct run_settings settings;
    double repeat;
    const char *filter, *peers; /* The options' values; NULL: not given. */
    char *peers_text;           /* A copy of peers that the choice has cut at its commas; owned. */
    const char **what;          /* Workloads, problems and files; the list is owned. */
    int count;
    bool list; /* The jobs are listed instead of run. */
    struct run_mpi mpi;
};

/* 0 to go on, 1 if all was said, else EXIT_USAGE. run_request_free() is due in any case. */
int run_request_read(int argc, char **argv, struct request *request);
void run_request_free(struct request *request);

/* The jobs that the request names, except those that the filter excludes; items_free() is due in
 * any case. */
bool run_request_items(const struct request *request, struct items *items, struct message *why);

/* Prints the jobs that would run, and returns the command's exit status. */
int run_request_list(const struct items *items);

#endif
