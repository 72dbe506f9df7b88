/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/standard_streams.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
