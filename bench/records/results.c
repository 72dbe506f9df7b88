/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/results.h"
#include "os/clock.h"
#include "os/host.h"
#include "os/processor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void results_begin(struct run_results *results)
{
    memset(results, 0, sizeof *results);
    ca_utc_print(time(NULL), CA_UTC_ISO, results->date, sizeof results->date);
    snprintf(results->clattn, sizeof results->clattn, "%s", clattn_version_string());
    results->processors = ca_processors();
    ca_host_system(results->system, sizeof results->system);
    ca_host_processor(results->processor, sizeof results->processor);
}

struct device_run *results_add(struct run_results *results)
{
    struct device_run *devices =
        realloc(results->devices, (results->count + 1) * sizeof *results->devices);

    if (devices == NULL)
        return NULL;
    results->devices = devices;
    struct device_run *run = &devices[results->count++];
    memset(run, 0, sizeof *run);
    run->info.struct_size = sizeof run->info;
    for (size_t n = 0; n < sizeof run->load / sizeof *run->load; n++)
        run->load[n] = NAN;
    return run;
}

static void device_run_free(struct device_run *run)
{
    for (size_t n = 0; n < run->count; n++)
        record_free(&run->records[n]);
    free(run->records);
    free(run->rank_devices);
    memset(run, 0, sizeof *run);
}

void results_free(struct run_results *results)
{
    for (size_t n = 0; n < results->count; n++)
        device_run_free(&results->devices[n]);
    free(results->devices);
    memset(results, 0, sizeof *results);
}

double device_run_noise(const struct device_run *run)
{
    double *widths = calloc(run->count * RECORD_MOST_OUTCOMES + 1, sizeof *widths), noise = 0.0;
    size_t count = 0;

    if (widths == NULL)
        return NAN;
    for (size_t r = 0; r < run->count; r++) {
        for (size_t n = 0; n < run->records[r].count; n++) {
            const struct samples *seconds = &run->records[r].outcome[n].seconds;
            if (seconds->count == 0)
                continue;
            const struct ca_interval median = ca_median(seconds->value, seconds->count);
            widths[count++] = (median.high - median.low) / 2.0 / median.middle;
        }
    }
    if (count > 0)
        noise = ca_sort(widths, count);
    free(widths);
    return noise;
}

struct samples *peak_of_roof(struct peak_samples *peaks, enum roof roof)
{
    return roof == ROOF_READ  ? &peaks->read
           : roof == ROOF_FMA ? &peaks->fma[PEAK_F32]
                              : &peaks->fma[PEAK_BF16];
}

double peak_of_roof_median(const struct peak_samples *peaks, enum roof roof)
{
    struct peak_samples all = *peaks;

    return samples_median(peak_of_roof(&all, roof));
}
