/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench verify: cases in files against what they expect, problems against double precision. */
#include "bench/commands/items.h"
#include "bench/commands/options.h"
#include "bench/profiles/profile.h"
#include "bench/records/archive.h"
#include "bench/timing/case_forward.h"
#include "bench/timing/measure.h"
#include "bench/verify/compare.h"
#include "cli/interrupt.h"
#include "cli/terminal/table.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_SEED 4294967295.0

static const char help[] =
    "Usage: clattn-bench verify [OPTION...] WHAT...\n"
    "Compares what the device computes: of each FILE.safetensors with the answers in it; of a\n"
    "problem or a layer in its text form (\"bwd f32 h4/2 q64 d32 causal=tl\"), of random data, "
    "with\n"
    "the formulas in double precision, which take time with h * q * k * d. A workload or a file\n"
    "of lines has many of these. Prints a line for each.\n"
    "A file's tensors have the names of ONNX's operator Attention (Q K V attn_mask past_key\n"
    "past_value nonpad_kv_seqlen; Y present_key present_value qk_matmul_output), or the answer is\n"
    "called O or context; attributes stand in the file's metadata, and one that is not known is\n"
    "refused.\n"
    "  --device SEL  index or part of a name, as 'clattn-bench devices' lists them\n"
    "  --profile P   the device claims no more than a profile (see 'clattn-bench plan --help'), "
    "and\n"
    "                what is chosen is what it would get; what is refused then counts as right\n"
    "  --family F    force a kernel family; where it has no scores only Y is compared\n"
    "  --tunables \"N=V\"  with --family: force tunables\n"
    "  --seed N      of random data (default 1)\n"
    "  --rtol X      of answers in files: the allowed error relative to the largest value of a "
    "row\n"
    "  --atol X      allowed error besides that\n"
    "                (defaults: f32 1e-5 and 1e-6, f16 2e-3 and 1e-5, bf16 1.6e-2 and 1e-5,\n"
    "                by the coarser of what is stored and what it is compared with)\n"
    "  --json        print a JSON array instead\n"
    "Exit status: 0 all are within bounds, 1 one is not or a file is damaged, 2 usage.\n";

struct settings {
    const char *device;
    bool json;
    const char *profile; /* A profile that narrows the device; NULL: none. */
    clattn_plan_options plan;
    double seed;
    struct tolerance tolerance;
    json_t *list; /* NULL: lines of text. */
};

/* The result of one case. */
struct outcome {
    char name[128];                /* Empty: of random data. */
    char *problem, *configuration; /* Owned; NULL: not known. */
    bool scores_skipped;
    bool refused; /* The plan was refused: there is no answer to compare. */
    struct worst worst;
    struct check_place place; /* Without a tensor in files and layers. */
};

/* Drops the scores if only they keep the forced family from running. */
static void choose_scores(const struct target *target, const struct settings *settings,
                          clattn_problem *problem, struct outcome *outcome)
{
    clattn_problem without = *problem;

    without.scores = CLATTN_SCORES_NONE;
    if (problem->scores == CLATTN_SCORES_NONE || settings->plan.family == NULL ||
        clattn_plan_supports(target->context, problem, &settings->plan) != CLATTN_UNSUPPORTED ||
        clattn_plan_supports(target->context, &without, &settings->plan) != CLATTN_SUCCESS)
        return;
    *problem = without;
    outcome->scores_skipped = true;
}

static bool compute(const struct target *target, const struct settings *settings,
                    struct attention_case *c, struct outcome *outcome, struct results *results,
                    struct message *why)
{
    struct measurement m;

    if (!case_forward(c, target, why))
        return false;
    if (!measurement_open(&m, target, c, &settings->plan, 1, why)) {
        outcome->refused =
            settings->profile != NULL &&
            !engine_supports(target, &c->job, &settings->plan, &(struct message){""});
        return false;
    }
    outcome->configuration = m.engine.configuration;
    m.engine.configuration = NULL;
    const bool ok = measurement_results(&m, c, results, why);
    measurement_close(&m);
    return ok;
}

static bool verify_case(const struct target *target, const struct settings *settings,
                        struct attention_case *c, struct outcome *outcome, struct message *why)
{
    struct results results;
    bool ok = true;

    if (c->o.data != NULL)
        choose_scores(target, settings, &c->job.problem, outcome);
    outcome->problem = job_text(&c->job);
    if (!compute(target, settings, c, outcome, &results, why))
        return false;
    if (c->o.data != NULL)
        compare_case(&outcome->worst, c, results.out[OUTPUT_O], results.out[OUTPUT_SCORES],
                     settings->tolerance);
    else if (c->job.is_layer)
        ok = check_results(c, &results, PRECISION_SINGLE, &outcome->worst, why);
    else
        ok = check_all_results(c, &results, &outcome->worst, &outcome->place, why);
    results_release(&results);
    return ok && (outcome->worst.results == 0 || worst_ok(&outcome->worst) ||
                  message_set(why, "out of bounds"));
}

static json_t *place_json(const struct check_place *place)
{
    return place->tensor == NULL
               ? json_null()
               : json_pack("{s:s, s:[I, I, I, I], s:o, s:o}", "tensor", place->tensor, "index",
                           (json_int_t)place->at[0], (json_int_t)place->at[1],
                           (json_int_t)place->at[2], (json_int_t)place->at[3], "value",
                           number_json(place->got), "expected", number_json(place->want));
}

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

/* `why` is NULL if the case is within its bounds. path: empty for random data. */
static void report(const struct settings *settings, const char *path, const struct outcome *outcome,
                   const struct message *why)
{
    const struct worst *worst = &outcome->worst;
    const struct check_place *place = &outcome->place;
    char line[4096], error[64] = "";

    if (settings->list != NULL) {
        json_array_append_new(
            settings->list,
            json_pack("{s:s, s:s, s:b, s:s, s:s, s:b, s:o, s:o, s:o, s:I, s:o, s:s}", "file", path,
                      "name", outcome->name, "ok", why == NULL, "problem",
                      text_of(outcome->problem), "configuration", text_of(outcome->configuration),
                      "scores_skipped", outcome->scores_skipped, "worst", number_json(worst->error),
                      "bound", number_json(worst->bound), "ratio", number_json(worst->ratio),
                      "results", (json_int_t)worst->results, "place", place_json(place), "message",
                      why != NULL ? why->text : ""));
        return;
    }
    if (worst->results > 0)
        snprintf(error, sizeof error, "  error %.2g, bound %.2g", worst->error, worst->bound);
    snprintf(line, sizeof line, "%-5s %s%s  %s  %s%s%s%s",
             why == NULL        ? "ok"
             : outcome->refused ? "none"
                                : "FAIL",
             outcome->name, error, text_of(outcome->configuration), text_of(outcome->problem),
             outcome->scores_skipped ? "  (no scores from this family)" : "",
             why != NULL ? "  " : "", why != NULL ? why->text : "");
    ca_print_line(stdout, line, 0);
    if (place->tensor != NULL)
        ca_print_paragraph(stdout, 6,
                           "%zu elements: worst %s(%zu, %zu, %zu, %zu) is %.9g, not %.9g",
                           worst->results, place->tensor, place->at[0], place->at[1], place->at[2],
                           place->at[3], place->got, place->want);
    fflush(stdout);
}

/* A file that is not sound has no answer: the sentence, which names it, is no result. */
static bool refuse(const struct settings *settings, const char *path, const struct message *why)
{
    struct outcome none = {.problem = NULL};

    snprintf(none.name, sizeof none.name, "%s", path);
    if (settings->list != NULL)
        report(settings, path, &none, why);
    message_say(stderr, "clattn-bench verify: %s", why->text);
    return false;
}

static bool verify_item(const struct target *target, const struct settings *settings,
                        const struct item *item)
{
    const char *path = item->path != NULL ? item->path : "";
    struct outcome outcome = {.problem = NULL};
    struct attention_case attention;
    struct message why;

    if (item->path != NULL ? !item_load(item, &attention, &why)
                           : !case_random(&attention, &item->job, (unsigned)settings->seed, &why))
        return refuse(settings, path, &why);
    if (item->path != NULL)
        snprintf(outcome.name, sizeof outcome.name, "%s", attention.name);
    const bool good = verify_case(target, settings, &attention, &outcome, &why);
    report(settings, path, &outcome, good ? NULL : &why);
    case_free(&attention);
    free(outcome.problem);
    free(outcome.configuration);
    return good || outcome.refused;
}

static bool verify_what(const struct target *target, const struct settings *settings,
                        const char *what)
{
    struct items items;
    struct message why;
    bool ok = items_read(&items, 1, &what, &why) || refuse(settings, what, &why);

    for (size_t n = 0; n < items.count; n++)
        ok = verify_item(target, settings, &items.item[n]) && ok;
    items_free(&items);
    return ok;
}

/* 0 to go on, 1 if help was printed, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct settings *s)
{
    const struct command_option options[] = {
        {.name = "device", .text = &s->device},
        {.name = "profile", .text = &s->profile},
        OPTIONS_FAMILY(s->plan),
        {.name = "seed", .number = &s->seed, .whole = true, .high = LARGEST_SEED},
        {.name = "rtol", .number = &s->tolerance.rtol, .high = 1e30},
        {.name = "atol", .number = &s->tolerance.atol, .high = 1e30},
        {.name = "json", .flag = &s->json},
        {.name = NULL},
    };
    const int stop = command_line_read(argc, argv, help, options);
    struct message why;

    if (stop != 0)
        return stop;
    if (!option_choice(&s->plan, &why))
        return option_usage("verify", why.text);
    return optind == argc ? option_usage("verify", "names no file and no problem") : 0;
}

static bool open_target(const struct settings *settings, struct target *target, struct message *why)
{
    clattn_device_info profile;

    if (settings->profile == NULL)
        return target_open(target, settings->device, why);
    return profile_read(settings->profile, &profile, why) &&
           target_open_narrowed(target, settings->device, &profile, why);
}

int verify_command(int argc, char **argv)
{
    struct settings settings = {
        .plan.struct_size = sizeof settings.plan, .seed = 1, .tolerance = {-1.0, -1.0}};
    struct target target;
    struct message why;
    bool ok = true;

    const int stop = read_options(argc, argv, &settings);
    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    if (!open_target(&settings, &target, &why)) {
        fprintf(stderr, "clattn-bench verify: %s\n", why.text);
        return EXIT_FAILED;
    }
    ca_interrupt_excuses(target.context);
    settings.list = settings.json ? json_array() : NULL;
    for (int n = optind; n < argc; n++)
        ok = verify_what(&target, &settings, argv[n]) && ok;
    if (settings.list != NULL) {
        json_dumpf(settings.list, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    json_decref(settings.list);
    ca_interrupt_excuses(NULL);
    target_close(&target);
    return ok ? EXIT_SUCCESS : EXIT_FAILED;
}
