/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal/status_line.h"
#include "cli/message.h"
#include "internal.h"

#include <stdarg.h>

enum { BAR = 20 };

void ca_status_add(struct ca_status_line *line, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    const int length =
        vsnprintf(line->text + line->length, sizeof line->text - line->length, format, list);
    va_end(list);
    line->length += (size_t)(length > 0 ? length : 0);
    if (line->length >= sizeof line->text)
        line->length = sizeof line->text - 1;
}

void ca_status_add_bar(struct ca_status_line *line, double part)
{
    ca_status_add(line, "[");
    for (size_t n = 0; n < BAR; n++)
        ca_status_add(line, (double)n + 0.5 < part * BAR ? "#" : "-");
    ca_status_add(line, "] ");
}

void ca_status_draw(FILE *to, struct ca_status_line *line)
{
    const size_t width = ca_terminal_width(to);

    ca_make_printable(line->text);
    if (line->length >= width) { /* the last column stays free: some terminals wrap there */
        line->length = width - 1;
        while (line->length > 0 && ((unsigned char)line->text[line->length] & 0xc0) == 0x80)
            line->length--; /* do not cut through a UTF-8 character */
    }
    fprintf(to, "\r%.*s\033[K", (int)line->length, line->text);
    fflush(to);
}

void ca_status_clear(FILE *to)
{
    fputs("\r\033[K", to);
    fflush(to);
}
