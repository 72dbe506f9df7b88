/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peer/peer_process.h"
#include "bench/peer/peer_data.h"
#include "os/environment.h"
#include "os/interrupt.h"

#include <stdio.h>

/* Waits for the end of its requests, of which there are none. The end comes when this program,
 * of number $2, ends without ending the guard. Then the peer, process group $1, and its files
 * are removed. The system would end a stopped group that lost its parent, but not where the next
 * parent is of the same session, as in a container. Not on systems that end children by themselves. */
static const char guard_script[] =
    "read -r line <&3\n"
    "kill -s KILL -- \"-$1\"\n"
    "rm -f -- /dev/shm/" PEER_DATA_PREFIX "$2-* \"${TMPDIR:-/tmp}/\"" PEER_DATA_PREFIX "$2-*\n";

static void pause_peer(const struct peer_process *process, bool pause)
{
    if (process->worker.child.number > 0)
        ca_child_pause(&process->worker.child, pause);
}

bool peer_process_start(struct peer_process *process, const char *const *argv,
                        const char *const *variables, struct message *how)
{
    struct message reason;
    char group[24], self[24];
    const char *const guard[] = {"sh", "-c", guard_script, "clattn-bench-guard", group, self, NULL};

    if (!ca_process_start(&process->worker, argv, variables, &reason))
        return message_set(how, "%s", reason.text);
    if (ca_children_end_with_this())
        return true;
    snprintf(group, sizeof group, "%ld", process->worker.child.number);
    snprintf(self, sizeof self, "%ld", ca_process_number());
    if (!ca_process_start(&process->guard, guard, NULL, &reason)) {
        ca_process_end(&process->worker);
        return message_set(how, "got no guard: the shell %s", reason.text);
    }
    return true;
}

static bool wants_answer(void *user)
{
    (void)user;
    return !ca_interrupted();
}

enum ca_asked peer_process_ask(struct peer_process *process, json_t *request, double seconds,
                               json_t **answer, struct message *how)
{
    struct message reason = {""};

    pause_peer(process, false);
    const enum ca_asked asked =
        ca_process_ask(&process->worker, request, seconds, wants_answer, NULL, answer, &reason);
    if (asked == CA_ANSWERED) {
        pause_peer(process, true);
    } else {
        message_set(how, "%s", reason.text);
        ca_process_end(&process->guard); /* the number of the group may soon be another's */
    }
    return asked;
}

void peer_process_end(struct peer_process *process)
{
    ca_process_end(&process->worker);
    ca_process_end(&process->guard);
}
