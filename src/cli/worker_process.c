#define _POSIX_C_SOURCE 200809L /* fileno, kill, ftruncate */
#include "cli/worker_process.h"
#include "cli/child.h"
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_LINE = 1 << 20, TICK_MILLISECONDS = 200, QUOTED = 160 };

#define DEATH_SECONDS 3.0

/* ---- starting -------------------------------------------------------------------------------- */

/* A file without a name, every writer at its end. */
static int make_words(void)
{
    FILE *file = tmpfile();
    const int words = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 16) : -1;

    if (file)
        fclose(file);
    if (words >= 0)
        fcntl(words, F_SETFL, O_RDWR | O_APPEND);
    return words;
}

static void close_all(struct ca_process *process)
{
    int *ends[] = {&process->requests, &process->answers, &process->words};

    for (size_t n = 0; n < sizeof ends / sizeof *ends; n++) {
        if (*ends[n] >= 0)
            close(*ends[n]);
        *ends[n] = -1;
    }
}

bool ca_process_start(struct ca_process *process, const char *const *argv, struct message *why)
{
    int requests[2], answers[2];

    *process = (struct ca_process){.requests = -1, .answers = -1, .words = -1};
    if (!ca_child_pipe(requests))
        return message_set(why, "got no pipe: %s", strerror(errno));
    if (!ca_child_pipe(answers)) {
        close(requests[0]);
        close(requests[1]);
        return message_set(why, "got no pipe: %s", strerror(errno));
    }
    process->words = make_words();
    const struct ca_child_files files = {
        .input = CA_CHILD_NOTHING,
        .output = process->words, /* or nothing, if there is no such file */
        .errors = process->words,
        .more = {{requests[0], CA_WORKER_REQUESTS}, {answers[1], CA_WORKER_ANSWERS}},
        .num_more = 2,
    };
    const int error = ca_child_start(&process->pid, argv, &files, NULL);
    close(requests[0]);
    close(answers[1]);
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
    int status;

    if (process->pid > 0) {
        kill(-process->pid, SIGKILL); /* its group: a compiler that it runs, too */
        ca_child_reap(process->pid, DEATH_SECONDS, &status);
        close_all(process);
    }
    free(process->line);
    *process = (struct ca_process){.end_signal = process->end_signal,
                                   .starved = process->starved,
                                   .requests = -1,
                                   .answers = -1,
                                   .words = -1};
}

/* The last line of what it printed since the request, cut, or "". */
static void last_words(const struct ca_process *process, char text[QUOTED])
{
    char end[1024];
    const off_t size = process->words >= 0 ? lseek(process->words, 0, SEEK_END) : 0;
    const off_t from = size > (off_t)sizeof end ? size - (off_t)sizeof end : 0;
    ssize_t bytes = size > 0 ? pread(process->words, end, sizeof end, from) : 0;

    text[0] = '\0';
    while (bytes > 0 && (end[bytes - 1] == '\n' || end[bytes - 1] == ' '))
        bytes--;
    ssize_t begin = bytes;
    while (begin > 0 && end[begin - 1] != '\n')
        begin--;
    if (bytes > begin)
        snprintf(text, QUOTED, "%.*s", (int)(bytes - begin), end + begin);
}

/* How it ended of itself; the sentence's subject is for the caller to add. */
static void autopsy(struct ca_process *process, struct message *how)
{
    struct message end;
    char words[QUOTED];
    int status = 0;

    last_words(process, words);
    const bool reaped = ca_child_reap(process->pid, DEATH_SECONDS, &status);
    process->end_signal = reaped && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (!reaped) {
        message_set(how, "fell silent");
        return;
    }
    ca_child_describe(status, &end);
    if (words[0])
        message_set(how, "%.200s, saying '%s'", end.text, words);
    else
        *how = end;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool send_request(struct ca_process *process, json_t *request)
{
    char *text = request ? json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    size_t sent = 0, bytes = text ? strlen(text) + 1 : 0;

    json_decref(request);
    if (!text)
        return false;
    text[bytes - 1] = '\n';
    while (sent < bytes) {
        const ssize_t count = write(process->requests, text + sent, bytes - sent);
        if (count < 0 && errno != EINTR)
            break;
        sent += count > 0 ? (size_t)count : 0;
    }
    free(text);
    return sent == bytes;
}

/* Takes what has come: CA_ANSWERED once a line is complete, CA_STOPPED while it is not. */
static enum ca_asked receive(struct ca_process *process)
{
    if (process->capacity - process->filled < 4096) {
        const size_t capacity = process->capacity + 65536;
        char *grown = capacity <= MOST_LINE ? realloc(process->line, capacity) : NULL;
        if (!grown)
            return CA_DIED;
        process->line = grown;
        process->capacity = capacity;
    }
    const ssize_t count = read(process->answers, process->line + process->filled,
                               process->capacity - process->filled - 1);
    if (count < 0 && errno == EINTR)
        return CA_STOPPED;
    if (count <= 0)
        return CA_DIED;
    process->filled += (size_t)count;
    process->line[process->filled] = '\0';
    return strchr(process->line, '\n') ? CA_ANSWERED : CA_STOPPED;
}

static enum ca_asked wait_for_line(struct ca_process *process, double seconds,
                                   ca_patience *patience, void *user)
{
    const double deadline = ca_stopwatch_now() + seconds;
    enum ca_asked asked = CA_STOPPED;

    process->filled = 0;
    while (asked == CA_STOPPED) {
        const double left = deadline - ca_stopwatch_now();
        const double wait = fmin(fmax(ceil(1e3 * left), 0.0), TICK_MILLISECONDS);
        struct pollfd answers = {.fd = process->answers, .events = POLLIN};
        if (poll(&answers, 1, (int)wait) > 0)
            asked = receive(process);
        else if (left <= 0.0)
            return CA_LATE;
        else if (!patience(user))
            return CA_STOPPED;
    }
    return asked;
}

bool ca_process_request(struct ca_process *process, json_t *request)
{
    /* What it printed before the first request may be why it does not get there. */
    if (process->asked && process->words >= 0 && ftruncate(process->words, 0) != 0) {
        close(process->words);
        process->words = -1;
    }
    process->before = ca_processor_time(process->pid);
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
        process->end_signal = 0;
        message_set(how, "answered nonsense");
    } else if (asked == CA_LATE) {
        const struct ca_processor_time after = ca_processor_time(process->pid);
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
