/* Results as comma-separated values (RFC 4180), one row for each implementation of each problem. */
#ifndef CLATTN_BENCH_CSV_H
#define CLATTN_BENCH_CSV_H

#include "results.h"

/* Writes to the file, or to standard output for "-". */
bool csv_write(const char *path, const struct run_results *results, struct message *why);

#endif
