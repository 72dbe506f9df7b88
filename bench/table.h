/* The table of a run on a terminal, 100 columns wide. */
#ifndef CLATTN_BENCH_TABLE_H
#define CLATTN_BENCH_TABLE_H

#include "record.h"

/* The device and the names of the columns. */
void table_header(const struct target *target);

/* `heading` is NULL if the record belongs to the same group as the one before. */
void table_row(const struct record *record, const char *heading);

/* The peaks, the gain of all problems together, and what the columns mean. */
void table_footer(const struct peak_samples *peaks, const struct record *records, size_t count);

#endif
