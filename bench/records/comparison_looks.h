/* SPDX-License-Identifier: Apache-2.0 */
/* How comparisons look on a terminal. */
#ifndef CLATTN_BENCH_COMPARISON_LOOKS_H
#define CLATTN_BENCH_COMPARISON_LOOKS_H

#include "bench/records/comparison.h"

/* What a verdict looks like; the word where there is room. */
struct verdict_look {
    char mark;
    const char *word;
};

extern const struct verdict_look verdict_looks[];

/* 'A' for the first file. */
char comparison_letter(size_t file);

/* The rows of a device with the names of their columns. */
void comparison_table(const struct comparison *comparison, const struct comparison_group *group);

/* One row for the means over all devices. */
void comparison_table_means(const struct comparison *comparison);

#endif
