/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/samples.h"
#include "internal.h"

void samples_add(struct samples *samples, double value)
{
    if (samples->count < RECORD_MOST_SAMPLES)
        samples->value[samples->count++] = value;
}

double samples_median(const struct samples *samples)
{
    return samples->count > 0 ? ca_median(samples->value, samples->count).middle : 0.0;
}

double samples_minimum(const struct samples *samples)
{
    double minimum = samples->count > 0 ? samples->value[0] : 0.0;

    for (size_t n = 1; n < samples->count; n++)
        minimum = samples->value[n] < minimum ? samples->value[n] : minimum;
    return minimum;
}
