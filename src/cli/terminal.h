/* What a stream is, and how text fits it: for clattn-tune and clattn-bench. */
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

/* How wide what is printed there may be: 100, or as many columns as the terminal (or COLUMNS in the
 * environment) has if these are fewer, but not under 40. */
enum { CA_MOST_COLUMNS = 100 };
int ca_columns(FILE *to);

/* Prints text that begins at `column` with line breaks where it would leave these columns, further
 * lines indented by `column`. Ends the line. */
void ca_print_wrapped(FILE *to, const char *text, int column);

/* The same in lines of its own, all indented. */
void ca_print_paragraph(FILE *to, const char *text, int indentation);

/* Prints a problem, or whatever else may be copied, in a line of its own that begins with so many
 * blanks; on a narrow terminal in several, else uncut for whatever reads it. */
void ca_print_line(FILE *to, const char *text, int indentation);

/* A row of a table whose cells go on in a further line, indented, where there is no room: at the
 * same places in each row. Zeros but for these. */
struct ca_row {
    FILE *to;
    int indentation; /* of lines that begin with a cell */
    int column;      /* already printed in this one */
};

/* A blank, unless it is the first of its line, and a cell of so many columns; its text stands to the
 * left if width is negative. */
void ca_row_cell(struct ca_row *row, int width, const char *text);
void ca_row_end(struct ca_row *row);

#endif
