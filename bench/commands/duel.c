/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench duel: which of some configurations is the fastest, and how sure that is. */
#include "bench/commands/duel.h"
#include "bench/commands/interleaved.h"
#include "bench/commands/options.h"
#include "bench/records/archive.h"
#include "bench/records/results.h"
#include "bench/timing/case_forward.h"
#include "bench/timing/timing.h"
#include "cli/interrupt.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "internal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ROUNDS 30
#define FEWEST_ROUNDS 6 /* With fewer rounds the interval is no better than the range. */

static const char help[] =
    "Usage: clattn-bench duel [OPTION...] PROBLEM CONFIGURATION CONFIGURATION...\n"
    "Times configurations of one problem interleaved: in each round each runs once, in an order\n"
    "drawn anew, so that what disturbs the machine disturbs all. Prints each one's time and its\n"
    "ratio to the first, with 95 % confidence intervals over the rounds. The results of all are\n"
    "compared with double precision. A configuration is \"FAMILY NAME=value ...\" "
    "(tunables\n"
    "that are not named get the default for the problem), or one of the words\n"
    "  tuned    what was tuned for this problem on this device, or fail\n"
    "  untuned  what a device gets that was never tuned\n"
    "The same one twice shows how well this machine can tell.\n"
    "  --device SEL  index or part of a name, as 'clattn-bench devices' lists them\n"
    "  --rounds N    6 to 100 (default 30)\n"
    "  --seconds S   end after so long, but not before 6 rounds\n"
    "  --json FILE   write JSON, to standard output instead of the table for -\n"
    "Exit status: 0 all were timed and are right, 1 one was not, 2 usage.\n";

struct duellist {
    const char *name; /* The configuration as the command line gives it. */
    char *family;     /* Owned; the name's first word, the rest are tunables. */
    clattn_plan_options options;
    struct measurement measurement;
    struct outcome outcome;
    struct ca_interval median;
};

struct duel {
    const char *problem;
    struct target target;
    struct attention_case attention;
    struct duellist duellist[INTERLEAVED_MOST];
    size_t count;
    size_t opened; /* Number of duellists that have a measurement. */
};

struct settings {
    const char *device, *json;
    double rounds, seconds;
};

/* "tuned", "untuned" or a family and its tunables. */
static bool read_configuration(const char *text, struct duellist *duellist, struct message *why)
{
    const size_t length = strcspn(text, " ");

    *duellist = (struct duellist){.name = text, .options.struct_size = sizeof duellist->options};
    if (strcmp(text, "tuned") == 0) {
        duellist->options.flags = CLATTN_PLAN_KNOWN_ONLY;
        return true;
    }
    if (strcmp(text, "untuned") == 0) {
        duellist->options.flags = CLATTN_PLAN_UNTUNED;
        return true;
    }
    duellist->family = ca_text_copy(text);
    if (duellist->family != NULL)
        duellist->family[length] = '\0';
    else
        return message_set(why, "no memory for a configuration");
    duellist->options.family = duellist->family;
    if (text[length + strspn(text + length, " ")] != '\0')
        duellist->options.tunables = text + length;
    return true;
}

static bool open_all(struct duel *duel, struct message *why)
{
    struct message reason;

    for (size_t n = 0; n < duel->count; n++) {
        struct duellist *d = &duel->duellist[n];
        const bool ok =
            n == 0 ? measurement_open(&d->measurement, &duel->target, &duel->attention, &d->options,
                                      1, &reason)
                   : measurement_open_beside(&d->measurement, &duel->duellist[0].measurement,
                                             &duel->attention, &d->options, &reason);
        if (!ok)
            return message_set(why, "'%.100s': %.400s", d->name, reason.text);
        duel->opened++;
    }
    return true;
}

/* Returns whether all duellists are still in the duel: one that is out leaves nothing to compare
 * with. */
static bool all_right(const struct duel *duel, struct message *why)
{
    for (size_t n = 0; n < duel->count; n++)
        if (duel->duellist[n].outcome.state != OUTCOME_MEASURED)
            return message_set(why, "'%.100s': %.400s", duel->duellist[n].name,
                               duel->duellist[n].outcome.why.text);
    return true;
}

static bool race(struct duel *duel, const struct settings *settings, struct message *why)
{
    struct interleaved interleaved = {.count = duel->count, .random = 1};

    for (size_t n = 0; n < duel->count; n++) {
        struct duellist *d = &duel->duellist[n];
        interleaved.competitor[n] =
            (struct competitor){.measurement = &d->measurement, .outcome = &d->outcome};
    }
    interleaved_check(&interleaved, &duel->attention);
    interleaved_warm_up(&interleaved);
    const double begin = ca_stopwatch_now();
    const size_t rounds = (size_t)settings->rounds;
    for (size_t n = 0; n < rounds && all_right(duel, why); n++) {
        if (n >= FEWEST_ROUNDS && ca_stopwatch_now() - begin >= settings->seconds)
            break;
        interleaved_round(&interleaved, why);
    }
    interleaved_check(&interleaved, &duel->attention); /* errors may show only after many runs */
    if (!all_right(duel, why))
        return false;
    for (size_t n = 0; n < duel->count; n++) {
        struct duellist *d = &duel->duellist[n];
        const struct samples *seconds = &d->outcome.seconds;
        d->median = ca_median(seconds->value, seconds->count);
        d->outcome.ratio = ca_paired_ratio(seconds->value, duel->duellist[0].outcome.seconds.value,
                                           seconds->count);
    }
    return true;
}

/* ---- what is shown ---------------------------------------------------------------------------- */

const char *duel_verdict(const struct ca_interval *ratio)
{
    return ratio->low > 1.0 ? "slower" : ratio->high < 1.0 ? "faster" : "tie";
}

/* Between an entry's own time and what it is to the first's: narrow terminals have no room for both
 * in a line. */
static const char *gap(void)
{
    enum { WIDEST = 78 };

    return ca_columns(stdout) < WIDEST ? "\n    " : "  ";
}

static void print_row(const struct duel *duel, size_t index)
{
    const struct duellist *d = &duel->duellist[index];

    printf("%2zu %10.4f  %9.4f .. %-9.4f", index + 1, d->median.middle * 1e3, d->median.low * 1e3,
           d->median.high * 1e3);
    if (index > 0)
        printf("%s%8.4f  %7.4f .. %-7.4f  %s", gap(), d->outcome.ratio.middle, d->outcome.ratio.low,
               d->outcome.ratio.high, duel_verdict(&d->outcome.ratio));
    putchar('\n');
    ca_print_line(stdout, d->measurement.engine.configuration, 3);
    ca_print_line(stdout, d->measurement.engine.reason, 3);
}

static void print_duel(const struct duel *duel)
{
    const clattn_device_info *info = duel->target.info;

    ca_print_line(stdout, duel->problem, 0);
    ca_print_wrapped(stdout, 0, "%.75s, driver %.20s\n", info->name, info->driver_version);
    printf("%zu rounds\n\n", duel->duellist[0].outcome.seconds.count);
    printf("   %10s  %-22s%s%8s  %-18s  %s\n", "ms", "95 % of its median", gap(), "to first",
           "95 % of the ratio", "verdict");
    for (size_t n = 0; n < duel->count; n++)
        print_row(duel, n);
}

static json_t *make_duellist(const struct duel *duel, size_t index)
{
    const struct duellist *d = &duel->duellist[index];
    const char *verdict = index > 0 ? duel_verdict(&d->outcome.ratio) : NULL;

    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:s?, s:o, s:b}", "name", d->name, "configuration",
        d->measurement.engine.configuration, "origin", record_origin(d->measurement.engine.reason),
        "milliseconds", times_json(&d->outcome.seconds, 1e-3), "ratio",
        index > 0 ? interval_json(&d->outcome.ratio) : json_null(), "verdict", verdict, "error",
        results_error(&d->outcome.worst, "reference"), "ok", worst_ok(&d->outcome.worst));
}

static bool write_duel(const char *path, const struct duel *duel, struct message *why)
{
    json_t *object = results_new("clattn-bench-duel-1", &duel->target);
    json_t *list = json_array();

    for (size_t n = 0; n < duel->count; n++)
        json_array_append_new(list, make_duellist(duel, n));
    json_object_set_new(object, "problem", json_string(duel->problem));
    json_object_set_new(object, "duellists", list);
    return results_dump(path, object, why);
}

/* ---------------------------------------------------------------------------------------------- */

static bool run_duel(struct duel *duel, const struct settings *settings, const struct job *job,
                     struct message *why)
{
    bool ok = false;

    if (!target_open(&duel->target, settings->device, why))
        return false;
    ca_interrupt_excuses(duel->target.context);
    if (case_random(&duel->attention, job, 1, why) &&
        case_forward(&duel->attention, &duel->target, why) && open_all(duel, why) &&
        race(duel, settings, why)) {
        if (!option_to_stdout(settings->json))
            print_duel(duel);
        ok = settings->json == NULL || write_duel(settings->json, duel, why);
    }
    for (size_t n = 0; n < duel->opened; n++)
        measurement_close(&duel->duellist[n].measurement);
    case_free(&duel->attention);
    ca_interrupt_excuses(NULL);
    target_close(&duel->target);
    return ok;
}

/* 0 to go on, 1 if help was printed, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct settings *s)
{
    const struct command_option options[] = {
        {.name = "device", .text = &s->device},
        {.name = "rounds",
         .number = &s->rounds,
         .whole = true,
         .low = FEWEST_ROUNDS,
         .high = RECORD_MOST_SAMPLES},
        {.name = "seconds", .number = &s->seconds, .high = 1e6},
        {.name = "json", .text = &s->json},
        {.name = NULL},
    };
    const int stop = command_line_read(argc, argv, help, options);

    if (stop == 0 && (argc - optind < 3 || argc - optind > INTERLEAVED_MOST + 1))
        return option_usage("duel", "takes a problem and 2 to 16 configurations");
    return stop;
}

int duel_command(int argc, char **argv)
{
    struct settings settings = {.rounds = DEFAULT_ROUNDS, .seconds = 1e6};
    static struct duel duel;
    struct job job;
    struct message why;
    char reason[256];

    const int stop = read_options(argc, argv, &settings);
    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    duel.problem = argv[optind];
    if (!job_parse(duel.problem, &job, reason, sizeof reason))
        return option_usage("duel", reason);
    bool ok = true;
    for (int n = optind + 1; ok && n < argc; n++)
        ok = read_configuration(argv[n], &duel.duellist[duel.count++], &why);
    ok = ok && run_duel(&duel, &settings, &job, &why);
    for (size_t n = 0; n < duel.count; n++)
        free(duel.duellist[n].family);
    if (!ok)
        fprintf(stderr, "clattn-bench duel: %s\n", why.text);
    return ok ? EXIT_SUCCESS : EXIT_FAILED;
}
