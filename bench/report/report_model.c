#include "bench/records/short_name.h"
#include "bench/report/report.h"
#include "bench/report/report_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- collecting ------------------------------------------------------------------------------ */

static bool has_time(const struct device_run *run)
{
    for (size_t r = 0; r < run->count; r++)
        for (size_t n = 0; n < run->records[r].count; n++)
            if (outcome_timed(&run->records[r].outcome[n]))
                return true;
    return false;
}

/* The number of an implementation, which is new at the end of the list. */
static void add_name(struct report *report, const char *name)
{
    for (size_t n = 0; n < report->num_names; n++)
        if (strcmp(report->names[n], name) == 0)
            return;
    report->names[report->num_names++] = name;
}

size_t report_find_problem(const struct report *report, const struct record *record)
{
    size_t n = 0;

    while (n < report->num_problems &&
           (strcmp(report->problems[n].record->name, record->name) != 0 ||
            strcmp(report->problems[n].record->problem, record->problem) != 0))
        n++;
    return n;
}

static bool reserve(struct report *report)
{
    size_t devices = 0, problems = 0, names = 2;

    for (size_t f = 0; f < report->num_files; f++) {
        devices += report->files[f].count;
        for (size_t d = 0; d < report->files[f].count; d++) {
            const struct device_run *run = &report->files[f].devices[d];
            problems += run->count;
            for (size_t r = 0; r < run->count; r++)
                names += run->records[r].count;
        }
    }
    report->devices = calloc(devices + 1, sizeof *report->devices);
    report->problems = calloc(problems + 1, sizeof *report->problems);
    report->names = calloc(names, sizeof *report->names);
    return report->devices != NULL && report->problems != NULL && report->names != NULL;
}

/* Names as on a terminal; where several files are shown and another one has a device of that name,
 * followed by the file's number. */
static bool name_devices(struct report *report, size_t f)
{
    const struct run_results *file = &report->files[f];
    struct short_name *names = calloc(file->count + 1, sizeof *names);
    char suffix[32], cut[sizeof names->text * 4];

    if (names == NULL)
        return false;
    short_names(file, names);
    for (size_t d = 0; d < file->count; d++) {
        struct report_device *device = &report->devices[report->num_devices + d];
        text_cut(cut, names[d].text, SHORT_NAME);
        snprintf(device->label.text, sizeof device->label.text, "%s", cut);
        for (size_t n = 0; n < report->num_devices; n++)
            if (strcmp(report->devices[n].label.text, device->label.text) == 0) {
                snprintf(suffix, sizeof suffix, ", file %zu", f + 1);
                snprintf(device->label.text, sizeof device->label.text, "%s%s", cut, suffix);
            }
    }
    free(names);
    return true;
}

static bool collect(struct report *report)
{
    for (size_t f = 0; f < report->num_files; f++) {
        if (!name_devices(report, f))
            return false;
        for (size_t d = 0; d < report->files[f].count; d++) {
            const struct device_run *run = &report->files[f].devices[d];
            struct report_device *device = &report->devices[report->num_devices++];
            device->file = &report->files[f];
            device->run = run;
            device->measured = has_time(run);
            for (size_t r = 0; r < run->count; r++) {
                const struct record *record = &run->records[r];
                const size_t n = report_find_problem(report, record);
                if (n == report->num_problems)
                    report->problems[report->num_problems++].record = record;
                for (size_t o = 0; o < record->count; o++)
                    if (record->outcome[o].distributed == NULL) /* no alternative to clattn */
                        add_name(report, record->outcome[o].implementation);
            }
        }
    }
    return true;
}

bool report_open(struct report *report, const struct run_results *files, size_t num_files)
{
    *report = (struct report){.files = files, .num_files = num_files};
    if (!reserve(report))
        return false;
    add_name(report, "clattn");
    add_name(report, "clattn untuned");
    if (!collect(report))
        return false;
    for (size_t n = 0; n < report->num_problems; n++)
        report_label_problem(report, n);
    report->cells = calloc(report->num_devices * report->num_problems + 1, sizeof *report->cells);
    if (report->cells == NULL)
        return false;
    for (size_t d = 0; d < report->num_devices; d++) {
        const struct device_run *run = report->devices[d].run;
        for (size_t r = run->count; r-- > 0;) /* the first one of a problem counts */
            report
                ->cells[d * report->num_problems + report_find_problem(report, &run->records[r])] =
                &run->records[r];
    }
    return true;
}

void report_free(struct report *report)
{
    free(report->devices);
    free(report->problems);
    free(report->names);
    free(report->cells);
    *report = (struct report){.files = NULL};
}

/* ---- looking up ------------------------------------------------------------------------------ */

const struct record *report_record(const struct report *report, size_t device, size_t problem)
{
    return report->cells[device * report->num_problems + problem];
}

const struct outcome *report_outcome(const struct report *report, size_t device, size_t problem,
                                     size_t name)
{
    const struct record *record = report_record(report, device, problem);

    return record != NULL ? record_find(record, report->names[name]) : NULL;
}

double report_seconds(const struct report *report, size_t device, size_t problem, size_t name)
{
    const struct outcome *outcome = report_outcome(report, device, problem, name);
    const double seconds =
        outcome != NULL && outcome_timed(outcome) ? samples_median(&outcome->seconds) : NAN;

    return seconds > 0.0 && isfinite(seconds) ? seconds : NAN;
}

double report_gflops(const struct report *report, size_t device, size_t problem, size_t name)
{
    const double seconds = report_seconds(report, device, problem, name);

    return isnan(seconds) ? NAN : report_record(report, device, problem)->flops / seconds * 1e-9;
}

double report_ratio(const struct report *report, size_t device, size_t problem, size_t name)
{
    const struct outcome *outcome = report_outcome(report, device, problem, name);

    if (isnan(report_seconds(report, device, problem, REPORT_CLATTN)) ||
        isnan(report_seconds(report, device, problem, name)))
        return NAN;
    return outcome->ratio.middle > 0.0 && isfinite(outcome->ratio.middle) ? outcome->ratio.middle
                                                                          : NAN;
}

bool report_timed(const struct report *report, size_t device, size_t name)
{
    for (size_t p = 0; p < report->num_problems; p++)
        if (!isnan(report_seconds(report, device, p, name)))
            return true;
    return false;
}

size_t report_measured(const struct report *report)
{
    size_t count = 0;

    for (size_t d = 0; d < report->num_devices; d++)
        count += report->devices[d].measured;
    return count;
}

bool report_loose(const struct report *report, size_t device, size_t problem, size_t name)
{
    const struct outcome *outcome = report_outcome(report, device, problem, name);

    return outcome != NULL && outcome->state == OUTCOME_LOOSE;
}

double report_peak(const struct samples *samples)
{
    return samples->count > 0 ? samples_median(samples) : NAN;
}

/* ---- ratios ---------------------------------------------------------------------------------- */

void spread_add(struct spread *spread, double value)
{
    if (!(value > 0.0) || !isfinite(value))
        return;
    const double sum = spread->count > 0 ? log(spread->mean) * (double)spread->count : 0.0;
    spread->low = spread->count > 0 ? fmin(spread->low, value) : value;
    spread->high = spread->count > 0 ? fmax(spread->high, value) : value;
    spread->mean = exp((sum + log(value)) / (double)++spread->count);
}

struct spread report_spread(const struct report *report, size_t device, size_t name)
{
    struct spread spread = {.count = 0};

    for (size_t p = 0; p < report->num_problems; p++)
        spread_add(&spread, report_ratio(report, device, p, name));
    return spread;
}
