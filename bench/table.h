/* The table of a run: 100 columns wide, or what a narrower terminal has, without the columns for
 * which it has no room. */
#ifndef CLATTN_BENCH_TABLE_H
#define CLATTN_BENCH_TABLE_H

#include "results.h"

#include <stdio.h>

/* The device, who is missing, and the names of the columns. */
void table_header(const struct device_run *run);

/* A problem and all who computed it, below its workload if that is not the one of `before`, which
 * may be NULL. */
void table_record(const struct record *record, const struct record *before);

/* The peaks, all problems together, what the columns mean, and what to be wary of. */
void table_footer(const struct device_run *run);

/* How wide what is printed there may be: 100, or as many columns as the terminal (or COLUMNS in the
 * environment) has if these are fewer. */
int table_columns(FILE *to);

/* Prints a problem in a line of its own that begins with so many blanks; on a narrow terminal in
 * several, else uncut for whatever reads it. */
void table_problem(FILE *to, const char *problem, int column);

/* Prints text that begins at `column` with line breaks where it would leave the table, further
 * lines indented by `column`. */
void table_wrap(FILE *to, const char *text, int column);

#endif
