/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's process: stopped but for the time that it has a request to answer, so that threads of
 * its own that spin for work do not disturb others, and ended for certain, even if this program is
 * killed: what is stopped would not notice that its requests have come to an end. Then this
 * program's files for peers (peer_data.h) go as well. */
#ifndef CLATTN_BENCH_PEER_PROCESS_H
#define CLATTN_BENCH_PEER_PROCESS_H

#include "cli/message.h"
#include "cli/worker_process.h"

struct peer_process {
    struct ca_process worker;
    struct ca_process guard; /* Outlives this program by the time it takes to clean up. */
};

/* Where *process is cleared, nothing runs. */
bool peer_process_start(struct peer_process *process, const char *const *argv, struct message *how);

/* Like ca_process_ask(); ca_interrupted() ends the patience. */
enum ca_asked peer_process_ask(struct peer_process *process, json_t *request, double seconds,
                               json_t **answer, struct message *how);

void peer_process_end(struct peer_process *process);

#endif
