/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that a test runs in another process: a forked one, or on Windows this program started once more. */
#ifndef TEST_APART_H
#define TEST_APART_H

#include "os/process.h"

/* It gets the test's scratch folder, a number, what hears it and what it hears; it returns the exit status. */
struct apart_site {
    size_t number;
    ca_file says, hears;
};
typedef int apart_function(const struct apart_site *site);

/* Before the tests: functions that are not named so cannot be run apart. */
#define APART(function)                                                                            \
    __attribute__((constructor)) static void function##_runs_apart(void)                           \
    {                                                                                              \
        apart_name(#function, function);                                                           \
    }
void apart_name(const char *name, apart_function *function);

struct apart {
    struct ca_child child;
    ca_file says, hears; /* ends of pipes: what it says is read, what it hears is written */
};
struct apart apart_start(apart_function *function, size_t number);

/* Returns whether it said a byte; false once it has ended. */
bool apart_said(const struct apart *apart);

/* Waits for its end and closes the pipes; returns its exit status, -1 if something killed it. */
int apart_end(const struct apart *apart);

/* Kills it: it is no longer there on return. What it has said can still be read, until the pipes are closed. */
void apart_kill(const struct apart *apart);
void apart_close(const struct apart *apart);

/* Kills this process. */
void apart_die(void);

/* The program begins here where it was started for such a function; returns its status. */
int apart_main(char **arguments);

#endif
