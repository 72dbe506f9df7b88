/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first build of a program may end the process, since some compilers abort.
 *
 * During the build the process holds a lock on a file beside the program's place in the cache. The file counts the attempts.
 * It is removed when the build ends, whatever its outcome. If the process dies, the file stays without a lock, and the next
 * process reads from it how many have died. One death may be chance, and the program is built again. After two the program
 * is no longer built, and the file stays. A count is valid for a day after the last attempt, and only for processes with the
 * same circumstances (os/circumstances.h): a lack of memory may be due to a limit, or pass with the machine's next boot. A
 * signal by which somebody ends the process is not the program's fault: the signal handler calls ca_first_runs_excuse().
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
 * Begins a run, and returns how many processes have died in runs of the same program. path is the file's, from malloc(); the
 * run frees it. Nothing is counted if path is NULL, if the file cannot be written or locked, or if another process or thread
 * builds the program now. The run is listed in `runs` until it ends. what: lines that describe the program; the file has
 * them after its count, so that a search of the cache finds them. From CA_FIRST_RUN_DEATHS deaths on, *until is when the
 * program may be built again.
 */
int ca_first_run_begin(struct ca_first_runs *runs, struct ca_first_run *run, char *path,
                       const char *what, time_t *until);

/* Ends a run, whatever its outcome, and removes its file. The file of a program that is no longer built stays. */
void ca_first_run_end(struct ca_first_run *run);

/* Excuses all runs of a process that is about to end: they count as if they had not begun. Safe in
 * a signal handler. */
void ca_first_runs_excuse(struct ca_first_runs *runs);

#endif
