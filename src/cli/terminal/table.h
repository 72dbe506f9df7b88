/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of texts and tables in a terminal, for all output of clattn-tune and clattn-bench. */
#ifndef CA_TABLE_H
#define CA_TABLE_H

#include <clattn/context.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Prints a text like printf(), in lines that fit the stream's width. The first begins at `column`, and the others
 * are indented by `column`. Ends the last line. */
void ca_print_wrapped(FILE *to, int column, const char *format, ...);

/* Prints a text in lines of its own, all indented. */
void ca_print_paragraph(FILE *to, int indentation, const char *format, ...);

/* Prints a text after a name and a colon, with further lines indented by 2. */
void ca_print_note(FILE *to, const char *name, const char *text);

/* A clattn_log_callback that prints warnings and, on a terminal, also the beginning of work that
 * takes seconds. */
void ca_print_log(const char *program, clattn_log_level level, const char *text);

/* Prints a problem, or another text to be copied, in a line of its own after that many blanks. A
 * narrow terminal gets several lines; a stream that is no terminal gets one, uncut. */
void ca_print_line(FILE *to, const char *text, int indentation);

/* A row of a table. All members but these begin as zeros. */
struct ca_row {
    FILE *to;
    /* indentation of further lines, which take cells that do not fit; 0: rows have one line */
    int indentation;
    int gap;    /* blanks between cells; 0: one */
    bool trims; /* leaves out blanks at the ends of lines */
    int column; /* columns of this line that are printed, or pending as blanks */
    int owed;   /* blanks to print before the next cell of this line */
};

/* Prints the first cell, `columns` wide, or wider if its text needs it; the text is aligned
 * left. */
void ca_row_label(struct ca_row *row, int columns, const char *text);

/* Prints a gap, unless the cell is the first of its line, and a cell of |width| columns; its text
 * is aligned left if width is negative. */
void ca_row_cell(struct ca_row *row, int width, const char *text);

void ca_row_end(struct ca_row *row);

/* Returns how many decimals make four digits of a number that is not negative, at most `most`. */
int ca_decimals(double value, int most);

#endif
