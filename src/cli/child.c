#define _POSIX_C_SOURCE 200809L /* posix_spawn, strsignal, nanosleep */
#include "cli/child.h"
#include "cli/interrupt.h"
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { LOWEST = 16, NAP_NANOSECONDS = 5000000 };

bool ca_child_pipe(int ends[2])
{
    int low[2];

    if (pipe(low) != 0)
        return false;
    for (int n = 0; n < 2; n++) {
        ends[n] = fcntl(low[n], F_DUPFD_CLOEXEC, LOWEST);
        close(low[n]);
    }
    if (ends[0] >= 0 && ends[1] >= 0)
        return true;
    for (int n = 0; n < 2; n++)
        if (ends[n] >= 0)
            close(ends[n]);
    return false;
}

/* What this process ignores or catches, the child does not. */
static void set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t signals;

    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                             POSIX_SPAWN_SETSIGMASK);
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    for (size_t n = 0; n < CA_INTERRUPTS; n++)
        sigaddset(&signals, ca_interrupt_numbers[n]);
    posix_spawnattr_setsigdefault(attributes, &signals);
    sigprocmask(SIG_BLOCK, NULL, &signals);
    sigaddset(&signals, SIGTTOU); /* else a terminal with `tostop` stops it when it draws */
    posix_spawnattr_setsigmask(attributes, &signals);
}

static int add_stream(posix_spawn_file_actions_t *actions, int from, int to)
{
    if (from == CA_CHILD_NOTHING)
        return posix_spawn_file_actions_addopen(actions, to, "/dev/null",
                                                to == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
    return from != to ? posix_spawn_file_actions_adddup2(actions, from, to) : 0;
}

int ca_child_start(pid_t *pid, const char *const *argv, const struct ca_child_files *files,
                   char *const *variables)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;

    *pid = 0;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    set_attributes(&attributes);
    int error = add_stream(&actions, files->input, STDIN_FILENO);
    error |= add_stream(&actions, files->output, STDOUT_FILENO);
    error |= add_stream(&actions, files->errors, STDERR_FILENO);
    for (size_t n = 0; n < files->num_more; n++)
        error |= add_stream(&actions, files->more[n].from, files->more[n].to);
    error = error ? ENOMEM
                  : posix_spawnp(pid, argv[0], &actions, &attributes, (char *const *)argv,
                                 variables ? variables : environ);
    if (error)
        *pid = 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

bool ca_child_reap(pid_t pid, double seconds, int *status)
{
    const struct timespec nap = {0, NAP_NANOSECONDS};
    const double deadline = ca_stopwatch_now() + seconds;
    pid_t ended = waitpid(pid, status, WNOHANG);

    while (ended == 0 && ca_stopwatch_now() < deadline) {
        nanosleep(&nap, NULL);
        ended = waitpid(pid, status, WNOHANG);
    }
    return ended == pid;
}

bool ca_child_describe(int status, struct message *how)
{
    if (WIFSIGNALED(status))
        return message_set(how, "was killed by signal %d (%s)", WTERMSIG(status),
                           strsignal(WTERMSIG(status)));
    message_set(how, "exited with status %d", WEXITSTATUS(status));
    return WEXITSTATUS(status) == 0;
}
