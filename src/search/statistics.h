/* SPDX-License-Identifier: Apache-2.0 */
/* Deciding between noisy timings. */
#ifndef CA_STATISTICS_H
#define CA_STATISTICS_H

#include <stddef.h>

struct ca_interval {
    double middle, low, high;
};

/* The median and its 95 % confidence interval by order statistics (distribution-free); with fewer
 * than 6 samples the whole range. count is at least 1; times is not changed. */
struct ca_interval ca_median(const double *times, size_t count);

/* The ratio a / b of two series taken side by side, pair by pair: the median of the pairs' ratios
 * and its 95 % confidence interval. */
struct ca_interval ca_paired_ratio(const double *a, const double *b, size_t count);

/* Compares doubles for qsort() and bsearch(), the least first. */
int ca_ascending(const void *left, const void *right);

/* Sorts the values and returns their median; count is at least 1. */
double ca_sort(double *values, size_t count);

#endif
