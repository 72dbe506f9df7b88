/* What a stream is, for programs that draw: clattn-tune and clattn-bench. */
#ifndef CA_TERMINAL_H
#define CA_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Whether a line can be drawn anew there: a terminal, and not TERM=dumb. */
bool ca_terminal(FILE *to);

/* Whether it takes colours: a terminal, and NO_COLOR is not set. */
bool ca_terminal_colours(FILE *to);

/* Its columns, at most CA_TERMINAL_MOST; by the environment's COLUMNS where the terminal does not
 * say, else 80. */
enum { CA_TERMINAL_MOST = 200 };
size_t ca_terminal_width(FILE *to);

#endif
