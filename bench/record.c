#include "record.h"

#include <stdlib.h>
#include <string.h>

void samples_add(struct samples *samples, double value)
{
    if (samples->count < RECORD_MOST_SAMPLES)
        samples->value[samples->count++] = value;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double samples_median(const struct samples *samples)
{
    struct samples sorted = *samples;
    const size_t count = sorted.count;

    if (count == 0)
        return 0.0;
    qsort(sorted.value, count, sizeof *sorted.value, ascending);
    return (sorted.value[count / 2] + sorted.value[(count - 1) / 2]) / 2.0;
}

double samples_minimum(const struct samples *samples)
{
    double minimum = samples->count > 0 ? samples->value[0] : 0.0;

    for (size_t n = 1; n < samples->count; n++)
        minimum = samples->value[n] < minimum ? samples->value[n] : minimum;
    return minimum;
}

void record_free(struct record *record)
{
    free(record->problem);
    free(record->family);
    free(record->tunables);
    free(record->reason);
    memset(record, 0, sizeof *record);
}
