/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal/table.h"
#include "cli/message.h"
#include "cli/terminal/terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ----------------------------------------------------------------------------------- */

static void print_broken(FILE *to, const char *text, int begin, int indentation)
{
    const int full = ca_columns(to) - indentation;
    int room = ca_columns(to) - begin;
    const char *rest = text;

    while ((int)strlen(rest) > room) {
        int length = room > 0 ? room : 0;
        while (length > 0 && rest[length] != ' ')
            length--;
        if (length == 0 && room >= full)
            length = room; /* a word that fills the line */
        fprintf(to, "%.*s\n%*s", length, rest, indentation, "");
        rest += length;
        rest += strspn(rest, " ");
        room = full;
    }
    fprintf(to, "%s\n", rest);
}

static void print_formatted(FILE *to, int column, const char *format, va_list arguments)
{
    char *text = message_text(format, arguments);

    if (text != NULL)
        print_broken(to, text, column, column);
    free(text);
}

void ca_print_wrapped(FILE *to, int column, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_formatted(to, column, format, arguments);
    va_end(arguments);
}

void ca_print_paragraph(FILE *to, int indentation, const char *format, ...)
{
    va_list arguments;

    fprintf(to, "%*s", indentation, "");
    va_start(arguments, format);
    print_formatted(to, indentation, format, arguments);
    va_end(arguments);
}

void ca_print_note(FILE *to, const char *name, const char *text)
{
    const int begin = fprintf(to, "%s: ", name);

    print_broken(to, text, begin, 2);
}

void ca_print_log(const char *program, clattn_log_level level, const char *text)
{
    const bool waits = ca_terminal(stderr);

    if (level > (waits ? CLATTN_LOG_INFO : CLATTN_LOG_WARNING))
        return;
    if (waits)
        ca_print_note(stderr, program, text);
    else
        fprintf(stderr, "%s: %s\n", program, text);
}

void ca_print_line(FILE *to, const char *text, int indentation)
{
    fprintf(to, "%*s", indentation, "");
    if (ca_columns(to) < CA_MOST_COLUMNS)
        print_broken(to, text, indentation + 2, indentation + 2);
    else
        fprintf(to, "%s\n", text);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void owe(struct ca_row *row, int blanks)
{
    row->owed = row->trims ? blanks : 0;
    if (!row->trims)
        fprintf(row->to, "%*s", blanks, "");
}

void ca_row_label(struct ca_row *row, int columns, const char *text)
{
    const int length = fprintf(row->to, "%s", text);

    row->column = columns > length ? columns : length;
    owe(row, row->column - length);
}

void ca_row_cell(struct ca_row *row, int width, const char *text)
{
    const int columns = abs(width), length = (int)strlen(text), gap = row->gap > 0 ? row->gap : 1;

    if (row->indentation > 0 && row->column > row->indentation &&
        row->column + gap + columns > ca_columns(row->to))
        ca_row_end(row);
    const int before = row->column == 0 ? row->indentation : gap;
    const int blanks = columns > length ? columns - length : 0;
    fprintf(row->to, "%*s%s", row->owed + before + (width > 0 ? blanks : 0), "", text);
    owe(row, width < 0 ? blanks : 0);
    row->column += before + (columns > length ? columns : length);
}

void ca_row_end(struct ca_row *row)
{
    fputc('\n', row->to);
    row->column = row->owed = 0;
}

int ca_decimals(double value, int most)
{
    static const double limits[] = {999.95, 99.995, 9.9995, 0.9995, 0.09995};
    int decimals = 0;

    while (decimals < most && value < limits[decimals])
        decimals++;
    return decimals;
}
