/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring in a worker process: a struct ca_measurer (src/tune/measurer.h) that survives whatever a
 * candidate does to the process that tries it.
 *
 * A candidate that hangs, crashes the driver or ends the process is tried once more, in a new one;
 * if that ends it again, the candidate costs its reading, and the worker is started anew for the
 * next one. So it is after a candidate that failed while it ran or computed wrong results, as it
 * may have spoilt the driver's state. */
#ifndef CA_WORKER_CLIENT_H
#define CA_WORKER_CLIENT_H

#include "tuner/worker/worker_builders.h"

struct ca_worker;

/* Starts nothing yet. The options are copied, their texts borrowed. NULL without memory. */
struct ca_worker *ca_worker_create(const struct ca_worker_options *options);
void ca_worker_destroy(struct ca_worker *worker);

/* A measurer for problems that are alike, until the next one. What cannot be tried, as there is no
 * patience left or no worker, gets CA_CONSTRAINT_FAILED, which is held against no candidate. */
clattn_status ca_worker_open(struct ca_worker *worker, const struct ca_problem *problems,
                             size_t count, struct ca_measurer *measurer);

/* NULL, or why no worker works: then nothing will be measured any more. */
const char *ca_worker_broken(const struct ca_worker *worker);

/* Returns how often a worker had to be replaced. */
size_t ca_worker_restarts(const struct ca_worker *worker);

#endif
