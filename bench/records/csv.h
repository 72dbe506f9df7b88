/* SPDX-License-Identifier: Apache-2.0 */
/* Results as comma-separated values (RFC 4180), one row for each implementation of each problem. */
#ifndef CLATTN_BENCH_CSV_H
#define CLATTN_BENCH_CSV_H

#include "bench/records/results.h"

#include <stdio.h>

/* Writes to the file, or to standard output for "-". */
bool csv_write(const char *path, const struct run_results *results, struct message *why);

/* ---- for other tables ---- */

/* One row as it is written. */
struct csv_row {
    FILE *to;
    bool begun;
};

/* Quoted where it has to be. What a spreadsheet would take for a formula gets an apostrophe before
 * it, what a terminal would obey a question mark instead. */
void csv_text(struct csv_row *row, const char *text);

/* A field with a number, empty if the number is not known. The decimal point does not depend on the
 * locale. */
void csv_number(struct csv_row *row, double value);

/* The end of the row; the next may begin. */
void csv_end(struct csv_row *row);

#endif
