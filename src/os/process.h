/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes, pipes to them, and facts about this process and its parent. Where a function
 * fails, errno says why. */
#ifndef CA_OS_PROCESS_H
#define CA_OS_PROCESS_H

#include "os/file.h"

/* ---- pipes ------------------------------------------------------------------------------------ */

/* Makes a pipe: bytes written to the second end can be read from the first. */
bool ca_pipe(ca_file ends[2]);

/* From now on writers do not wait: bytes that do not fit into the pipe are lost. */
void ca_pipe_drop_excess(const ca_file ends[2]);

/* Waits that long for data, and reads what has arrived. 0: nothing arrived; -1: nothing will arrive
 * any more. */
ptrdiff_t ca_pipe_read(ca_file pipe, void *data, size_t bytes, int milliseconds);

/* Writes to a pipe; errno is EPIPE if it has no reader. */
bool ca_pipe_write(ca_file pipe, const void *data, size_t bytes);

/* Opens a file without a name, to whose end all children that print to it write. */
ca_file ca_output_open(void);

/* ---- children --------------------------------------------------------------------------------- */

/* A child, and all that it starts. */
struct ca_child {
    long number; /* the process's number in the system; 0: no child */
};

/* The files that a child gets as its standard streams, CA_NO_FILE for none, and further ones with
 * the numbers by which the child finds them (ca_parent_stream()). */
struct ca_child_files {
    ca_file input, output, errors;
    struct {
        ca_file from;
        int to;
    } more[2];
    size_t num_more;
};

/* This process's own streams, as such files. */
enum { CA_OWN_INPUT, CA_OWN_OUTPUT, CA_OWN_ERRORS };

/*
 * Starts argv, whose first is the program's path or its name on the PATH; what the terminal sends to this program
 * does not reach it. It has this process's variables, but for those of `variables` ("NAME=VALUE", ends with NULL;
 * or NULL). Returns 0, or what errno would be; then there is no child.
 */
int ca_child_start(struct ca_child *child, const char *const *argv,
                   const struct ca_child_files *files, const char *const *variables);

struct ca_child_end {
    int status; /* the exit status */
    /* 0: the child exited; else the system's number of what ended it, such as a signal */
    int death;
    bool crashed; /* a fault of its own ended it */
    bool killed;  /* another process killed it, or the system did for lack of memory */
};

/* "signal 11 (Segmentation fault)". */
void ca_child_print_death(const struct ca_child_end *end, char *text, size_t bytes);

/* Returns whether the child has ended. The system gives its process number to no other before ca_child_reap(). */
bool ca_child_has_ended(const struct ca_child *child);

/* Waits for its end for that many seconds. A process that hangs in its driver may not end even when
 * killed, and is left behind. False if it did not end. */
bool ca_child_reap(const struct ca_child *child, double seconds, struct ca_child_end *end);

/* Ends it, with all that it has started; asks them to end; passes an interrupt of the user's on to it alone. */
void ca_child_kill(const struct ca_child *child);
void ca_child_ask_to_end(const struct ca_child *child);
void ca_child_interrupt(const struct ca_child *child);

/* Stops all of its processes, or lets them go on. */
void ca_child_pause(const struct ca_child *child, bool pause);

/* Processor time of all of a child's threads together, in seconds since they began. Zeros where the
 * system does not tell; Linux does. */
struct ca_processor_time {
    double ran, waited; /* seconds running, and seconds ready to run while others ran */
    bool stopped;       /* a signal or a debugger has stopped it */
};
struct ca_processor_time ca_child_processor_time(const struct ca_child *child);

/* Returns whether the system ends a child, and what that has started, when this process ends, however it does. */
bool ca_children_end_with_this(void);

/* Python's name on the PATH. */
const char *ca_python_program(void);

/* ---- this process ----------------------------------------------------------------------------- */

/* The path that starts this program once more; argv[0] where the system does not tell. */
const char *ca_own_program(const char *argv0);

/* The folder of this program with a slash at its end; "" where the system does not tell. */
enum { CA_OWN_FOLDER_BYTES = 1024 };
void ca_own_folder(char folder[CA_OWN_FOLDER_BYTES]);

/* A function of this program or of the libraries that it has loaded, to be given its type; NULL if there is none. */
void (*ca_own_function(const char *name))(void);

/* Sets one of this process's variables; NULL removes it. */
void ca_variable_set(const char *name, const char *value);

/* The arguments of main() in UTF-8, for the whole life of the process: Windows hands over the bytes of an older code page. */
char **ca_arguments(int argc, char **argv);

/* Becomes another program, as if that had been started instead: returns if it cannot be. */
void ca_become(const char *const *argv);

/* Must be called before any file is opened. The next opened file would replace a standard stream
 * that the caller has closed, and would be printed into. So closed streams are opened such that
 * every use of them fails. */
void ca_standard_streams_begin(void);

/* The stream that the parent gave by that number. Children of this process do not get it. */
FILE *ca_parent_stream(int number, const char *mode);

/* The pipe that the parent gave by that number; CA_NO_FILE if there is none. Likewise. */
ca_file ca_parent_pipe(long number);

/* From now on this process ends when its parent does, of that number. False if the parent has ended already. */
bool ca_parent_lives(long parent);

#endif
