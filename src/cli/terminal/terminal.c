/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal/terminal.h"
#include "os/environment.h"
#include "os/terminal.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_COLUMNS = 40 };

bool ca_terminal(FILE *to)
{
    const char *kind = ca_environment_value("TERM");

    return ca_stream_is_terminal(to) && kind && strcmp(kind, "dumb") != 0;
}

/* Returns whether it takes colours: a terminal, and NO_COLOR is not set. */
static bool takes_colours(FILE *to)
{
    const char *wish = ca_environment_value("NO_COLOR");

    return ca_terminal(to) && !(wish && *wish);
}

size_t ca_terminal_width(FILE *to)
{
    const char *columns = ca_environment_value("COLUMNS");
    const long wish = columns ? strtol(columns, NULL, 10) : 0;
    size_t width = ca_stream_columns(to);

    if (width == 0)
        width = wish > 0 ? (size_t)wish : 80;
    return width < CA_TERMINAL_MOST ? width : CA_TERMINAL_MOST;
}

int ca_columns(FILE *to)
{
    const char *wish = ca_environment_value("COLUMNS");
    const bool known = ca_terminal(to) || (wish && strtol(wish, NULL, 10) > 0);
    const int width = known ? (int)ca_terminal_width(to) : CA_MOST_COLUMNS;

    return width < LEAST_COLUMNS     ? LEAST_COLUMNS
           : width < CA_MOST_COLUMNS ? width
                                     : CA_MOST_COLUMNS;
}

void ca_colour(FILE *to, const char *code)
{
    if (takes_colours(to))
        fprintf(to, "\033[%sm", code);
}
