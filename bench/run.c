/* clattn-bench run: problems timed beside the device's measured peaks. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "contest.h"
#include "items.h"
#include "options.h"
#include "peaks.h"
#include "results.h"
#include "table.h"
#include "workloads.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_REPEAT 7
#define MOST_PLAUSIBLE_SHARE 1.02

static const char help[] =
    "Usage: clattn-bench run [OPTION...] [WORKLOAD | PROBLEM | FILE.safetensors]...\n"
    "Times attention and compares every result: with the answer in the file, else with double\n"
    "precision. Problems are lines such as \"fwd f16 b1 h32/8 q512 d128 causal=tl\"; their data\n"
    "is random. Without arguments all workloads run.\n"
    "What clattn-tune has found is used, and timed beside what would run without it: the gain is\n"
    "how many times as fast it is. Where a choice comes from:\n"
    "  tuned     found for this class of problems   override  set by CLATTN_OVERRIDE\n"
    "  stale     ... with another driver or source  forced    by --family\n"
    "  nearest   found for the nearest class        untuned   from the device's facts\n"
    "  shipped   found elsewhere on such a device\n"
    "Options:\n"
    "  --device SEL     index or part of a name, as 'clattn-bench devices' lists them\n"
    "  --family F       force a kernel family\n"
    "  --tunables T     force its tunables, \"NAME=value ...\"\n"
    "  --untuned        only what a device gets that was never tuned\n"
    "  --known-only     only what was tuned for each problem; others fail\n"
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

/* Samples of the problem, each between two of the peak. */
static bool sample(struct run *run, struct contest *contest, struct record *record,
                   struct message *why)
{
    const struct measurement *m = contest->contestant[0].measurement;
    double before, after, bandwidth;

    if (!contest_warm_up(contest, why) || !peaks_read(&run->peaks, &bandwidth, why))
        return false;
    samples_add(&run->peak_samples.read, bandwidth);
    if (!peaks_copy(&run->peaks, &bandwidth, why))
        return false;
    samples_add(&run->peak_samples.copy, bandwidth);
    for (size_t n = 0; n < run->settings->repeat; n++) {
        if (!peaks_fma(&run->peaks, m->seconds, &before, why) || !contest_round(contest, why) ||
            !peaks_fma(&run->peaks, m->seconds, &after, why))
            return false;
        samples_add(&run->peak_samples.fma, before);
        samples_add(&record->share,
                    record->flops / record->seconds.value[n] * 1e-9 / ((before + after) / 2.0));
    }
    if (samples_median(&record->share) > MOST_PLAUSIBLE_SHARE)
        run->peak_samples.exceeded = true;
    return true;
}

/* Opens what a device gets that was never tuned; it competes only if it is something else. */
static bool open_untuned(const struct attention_case *attention, struct measurement *untuned,
                         struct contest *contest, struct record *record, struct message *why)
{
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .flags = CLATTN_PLAN_UNTUNED};

    if (!measurement_open_beside(untuned, contest->contestant[0].measurement, attention, &options,
                                 why))
        return false;
    record->untuned = strdup(untuned->configuration);
    if (record->untuned == NULL)
        return message_set(why, "no memory for the results");
    if (strcmp(record->untuned, record->configuration) != 0)
        contest->contestant[contest->count++] =
            (struct contestant){untuned, &record->untuned_seconds, &record->untuned_worst};
    return true;
}

static bool measure(struct run *run, const struct attention_case *attention, const char *heading,
                    struct record *record, struct message *why)
{
    const clattn_plan_options *options = &run->settings->plan;
    const bool forced = options->family != NULL || (options->flags & CLATTN_PLAN_UNTUNED) != 0;
    struct measurement m, untuned = {.target = NULL};
    struct contest contest = {
        .contestant = {{&m, &record->seconds, &record->worst}}, .count = 1, .random = 1};

    if (!measurement_open(&m, &run->target, attention, options, why))
        return false;
    snprintf(record->name, sizeof record->name, "%s", heading);
    record->flops = clattn_problem_flops(&attention->problem);
    record->against = attention->o.data != NULL ? "file" : "reference";
    bool ok = record_describe(record, &m, why);
    if (ok && !forced)
        ok = open_untuned(attention, &untuned, &contest, record, why);
    /* Checked before and after: a kernel may go wrong only when run often. */
    ok = ok && contest_check(&contest, attention, why) && sample(run, &contest, record, why) &&
         contest_check(&contest, attention, why);
    if (ok && contest.count > 1)
        record->gain = ca_paired_ratio(record->untuned_seconds.value, record->seconds.value,
                                       record->seconds.count);
    measurement_close(&untuned);
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
    return record_ok(record);
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
        table_footer(&run->peak_samples, run->records, run->count);
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
        {"untuned", no_argument, NULL, 'u'},        {"known-only", no_argument, NULL, 'k'},
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
        case 'u':
            settings->plan.flags |= CLATTN_PLAN_UNTUNED;
            break;
        case 'k':
            settings->plan.flags |= CLATTN_PLAN_KNOWN_ONLY;
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
    return option_choice(&settings->plan, &why) ? 0 : option_usage("run", why.text);
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
