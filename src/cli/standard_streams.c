#define _POSIX_C_SOURCE 200809L /* fcntl */
#include "cli/standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ca_standard_streams_begin(void)
{
    /* Each open() gives the lowest descriptor that is free, which is this one. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) == -1)
            return; /* without /dev/null there is nothing that could stand in */
}

int ca_standard_streams_end(const char *program, int status)
{
    errno = 0; /* an earlier failure's number is lost, unless writing the rest fails as well */
    const int flushed = fflush(stdout);

    if (flushed == 0 && !ferror(stdout))
        return status;
    fprintf(stderr,
            "%s: what it printed is incomplete: the standard output cannot be written%s%s\n",
            program, flushed && errno ? ": " : "", flushed && errno ? strerror(errno) : "");
    return status == EXIT_SUCCESS ? EXIT_FAILURE : status;
}
