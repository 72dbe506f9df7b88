/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated measurements of one quantity. */
#ifndef CLATTN_BENCH_SAMPLES_H
#define CLATTN_BENCH_SAMPLES_H

#include <stddef.h>

#define RECORD_MOST_SAMPLES 100

struct samples {
    double value[RECORD_MOST_SAMPLES];
    size_t count;
};

void samples_add(struct samples *samples, double value);

/* 0 without samples. */
double samples_median(const struct samples *samples);
double samples_minimum(const struct samples *samples);

#endif
