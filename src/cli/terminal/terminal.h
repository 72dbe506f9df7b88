/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of a stream, and the width that it offers. */
#ifndef CA_TERMINAL_H
#define CA_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Returns whether a line can be drawn anew there: a terminal, and not TERM=dumb. */
bool ca_terminal(FILE *to);

/* The terminal's columns, at most CA_TERMINAL_MOST; by the environment's COLUMNS where the terminal
 * does not tell, else 80. */
enum { CA_TERMINAL_MOST = 200 };
size_t ca_terminal_width(FILE *to);

/* The width for printing: 100 columns, or as many as the terminal (or COLUMNS in the environment)
 * has if these are fewer, but not under 40. */
enum { CA_MOST_COLUMNS = 100 };
int ca_columns(FILE *to);

/* An escape sequence, where colours are due: "1" is bold, "31" red, "32" green, "0" the end of it. */
void ca_colour(FILE *to, const char *code);

#endif
