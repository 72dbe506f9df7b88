#include "table.h"

#include <stdio.h>
#include <string.h>

#define PROBLEM_COLUMNS 41

void table_header(const struct target *target)
{
    const clattn_device_info *info = target->info;

    printf("%.75s (%s, %u units)\n", info->name, target_type_name(info->type), info->compute_units);
    printf("%.50s, driver %.40s\n\n", info->platform_name, info->driver_version);
    printf("%-*s %-11s %9s %8s %7s %9s %9s\n", PROBLEM_COLUMNS, "problem", "family", "ms",
           "GFLOP/s", "of peak", "error", "workspace");
}

/* "512 B", "1.5 MiB". */
static void print_bytes(size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    char text[32];

    while (value >= 1024.0 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, sizeof text, value < 10.0 && unit > 0 ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    printf(" %9s\n", text);
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
    printf("  %-*s %-11s %9.3f", PROBLEM_COLUMNS - 2, problem, record->family, seconds * 1e3);
    printf(" %8.1f %5.1f %%", seconds > 0.0 ? record->flops / seconds * 1e-9 : 0.0,
           100.0 * samples_median(&record->share));
    printf(worst_ok(&record->worst) ? " %9.3f" : " %4.2g FAIL", record->worst.ratio);
    print_bytes(record->workspace_bytes);
    fflush(stdout);
}

void table_footer(const struct peak_samples *peaks)
{
    printf("\npeaks measured in this run: %.1f GFLOP/s of f32 multiply-adds, reading %.1f GB/s, "
           "copying %.1f GB/s\n",
           samples_median(&peaks->fma), samples_median(&peaks->read), samples_median(&peaks->copy));
    printf("ms is the median device time; error is the worst error divided by its bound "
           "(over 1 fails)\n");
    if (peaks->exceeded)
        printf(
            "a share over 100 %% has no meaning: masks or lengths hid pairs that are counted, or "
            "the peak was\nmeasured too low, on a busy machine or by a kernel that does not suit "
            "this device\n");
}
