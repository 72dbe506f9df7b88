#include "table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PROBLEM_COLUMNS 36

void table_header(const struct target *target)
{
    const clattn_device_info *info = target->info;

    printf("%.75s (%s, %u units)\n", info->name, target_type_name(info->type), info->compute_units);
    printf("%.50s, driver %.40s\n\n", info->platform_name, info->driver_version);
    printf("%-*s %-11s %8s %7s %4s %6s %-8s %5s %7s\n", PROBLEM_COLUMNS, "problem", "family", "ms",
           "GFLOP/s", "peak", "gain", "choice", "error", "memory");
}

/* "512 B", "1.5 MiB": at most seven characters. */
static void print_bytes(size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    char text[32];

    while (value >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, sizeof text, value < 9.95 && unit > 0 ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    printf(" %7s\n", text);
}

static void print_gain(const struct record *record)
{
    char text[32] = "-";

    if (record->untuned_seconds.count > 0)
        snprintf(text, sizeof text, "%s%.2fx",
                 record->gain.low <= 1.0 && record->gain.high >= 1.0 ? "~" : "",
                 record->gain.middle);
    printf(" %6s %-8s", text, record_origin(record->reason));
}

void table_row(const struct record *record, const char *heading)
{
    const double seconds = samples_median(&record->seconds);
    const char *problem = record->problem;

    if (heading != NULL)
        printf("%s\n", heading);
    if (strlen(problem) > PROBLEM_COLUMNS - 2) { /* a line of its own */
        printf("  %s\n", problem);
        problem = "";
    }
    printf("  %-*s %-11s %8.3f", PROBLEM_COLUMNS - 2, problem, record->family, seconds * 1e3);
    printf(" %7.1f %3.0f%%", seconds > 0.0 ? record->flops / seconds * 1e-9 : 0.0,
           100.0 * samples_median(&record->share));
    print_gain(record);
    if (worst_ok(&record->worst))
        printf(" %5.3f", record->worst.ratio);
    else
        printf(" %5s", "FAIL");
    print_bytes(record->workspace_bytes);
    if (!worst_ok(&record->worst))
        printf("  off by up to %.3g where %.3g is allowed\n", record->worst.error,
               record->worst.bound);
    if (!record_ok(record) && worst_ok(&record->worst))
        printf("  the untuned choice is off by up to %.3g where %.3g is allowed\n",
               record->untuned_worst.error, record->untuned_worst.bound);
    fflush(stdout);
}

/* The gains of all problems in one; a choice that is the untuned one gains nothing. */
static void print_gains(const struct record *records, size_t count)
{
    double sum = 0.0, least = INFINITY, most = 0.0;
    size_t compared = 0;

    for (size_t n = 0; n < count; n++) {
        if (records[n].untuned == NULL)
            continue;
        const double gain = records[n].untuned_seconds.count > 0 ? records[n].gain.middle : 1.0;
        sum += log(gain);
        least = fmin(least, gain);
        most = fmax(most, gain);
        compared++;
    }
    if (compared > 1 && most != least)
        printf("gain over the choice without tuning: %.2fx in the geometric mean of %zu problems, "
               "from %.2fx to %.2fx\n",
               exp(sum / (double)compared), compared, least, most);
}

void table_footer(const struct peak_samples *peaks, const struct record *records, size_t count)
{
    printf("\npeaks measured in this run: %.1f GFLOP/s of f32 multiply-adds, reading %.1f GB/s, "
           "copying %.1f GB/s\n",
           samples_median(&peaks->fma), samples_median(&peaks->read), samples_median(&peaks->copy));
    print_gains(records, count);
    printf("ms is the median device time; error is the worst error divided by its bound "
           "(over 1 fails);\n"
           "gain is the untuned choice's time over this, ~ if there may be none, - if that is the "
           "same choice\n");
    if (peaks->exceeded)
        printf(
            "a share over 100 %% has no meaning: masks or lengths hid pairs that are counted, or "
            "the peak was\nmeasured too low, on a busy machine or by a kernel that does not suit "
            "this device\n");
}
