/* Child processes: how they are started, and how they ended. */
#ifndef CA_CHILD_H
#define CA_CHILD_H

#include "cli/message.h"

#include <stddef.h>
#include <sys/types.h>

/* Instead of a descriptor. */
enum { CA_CHILD_NOTHING = -1 /* /dev/null */ };

/* What a child gets: its standard streams, which are descriptors of this process, and others by the
 * numbers that it knows them by. */
struct ca_child_files {
    int input, output, errors;
    struct {
        int from, to;
    } more[2];
    size_t num_more;
};

/* A pipe whose ends no child inherits by accident, and that lie above the numbers a child gets. On
 * failure errno says why. */
bool ca_child_pipe(int ends[2]);

/* Starts argv, whose first is the program's path or its name on the PATH, in a process group of its
 * own: what the terminal sends to this program does not reach it. NULL: this process's variables.
 * Returns 0, or what errno would be; *pid is 0 then. */
int ca_child_start(pid_t *pid, const char *const *argv, const struct ca_child_files *files,
                   char *const *variables);

/* Waits for its end for so many seconds; what hangs in its driver may not end even when killed, and
 * is left behind. False if it did not end. */
bool ca_child_reap(pid_t pid, double seconds, int *status);

/* "was killed by signal 11 (Segmentation fault)", "exited with status 3". Returns whether it exited
 * with status 0. */
bool ca_child_describe(int status, struct message *how);

#endif
