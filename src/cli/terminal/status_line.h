/* SPDX-License-Identifier: Apache-2.0 */
/* The line at the bottom of a terminal that shows a program's progress, redrawn again and again. */
#ifndef CA_STATUS_LINE_H
#define CA_STATUS_LINE_H

#include "cli/terminal/terminal.h"

struct ca_status_line {
    char text[2 * CA_TERMINAL_MOST];
    size_t length;
};

/* Adds words like printf(). */
void ca_status_add(struct ca_status_line *line, const char *format, ...);

/* "[####----------------]", of a part from 0 to 1. */
void ca_status_add_bar(struct ca_status_line *line, double part);

/* Draws it in place of the last one, cut to the terminal's width. */
void ca_status_draw(FILE *to, struct ca_status_line *line);

/* Takes it away. */
void ca_status_clear(FILE *to);

#endif
