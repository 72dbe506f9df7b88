/* SPDX-License-Identifier: Apache-2.0 */
#if defined(_WIN32)
#include "os/windows.h"
#else
#define _POSIX_C_SOURCE 200809L /* fork, kill */
#endif
#include "os/clock.h"
#include "tests/support/programs/apart.h"
#include "tests/support/programs/scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)

static struct {
    const char *name;
    apart_function *function;
} named[32];
static size_t num_named;

void apart_name(const char *name, apart_function *function)
{
    if (num_named == sizeof named / sizeof *named)
        abort();
    named[num_named].name = name;
    named[num_named++].function = function;
}

enum { SAYS = 5, HEARS = 6 }; /* by which numbers the child finds the pipes */

int apart_main(char **arguments)
{
    const struct apart_site site = {(size_t)strtoull(arguments[1], NULL, 10), ca_parent_pipe(SAYS),
                                    ca_parent_pipe(HEARS)};

    snprintf(scratch, sizeof scratch, "%s", arguments[2]);
    for (size_t n = 0; n < num_named; n++)
        if (strcmp(named[n].name, arguments[0]) == 0)
            return named[n].function(&site);
    return 127;
}

static int start(struct apart *apart, apart_function *function, const size_t number,
                 const ca_file says[2], const ca_file hears[2])
{
    const struct ca_child_files files = {.input = CA_NO_FILE,
                                         .output = CA_OWN_OUTPUT,
                                         .errors = CA_OWN_ERRORS,
                                         .more = {{says[1], SAYS}, {hears[0], HEARS}},
                                         .num_more = 2};
    const char *name = "";
    char text[32];

    for (size_t n = 0; n < num_named; n++)
        name = named[n].function == function ? named[n].name : name;
    snprintf(text, sizeof text, "%zu", number);
    return ca_child_start(
        &apart->child,
        (const char *const[]){ca_own_program(""), "--apart", name, text, scratch, NULL}, &files,
        NULL);
}

static void kill_child(const struct apart *apart)
{
    ca_child_kill(&apart->child);
}

void apart_die(void)
{
    TerminateProcess(GetCurrentProcess(), 0xc0000005u); /* as an access that is not allowed does */
}

#else

#include <unistd.h>

void apart_name(const char *name, apart_function *function)
{
    (void)name;
    (void)function;
}

static int start(struct apart *apart, apart_function *function, const size_t number,
                 const ca_file says[2], const ca_file hears[2])
{
    const struct apart_site site = {number, says[1], hears[0]};
    const pid_t child = fork();

    if (child == 0) {
        ca_file_close(says[0]);
        ca_file_close(hears[1]);
        _exit(function(&site));
    }
    apart->child.number = child;
    return child < 0 ? errno : 0;
}

static void kill_child(const struct apart *apart)
{
    kill((pid_t)apart->child.number, SIGKILL);
}

void apart_die(void)
{
    kill(getpid(), SIGKILL);
}

#endif

enum { STARTS = 20 }; /* tries: a busy machine, and Wine on it, refuse a process for a moment */

struct apart apart_start(apart_function *function, const size_t number)
{
    ca_file says[2], hears[2];
    struct apart apart;
    int error;

    cr_assert(ca_pipe(says) && ca_pipe(hears));
    for (int tries = 0; (error = start(&apart, function, number, says, hears)) != 0; tries++) {
        cr_assert(tries < STARTS, "no process can be started: %s", strerror(error));
        ca_nap(0.5);
    }
    ca_file_close(says[1]);
    ca_file_close(hears[0]);
    apart.says = says[0];
    apart.hears = hears[1];
    return apart;
}

bool apart_said(const struct apart *apart)
{
    char byte;

    return ca_pipe_read(apart->says, &byte, 1, 60000) == 1;
}

void apart_kill(const struct apart *apart)
{
    struct ca_child_end end = {0};

    kill_child(apart);
    cr_assert(ca_child_reap(&apart->child, 60, &end) && end.killed);
}

void apart_close(const struct apart *apart)
{
    ca_file_close(apart->says);
    ca_file_close(apart->hears);
}

int apart_end(const struct apart *apart)
{
    struct ca_child_end end = {0};

    cr_assert(ca_child_reap(&apart->child, 600, &end));
    apart_close(apart);
    return end.death ? -1 : end.status;
}
