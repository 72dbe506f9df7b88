/*
 * Making a program for the first time, which may end the process: some compilers abort.
 *
 * Meanwhile a file beside its place in the cache counts the attempts, and the process holds a lock
 * on it. However that ends, the file is removed, unless the process dies: whoever finds it without a
 * lock knows how many did. Once may be a Ctrl-C, and it is tried again.
 */
#ifndef CA_FIRST_RUN_H
#define CA_FIRST_RUN_H

enum { CA_FIRST_RUN_DEATHS = 2 }; /* so many are the program's doing */

struct ca_first_run {
    char *path;
    int descriptor; /* -1: nothing is counted */
};

/*
 * Begins, and returns how many processes have died at it so far. The path, from malloc(), is the
 * run's from now on; NULL, or where no file can be written, nothing is counted, nor where another
 * process or thread is at it.
 */
int ca_first_run_begin(struct ca_first_run *run, char *path);

/* Ends it, however it went: nothing is left on disk. */
void ca_first_run_end(struct ca_first_run *run);

#endif
