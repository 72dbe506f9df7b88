/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/clock.h"
#include "os/process.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

extern char **environ;

/* Files that children get have higher numbers in this process than in the child. */
enum { LOWEST = 16 };

#define NAP_SECONDS 0.005

/* ---- pipes ------------------------------------------------------------------------------------ */

bool ca_pipe(ca_file ends[2])
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
            close((int)ends[n]);
    return false;
}

void ca_pipe_drop_excess(const ca_file ends[2])
{
    for (int n = 0; n < 2; n++)
        fcntl((int)ends[n], F_SETFL, fcntl((int)ends[n], F_GETFL) | O_NONBLOCK);
}

ptrdiff_t ca_pipe_read(ca_file end, void *data, size_t bytes, int milliseconds)
{
    struct pollfd ready = {.fd = (int)end, .events = POLLIN};

    if (poll(&ready, 1, milliseconds) <= 0)
        return 0;
    const ssize_t count = read((int)end, data, bytes);
    return count > 0 ? count : count < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : -1;
}

bool ca_pipe_write(ca_file end, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t count = write((int)end, (const char *)data + done, bytes - done);
        if (count < 0 && errno != EINTR)
            return false;
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

ca_file ca_output_open(void)
{
    FILE *file = tmpfile();
    const int output = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, LOWEST) : -1;

    if (file)
        fclose(file);
    if (output >= 0)
        fcntl(output, F_SETFL, O_RDWR | O_APPEND);
    return output;
}

/* ---- starting --------------------------------------------------------------------------------- */

/* The child gets default handlers for signals that this process ignores or catches. */
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

static int add_stream(posix_spawn_file_actions_t *actions, ca_file from, int to)
{
    if (from == CA_NO_FILE)
        return posix_spawn_file_actions_addopen(actions, to, "/dev/null",
                                                to == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
    return from != to ? posix_spawn_file_actions_adddup2(actions, (int)from, to) : 0;
}

/* Returns whether one of the variables has its name. */
static bool is_replaced(const char *variable, const char *const *variables)
{
    const size_t length = strcspn(variable, "=") + 1;

    for (; *variables; variables++)
        if (strncmp(variable, *variables, length) == 0)
            return true;
    return false;
}

/* The variables, and those of this process that they do not replace; NULL without memory. */
static const char **surround(const char *const *variables)
{
    static const char *const none[] = {NULL};
    size_t count = 0, own = 0;

    variables = variables ? variables : none;
    for (; variables[count]; count++)
        continue;
    for (; environ[own]; own++)
        continue;
    const char **list = calloc(count + own + 1, sizeof *list);
    for (size_t n = 0; list && n < count; n++)
        list[n] = variables[n];
    for (size_t n = 0; list && n < own; n++)
        if (!is_replaced(environ[n], variables))
            list[count++] = environ[n];
    return list;
}

int ca_child_start(struct ca_child *child, const char *const *argv,
                   const struct ca_child_files *files, const char *const *variables)
{
    const char **list = surround(variables);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    int error = ENOMEM;

    child->number = 0;
    if (!list || posix_spawn_file_actions_init(&actions) != 0)
        goto no_actions;
    if (posix_spawnattr_init(&attributes) != 0)
        goto no_attributes;
    set_attributes(&attributes);
    error = add_stream(&actions, files->input, STDIN_FILENO);
    error |= add_stream(&actions, files->output, STDOUT_FILENO);
    error |= add_stream(&actions, files->errors, STDERR_FILENO);
    for (size_t n = 0; n < files->num_more; n++)
        error |= add_stream(&actions, files->more[n].from, files->more[n].to);
    error = error ? ENOMEM
                  : posix_spawnp(&pid, argv[0], &actions, &attributes, (char *const *)argv,
                                 (char *const *)list);
    child->number = error ? 0 : (long)pid;
    posix_spawnattr_destroy(&attributes);
no_attributes:
    posix_spawn_file_actions_destroy(&actions);
no_actions:
    free((void *)list);
    return error;
}

/* ---- ending ----------------------------------------------------------------------------------- */

bool ca_child_has_ended(const struct ca_child *child)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)child->number, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child->number;
}

static struct ca_child_end describe(int status)
{
    static const int crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    const int death = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    struct ca_child_end end = {.death = death, .killed = death == SIGKILL};

    if (!death)
        end.status = WEXITSTATUS(status);
    for (size_t n = 0; n < sizeof crashes / sizeof *crashes; n++)
        end.crashed |= death == crashes[n];
    return end;
}

bool ca_child_reap(const struct ca_child *child, double seconds, struct ca_child_end *end)
{
    const double deadline = ca_stopwatch_now() + seconds;
    const pid_t pid = (pid_t)child->number;
    int status;
    pid_t ended = waitpid(pid, &status, WNOHANG);

    while (ended == 0 && ca_stopwatch_now() < deadline) {
        ca_nap(NAP_SECONDS);
        ended = waitpid(pid, &status, WNOHANG);
    }
    if (ended == pid)
        *end = describe(status);
    return ended == pid;
}

void ca_child_print_death(const struct ca_child_end *end, char *text, size_t bytes)
{
    snprintf(text, bytes, "signal %d (%s)", end->death, strsignal(end->death));
}

void ca_child_kill(const struct ca_child *child)
{
    kill(-(pid_t)child->number, SIGKILL);
}

void ca_child_ask_to_end(const struct ca_child *child)
{
    kill(-(pid_t)child->number, SIGTERM);
}

void ca_child_interrupt(const struct ca_child *child)
{
    kill((pid_t)child->number, SIGINT);
}

void ca_child_pause(const struct ca_child *child, bool pause)
{
    kill(-(pid_t)child->number, pause ? SIGSTOP : SIGCONT);
}

/* ---- the processors' time ----------------------------------------------------------------------- */

/* The state is the letter behind the name, which may hold anything, in parentheses. */
static bool is_stopped(long number)
{
    char path[64], text[512] = "";

    snprintf(path, sizeof path, "/proc/%ld/stat", number);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && (strncmp(name_end, ") T", 3) == 0 || strncmp(name_end, ") t", 3) == 0);
}

/* Adds a thread's nanoseconds. */
static void add_thread(long number, const char *thread, struct ca_processor_time *sum)
{
    unsigned long long ran, waited;
    char path[320];

    snprintf(path, sizeof path, "/proc/%ld/task/%s/schedstat", number, thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fscanf(file, "%llu %llu", &ran, &waited) == 2) {
        sum->ran += 1e-9 * (double)ran;
        sum->waited += 1e-9 * (double)waited;
    }
    fclose(file);
}

struct ca_processor_time ca_child_processor_time(const struct ca_child *child)
{
    struct ca_processor_time sum = {.stopped = is_stopped(child->number)};
    const struct dirent *entry;
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/task", child->number);
    DIR *threads = opendir(path);
    while (threads && (entry = readdir(threads)) != NULL)
        if (entry->d_name[0] != '.')
            add_thread(child->number, entry->d_name, &sum);
    if (threads)
        closedir(threads);
    return sum;
}

/* ---- this process ----------------------------------------------------------------------------- */

#define OWN_PROGRAM "/proc/self/exe"

bool ca_children_end_with_this(void)
{
    return false;
}

const char *ca_python_program(void)
{
    return "python3";
}

const char *ca_own_program(const char *argv0)
{
    return access(OWN_PROGRAM, X_OK) == 0 ? OWN_PROGRAM : argv0;
}

void ca_own_folder(char folder[CA_OWN_FOLDER_BYTES])
{
    const ssize_t length = readlink(OWN_PROGRAM, folder, CA_OWN_FOLDER_BYTES - 1);

    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[1] = '\0';
    else
        folder[0] = '\0';
}

void (*ca_own_function(const char *name))(void)
{
    void *program = dlopen(NULL, RTLD_NOW);
    void *symbol = program ? dlsym(program, name) : NULL;
    void (*function)(void) = NULL;

    /* POSIX allows this conversion to a function pointer, C has no cast for it */
    memcpy(&function, &symbol, sizeof symbol);
    return function;
}

void ca_variable_set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

char **ca_arguments(int argc, char **argv)
{
    (void)argc;
    return argv;
}

void ca_become(const char *const *argv)
{
    execvp(argv[0], (char *const *)argv);
}

void ca_standard_streams_begin(void)
{
    /* Each open() returns the lowest free descriptor, which is this one. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) == -1)
            return; /* without /dev/null there is no replacement */
}

FILE *ca_parent_stream(int number, const char *mode)
{
    fcntl(number, F_SETFD, FD_CLOEXEC);
    return fdopen(number, mode);
}

ca_file ca_parent_pipe(long number)
{
    enum { MOST = 1024 };
    struct stat status;

    if (number <= STDERR_FILENO || number > MOST || fstat((int)number, &status) != 0 ||
        !S_ISFIFO(status.st_mode))
        return CA_NO_FILE;
    fcntl((int)number, F_SETFD, FD_CLOEXEC);
    return number;
}

bool ca_parent_lives(long parent)
{
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    return (long)getppid() == parent;
}
