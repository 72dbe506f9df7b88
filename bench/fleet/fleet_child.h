/* SPDX-License-Identifier: Apache-2.0 */
/* A child process of a fleet: it is watched while it works, and ended if it writes no heartbeat for too long. */
#ifndef CLATTN_BENCH_FLEET_CHILD_H
#define CLATTN_BENCH_FLEET_CHILD_H

#include "cli/message.h"
#include "os/process.h"

/* The end of a child. */
struct fleet_end {
    struct ca_child_end end;
    bool silent;     /* It gave no heartbeat for too long and was ended. */
    bool stuck;      /* It did not even end when it was killed; `end` is not valid. */
    char doing[160]; /* The activity that it reported last; "" if none. */
};

/* Environment variables: the index of the device that a child runs instead of its command line's
 * device, and a file to which it also saves its results. */
#define FLEET_DEVICE "CLATTN_BENCH_DEVICE"
#define FLEET_SAVE "CLATTN_BENCH_SAVE"

struct fleet_child {
    const char *program; /* Its path. */
    const char *const *arguments;
    size_t num_arguments;
    /* Values of these two variables; NULL: not set. With a device there is a file. */
    const char *device, *save;
    bool input;     /* It has this process's standard input. */
    ca_file output; /* The file that is its standard output. */
    double silence; /* It is ended after so many seconds without a heartbeat. */
};

/* Runs the child to its end, in a process group of its own. Between ca_interrupts_open() and _close():
 * the first interrupt is passed on, the second kills it. A silent child is asked to end, and killed if it
 * does not. Its own children are ended with it. False if it could not be started. */
bool fleet_child_run(const struct fleet_child *child, struct fleet_end *end, struct message *why);

/* Ended of itself, with that exit status. */
bool fleet_end_is(const struct fleet_end *end, int exit_status);

/* A sentence about any other end: "the driver crashed: killed by signal 11 (Segmentation fault)
 * while it did 'llama3: warming up'". */
void fleet_end_describe(const struct fleet_end *end, double silence, struct message *how);

/* Says what became of a device, over the line of progress that its child may have left there. */
void fleet_complain(const char *device, const struct message *what);

#endif
