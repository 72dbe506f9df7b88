/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench plan: how long a fresh process waits for its first result, step by step; or what a
 * device that is not at hand would run. */
#include "bench/commands/options.h"
#include "bench/commands/preview.h"
#include "bench/records/results.h"
#include "bench/timing/measure.h"
#include "bench/timing/timing.h"
#include "cli/interrupt.h"
#include "cli/terminal/table.h"
#include "internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: clattn-bench plan [OPTION...] PROBLEM...\n"
    "       clattn-bench plan --profile P [OPTION...] PROBLEM\n"
    "Times a cold start, what a process does before its first result: finding the device, making\n"
    "a context, a plan, executing it; then a second plan for the same problem. Run it twice to\n"
    "see what the cache of built programs saves. Times are the host's; of several problems, such\n"
    "as the forward and backward of a training step, each waits for the one before, and times\n"
    "are sums.\n"
    "With a profile nothing is run: prints what the device that it describes would run, what that\n"
    "needs, and why no other family. PROBLEM may be a layer.\n"
    "  --profile P    a file as bench/profiles has them, or the name of one that is built in (a "
    "name\n"
    "                 that is not lists them)\n"
    "  --device SEL   index or part of a name, as 'clattn-bench devices' lists them\n"
    "  --family F     force a kernel family\n"
    "  --tunables T   force its tunables, \"NAME=value ...\"\n"
    "  --untuned      the choice that a device gets that was never tuned\n"
    "  --known-only   only what was tuned for this problem, or fail\n"
    "  --once         end after the first result, without a second plan\n"
    "  --json FILE    write JSON, to standard output instead of the lines for -\n"
    "Exit status: 0 done, 1 something failed, 2 usage.\n";

enum { MOST_PROBLEMS = 8 };

struct settings {
    const char *device, *json;
    clattn_plan_options plan;
    const char *profile; /* NULL: a device is there. */
    bool once;
};

/* Seconds of each step. */
struct steps {
    double devices, context, plan, first;
    double second_plan, second; /* 0 with --once. */
    size_t builds;              /* Programs compiled for the first plans. */
    /* Seconds of compiling these programs; storing may happen later. */
    struct cold_start_parts parts;
};

/* Storing included, for which the library may wait until the context goes. */
static struct cold_start_parts compiling(clattn_context *context)
{
    struct ca_build_seconds seconds;

    ca_programs_store(context, INFINITY);
    ca_programs_seconds(context, &seconds);
    return (struct cold_start_parts){{[COLD_START_FRONT_END] = seconds.front_end,
                                      [COLD_START_CODE_GENERATION] = seconds.code_generation,
                                      [COLD_START_SELF_CHECK] = seconds.self_check,
                                      [COLD_START_STORING] = seconds.storing}};
}

/* Adds the seconds of another plan and of its first execution to *steps. */
static bool measure_again(const struct target *target, const struct settings *settings,
                          const struct attention_case *attention, struct steps *steps,
                          struct message *why)
{
    struct measurement again;

    if (!measurement_open(&again, target, attention, &settings->plan, 1, why))
        return false;
    steps->second_plan += again.plan_seconds;
    steps->second += again.first_seconds;
    measurement_close(&again);
    return true;
}

/* Adds the seconds of a job's plan and of its first execution to *steps. */
static bool measure(const struct target *target, const struct settings *settings,
                    const struct job *job, struct steps *steps, struct measurement *m,
                    struct message *why)
{
    struct attention_case attention;

    if (!case_random(&attention, job, 1, why))
        return false;
    const bool opened = measurement_open(m, target, &attention, &settings->plan, 1, why);
    bool ok = opened;
    if (opened) {
        steps->builds = clattn_context_builds(target->context);
        steps->plan += m->plan_seconds;
        steps->first += m->first_seconds;
        ok = settings->once || measure_again(target, settings, &attention, steps, why);
    }
    if (opened && !ok)
        measurement_close(m);
    case_free(&attention);
    return ok;
}

static void print_lines(const struct steps *steps, const struct measurement *m, size_t count)
{
    const struct {
        const char *name;
        double seconds;
    } lines[] = {
        {"finding the devices", steps->devices},
        {"context and queue", steps->context},
        {"plan", steps->plan},
        {"first execution", steps->first},
        {"a second plan", steps->second_plan},
        {"its first execution", steps->second},
    };
    char parts[160];

    for (size_t n = 0; n < count; n++) {
        ca_print_line(stdout, m[n].engine.job, 0);
        ca_print_line(stdout, m[n].engine.configuration, 0);
        ca_print_paragraph(stdout, 0, "%s", m[n].engine.reason);
        putchar('\n');
    }
    for (size_t n = 0; n < sizeof lines / sizeof *lines && lines[n].seconds > 0.0; n++)
        printf("  %-20s %9.3f ms\n", lines[n].name, lines[n].seconds * 1e3);
    if (steps->builds == 0) {
        putchar('\n');
        ca_print_note(stdout, "programs compiled", "none, the cache on disk had what was needed");
        return;
    }
    cold_start_parts_print(&steps->parts, parts, sizeof parts);
    putchar('\n');
    ca_print_wrapped(stdout, 2, "programs compiled: %zu (%s)", steps->builds, parts);
}

/* "A", or "A + B"; a new reference. */
static json_t *sum_of(json_t *before, const char *text)
{
    json_t *sum =
        before ? json_sprintf("%s + %s", json_string_value(before), text) : json_string(text);

    json_decref(before);
    return sum;
}

static bool write_json(const char *path, const struct steps *steps, const struct measurement *m,
                       size_t count, struct message *why)
{
    json_t *object = results_new("clattn-bench-plan-1", m->engine.target);
    json_t *milliseconds = json_pack("{s:f, s:f, s:f, s:f}", "devices", steps->devices * 1e3,
                                     "context", steps->context * 1e3, "plan", steps->plan * 1e3,
                                     "first_execution", steps->first * 1e3);
    json_t *problem = NULL, *configuration = NULL, *origin = NULL;

    if (steps->second > 0.0) {
        json_object_set_new(milliseconds, "second_plan", json_real(steps->second_plan * 1e3));
        json_object_set_new(milliseconds, "second_execution", json_real(steps->second * 1e3));
    }
    for (size_t n = 0; n < count; n++) {
        problem = sum_of(problem, m[n].engine.job);
        configuration = sum_of(configuration, m[n].engine.configuration);
        origin = sum_of(origin, record_origin(m[n].engine.reason));
    }
    json_object_set_new(object, "problem", problem);
    json_object_set_new(object, "configuration", configuration);
    json_object_set_new(object, "origin", origin);
    json_object_set_new(object, "milliseconds", milliseconds);
    json_object_set_new(object, "compiling", results_compiling(&steps->parts));
    json_object_set_new(object, "programs_compiled", json_integer((json_int_t)steps->builds));
    return results_dump(path, object, why);
}

static bool run_plan(const struct settings *settings, const struct job *jobs, size_t count,
                     struct message *why)
{
    const double begin = ca_stopwatch_now();
    struct measurement m[MOST_PROBLEMS];
    struct target target;
    struct steps steps = {0};
    size_t devices, open = 0;

    clattn_device_list(NULL, 0, &devices); /* the first OpenCL call: the drivers start */
    steps.devices = ca_stopwatch_now() - begin;
    if (!target_open(&target, settings->device, why))
        return false;
    ca_interrupt_excuses(target.context);
    steps.context = ca_stopwatch_now() - begin - steps.devices;
    while (open < count && measure(&target, settings, &jobs[open], &steps, &m[open], why))
        open++;
    bool ok = open == count;
    if (ok) {
        steps.parts = compiling(target.context);
        if (!option_to_stdout(settings->json))
            print_lines(&steps, m, count);
        ok = settings->json == NULL || write_json(settings->json, &steps, m, count, why);
    }
    while (open > 0)
        measurement_close(&m[--open]);
    ca_interrupt_excuses(NULL);
    target_close(&target);
    return ok;
}

/* 0 to go on, 1 if help was printed, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct settings *s)
{
    const struct command_option options[] = {
        {.name = "once", .flag = &s->once},
        {.name = "profile", .text = &s->profile},
        {.name = "device", .text = &s->device},
        OPTIONS_FAMILY(s->plan),
        OPTIONS_CHOICE(s->plan),
        {.name = "json", .text = &s->json},
        {.name = NULL},
    };
    const int stop = command_line_read(argc, argv, help, options);
    struct message why;

    if (stop != 0)
        return stop;
    if (argc - optind < 1 || argc - optind > MOST_PROBLEMS)
        return option_usage("plan", "takes one to eight problems");
    if (s->profile != NULL && argc - optind > 1)
        return option_usage("plan", "takes one problem with --profile");
    if (s->profile != NULL && (s->once || s->device != NULL))
        return option_usage("plan", "--profile excludes --device and --once");
    return option_choice(&s->plan, &why) ? 0 : option_usage("plan", why.text);
}

int plan_command(int argc, char **argv)
{
    struct settings settings = {.plan.struct_size = sizeof settings.plan};
    struct job jobs[MOST_PROBLEMS];
    struct message why;
    char reason[256];
    size_t count = 0;

    const int stop = read_options(argc, argv, &settings);
    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    for (; optind < argc; optind++)
        if (!job_parse(argv[optind], &jobs[count++], reason, sizeof reason))
            return option_usage("plan", reason);
    if (settings.profile != NULL
            ? preview(settings.profile, jobs, &settings.plan, settings.json, &why)
            : run_plan(&settings, jobs, count, &why))
        return EXIT_SUCCESS;
    fprintf(stderr, "clattn-bench plan: %s\n", why.text);
    return EXIT_FAILED;
}
