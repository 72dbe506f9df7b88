/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a program for the first time, which may end the process: some compilers abort.
 *
 * Meanwhile a file beside its place in the cache counts the attempts, and the process holds a lock
 * on it. However that ends, the file is removed, unless the process dies: whoever finds it without a
 * lock knows how many did. Once may be chance, and it is tried again. Twice sets the program aside, and the file
 * stays. Either lasts for a day from the last attempt, and for processes alone that have the same circumstances: a
 * lack of memory that a limit, or the machine until its next boot, has brought about is not held against the
 * program for longer. A signal by which somebody ends
 * the process is no death of the program's: who handles it says so by ca_first_runs_excuse().
 */
#ifndef CA_FIRST_RUN_H
#define CA_FIRST_RUN_H

#include "os/file.h"

#include <stdatomic.h>
#include <time.h>

enum {
    CA_FIRST_RUN_DEATHS = 2,      /* from this many deaths on the program is blamed */
    CA_FIRST_RUN_SECONDS = 86400, /* how long deaths count, from the last attempt on */
    CA_FIRST_RUNS = 16            /* most runs under way that a signal handler can excuse */
};

/* The first runs of a context that are under way. A slot is 0, or a file and the deaths before, in
 * a form that signal handlers can read. */
struct ca_first_runs {
    atomic_intptr_t slots[CA_FIRST_RUNS];
};

struct ca_first_run {
    char *path;
    ca_file file; /* CA_NO_FILE: nothing is counted */
    int stays;    /* not 0: the file stays on disk after the run's end */
    atomic_intptr_t *slot;
    /* the slot's value: the file and the number of deaths, encoded in one integer */
    intptr_t entry;
};

/*
 * Begins, and returns how many processes have died at it so far. The path, from malloc(), is the
 * run's from now on; NULL, or where no file can be written or locked, nothing is counted, nor where another
 * process or thread is at it. It stands among runs until it ends. what: lines that say what is made, which the file
 * holds behind its count, for those who look for it. From CA_FIRST_RUN_DEATHS on *until is when that is over.
 */
int ca_first_run_begin(struct ca_first_runs *runs, struct ca_first_run *run, char *path,
                       const char *what, time_t *until);

/* Ends a run, whatever its outcome: no file is left on disk, except one that has set the program
 * aside. */
void ca_first_run_end(struct ca_first_run *run);

/* Excuses all runs of a process that is about to end: they count as if they had not begun. Safe in
 * a signal handler. */
void ca_first_runs_excuse(struct ca_first_runs *runs);

#endif
