/* SPDX-License-Identifier: Apache-2.0 */
/* The ratio of two times that were measured at different times. */
#ifndef CLATTN_BENCH_SHIFT_H
#define CLATTN_BENCH_SHIFT_H

#include "bench/records/record.h"

/* Returns how many of the products of two series' counts, smallest first, lie below a 95 %
 * interval: 0 if the series are too short for one. */
size_t shift_rank(size_t count_a, size_t count_b);

/* The ratio a / b of two independent series and its 95 % interval: of all ratios of one sample of a
 * to one of b the median, and those whose ranks the Mann-Whitney test cannot reject (Hodges and
 * Lehmann, "Estimates of Location Based on Rank Tests", 1963; Moses' interval, as in Hollander and
 * Wolfe, "Nonparametric Statistical Methods", section 4.3; the samples' logarithms are what is
 * shifted). It holds at any number of samples and for any noise that both have alike, and a third
 * of either may be far off; a bootstrap of medians needs more than the 7 to 30 samples of a run to
 * keep its word. False if there are fewer than 4 and 4, 3 and 5, or 2 and 8: then the interval is
 * the whole range. Neither is empty. */
bool shift_ratio(const struct samples *a, const struct samples *b, struct ca_interval *ratio);

#endif
