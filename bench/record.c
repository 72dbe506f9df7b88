#define _POSIX_C_SOURCE 200809L /* strdup */
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

bool record_ok(const struct record *record)
{
    return worst_ok(&record->worst) &&
           (record->untuned_seconds.count == 0 || worst_ok(&record->untuned_worst));
}

bool record_describe(struct record *record, const struct measurement *m, struct message *why)
{
    record->problem = strdup(m->info.problem);
    record->family = strdup(m->info.family);
    record->tunables = strdup(m->info.tunables);
    record->configuration = strdup(m->configuration);
    record->reason = strdup(m->info.reason);
    record->workspace_bytes = m->info.workspace_bytes;
    return (record->problem != NULL && record->family != NULL && record->tunables != NULL &&
            record->configuration != NULL && record->reason != NULL) ||
           message_set(why, "no memory for the results");
}

const char *record_origin(const char *reason)
{
    static const struct {
        const char *begins, *word;
    } origins[] = {
        {"the caller forced", "forced"},
        {"an override", "override"},
        {"tuned for this class of problems on", "tuned"},
        {"tuned for this class of problems, with another", "stale"},
        {"tuned for the nearest class", "nearest"},
        {"tuned elsewhere", "shipped"},
        {"untuned", "untuned"},
    };

    for (size_t n = 0; n < sizeof origins / sizeof *origins; n++)
        if (strncmp(reason, origins[n].begins, strlen(origins[n].begins)) == 0)
            return origins[n].word;
    return "unknown";
}

void record_free(struct record *record)
{
    free(record->problem);
    free(record->family);
    free(record->tunables);
    free(record->configuration);
    free(record->reason);
    free(record->untuned);
    memset(record, 0, sizeof *record);
}
