/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-tune list, show and forget: what the store knows of a device. */
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/terminal/table.h"
#include "internal.h"
#include "tuner/command_line.h"
#include "tuner/commands.h"
#include "tuner/progress.h"
#include "tuner/tune_options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char list_help[] =
    "Usage: clattn-tune list [--device D]\n"
    "Everything that is known of a device: for each class of problems the best configurations "
    "with\n"
    "the median time, its 95 % interval, the worst error as a share of its bound, the number of\n"
    "timings and when they were made; then what is never used, and why. A stale entry was "
    "measured\n"
    "with another driver or another version of clattn. At the top, how much the cache directory's\n"
    "built programs take, and may (CLATTN_CACHE_MAX_SIZE).\n";

static const char show_help[] =
    "Usage: clattn-tune show LINE [--device D] [--known-only]\n"
    "What the problem LINE, such as \"fwd f16 b1 h8 q512 d64\", gets now and why, and all that is\n"
    "known of its class, timings included. --known-only: only what was tuned counts, as for a\n"
    "program that asks for CLATTN_PLAN_KNOWN_ONLY.\n";

static const char forget_help[] =
    "Usage: clattn-tune forget LINE [--device D]\n"
    "       clattn-tune forget --all [--device D]\n"
    "       clattn-tune forget --programs [--device D]\n"
    "Forgets results and quarantine of the class of the problem LINE, or of the whole device; or "
    "removes\n"
    "all built programs of the cache directory, whatever device they are for.\n";

/* ---- listing --------------------------------------------------------------------------------- */

struct listing {
    char problem_class[256]; /* the last one */
    size_t count;
    bool samples;
};

static void print_samples(const clattn_tuning_entry *entry)
{
    char text[80 * 12] = "ms:";
    size_t length = strlen(text);

    for (size_t n = 0; n < entry->num_samples && length < sizeof text - 12; n++)
        length +=
            (size_t)snprintf(text + length, sizeof text - length, " %.4g", 1e3 * entry->samples[n]);
    ca_print_paragraph(stdout, 8, "%s", text);
}

static void print_measured(const clattn_tuning_entry *entry, bool samples)
{
    char middle[CA_TIME_TEXT], low[CA_TIME_TEXT], high[CA_TIME_TEXT];

    ca_print_paragraph(stdout, 6, "%s (%s to %s), error %.2f, %zu timings, %s%s",
                       ca_time_print(entry->seconds, middle), ca_time_print(entry->low, low),
                       ca_time_print(entry->high, high), entry->error, entry->num_samples,
                       entry->when, entry->stale ? ", stale" : "");
    if (samples) {
        print_samples(entry);
        ca_print_paragraph(stdout, 8, "%s", entry->policy);
    }
}

static int print_entry(const clattn_tuning_entry *entry, void *user)
{
    struct listing *listing = user;

    if (strcmp(listing->problem_class, entry->problem_class) != 0) {
        fputs(listing->count ? "\n" : "", stdout);
        ca_print_line(stdout, entry->problem_class, 0);
    }
    snprintf(listing->problem_class, sizeof listing->problem_class, "%s", entry->problem_class);
    if (entry->quarantine) {
        ca_print_paragraph(stdout, 2, "never: %s %s", entry->family, entry->tunables);
        ca_print_paragraph(stdout, 6, "%s", entry->quarantine);
        if (entry->stale)
            puts("      (stale)");
    } else {
        ca_print_paragraph(stdout, 2, "%zu. %s %s", entry->rank + 1, entry->family,
                           entry->tunables);
        print_measured(entry, listing->samples);
    }
    listing->count++;
    return 0;
}

/* What is known of a problem's class, or of everything if it is NULL. */
static clattn_status print_known(const clattn_context *context, const clattn_problem *problem)
{
    struct listing listing = {.samples = problem != NULL};
    const clattn_status status = clattn_tuning_list(context, problem, print_entry, &listing);

    if (status == CLATTN_SUCCESS && listing.count == 0)
        puts(problem ? "nothing is known of its class; clattn-tune --problem LINE tunes it"
                     : "nothing is known of this device; clattn-tune tunes it");
    return status;
}

static void print_head(const clattn_context *context)
{
    const clattn_device_info *device = clattn_context_device(context);
    char path[4096], text[1024];

    clattn_tuning_path(context, path, sizeof path, NULL);
    snprintf(text, sizeof text, "%s, %s, driver %s", device->name, device->platform_name,
             device->driver_version);
    ca_print_line(stdout, text, 0);
    message_say(stdout, "%s", *path ? path : "there is no cache directory");
    putchar('\n');
}

static void print_programs(const clattn_context *context)
{
    const struct ca_cache_size size = ca_program_cache_trim(context, ULLONG_MAX);
    char limit[48] = "";

    if (!context->cache_directory)
        return;
    if (context->cache_bytes > 0)
        snprintf(limit, sizeof limit, " of at most %.0f MB",
                 (double)context->cache_bytes / (1 << 20));
    ca_print_paragraph(stdout, 0, "built programs: %zu, %.1f MB%s", size.files,
                       (double)size.bytes / (1 << 20), limit);
    putchar('\n');
}

int list_command(int argc, char **argv)
{
    struct command_line line;
    int status;

    if (!command_line_parse(argc, argv, list_help, "d", 0, 0, &line, &status))
        return status;
    clattn_context *context = command_context(&line);
    if (!context)
        return EXIT_FAILURE;
    print_head(context);
    print_programs(context);
    const clattn_status listed = print_known(context, NULL);
    clattn_context_release(context);
    return listed == CLATTN_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- one problem ----------------------------------------------------------------------------- */

static clattn_status print_plan(clattn_context *context, const clattn_problem *problem,
                                bool known_only)
{
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .flags = known_only ? CLATTN_PLAN_KNOWN_ONLY
                                                             : CLATTN_PLAN_DEFAULT};
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan;
    const clattn_status status = clattn_plan_create(context, problem, &options, &plan);

    if (status != CLATTN_SUCCESS) {
        printf("no plan can be made: %s\n\n", clattn_status_string(status));
        return status;
    }
    clattn_plan_describe(plan, &info);
    ca_print_paragraph(stdout, 0, "%s %s", info.family, info.tunables);
    ca_print_paragraph(stdout, 0, "%s; workspace of %zu bytes", info.reason, info.workspace_bytes);
    putchar('\n');
    clattn_plan_release(plan);
    return CLATTN_SUCCESS;
}

int show_command(int argc, char **argv)
{
    struct command_line line;
    clattn_problem problem;
    int status;

    if (!command_line_parse(argc, argv, show_help, "dk", 1, 1, &line, &status))
        return status;
    if (!tune_problem_parse("clattn-tune show", line.words[0], &problem))
        return EXIT_USAGE;
    clattn_context *context = command_context(&line);
    if (!context)
        return EXIT_FAILURE;
    ca_interrupt_excuses(context);
    print_head(context);
    const clattn_status made = print_plan(context, &problem, line.known_only);
    const clattn_status listed = print_known(context, &problem);
    ca_interrupt_excuses(NULL);
    clattn_context_release(context);
    return made == CLATTN_SUCCESS && listed == CLATTN_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}

int forget_command(int argc, char **argv)
{
    struct command_line line;
    clattn_problem problem;
    size_t removed = 0;
    int status;

    if (!command_line_parse(argc, argv, forget_help, "dap", 0, 1, &line, &status))
        return status;
    if (line.all + line.programs + line.num_words != 1)
        return command_usage("forget", "either a problem or --all or --programs must be given");
    if (line.num_words == 1 && !tune_problem_parse("clattn-tune forget", line.words[0], &problem))
        return EXIT_USAGE;
    clattn_context *context = command_context(&line);
    if (!context)
        return EXIT_FAILURE;
    const clattn_status forgotten =
        line.programs ? clattn_context_clear_cache(context, &removed)
                      : clattn_tuning_forget(context, line.all ? NULL : &problem, &removed);
    clattn_context_release(context);
    if (forgotten == CLATTN_SUCCESS)
        printf("%zu %s\n", removed, line.programs ? "programs removed" : "entries forgotten");
    return forgotten == CLATTN_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
