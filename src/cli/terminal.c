#define _POSIX_C_SOURCE 200809L /* isatty, fileno */
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LEAST_COLUMNS = 40 };

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

int ca_columns(FILE *to)
{
    const char *wish = getenv("COLUMNS");
    const bool known = ca_terminal(to) || (wish && strtol(wish, NULL, 10) > 0);
    const int width = known ? (int)ca_terminal_width(to) : CA_MOST_COLUMNS;

    return width < LEAST_COLUMNS     ? LEAST_COLUMNS
           : width < CA_MOST_COLUMNS ? width
                                     : CA_MOST_COLUMNS;
}

void ca_print_wrapped(FILE *to, const char *text, int column)
{
    const int room = ca_columns(to) - column;
    const char *rest = text;

    while ((int)strlen(rest) > room) {
        int length = room;
        while (length > 0 && rest[length] != ' ')
            length--;
        length = length > 0 ? length : room; /* a word that fills the line */
        fprintf(to, "%.*s\n%*s", length, rest, column, "");
        rest += length;
        rest += strspn(rest, " ");
    }
    fprintf(to, "%s\n", rest);
}

void ca_print_paragraph(FILE *to, const char *text, int indentation)
{
    fprintf(to, "%*s", indentation, "");
    ca_print_wrapped(to, text, indentation);
}

void ca_print_line(FILE *to, const char *text, int indentation)
{
    fprintf(to, "%*s", indentation, "");
    if (ca_columns(to) < CA_MOST_COLUMNS)
        ca_print_wrapped(to, text, indentation + 2);
    else
        fprintf(to, "%s\n", text);
}

void ca_row_cell(struct ca_row *row, int width, const char *text)
{
    const int columns = abs(width);

    if (row->column > row->indentation && row->column + 1 + columns > ca_columns(row->to))
        ca_row_end(row);
    row->column +=
        row->column == 0 ? fprintf(row->to, "%*s", row->indentation, "") : fprintf(row->to, " ");
    row->column += fprintf(row->to, "%*s", width, text);
}

void ca_row_end(struct ca_row *row)
{
    fputc('\n', row->to);
    row->column = 0;
}
