/* SPDX-License-Identifier: Apache-2.0 */
/* One problem of a run on ranks: rank 0 alone and all ranks in each mode, checked, timed in turns and
 * checked again. */
#ifndef CLATTN_BENCH_CONTEST_H
#define CLATTN_BENCH_CONTEST_H

#include "bench/commands/run_request.h"
#include "bench/mpi/sharded.h"

/* The state of a run on each rank; only rank 0 has results. */
struct mpi_run {
    struct ranks ranks;
    const struct request *request;
    struct run_results *results;
    struct device_run *device;
    struct target target;
    clattn_mpi_rates rates; /* Rates last measured, for the problem `rated`; zeros before. */
    double speed;           /* Speed last measured for `rated`, with --speed measured. */
    clattn_problem rated;
};

/* Fills rank 0's record. Collective; false if the run cannot go on: its sentence is the same on all
 * ranks. */
bool contest_item(struct mpi_run *run, const struct item *item, const char *heading,
                  struct record *record, struct message *why);

#endif
