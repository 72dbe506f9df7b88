/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/worker_process.h"
#include "internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINE = 1 << 20, TICK_MILLISECONDS = 200, QUOTED = 160 };

#define DEATH_SECONDS 3.0

/* ---- starting -------------------------------------------------------------------------------- */

static void close_all(struct ca_process *process)
{
    ca_file *ends[] = {&process->requests, &process->answers, &process->words};

    for (size_t n = 0; n < sizeof ends / sizeof *ends; n++) {
        if (*ends[n] != CA_NO_FILE)
            ca_file_close(*ends[n]);
        *ends[n] = CA_NO_FILE;
    }
}

bool ca_process_start(struct ca_process *process, const char *const *argv,
                      const char *const *variables, struct message *why)
{
    ca_file requests[2], answers[2];

    *process =
        (struct ca_process){.requests = CA_NO_FILE, .answers = CA_NO_FILE, .words = CA_NO_FILE};
    if (!ca_pipe(requests))
        return message_set(why, "got no pipe: %s", strerror(errno));
    if (!ca_pipe(answers)) {
        ca_file_close(requests[0]);
        ca_file_close(requests[1]);
        return message_set(why, "got no pipe: %s", strerror(errno));
    }
    process->words = ca_output_open();
    const struct ca_child_files files = {
        .input = CA_NO_FILE,
        .output = process->words, /* CA_NO_FILE gives the child no output */
        .errors = process->words,
        .more = {{requests[0], CA_WORKER_REQUESTS}, {answers[1], CA_WORKER_ANSWERS}},
        .num_more = 2,
    };
    const int error = ca_child_start(&process->child, argv, &files, variables);
    ca_file_close(requests[0]);
    ca_file_close(answers[1]);
    process->requests = requests[1];
    process->answers = answers[0];
    if (!error)
        return true;
    close_all(process);
    return message_set(why, "was not started from %s: %s", argv[0], strerror(error));
}

/* ---- ending ---------------------------------------------------------------------------------- */

void ca_process_end(struct ca_process *process)
{
    struct ca_child_end end;

    if (process->child.number > 0) {
        ca_child_kill(&process->child);
        ca_child_reap(&process->child, DEATH_SECONDS, &end);
        close_all(process);
    }
    free(process->line);
    *process = (struct ca_process){.was_killed = process->was_killed,
                                   .starved = process->starved,
                                   .requests = CA_NO_FILE,
                                   .answers = CA_NO_FILE,
                                   .words = CA_NO_FILE};
}

bool ca_child_describe(const struct ca_child_end *end, struct message *how)
{
    char death[80];

    if (!end->death) {
        message_set(how, "exited with status %d", end->status);
        return end->status == 0;
    }
    ca_child_print_death(end, death, sizeof death);
    return message_set(how, "was killed by %s", death);
}

/* The last line that the child has printed since the request, cut to fit; or "". */
static void last_words(const struct ca_process *process, char text[QUOTED])
{
    char end[1024];
    struct ca_file_facts facts = {.bytes = 0};

    if (process->words != CA_NO_FILE)
        ca_file_ask(process->words, &facts);
    const unsigned long long from = facts.bytes > sizeof end ? facts.bytes - sizeof end : 0;
    ptrdiff_t bytes = facts.bytes > 0 ? ca_file_read(process->words, end, sizeof end, from) : 0;

    text[0] = '\0';
    while (bytes > 0 && (end[bytes - 1] == '\n' || end[bytes - 1] == '\r' || end[bytes - 1] == ' '))
        bytes--; /* a line of Windows ends with both */
    ptrdiff_t begin = bytes;
    while (begin > 0 && end[begin - 1] != '\n')
        begin--;
    if (bytes > begin)
        snprintf(text, QUOTED, "%.*s", (int)(bytes - begin), end + begin);
}

/* Says how the process ended by itself. The caller adds the sentence's subject. */
static void autopsy(struct ca_process *process, struct message *how)
{
    struct ca_child_end end = {.killed = false};
    struct message said;
    char words[QUOTED];

    last_words(process, words);
    const bool reaped = ca_child_reap(&process->child, DEATH_SECONDS, &end);
    process->was_killed = end.killed;
    if (!reaped) {
        message_set(how, "fell silent");
        return;
    }
    ca_child_describe(&end, &said);
    if (words[0])
        message_set(how, "%.200s, saying '%s'", said.text, words);
    else
        *how = said;
}

bool ca_was_starved(const struct ca_processor_time *begin, const struct ca_processor_time *end,
                    double seconds)
{
    const double ran = end->ran - begin->ran, waited = end->waited - begin->waited;

    return end->stopped || (waited > 0.5 * seconds && waited > ran);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool send_request(struct ca_process *process, json_t *request)
{
    char *text = request ? json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    const size_t bytes = text ? strlen(text) + 1 : 0;

    json_decref(request);
    if (!text)
        return false;
    text[bytes - 1] = '\n';
    const bool sent = ca_pipe_write(process->requests, text, bytes);
    free(text);
    return sent;
}

/* Waits a moment and reads what has arrived: CA_ANSWERED once a line is complete, CA_STOPPED while
 * it is not, CA_LATE if nothing came. */
static enum ca_asked receive(struct ca_process *process, int milliseconds)
{
    if (process->capacity - process->filled < 4096) {
        const size_t capacity = process->capacity + 65536;
        char *grown = capacity <= MOST_LINE ? realloc(process->line, capacity) : NULL;
        if (!grown)
            return CA_DIED;
        process->line = grown;
        process->capacity = capacity;
    }
    const ptrdiff_t count = ca_pipe_read(process->answers, process->line + process->filled,
                                         process->capacity - process->filled - 1, milliseconds);
    if (count <= 0)
        return count < 0 ? CA_DIED : CA_LATE;
    process->filled += (size_t)count;
    process->line[process->filled] = '\0';
    return strchr(process->line, '\n') ? CA_ANSWERED : CA_STOPPED;
}

static enum ca_asked wait_for_line(struct ca_process *process, double seconds,
                                   ca_patience *patience, void *user)
{
    const double deadline = ca_stopwatch_now() + seconds;

    process->filled = 0;
    for (;;) {
        const double left = deadline - ca_stopwatch_now();
        const enum ca_asked asked =
            receive(process, (int)fmin(fmax(ceil(1e3 * left), 0.0), TICK_MILLISECONDS));
        if (asked == CA_ANSWERED || asked == CA_DIED)
            return asked;
        if (asked == CA_LATE && left <= 0.0)
            return CA_LATE;
        if (asked == CA_LATE && !patience(user))
            return CA_STOPPED;
    }
}

bool ca_process_request(struct ca_process *process, json_t *request)
{
    /* Output before the first request may explain why the process does not get there. */
    if (process->asked && process->words != CA_NO_FILE && !ca_file_truncate(process->words)) {
        ca_file_close(process->words);
        process->words = CA_NO_FILE;
    }
    process->before = ca_child_processor_time(&process->child);
    process->asked = send_request(process, request);
    return process->asked;
}

enum ca_asked ca_process_answer(struct ca_process *process, double seconds, ca_patience *patience,
                                void *user, json_t **answer, struct message *how)
{
    enum ca_asked asked =
        process->asked ? wait_for_line(process, seconds, patience, user) : CA_DIED;

    *answer = NULL;
    if (asked == CA_ANSWERED) {
        *answer = json_loads(process->line, 0, NULL);
        if (*answer)
            return CA_ANSWERED;
        asked = CA_DIED;
        process->was_killed = false;
        message_set(how, "answered nonsense");
    } else if (asked == CA_LATE) {
        const struct ca_processor_time after = ca_child_processor_time(&process->child);
        process->starved = ca_was_starved(&process->before, &after, seconds);
        message_set(how, "took longer than %.3g s%s", seconds,
                    process->starved ? ", but was kept from running for most of them" : "");
    } else if (asked == CA_STOPPED) {
        message_set(how, "was interrupted");
    } else {
        autopsy(process, how);
    }
    ca_process_end(process);
    return asked;
}

enum ca_asked ca_process_ask(struct ca_process *process, json_t *request, double seconds,
                             ca_patience *patience, void *user, json_t **answer,
                             struct message *how)
{
    ca_process_request(process, request);
    return ca_process_answer(process, seconds, patience, user, answer, how);
}
