/* SPDX-License-Identifier: Apache-2.0 */
/* A child of a fleet: watched while it works, ended if it gives no sign of life. */
#ifndef CLATTN_BENCH_FLEET_CHILD_H
#define CLATTN_BENCH_FLEET_CHILD_H

#include "cli/message.h"
#include "os/process.h"

/* How a child ended. */
struct fleet_end {
    struct ca_child_end end;
    bool silent;     /* It gave no sign of life and was ended. */
    bool stuck;      /* It does not even end when killed; its end means nothing. */
    char doing[160]; /* What it said last that it did; "" if nothing. */
};

/* Runs argv, whose first is the program's path, to its end: in a process group of its own, with this
 * process's standard input or none, its standard output into `output`. Between
 * ca_interrupts_open() and _close(): the first interrupt is passed on, the second kills it, and so does a silence of so many seconds
 * after a request to end did not help. What it started ends with it. False if it could not be started. */
bool fleet_child_run(const char *const *argv, bool input, ca_file output, double silence,
                     struct fleet_end *end, struct message *why);

/* Ended of itself, with that exit status. */
bool fleet_end_is(const struct fleet_end *end, int exit_status);

/* A sentence about any other end: "the driver crashed: killed by signal 11 (Segmentation fault)
 * while it did 'llama3: warming up'". */
void fleet_end_describe(const struct fleet_end *end, double silence, struct message *how);

#endif
