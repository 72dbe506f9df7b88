/* SPDX-License-Identifier: Apache-2.0 */
/* A child process that answers requests, one JSON object a line each way. It may die, hang or print
 * nonsense at any moment. */
#ifndef CA_WORKER_PROCESS_H
#define CA_WORKER_PROCESS_H

#include "cli/message.h"
#include "os/process.h"

#include <jansson.h>
#include <stddef.h>

/* The streams by which the child gets requests and sends answers. All other output of the child or
 * a driver, to standard output too, goes to a file that is quoted if it dies. */
enum { CA_WORKER_REQUESTS = 3, CA_WORKER_ANSWERS = 4 };

struct ca_process {
    struct ca_child child; /* its number is 0 while no child runs */
    /* the last child that ended unasked was killed by another process or for lack of memory */
    bool was_killed;
    bool asked;   /* the child has taken the last request */
    bool starved; /* the last child that answered late was kept from running by other processes */
    struct ca_processor_time before; /* its processor time when it was last asked */
    ca_file requests, answers, words;
    char *line; /* buffer of the answer that is being read; filled of capacity bytes are in use */
    size_t filled, capacity;
};

enum ca_asked {
    CA_ANSWERED,
    CA_LATE,    /* no answer in time */
    CA_DIED,    /* the child ended, or its output was no valid answer */
    CA_STOPPED, /* the caller no longer wants an answer */
};

/* Is asked several times a second while an answer is awaited; false: wants none any more. */
typedef bool ca_patience(void *user);

/* argv[0] is the program's path, or its name on the PATH; `variables` are as ca_child_start() takes them. */
bool ca_process_start(struct ca_process *process, const char *const *argv,
                      const char *const *variables, struct message *why);

/* Takes the request over and waits for its answer, which the caller releases if there is one.
 * Without one the result is NULL and `how` describes the failure, as in "exited with status 3".
 * Unless it answered, the process is ended. */
enum ca_asked ca_process_ask(struct ca_process *process, json_t *request, double seconds,
                             ca_patience *patience, void *user, json_t **answer,
                             struct message *how);

/* Sends a request; then waits for its answer: between the two other processes can be sent theirs. ca_process_request() is false
 * if the process did not take it; its answer is then that it died. */
bool ca_process_request(struct ca_process *process, json_t *request);
enum ca_asked ca_process_answer(struct ca_process *process, double seconds, ca_patience *patience,
                                void *user, json_t **answer, struct message *how);

/* Returns whether other processes, not this one, are why it made no progress in an interval of that
 * many seconds. It waited for most of the interval and got less than half of the time that it
 * wanted, or it was stopped. A process that sleeps wants no time. */
bool ca_was_starved(const struct ca_processor_time *begin, const struct ca_processor_time *end,
                    double seconds);

/* "was killed by signal 11 (Segmentation fault)", "exited with status 3". Returns whether it exited
 * with status 0. */
bool ca_child_describe(const struct ca_child_end *end, struct message *how);

/* Kills the process with its own children. */
void ca_process_end(struct ca_process *process);

#endif
