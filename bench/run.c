/* clattn-bench run: problems timed beside the device's measured peaks. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "compare.h"
#include "items.h"
#include "measure.h"
#include "options.h"
#include "peaks.h"
#include "results.h"
#include "table.h"
#include "workloads.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP_SECONDS 0.2
#define SAMPLE_SECONDS 0.05
#define DEFAULT_REPEAT 7
#define MOST_PLAUSIBLE_SHARE 1.02

static const char help[] =
    "Usage: clattn-bench run [OPTION...] [WORKLOAD | PROBLEM | FILE.safetensors]...\n"
    "Times attention and compares every result: with the answer in the file, else with double\n"
    "precision. Problems are lines such as \"fwd f16 b1 h32/8 q512 d128 causal=tl\"; their data "
    "is\n"
    "random. Without arguments all workloads run.\n"
    "  --device SEL     index or part of a name, as 'clattn-bench devices' lists them\n"
    "  --family F       force a kernel family\n"
    "  --tunables T     force its tunables, \"NAME=value ...\"\n"
    "  --repeat N       samples of each problem, each beside one of the peak (default 7)\n"
    "  --json FILE      write the run as JSON, to standard output instead of the table for -\n"
    "  --list           print the workloads and their problems\n"
    "Exit status: 0 all within bounds, 1 not so or something failed, 2 usage.\n";

struct settings {
    const char *device;
    const char *json;
    clattn_plan_options plan;
    size_t repeat;
};

/* All that a run holds. */
struct run {
    const struct settings *settings;
    struct target target;
    struct peaks peaks;
    struct peak_samples peak_samples;
    struct record *records;
    size_t count;
};

static bool check(const struct measurement *m, const struct attention_case *attention,
                  struct record *record, struct message *why)
{
    struct results results;
    bool ok = true;

    if (!measurement_results(m, attention, &results, why))
        return false;
    if (attention->o.data != NULL) {
        const struct tolerance by_dtype = {-1.0, -1.0};
        compare_answer(&record->worst, &attention->o, attention->problem.dtype, results.o,
                       by_dtype);
        if (results.scores != NULL)
            compare_answer(&record->worst, &attention->scores, CLATTN_F32, results.scores,
                           by_dtype);
    } else {
        ok = check_results(attention, &results, &record->worst, why);
    }
    measurement_free_results(&results);
    return ok;
}

/* Samples of the problem, each between two of the peak. */
static bool sample(struct run *run, struct measurement *m, struct record *record,
                   struct message *why)
{
    double seconds, before, after, bandwidth;
    double busy = 0.0;

    while (busy < WARM_UP_SECONDS) {
        if (!measurement_sample(m, SAMPLE_SECONDS, &seconds, why))
            return false;
        busy += seconds > SAMPLE_SECONDS ? seconds : SAMPLE_SECONDS;
    }
    if (!peaks_read(&run->peaks, &bandwidth, why))
        return false;
    samples_add(&run->peak_samples.read, bandwidth);
    if (!peaks_copy(&run->peaks, &bandwidth, why))
        return false;
    samples_add(&run->peak_samples.copy, bandwidth);
    for (size_t n = 0; n < run->settings->repeat; n++) {
        if (!peaks_fma(&run->peaks, m->seconds, &before, why) ||
            !measurement_sample(m, SAMPLE_SECONDS, &seconds, why) ||
            !peaks_fma(&run->peaks, m->seconds, &after, why))
            return false;
        samples_add(&run->peak_samples.fma, before);
        samples_add(&record->seconds, seconds);
        samples_add(&record->share, record->flops / seconds * 1e-9 / ((before + after) / 2.0));
    }
    if (samples_median(&record->share) > MOST_PLAUSIBLE_SHARE)
        run->peak_samples.exceeded = true;
    return true;
}

static bool describe(const struct measurement *m, const struct attention_case *attention,
                     const char *heading, struct record *record, struct message *why)
{
    snprintf(record->name, sizeof record->name, "%s", heading);
    record->problem = strdup(m->info.problem);
    record->family = strdup(m->info.family);
    record->tunables = strdup(m->info.tunables);
    record->reason = strdup(m->info.reason);
    record->workspace_bytes = m->info.workspace_bytes;
    record->flops = clattn_problem_flops(&attention->problem);
    record->against = attention->o.data != NULL ? "file" : "reference";
    return (record->problem != NULL && record->family != NULL && record->tunables != NULL &&
            record->reason != NULL) ||
           message_set(why, "no memory for the results");
}

static bool measure(struct run *run, const struct attention_case *attention, const char *heading,
                    struct record *record, struct message *why)
{
    struct measurement m;

    if (!measurement_open(&m, &run->target, attention, &run->settings->plan, why))
        return false;
    /* Checked before and after: a kernel may go wrong only when run often. */
    const bool ok = describe(&m, attention, heading, record, why) &&
                    check(&m, attention, record, why) && sample(run, &m, record, why) &&
                    check(&m, attention, record, why);
    measurement_close(&m);
    return ok;
}

/* Runs one item and prints its row. True if its results are within bounds. */
static bool run_item(struct run *run, const struct item *item, const char *heading)
{
    struct record *record = &run->records[run->count];
    struct attention_case attention;
    struct message why;
    bool ok = item_load(item, &attention, &why);

    if (ok) {
        const char *name = item->path != NULL ? attention.name : heading;
        ok = measure(run, &attention, name, record, &why);
        if (ok && (run->settings->json == NULL || strcmp(run->settings->json, "-") != 0))
            table_row(record, item->path != NULL                                  ? attention.name
                              : item->heading != NULL && item->heading[0] != '\0' ? heading
                                                                                  : NULL);
        case_free(&attention);
    }
    if (!ok) {
        fflush(stdout);
        fprintf(stderr, "clattn-bench run: %s\n", why.text);
        record_free(record);
        return false;
    }
    run->count++;
    return worst_ok(&record->worst);
}

static bool run_items(struct run *run, const struct items *items)
{
    const bool table = run->settings->json == NULL || strcmp(run->settings->json, "-") != 0;
    const char *heading = "";
    struct message why;
    bool ok = true;

    if (table)
        table_header(&run->target);
    for (size_t n = 0; n < items->count; n++) {
        heading = items->item[n].heading != NULL ? items->item[n].heading : heading;
        ok = run_item(run, &items->item[n], heading) && ok;
    }
    if (table)
        table_footer(&run->peak_samples);
    if (run->settings->json != NULL &&
        !results_write(run->settings->json, &run->target, &run->peak_samples, run->records,
                       run->count, &why)) {
        fprintf(stderr, "clattn-bench run: %s\n", why.text);
        ok = false;
    }
    return ok;
}

/* Opens the device, runs everything and closes it. */
static int run_all(const struct settings *settings, const struct items *items)
{
    struct run run = {.settings = settings};
    struct message why;
    bool ok = false;

    run.records = calloc(items->count, sizeof *run.records);
    if (run.records == NULL || !target_open(&run.target, settings->device, &why)) {
        fprintf(stderr, "clattn-bench run: %s\n", run.records != NULL ? why.text : "no memory");
        free(run.records);
        return EXIT_FAILED;
    }
    if (peaks_open(&run.peaks, &run.target, &why)) {
        run.peak_samples.form = *run.peaks.form;
        ok = run_items(&run, items);
        peaks_close(&run.peaks);
    } else {
        fprintf(stderr, "clattn-bench run: %s\n", why.text);
    }
    target_close(&run.target);
    for (size_t n = 0; n < run.count; n++)
        record_free(&run.records[n]);
    free(run.records);
    return ok ? EXIT_SUCCESS : EXIT_FAILED;
}

static void print_workloads(void)
{
    for (const struct workload *w = workloads; w->name != NULL; w++) {
        printf("%s: %s\n", w->name, w->meaning);
        for (size_t n = 0; w->problems[n] != NULL; n++)
            printf("  %s\n", w->problems[n]);
    }
}

/* 0 to go on, 1 if all was said, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},   {"family", required_argument, NULL, 'f'},
        {"tunables", required_argument, NULL, 't'}, {"repeat", required_argument, NULL, 'r'},
        {"json", required_argument, NULL, 'j'},     {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    struct message why;
    double repeat;
    int option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            settings->device = optarg;
            break;
        case 'f':
            settings->plan.family = optarg;
            break;
        case 't':
            settings->plan.tunables = optarg;
            break;
        case 'r':
            if (!option_number("--repeat", optarg, 1.0, RECORD_MOST_SAMPLES, &repeat, &why))
                return option_usage("run", why.text);
            settings->repeat = (size_t)repeat;
            break;
        case 'j':
            settings->json = optarg;
            break;
        case 'l':
            print_workloads();
            return 1;
        case 'h':
            fputs(help, stdout);
            return 1;
        default:
            return option_usage("run", "");
        }
    }
    if (settings->plan.tunables != NULL && settings->plan.family == NULL)
        return option_usage("run", "--tunables needs --family");
    return 0;
}

int run_command(int argc, char **argv)
{
    struct settings settings = {.plan.struct_size = sizeof settings.plan, .repeat = DEFAULT_REPEAT};
    struct items items = {NULL, 0};
    struct message why;

    const int stop = read_options(argc, argv, &settings);
    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    const int status = items_read(&items, argc - optind, argv + optind, &why)
                           ? run_all(&settings, &items)
                           : option_usage("run", why.text);
    items_free(&items);
    return status;
}
