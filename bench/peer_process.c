#define _POSIX_C_SOURCE 200809L /* kill */
#include "peer_process.h"
#include "interrupt.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Waits for the end of its requests, which are paths: so long lives who could stop the process group
 * $1 himself. The system would end a stopped group that lost its parent, were the next parent not
 * often of the same session, as the first process of a container is. */
static const char guard_script[] = "while IFS= read -r path; do last=$path; done <&3\n"
                                   "kill -s KILL -- \"-$1\"\n"
                                   "rm -f -- \"$last\"\n";

static void signal_all(const struct peer_process *process, int number)
{
    if (process->worker.pid > 0)
        kill(-process->worker.pid, number);
}

bool peer_process_start(struct peer_process *process, const char *const *argv, struct message *how)
{
    struct ca_sentence reason;
    char group[24];
    const char *const guard[] = {"sh", "-c", guard_script, "clattn-bench-guard", group, NULL};

    if (!ca_process_start(&process->worker, argv, &reason))
        return message_set(how, "%s", reason.text);
    snprintf(group, sizeof group, "%ld", (long)process->worker.pid);
    if (!ca_process_start(&process->guard, guard, &reason)) {
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
    struct ca_sentence reason = {""};

    signal_all(process, SIGCONT);
    const enum ca_asked asked =
        ca_process_ask(&process->worker, request, seconds, wants_answer, NULL, answer, &reason);
    if (asked == CA_ANSWERED) {
        signal_all(process, SIGSTOP);
    } else {
        message_set(how, "%s", reason.text);
        ca_process_end(&process->guard); /* the number of the group may soon be another's */
    }
    return asked;
}

void peer_process_lend(struct peer_process *process, const char *path)
{
    char line[1024];
    const int bytes = snprintf(line, sizeof line, "%s\n", path);

    /* A guard that died is no reason to fail: it has work only if this program dies as well. */
    if (bytes < (int)sizeof line && process->guard.pid > 0 &&
        write(process->guard.requests, line, (size_t)bytes) < bytes)
        ca_process_end(&process->guard);
}

void peer_process_end(struct peer_process *process)
{
    ca_process_end(&process->worker);
    ca_process_end(&process->guard);
}
