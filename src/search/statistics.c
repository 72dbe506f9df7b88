/* SPDX-License-Identifier: Apache-2.0 */
#include "search/statistics.h"

#include <math.h>
#include <stdlib.h>

/* A series, or the ratios of two. Samples are few, so ranks are counted instead of sorting a copy:
 * nothing is allocated, nothing can fail. */
struct series {
    const double *values, *over; /* over: NULL, or what the values are divided by */
    size_t count;
};

static double at(const struct series *series, size_t n)
{
    return series->over ? series->values[n] / series->over[n] : series->values[n];
}

/* The value with `rank` smaller ones before it in sorted order. */
static double ranked(const struct series *series, size_t rank)
{
    for (size_t n = 0; n < series->count; n++) {
        const double value = at(series, n);
        size_t below = 0, equal = 0;
        for (size_t m = 0; m < series->count; m++) {
            const double other = at(series, m);
            below += other < value;
            equal += other == value;
        }
        if (below <= rank && rank < below + equal)
            return value;
    }
    return NAN; /* reached only if there are NaNs */
}

/* Returns how many samples lie below the lower end of the interval, and above the upper one: the
 * largest number k such that a median has at most k of `count` samples on a given side with a
 * probability of at most 2.5 %; 0 if there is none. */
static size_t outside(size_t count)
{
    double log_chance = -(double)count * log(2.0), sum = exp(log_chance);
    size_t below = 0;

    while (below < count) { /* sum: that at most `below` of them are on the side */
        log_chance += log((double)(count - below)) - log((double)below + 1.0);
        sum += exp(log_chance);
        if (sum > 0.025)
            break;
        below++;
    }
    return below;
}

static struct ca_interval median(const struct series *series)
{
    const size_t count = series->count, cut = outside(count);
    struct ca_interval interval = {
        .middle = ranked(series, count / 2),
        .low = ranked(series, cut),
        .high = ranked(series, count - 1 - cut),
    };

    if (count % 2 == 0)
        interval.middle = 0.5 * (interval.middle + ranked(series, count / 2 - 1));
    return interval;
}

struct ca_interval ca_median(const double *times, size_t count)
{
    const struct series series = {.values = times, .count = count};

    return median(&series);
}

struct ca_interval ca_paired_ratio(const double *a, const double *b, size_t count)
{
    const struct series series = {.values = a, .over = b, .count = count};

    return median(&series);
}

int ca_ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double ca_sort(double *values, size_t count)
{
    qsort(values, count, sizeof *values, ca_ascending);
    return (values[count / 2] + values[(count - 1) / 2]) / 2.0;
}
