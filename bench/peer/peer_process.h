/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's process. It is stopped except while it answers a request, so that its spinning
 * threads do not disturb others. It ends for certain, even if this program is killed; a stopped
 * process would not notice the end of its requests. Then this program's files for peers
 * (peer_data.h) are removed as well. */
#ifndef CLATTN_BENCH_PEER_PROCESS_H
#define CLATTN_BENCH_PEER_PROCESS_H

#include "cli/message.h"
#include "cli/worker_process.h"

struct peer_process {
    struct ca_process worker;
    struct ca_process guard; /* Outlives this program by the time it takes to clean up. */
};

/* `variables` are as ca_child_start() takes them. Nothing runs if *process is cleared. */
bool peer_process_start(struct peer_process *process, const char *const *argv,
                        const char *const *variables, struct message *how);

/* Like ca_process_ask(); ca_interrupted() ends the patience. */
enum ca_asked peer_process_ask(struct peer_process *process, json_t *request, double seconds,
                               json_t **answer, struct message *how);

void peer_process_end(struct peer_process *process);

#endif
