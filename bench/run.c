/* clattn-bench run: problems timed beside the device's measured peaks. */
#include "interrupt.h"
#include "options.h"
#include "run_device.h"
#include "workloads.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PATIENCE 20.0

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

static void print_workloads(void)
{
    for (const struct workload *w = workloads; w->name != NULL; w++) {
        printf("%s: %s\n", w->name, w->meaning);
        for (size_t n = 0; w->problems[n] != NULL; n++)
            printf("  %s\n", w->problems[n]);
    }
}

/* 0 to go on, 1 if all was said, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct run_settings *settings)
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

static bool run_items(const struct run_settings *settings, const struct items *items)
{
    struct run_results results;
    struct message why;

    results_begin(&results);
    bool ok = run_device(settings, items, &results);
    if (settings->json != NULL && strcmp(settings->json, "-") == 0 && results.count > 0 &&
        !results_write("-", &results, &why)) {
        fprintf(stderr, "clattn-bench run: %s\n", why.text);
        ok = false;
    }
    results_free(&results);
    return ok;
}

int run_command(int argc, char **argv)
{
    struct run_settings settings = {.plan.struct_size = sizeof settings.plan,
                                    .patience = DEFAULT_PATIENCE};
    struct items items = {NULL, 0};
    struct message why;

    const int stop = read_options(argc, argv, &settings);
    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    if (!items_read(&items, argc - optind, argv + optind, &why)) {
        items_free(&items);
        return option_usage("run", why.text);
    }
    ca_interrupt_catch();
    const bool ok = run_items(&settings, &items);
    items_free(&items);
    return ca_interrupted() ? EXIT_INTERRUPTED : ok ? EXIT_SUCCESS : EXIT_FAILED;
}
