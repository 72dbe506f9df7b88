/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that compile ahead, several at once. The driver's own cache of compiled kernels then
 * holds a candidate by the time that the worker builds it. Their outcomes do not count: a build
 * that fails, crashes or hangs here is left to the worker, which builds it again with the machine
 * to itself.
 *
 * They run only while the worker waits for a build; nothing is measured meanwhile. */
#ifndef CA_WORKER_BUILDERS_H
#define CA_WORKER_BUILDERS_H

#include "cli/worker_process.h"
#include "internal.h"

enum { CA_BUILDERS = 16 };

/* Options of the worker and of its builders. */
struct ca_worker_options {
    const char *program; /* path of clattn-tune */
    const char *device;  /* selector of clattn_device_select() */
    double timeout; /* seconds for building a candidate, or for measuring it; builders get a part */
    int builders;   /* number of builders, at most CA_BUILDERS; 0: none */
    ca_patience *patience; /* asked while a process is at work, several times a second */
    void *user;
};

struct ca_builders;

/* Starts the process that worker_command.c is, which builders are as well. */
bool ca_worker_start(struct ca_process *process, const struct ca_worker_options *options,
                     struct message *why);

/* The request to do something with a candidate: "build" or "measure". */
json_t *ca_worker_request(const char *what, const struct ca_candidate *candidate);

/* Returns how many are good here: a few, one for each core; 0 if there is only one. */
int ca_builders_automatic(void);

/* Starts nothing yet. The options, of one builder or more, are copied. NULL without memory. */
struct ca_builders *ca_builders_create(const struct ca_worker_options *options);
void ca_builders_destroy(struct ca_builders *builders);

/* The request that opens problems in a process; takes it over. Forgets what was announced. */
void ca_builders_open(struct ca_builders *builders, json_t *request);

/* Announces the candidates to build next, in this order, in place of those announced before. */
void ca_builders_announce(struct ca_builders *builders, const struct ca_candidate *candidates,
                          size_t count);

/* Before the worker builds a candidate: builds it and those announced after it, one for each
 * process, unless that was done. */
void ca_builders_run(struct ca_builders *builders, const struct ca_candidate *candidate);

/* After the worker has built it. Where that takes as long again, as the driver keeps nothing for
 * other processes, they are not used any more. */
void ca_builders_judge(struct ca_builders *builders, const struct ca_candidate *candidate,
                       const struct ca_reading *reading);

/* Seconds that building the candidate ahead took; 0 if that was not done. */
double ca_builders_seconds(struct ca_builders *builders, const struct ca_candidate *candidate);

/* False once they were found useless. */
bool ca_builders_are_used(const struct ca_builders *builders);

#endif
