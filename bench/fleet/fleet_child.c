#define _POSIX_C_SOURCE 200809L /* waitid, strsignal, setenv */
#include "bench/fleet/fleet_child.h"
#include "bench/fleet/progress.h"
#include "cli/child.h"
#include "cli/interrupt.h"
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

enum { HEART = 3 /* the child's number of it */, TICK_MILLISECONDS = 100 };

/* How long a child may take to end in an orderly way, and to end once it was killed. */
#define GRACE_SECONDS 5.0
#define DEATH_SECONDS 3.0

/* ---- starting -------------------------------------------------------------------------------- */

/* What does not fit is lost: the writer never waits. */
static bool make_heart(int ends[2])
{
    const bool made = ca_child_pipe(ends);

    for (int n = 0; made && n < 2; n++)
        fcntl(ends[n], F_SETFL, fcntl(ends[n], F_GETFL) | O_NONBLOCK);
    return made;
}

/* 0 or an error number. */
static int start(pid_t *pid, const char *const *argv, bool input, int output, int heart)
{
    const struct ca_child_files files = {
        .input = input ? STDIN_FILENO : CA_CHILD_NOTHING,
        .output = output,
        .errors = STDERR_FILENO,
        .more = {{heart, HEART}},
        .num_more = 1,
    };
    char number[16];

    snprintf(number, sizeof number, "%d", HEART);
    setenv(PROGRESS_HEARTBEAT, number, 1);
    const int error = ca_child_start(pid, argv, &files, NULL);
    unsetenv(PROGRESS_HEARTBEAT);
    return error;
}

/* ---- watching -------------------------------------------------------------------------------- */

struct watch {
    pid_t pid;
    int heart;             /* -1 once the child has closed its end */
    char text[256];        /* of a line that is not complete */
    struct fleet_end *end; /* so far */
};

/* Keeps the last complete line as what the child does. */
static void hear(struct watch *watch)
{
    size_t length = strlen(watch->text);
    const ssize_t count = read(watch->heart, watch->text + length, sizeof watch->text - 1 - length);

    if (count <= 0) {
        if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
            close(watch->heart);
            watch->heart = -1;
        }
        return;
    }
    watch->text[length + (size_t)count] = '\0';
    for (char *end; (end = strchr(watch->text, '\n')) != NULL;) {
        *end = '\0';
        snprintf(watch->end->doing, sizeof watch->end->doing, "%.*s",
                 (int)sizeof watch->end->doing - 1, watch->text);
        ca_make_printable(watch->end->doing);
        memmove(watch->text, end + 1, strlen(end + 1) + 1);
    }
    if (strlen(watch->text) == sizeof watch->text - 1) /* no line of ours is that long */
        watch->text[0] = '\0';
}

/* Whether it ended; it is not reaped yet, so that its number stays its own. */
static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Waits a moment, at most until something is heard. True if it was. */
static bool wait_for_sign(struct watch *watch)
{
    struct pollfd heart = {.fd = watch->heart, .events = POLLIN};

    if (poll(&heart, 1, TICK_MILLISECONDS) <= 0)
        return false;
    hear(watch);
    return true;
}

static bool ends_within(struct watch *watch, double seconds)
{
    const double deadline = ca_stopwatch_now() + seconds;

    while (!has_ended(watch->pid) && ca_stopwatch_now() < deadline && ca_interrupts() < 2)
        wait_for_sign(watch);
    return has_ended(watch->pid);
}

/* Until it ends, of itself or because it has to. */
static void attend(struct watch *watch, double silence)
{
    double heard = ca_stopwatch_now();
    bool told = false;

    while (!has_ended(watch->pid)) {
        if (wait_for_sign(watch))
            heard = ca_stopwatch_now();
        if (ca_interrupts() > 0 && !told)
            told = kill(watch->pid, SIGINT) == 0;
        if (ca_interrupts() > 1)
            return;
        if (ca_stopwatch_now() - heard < silence)
            continue;
        watch->end->silent = true;
        kill(-watch->pid, SIGTERM);
        ends_within(watch, fmin(GRACE_SECONDS, silence));
        return;
    }
}

bool fleet_child_run(const char *const *argv, bool input, int output, double silence,
                     struct fleet_end *end, struct message *why)
{
    struct watch watch = {.end = end};
    int ends[2];

    memset(end, 0, sizeof *end);
    if (!make_heart(ends))
        return message_set(why, "got no pipe: %s", strerror(errno));
    const int error = start(&watch.pid, argv, input, output, ends[1]);
    close(ends[1]);
    watch.heart = ends[0];
    if (!error) {
        attend(&watch, silence);
        kill(-watch.pid, SIGKILL); /* its group: a compiler that it ran, too */
        for (const double deadline = ca_stopwatch_now() + DEATH_SECONDS;
             !has_ended(watch.pid) && ca_stopwatch_now() < deadline;)
            wait_for_sign(&watch);
        while (watch.heart >= 0 && wait_for_sign(&watch)) /* its last words */
            continue;
        end->stuck = waitpid(watch.pid, &end->status, WNOHANG) != watch.pid;
    }
    if (watch.heart >= 0)
        close(watch.heart);
    return !error || message_set(why, "%s was not started: %s", argv[0], strerror(error));
}

/* ---- telling --------------------------------------------------------------------------------- */

bool fleet_end_is(const struct fleet_end *end, int exit_status)
{
    return !end->stuck && !end->silent && WIFEXITED(end->status) &&
           WEXITSTATUS(end->status) == exit_status;
}

void fleet_end_describe(const struct fleet_end *end, double silence, struct message *how)
{
    static const int crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    const int number = end->stuck || !WIFSIGNALED(end->status) ? 0 : WTERMSIG(end->status);
    const char *begin = "", *hint = "";
    char doing[200] = "";

    if (end->doing[0] != '\0')
        snprintf(doing, sizeof doing, " while it did '%s'", end->doing);
    for (size_t n = 0; n < sizeof crashes / sizeof *crashes; n++)
        if (number == crashes[n])
            begin = "the driver crashed: ";
    if (number == SIGKILL)
        hint = "; the system does so when memory runs out";
    if (end->silent)
        message_set(how, "gave no sign of life for %.3g s%s and was ended%s", silence, doing,
                    end->stuck ? ", but hangs in its driver" : "");
    else if (end->stuck)
        message_set(how, "does not end%s: it hangs in its driver", doing);
    else if (number != 0)
        message_set(how, "%skilled by signal %d (%s)%s%s", begin, number, strsignal(number), doing,
                    hint);
    else
        message_set(how, "ended with exit status %d%s", WEXITSTATUS(end->status), doing);
}
