#define _POSIX_C_SOURCE 200809L /* isatty, fileno */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool ca_terminal(FILE *to)
{
    const char *kind = getenv("TERM");

    return isatty(fileno(to)) && kind && strcmp(kind, "dumb") != 0;
}

bool ca_terminal_colours(FILE *to)
{
    const char *wish = getenv("NO_COLOR");

    return ca_terminal(to) && !(wish && *wish);
}

size_t ca_terminal_width(FILE *to)
{
    const char *columns = getenv("COLUMNS");
    const long wish = columns ? strtol(columns, NULL, 10) : 0;
    struct winsize size;
    size_t width = 80;

    if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col)
        width = size.ws_col;
    else if (wish > 0)
        width = (size_t)wish;
    return width < CA_TERMINAL_MOST ? width : CA_TERMINAL_MOST;
}
