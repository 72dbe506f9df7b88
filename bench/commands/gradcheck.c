/* clattn-bench gradcheck: are the gradients of problems right on this device? */
#include "bench/commands/options.h"
#include "bench/records/results.h"
#include "bench/timing/target.h"
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
    "Computes forward and backward with random data and compares the gradients of each problem,\n"
    "such as \"bwd f32 h4/2 q64 d32 causal=tl\", in two steps:\n"
    "  1. every element that the device computed with the formulas in double precision;\n"
    "  2. some elements of the formulas with central differences of the forward formulas.\n"
    "Prints the worst element of each step and its error as a part of its bound: it is right up\n"
    "to 1. On the host it takes time with h * q * k * d: keep problems small.\n"
    "  --device SEL      index or part of a name, as 'clattn-bench devices' lists them\n"
    "  --family F        force a kernel family\n"
    "  --tunables \"N=V\"  with --family: force tunables\n"
    "  --seed N          of the data (default 1)\n"
    "  --json FILE       write JSON, to standard output instead of the lines for -\n"
    "Exit status: 0 all are right, 1 one is not or could not be checked, 2 usage.\n";

struct settings {
    struct common_options common;
    double seed;
    json_t *list;
};

static void print_element(const char *title, size_t count, const clattn_gradient_element *e)
{
    if (count == 0) {
        ca_print_paragraph(stdout, 2, "%s: nothing to compare", title);
        return;
    }
    ca_print_paragraph(stdout, 2, "%s, %zu elements: worst %s(%zu, %zu, %zu, %zu)", title, count,
                       e->tensor, e->index[0], e->index[1], e->index[2], e->index[3]);
    ca_print_paragraph(stdout, 4, "%.9g, should be %.9g: %.2g of the error that may be there",
                       e->value, e->expected, e->ratio);
}

static json_t *element_json(size_t count, const clattn_gradient_element *e)
{
    json_t *object = json_pack("{s:I}", "elements", (json_int_t)count);

    if (count == 0)
        return object;
    json_object_set_new(object, "tensor", json_string(e->tensor));
    json_object_set_new(object, "index",
                        json_pack("[I, I, I, I]", (json_int_t)e->index[0], (json_int_t)e->index[1],
                                  (json_int_t)e->index[2], (json_int_t)e->index[3]));
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"value", e->value}, {"expected", e->expected}, {"ratio", e->ratio}};
    for (size_t n = 0; n < 3; n++) /* JSON has no infinities */
        json_object_set_new(object, numbers[n].name,
                            isfinite(numbers[n].value) ? json_real(numbers[n].value) : json_null());
    return object;
}

static bool check_problem(const struct settings *settings, const struct target *target,
                          const char *text, const clattn_problem *problem)
{
    clattn_gradient_report report = {.struct_size = sizeof report};
    char line[2048];

    if (clattn_gradient_check(target->context, problem, &settings->common.plan,
                              (unsigned)settings->seed, &report) != CLATTN_SUCCESS) {
        message_say(stderr, "clattn-bench gradcheck: '%s': %s", text, target->log.text);
        return false;
    }
    if (settings->list) {
        json_array_append_new(settings->list,
                              json_pack("{s:s, s:s, s:b, s:o, s:o}", "problem", text, "family",
                                        report.family, "right", report.right, "device",
                                        element_json(report.num_analytic, &report.analytic),
                                        "formulas",
                                        element_json(report.num_differences, &report.difference)));
        return report.right;
    }
    snprintf(line, sizeof line, "%s  %s: %s", text, report.family,
             report.right ? "right" : "WRONG");
    ca_print_line(stdout, line, 0);
    print_element("device against formulas", report.num_analytic, &report.analytic);
    print_element("formulas against differences", report.num_differences, &report.difference);
    return report.right;
}

/* 0 to go on, 1 if help was printed, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {{"seed", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const unsigned common = OPTION_DEVICE | OPTION_FAMILY | OPTION_TUNABLES | OPTION_JSON;
    struct message why;
    int option;

    while ((option = option_next(argc, argv, options, common, &settings->common)) != -1) {
        switch (option) {
        case 's':
            if (!option_whole("--seed", optarg, 0.0, LARGEST_SEED, &settings->seed, &why))
                return option_usage("gradcheck", why.text);
            break;
        case 'h':
            fputs(help, stdout);
            return 1;
        default:
            return option_usage("gradcheck", "");
        }
    }
    if (!option_choice(&settings->common.plan, &why))
        return option_usage("gradcheck", why.text);
    if (optind == argc)
        return option_usage("gradcheck", "names no problem");
    return 0;
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
    json_t *object = results_new("clattn-bench-gradcheck-1", target);
    json_object_set(object, "problems", settings->list);
    return results_dump(settings->common.json, object, why) && right;
}

int gradcheck_command(int argc, char **argv)
{
    struct settings settings = {.common.plan.struct_size = sizeof settings.common.plan, .seed = 1};
    clattn_problem problem;
    struct target target;
    struct message why;

    const int stop = read_options(argc, argv, &settings);
    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    for (int n = optind; n < argc; n++)
        if (!read_problem(argv[n], &problem, &why))
            return option_usage("gradcheck", why.text);
    if (!target_open(&target, settings.common.device, &why)) {
        fprintf(stderr, "clattn-bench gradcheck: %s\n", why.text);
        return EXIT_FAILED;
    }
    ca_interrupt_excuses(target.context);
    settings.list = settings.common.json ? json_array() : NULL;
    const bool right = check_all(&settings, &target, argc - optind, argv + optind, &why);
    if (!right && why.text[0] != '\0')
        fprintf(stderr, "clattn-bench gradcheck: %s\n", why.text);
    json_decref(settings.list);
    ca_interrupt_excuses(NULL);
    target_close(&target);
    return right ? EXIT_SUCCESS : EXIT_FAILED;
}
