/* SPDX-License-Identifier: Apache-2.0 */
/* The commands around the store: what it knows of a device, and what goes from one machine to another. */
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/terminal/table.h"
#include "internal.h"
#include "os/options.h"
#include "tuner/commands.h"
#include "tuner/progress.h"
#include "tuner/tune_options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The arguments of a command. */
struct command_line {
    const char *device; /* "": the default */
    const char *output; /* -o; NULL if it was not given */
    bool all, known_only, programs;
    char **words; /* the arguments that are no options, of argv */
    int num_words;
    clattn_problem problem; /* the problem in the first word, for a command that takes one */
};

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

static const char export_help[] =
    "Usage: clattn-tune export FILE [--device D]\n"
    "Writes everything that is known of a device to a file, for others with the same device.\n";

static const char import_help[] =
    "Usage: clattn-tune import FILE [--device D]\n"
    "Takes over what FILE (an export, a merged file, another's store) holds of a device. Of two\n"
    "entries for one configuration the better measured stays. What comes from elsewhere must fit\n"
    "the device and pass a check before it is used.\n";

static const char merge_help[] =
    "Usage: clattn-tune merge FILE... -o FILE\n"
    "Makes one file of several, of any devices; their order does not matter. Needs no device.\n";

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

/* Prints all that is known of a problem's class, or of every class if it is NULL. */
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
    if (size.status != CLATTN_SUCCESS) {
        ca_print_paragraph(stdout, 0,
                           "built programs: not known, for want of memory or open files");
        putchar('\n');
        return;
    }
    if (context->cache_bytes > 0)
        snprintf(limit, sizeof limit, " of at most %.0f MB",
                 (double)context->cache_bytes / (1 << 20));
    ca_print_paragraph(stdout, 0, "built programs: %zu, %.1f MB%s", size.files,
                       (double)size.bytes / (1 << 20), limit);
    putchar('\n');
}

/* ---- the commands: whether all is well ------------------------------------------------------- */

static bool list(clattn_context *context, const struct command_line *line)
{
    (void)line;
    print_head(context);
    print_programs(context);
    return print_known(context, NULL) == CLATTN_SUCCESS;
}

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

static bool show(clattn_context *context, const struct command_line *line)
{
    ca_interrupt_excuses(context);
    print_head(context);
    const clattn_status made = print_plan(context, &line->problem, line->known_only);
    const clattn_status listed = print_known(context, &line->problem);
    ca_interrupt_excuses(NULL);
    return made == CLATTN_SUCCESS && listed == CLATTN_SUCCESS;
}

static const char *refuse_forget(const struct command_line *line)
{
    return line->all + line->programs + line->num_words == 1
               ? NULL
               : "either a problem or --all or --programs must be given";
}

static bool forget(clattn_context *context, const struct command_line *line)
{
    size_t removed = 0;
    const clattn_status forgotten =
        line->programs ? clattn_context_clear_cache(context, &removed)
                       : clattn_tuning_forget(context, line->all ? NULL : &line->problem, &removed);

    if (forgotten == CLATTN_SUCCESS)
        printf("%zu %s\n", removed, line->programs ? "programs removed" : "entries forgotten");
    return forgotten == CLATTN_SUCCESS;
}

static bool export(clattn_context *context, const struct command_line *line)
{
    const clattn_status made = clattn_tuning_export(context, line->words[0]);

    if (made == CLATTN_NOT_TUNED)
        fputs("clattn-tune export: nothing is known of this device; clattn-tune tunes it\n",
              stderr);
    return made == CLATTN_SUCCESS;
}

static bool import(clattn_context *context, const struct command_line *line)
{
    size_t taken = 0;
    const clattn_status made = clattn_tuning_import(context, line->words[0], &taken);

    if (made == CLATTN_SUCCESS)
        printf("%zu entries taken over\n", taken);
    return made == CLATTN_SUCCESS;
}

static const char *refuse_merge(const struct command_line *line)
{
    return line->output ? NULL : "-o FILE is missing";
}

static bool merge(clattn_context *none, const struct command_line *line)
{
    char reason[512];
    const clattn_status made =
        clattn_tuning_merge((const char *const *)line->words, (size_t)line->num_words, line->output,
                            reason, sizeof reason);

    (void)none;
    if (made != CLATTN_SUCCESS)
        message_say(stderr, "clattn-tune merge: %s", reason);
    return made == CLATTN_SUCCESS;
}

static const struct command {
    const char *name, *help;
    /* options that it takes: d(evice), o(utput), a(ll), k(nown-only), p(rograms) */
    const char *options;
    int least, most;    /* fewest and most words */
    bool takes_problem; /* the first word is a problem */
    const char *(*refuse)(
        const struct command_line *line); /* NULL, or why its words make no sense */
    bool (*run)(clattn_context *context, const struct command_line *line);
} commands[] = {
    {"list", list_help, "d", 0, 0, false, NULL, list},
    {"show", show_help, "dk", 1, 1, true, NULL, show},
    {"export", export_help, "d", 1, 1, false, NULL, export},
    {"import", import_help, "d", 1, 1, false, NULL, import},
    {"merge", merge_help, "o", 1, INT_MAX, false, refuse_merge, merge},
    {"forget", forget_help, "dap", 0, 1, true, refuse_forget, forget},
};

/* ---- command lines --------------------------------------------------------------------------- */

static const struct option options[] = {
    {"device", required_argument, NULL, 'd'},
    {"output", required_argument, NULL, 'o'},
    {"all", no_argument, NULL, 'a'},
    {"known-only", no_argument, NULL, 'k'},
    {"programs", no_argument, NULL, 'p'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* True to go on; else help or what is wrong was printed, and *status is for the exit. */
static bool parse(int argc, char **argv, const struct command *command, struct command_line *line,
                  int *status)
{
    char program[40];
    int word;

    *line = (struct command_line){.device = ""};
    *status = EXIT_USAGE;
    snprintf(program, sizeof program, "clattn-tune %s", command->name);
    opterr = 0;
    while ((word = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
        if (word == 'h') {
            fputs(command->help, stdout);
            *status = EXIT_SUCCESS;
            return false;
        }
        if (word == ':' || !strchr(command->options, word)) {
            tune_option_usage(program, word, argv);
            return false;
        }
        line->all |= word == 'a';
        line->known_only |= word == 'k';
        line->programs |= word == 'p';
        if (word == 'd')
            line->device = optarg;
        if (word == 'o')
            line->output = optarg;
    }
    line->words = argv + optind;
    line->num_words = argc - optind;
    const char *wrong = line->num_words < command->least  ? "an argument is missing"
                        : line->num_words > command->most ? "there are too many arguments"
                        : command->refuse                 ? command->refuse(line)
                                                          : NULL;
    if (wrong) {
        fprintf(stderr, "%s: %s; --help shows how it is used\n", program, wrong);
        return false;
    }
    return !command->takes_problem || line->num_words == 0 ||
           tune_problem_parse(program, line->words[0], &line->problem);
}

static void print_log(clattn_log_level level, const char *message, void *user)
{
    (void)user;
    ca_print_log("clattn-tune", level, message);
}

static int run(int argc, char **argv, const struct command *command)
{
    const clattn_context_options logged = {.struct_size = sizeof logged, .log = print_log};
    clattn_context *context = NULL;
    struct command_line line;
    int status;

    if (!parse(argc, argv, command, &line, &status))
        return status;
    if (command->run != merge)
        clattn_context_create_default(line.device, &logged, &context);
    const bool good = (context || command->run == merge) && command->run(context, &line);
    clattn_context_release(context);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

bool store_command(int argc, char **argv, int *status)
{
    for (size_t n = 0; n < sizeof commands / sizeof *commands; n++) {
        if (strcmp(argv[0], commands[n].name) != 0)
            continue;
        *status = run(argc, argv, &commands[n]);
        return true;
    }
    return false;
}
