/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench gradcheck: are the gradients of problems right on this device? */
#include "bench/commands/options.h"
#include "bench/records/archive.h"
#include "bench/records/results.h"
#include "bench/timing/case_forward.h"
#include "bench/timing/measure.h"
#include "cli/interrupt.h"
#include "cli/terminal/table.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_SEED 4294967295.0

static const char help[] =
    "Usage: clattn-bench gradcheck [OPTION...] PROBLEM...\n"
    "Computes forward and backward with random data and compares every gradient of each\n"
    "problem, such as \"bwd f32 h4/2 q64 d32 causal=tl\", with the formulas in double precision.\n"
    "Prints the worst element and its error as a part of its bound: it is right up to 1. On the\n"
    "host it takes time with h * q * k * d: keep problems small.\n"
    "  --device SEL      index or part of a name, as 'clattn-bench devices' lists them\n"
    "  --family F        force a kernel family\n"
    "  --tunables \"N=V\"  with --family: force tunables\n"
    "  --seed N          of the data (default 1)\n"
    "  --json FILE       write JSON, to standard output instead of the lines for -\n"
    "Exit status: 0 all are right, 1 one is not or could not be checked, 2 usage.\n";

struct settings {
    const char *device, *json;
    clattn_plan_options plan;
    double seed;
    json_t *list;
};

/* The result of checking a problem. */
struct found {
    char *configuration; /* Owned. */
    struct worst worst;
    struct check_place place;
};

static json_t *found_json(const char *text, const struct found *found, bool right)
{
    const struct check_place *place = &found->place;
    json_t *element = json_pack("{s:I}", "elements", (json_int_t)found->worst.results);

    if (place->tensor != NULL) {
        json_object_set_new(element, "tensor", json_string(place->tensor));
        json_object_set_new(element, "index",
                            json_pack("[I, I, I, I]", (json_int_t)place->at[0],
                                      (json_int_t)place->at[1], (json_int_t)place->at[2],
                                      (json_int_t)place->at[3]));
        json_object_set_new(element, "value", number_json(place->got));
        json_object_set_new(element, "expected", number_json(place->want));
        json_object_set_new(element, "ratio", number_json(found->worst.ratio));
    }
    return json_pack("{s:s, s:s, s:b, s:o}", "problem", text, "configuration", found->configuration,
                     "right", right, "device", element);
}

static void print_found(const char *text, const struct found *found, bool right)
{
    const struct check_place *place = &found->place;
    char line[2048];

    snprintf(line, sizeof line, "%s  %s: %s", text, found->configuration,
             right ? "right" : "WRONG");
    ca_print_line(stdout, line, 0);
    if (place->tensor == NULL) {
        ca_print_paragraph(stdout, 2, "%s", "nothing to compare");
        return;
    }
    ca_print_paragraph(stdout, 2, "%zu elements: worst %s(%zu, %zu, %zu, %zu)",
                       found->worst.results, place->tensor, place->at[0], place->at[1],
                       place->at[2], place->at[3]);
    ca_print_paragraph(stdout, 4, "%.9g, should be %.9g: %.2g of the error that may be there",
                       place->got, place->want, found->worst.ratio);
}

/* The gradients of random data, o and lse by the library's forward, which is compared as well. */
static bool compute(const struct settings *settings, const struct target *target,
                    const struct job *job, struct found *found, struct message *why)
{
    struct attention_case attention;
    struct measurement m;
    struct results results;

    if (!case_random(&attention, job, (unsigned)settings->seed, why))
        return false;
    bool good = case_forward(&attention, target, why) &&
                measurement_open(&m, target, &attention, &settings->plan, 1, why);
    if (good) {
        found->configuration = m.engine.configuration;
        m.engine.configuration = NULL;
        good = measurement_results(&m, &attention, &results, why);
        measurement_close(&m);
    }
    if (good) {
        good = check_all_results(&attention, &results, &found->worst, &found->place, why);
        results_release(&results);
    }
    case_free(&attention);
    return good;
}

static bool check_problem(const struct settings *settings, const struct target *target,
                          const char *text, const clattn_problem *problem)
{
    struct found found = {.configuration = NULL};
    const struct job job = job_of(problem);
    struct message why;

    const bool compared = compute(settings, target, &job, &found, &why);
    const bool right = compared && (found.worst.results == 0 || worst_ok(&found.worst));
    if (!compared)
        message_say(stderr, "clattn-bench gradcheck: '%s': %s", text, why.text);
    else if (settings->list)
        json_array_append_new(settings->list, found_json(text, &found, right));
    else
        print_found(text, &found, right);
    free(found.configuration);
    return right;
}

/* 0 to go on, 1 if help was printed, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct settings *s)
{
    const struct command_option options[] = {
        {.name = "device", .text = &s->device},
        OPTIONS_FAMILY(s->plan),
        {.name = "seed", .number = &s->seed, .whole = true, .high = LARGEST_SEED},
        {.name = "json", .text = &s->json},
        {.name = NULL},
    };
    const int stop = command_line_read(argc, argv, help, options);
    struct message why;

    if (stop != 0)
        return stop;
    if (!option_choice(&s->plan, &why))
        return option_usage("gradcheck", why.text);
    return optind == argc ? option_usage("gradcheck", "names no problem") : 0;
}

/* A problem that has gradients. */
static bool read_problem(const char *text, clattn_problem *problem, struct message *why)
{
    char reason[256];

    if (clattn_problem_parse(text, problem, reason, sizeof reason) != CLATTN_SUCCESS)
        return message_set(why, "'%.200s': %s", text, reason);
    if (problem->operation != CLATTN_BACKWARD)
        return message_set(why, "'%.200s' has no gradients: it must begin with bwd", text);
    return true;
}

static bool check_all(struct settings *settings, const struct target *target, int count,
                      char **texts, struct message *why)
{
    bool right = true;

    for (int n = 0; n < count; n++) {
        clattn_problem problem;
        if (!read_problem(texts[n], &problem, why))
            return false;
        right = check_problem(settings, target, texts[n], &problem) && right;
    }
    why->text[0] = '\0';
    if (!settings->list)
        return right;
    json_t *object = results_new("clattn-bench-gradcheck-2", target);
    json_object_set(object, "problems", settings->list);
    return results_dump(settings->json, object, why) && right;
}

int gradcheck_command(int argc, char **argv)
{
    struct settings settings = {.plan.struct_size = sizeof settings.plan, .seed = 1};
    clattn_problem problem;
    struct target target;
    struct message why;

    const int stop = read_options(argc, argv, &settings);
    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    for (int n = optind; n < argc; n++)
        if (!read_problem(argv[n], &problem, &why))
            return option_usage("gradcheck", why.text);
    if (!target_open(&target, settings.device, &why)) {
        fprintf(stderr, "clattn-bench gradcheck: %s\n", why.text);
        return EXIT_FAILED;
    }
    ca_interrupt_excuses(target.context);
    settings.list = settings.json ? json_array() : NULL;
    const bool right = check_all(&settings, &target, argc - optind, argv + optind, &why);
    if (!right && why.text[0] != '\0')
        fprintf(stderr, "clattn-bench gradcheck: %s\n", why.text);
    json_decref(settings.list);
    ca_interrupt_excuses(NULL);
    target_close(&target);
    return right ? EXIT_SUCCESS : EXIT_FAILED;
}
