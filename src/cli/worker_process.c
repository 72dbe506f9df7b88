#define _POSIX_C_SOURCE 200809L /* posix_spawn, clock_gettime, fileno */
#include "cli/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MOST_LINE = 1 << 20, TICK_MILLISECONDS = 200, QUOTED = 160 };

double ca_process_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* A pipe whose ends no child inherits by accident, and that lie above the numbers a child gets. */
static bool make_pipe(int ends[2])
{
    int low[2];

    if (pipe(low) != 0)
        return false;
    for (int n = 0; n < 2; n++) {
        ends[n] = fcntl(low[n], F_DUPFD_CLOEXEC, 16);
        close(low[n]);
    }
    if (ends[0] >= 0 && ends[1] >= 0)
        return true;
    for (int n = 0; n < 2; n++)
        if (ends[n] >= 0)
            close(ends[n]);
    return false;
}

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

/* In a process group of its own: what the terminal sends to this program does not reach it. */
static int spawn(struct ca_process *process, const char *const *argv, int requests, int answers)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t defaults;

    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGTERM);
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    int error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    error |=
        process->words >= 0
            ? posix_spawn_file_actions_adddup2(&files, process->words, STDOUT_FILENO)
            : posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    error |= posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    error |= posix_spawn_file_actions_adddup2(&files, requests, CA_WORKER_REQUESTS);
    error |= posix_spawn_file_actions_adddup2(&files, answers, CA_WORKER_ANSWERS);
    error = error ? ENOMEM
                  : posix_spawnp(&process->pid, argv[0], &files, &attributes, (char *const *)argv,
                                 environ);
    if (error)
        process->pid = 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

bool ca_process_start(struct ca_process *process, const char *const *argv, struct ca_sentence *why)
{
    int requests[2], answers[2];

    *process = (struct ca_process){.requests = -1, .answers = -1, .words = -1};
    if (!make_pipe(requests))
        return ca_say(why, "got no pipe: %s", strerror(errno));
    if (!make_pipe(answers)) {
        close(requests[0]);
        close(requests[1]);
        return ca_say(why, "got no pipe: %s", strerror(errno));
    }
    process->words = make_words();
    const int error = spawn(process, argv, requests[0], answers[1]);
    close(requests[0]);
    close(answers[1]);
    process->requests = requests[1];
    process->answers = answers[0];
    if (!error)
        return true;
    close_all(process);
    return ca_say(why, "was not started from %s: %s", argv[0], strerror(error));
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Waits for the end for a few seconds; what hangs in its driver may not end even when killed, and
 * is left behind. False if it did not end. */
static bool reap(pid_t pid, int *status)
{
    const struct timespec nap = {0, 5000000};
    pid_t ended = 0;

    for (int n = 0; n < 600 && ended == 0; n++) {
        ended = waitpid(pid, status, WNOHANG);
        if (ended == 0)
            nanosleep(&nap, NULL);
    }
    return ended == pid;
}

void ca_process_end(struct ca_process *process)
{
    int status;

    if (process->pid > 0) {
        kill(-process->pid, SIGKILL); /* its group: a compiler that it runs, too */
        reap(process->pid, &status);
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
static void autopsy(struct ca_process *process, struct ca_sentence *how)
{
    char words[QUOTED];
    int status = 0;

    last_words(process, words);
    const char *open = words[0] ? ", saying '" : "", *close = words[0] ? "'" : "";
    const bool reaped = reap(process->pid, &status);
    process->end_signal = reaped && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (!reaped)
        ca_say(how, "fell silent");
    else if (WIFSIGNALED(status))
        ca_say(how, "was killed by signal %d (%s)%s%s%s", WTERMSIG(status),
               strsignal(WTERMSIG(status)), open, words, close);
    else
        ca_say(how, "exited with status %d%s%s%s", WEXITSTATUS(status), open, words, close);
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
    const double deadline = ca_process_clock() + seconds;
    enum ca_asked asked = CA_STOPPED;

    process->filled = 0;
    while (asked == CA_STOPPED) {
        const double left = deadline - ca_process_clock();
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
                                void *user, json_t **answer, struct ca_sentence *how)
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
        ca_say(how, "answered nonsense");
    } else if (asked == CA_LATE) {
        const struct ca_processor_time after = ca_processor_time(process->pid);
        process->starved = ca_was_starved(&process->before, &after, seconds);
        ca_say(how, "took longer than %.3g s%s", seconds,
               process->starved ? ", but was kept from running for most of them" : "");
    } else if (asked == CA_STOPPED) {
        ca_say(how, "was interrupted");
    } else {
        autopsy(process, how);
    }
    ca_process_end(process);
    return asked;
}

enum ca_asked ca_process_ask(struct ca_process *process, json_t *request, double seconds,
                             ca_patience *patience, void *user, json_t **answer,
                             struct ca_sentence *how)
{
    ca_process_request(process, request);
    return ca_process_answer(process, seconds, patience, user, answer, how);
}
