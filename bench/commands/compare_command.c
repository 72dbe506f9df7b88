/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench compare: what changed from one run to others. */
#include "bench/commands/options.h"
#include "bench/records/comparison.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: clattn-bench compare [OPTION...] A.json B.json...\n"
    "Compares runs that 'clattn-bench run --json' wrote with the first of them, problem by "
    "problem\n"
    "on the same device, whatever its driver: ratios with intervals that hold the truth in 95 of\n"
    "100 cases. A regression is what is slower in all of its interval by more than the threshold,\n"
    "and what was measured in A and now is missing, failed, wrong or less exact. On another "
    "device\n"
    "being slower is none. What is new is listed.\n"
    "  --threshold PERCENT    how much slower is no regression yet (default 5)\n"
    "  --by time|share        compare times (default), or parts of the device's peak measured\n"
    "                         beside them, which wander less on a shared machine\n"
    "  --implementation NAME  whose: clattn (default), 'clattn untuned', CLBlast, ...\n"
    "  --filter TEXT          only problems whose name or text contains this\n"
    "  --json FILE            write JSON, to standard output instead of the table for -\n"
    "  --quiet                print regressions only\n"
    "Colours are left out where NO_COLOR is set.\n"
    "Exit status: 0 no regression, 1 a regression or an unreadable file, 2 usage.\n";

struct settings {
    struct comparison_options options;
    double percent;
    const char *json;
    bool quiet;
};

static bool read_by(const char *value, void *to, struct message *why)
{
    struct comparison_options *options = to;

    options->by_share = strcmp(value, "share") == 0;
    return options->by_share || strcmp(value, "time") == 0 ||
           message_set(why, "--by takes time or share, not '%.100s'", value);
}

/* 0 to go on, 1 if help was printed, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct settings *s)
{
    const struct command_option options[] = {
        {.name = "threshold", .number = &s->percent, .high = 1000.0},
        {.name = "by", .read = read_by, .to = &s->options},
        {.name = "implementation", .text = &s->options.implementation},
        {.name = "filter", .text = &s->options.filter},
        {.name = "json", .text = &s->json},
        {.name = "quiet", .flag = &s->quiet},
        {.name = NULL},
    };
    const int stop = command_line_read(argc, argv, help, options);

    if (stop != 0)
        return stop;
    s->options.threshold = s->percent / 100.0;
    if (argc - optind < 2 || argc - optind > COMPARISON_MOST)
        return option_usage("compare", "takes 2 to 26 files of results");
    return 0;
}

/* Returns false if something cannot be written. */
static bool show(const struct comparison *comparison, const struct settings *settings,
                 struct message *why)
{
    if (!option_to_stdout(settings->json))
        comparison_print(comparison, settings->quiet);
    return settings->json == NULL || comparison_write_json(settings->json, comparison, why);
}

int compare_command(int argc, char **argv)
{
    struct settings settings = {.options = {.implementation = "clattn", .filter = NULL},
                                .percent = 5.0};
    struct run_results files[COMPARISON_MOST];
    struct comparison comparison;
    struct message why;
    size_t count = 0;

    const int stop = read_options(argc, argv, &settings);
    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    const size_t wanted = (size_t)(argc - optind);
    bool ok = true, regressed = false;
    while (ok && count < wanted) {
        ok = results_read(argv[optind + (int)count], &files[count], &why);
        count += ok;
    }
    if (ok && comparison_open(&comparison, files, count, &settings.options, &why)) {
        ok = show(&comparison, &settings, &why);
        regressed = comparison_regressions(&comparison) > 0;
        comparison_free(&comparison);
    } else {
        ok = false;
    }
    while (count > 0)
        results_free(&files[--count]);
    if (!ok)
        fprintf(stderr, "clattn-bench compare: %s\n", why.text);
    return ok && !regressed ? EXIT_SUCCESS : EXIT_FAILED;
}
