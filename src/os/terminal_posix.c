/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

bool ca_stream_is_terminal(FILE *stream)
{
    return isatty(fileno(stream));
}

size_t ca_stream_columns(FILE *stream)
{
    struct winsize size;

    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}
