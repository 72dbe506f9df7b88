/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench verify: cases in files against what they expect. */
#include "bench/cases/case_file.h"
#include "bench/commands/options.h"
#include "bench/profiles/profile.h"
#include "bench/records/archive.h"
#include "bench/timing/target.h"
#include "bench/verify/compare.h"
#include "cli/interrupt.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: clattn-bench verify [OPTION...] FILE.safetensors...\n"
    "Runs attention on the inputs in each file and compares with the answers in it. The tensors\n"
    "have the names of ONNX's operator Attention (Q K V attn_mask past_key past_value\n"
    "nonpad_kv_seqlen; Y present_key present_value qk_matmul_output), or the answer is called O\n"
    "or context; attributes stand in the file's metadata, and one that is not known is refused.\n"
    "Prints a line for each answer.\n"
    "  --device SEL  index or part of a name, as 'clattn-bench devices' lists them\n"
    "  --profile P   the device claims no more than a profile (see 'clattn-bench plan --help'), "
    "and\n"
    "                what is chosen is what it would get; what is refused then counts as right\n"
    "  --family F    force a kernel family; where it has no scores only Y is compared\n"
    "  --rtol X      allowed error relative to the largest value of a row\n"
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
    struct tolerance tolerance;
    json_t *list; /* NULL: lines of text. */
};

/* The result of one case. */
struct outcome {
    char problem[512];
    char family[64];
    bool scores_skipped;
    bool refused; /* The plan was refused: there is no answer to compare. */
    struct worst worst;
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

static bool describe(const struct target *target, const struct settings *settings,
                     const clattn_problem *problem, struct outcome *outcome, struct message *why)
{
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan;
    const clattn_status status =
        clattn_plan_create(target->context, problem, &settings->plan, &plan);

    if (status != CLATTN_SUCCESS) {
        outcome->refused = status == CLATTN_UNSUPPORTED && settings->profile != NULL;
        return message_set(why, "%s: %s", clattn_status_string(status), target->log.text);
    }
    clattn_plan_describe(plan, &info);
    snprintf(outcome->family, sizeof outcome->family, "%s", info.family);
    clattn_plan_release(plan);
    return true;
}

/* Runs the case into o and scores, which hold NaN before. */
static bool execute(const struct target *target, const struct settings *settings,
                    const struct attention_case *c, void *o, float *scores, struct message *why)
{
    const struct block *in = c->in;
    const clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors,
        .q = in[INPUT_Q].data,
        .k = in[INPUT_K].data,
        .v = in[INPUT_V].data,
        .o = o,
        .bias = in[INPUT_BIAS].data,
        .mask = in[INPUT_MASK].data,
        .kv_lengths = in[INPUT_KV_LENGTHS].data,
        .scores = scores,
    };
    const clattn_status status =
        clattn_attention_forward_host(target->context, &c->job.problem, &settings->plan, &tensors);

    return status == CLATTN_SUCCESS ||
           message_set(why, "%s: %s", clattn_status_string(status), target->log.text);
}

static bool verify_case(const struct target *target, const struct settings *settings,
                        struct attention_case *c, struct outcome *outcome, struct message *why)
{
    const struct view o_view = case_output_view(&c->job, OUTPUT_O);
    const size_t o_bytes = view_extent_bytes(&o_view);
    float *scores = NULL;
    bool ok = false;

    choose_scores(target, settings, &c->job.problem, outcome);
    clattn_problem_print(&c->job.problem, outcome->problem, sizeof outcome->problem, NULL);
    void *o = case_allocate(o_bytes, 1, why);
    if (o == NULL)
        return false;
    memset(o, 0xff, o_bytes); /* NaN in every dtype */
    if (c->job.problem.scores != CLATTN_SCORES_NONE) {
        scores = case_allocate(c->scores.count, sizeof *scores, why);
        if (scores == NULL)
            goto done;
        memset(scores, 0xff, c->scores.count * sizeof *scores);
    }
    if (!describe(target, settings, &c->job.problem, outcome, why) ||
        !execute(target, settings, c, o, scores, why))
        goto done;
    compare_case(&outcome->worst, c, o, scores, settings->tolerance);
    ok = worst_ok(&outcome->worst) || message_set(why, "out of bounds");
done:
    free(scores);
    free(o);
    return ok;
}

/* `why` is NULL if the case is within its bounds. */
static void report(const struct settings *settings, const char *path, const char *name,
                   const struct outcome *outcome, const struct message *why)
{
    const struct worst *worst = &outcome->worst;

    if (settings->list != NULL) {
        json_array_append_new(
            settings->list,
            json_pack("{s:s, s:s, s:b, s:s, s:s, s:b, s:o, s:o, s:o, s:I, s:s}", "file", path,
                      "name", name, "ok", why == NULL, "problem", outcome->problem, "family",
                      outcome->family, "scores_skipped", outcome->scores_skipped, "worst",
                      number_json(worst->error), "bound", number_json(worst->bound), "ratio",
                      number_json(worst->ratio), "results", (json_int_t)worst->results, "message",
                      why != NULL ? why->text : ""));
        return;
    }
    printf("%-5s %s", why == NULL ? "ok" : outcome->refused ? "none" : "FAIL", name);
    if (worst->results > 0)
        printf("  error %.2g, bound %.2g", worst->error, worst->bound);
    if (outcome->family[0] != '\0')
        printf("  %s", outcome->family);
    if (outcome->problem[0] != '\0')
        printf("  %s", outcome->problem);
    if (outcome->scores_skipped)
        printf("  (no scores from this family)");
    if (why != NULL)
        printf("  %s", why->text);
    putchar('\n');
    fflush(stdout);
}

/* A file that is not sound has no answer: the sentence, which names it, is no result. */
static bool refuse(const struct settings *settings, const char *path, const struct message *why)
{
    if (settings->list != NULL)
        report(settings, path, path, &(struct outcome){.problem = ""}, why);
    fprintf(stderr, "clattn-bench verify: %s\n", why->text);
    return false;
}

static bool verify_file(const struct target *target, const struct settings *settings,
                        const char *path)
{
    struct safetensors file;
    struct message why;
    bool ok = true;

    if (!safetensors_read(&file, path, &why))
        return refuse(settings, path, &why);
    size_t count = case_file_count(&file);
    for (size_t n = 0; n == 0 || n < count; n++) {
        struct outcome outcome = {.problem = ""};
        struct attention_case attention;
        if (!case_file_read(&attention, &file, path, n, &why)) {
            ok = refuse(settings, path, &why);
            continue;
        }
        const bool good = verify_case(target, settings, &attention, &outcome, &why);
        report(settings, path, attention.name, &outcome, good ? NULL : &why);
        case_free(&attention);
        ok = ok && (good || outcome.refused);
    }
    safetensors_free(&file);
    return ok;
}

/* 0 to go on, 1 if help was printed, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct settings *s)
{
    const struct command_option options[] = {
        {.name = "device", .text = &s->device},
        {.name = "profile", .text = &s->profile},
        {.name = "family", .text = &s->plan.family},
        {.name = "rtol", .number = &s->tolerance.rtol, .high = 1e30},
        {.name = "atol", .number = &s->tolerance.atol, .high = 1e30},
        {.name = "json", .flag = &s->json},
        {.name = NULL},
    };
    const int stop = command_line_read(argc, argv, help, options);

    if (stop != 0)
        return stop;
    s->list = s->json ? json_array() : NULL;
    return optind == argc ? option_usage("verify", "names no file") : 0;
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
    struct settings settings = {.plan.struct_size = sizeof settings.plan,
                                .tolerance = {-1.0, -1.0}};
    struct target target;
    struct message why;
    bool ok = true;

    const int stop = read_options(argc, argv, &settings);
    if (stop != 0) {
        json_decref(settings.list);
        return stop == 1 ? EXIT_SUCCESS : stop;
    }
    if (!open_target(&settings, &target, &why)) {
        fprintf(stderr, "clattn-bench verify: %s\n", why.text);
        json_decref(settings.list);
        return EXIT_FAILED;
    }
    ca_interrupt_excuses(target.context);
    for (int n = optind; n < argc; n++)
        ok = verify_file(&target, &settings, argv[n]) && ok;
    if (settings.list != NULL) {
        json_dumpf(settings.list, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    json_decref(settings.list);
    ca_interrupt_excuses(NULL);
    target_close(&target);
    return ok ? EXIT_SUCCESS : EXIT_FAILED;
}
