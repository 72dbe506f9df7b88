/* SPDX-License-Identifier: Apache-2.0 */
/* The look of comparisons on a terminal. */
#ifndef CLATTN_BENCH_COMPARISON_LOOKS_H
#define CLATTN_BENCH_COMPARISON_LOOKS_H

#include "bench/records/comparison.h"

/* 'A' for the first file. */
char comparison_letter(size_t file);

/* The rows of a device with the names of their columns. */
void comparison_table(const struct comparison *comparison, const struct comparison_group *group);

/* One row for the means over all devices. */
void comparison_table_means(const struct comparison *comparison);

#endif
