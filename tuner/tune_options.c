/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/tune_options.h"
#include "cli/message.h"
#include "cli/problems/problem_file.h"
#include "cli/problems/workloads.h"
#include "internal.h"
#include "os/options.h"
#include "tuner/commands.h"
#include "tuner/worker/worker_builders.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char tune_help[] =
    "Usage: clattn-tune [OPTION...]\n"
    "       clattn-tune COMMAND [OPTION...]\n"
    "Finds the fastest attention kernels for an OpenCL device, and keeps them: from then on every\n"
    "program that uses clattn on this device takes them by itself.\n"
    "\n"
    "On new hardware: leave the machine idle, run clattn-tune, wait a minute. It searches a list "
    "of\n"
    "common problems; for those of your program say --problem, as often as you like. The more\n"
    "time, the better: --budget 10m. Ctrl-C ends it at any moment: its results are kept, and "
    "the\n"
    "next run goes on from there, even after a crash or a kill. Run again, it has nothing to do\n"
    "until a driver or clattn changes. 'clattn-bench run' shows the gain.\n"
    "\n"
    "  --device D        index or part of a name, as 'clattn-bench devices' lists them; default\n"
    "                    CLATTN_DEVICE, else the first GPU, else the first accelerator or CPU\n"
    "  --problem LINE    what to tune for, such as \"fwd f16 b1 h32/8 q1024 k4096 d128 "
    "causal=br\",\n"
    "                    \"bwd ...\" for its gradients or \"proj ...\" for a projection; of a\n"
    "                    \"layer ...\" each of its steps is tuned\n"
    "  --workload NAME   a list of problems; default 'tuning'; 'list' names them all; or a file "
    "of\n"
    "                    yours with a problem a line\n"
    "  --budget N        configurations to try, or with 's' or 'm' the time for all problems\n"
    "                    together; default 60s\n"
    "  --again           also what was tuned before\n"
    "  --strategy NAME   guided (default), random, exhaustive\n"
    "  --seed N          of the search, default 1\n"
    "  --timeout SECONDS for building one configuration, and for measuring it; default 20\n"
    "  --builders N      processes that compile ahead; default one for each of up to four cores\n"
    "  --json [FILE]     print the result as JSON, or write it to a file as well\n"
    "  --quiet           print the result only\n"
    "  --help, --version\n"
    "\n"
    "  list              what is known of the device: results, and what is never used and why\n"
    "  show LINE         what a problem gets now, why, and all that is known about its class\n"
    "  export FILE       write what is known of the device, to be shared\n"
    "  import FILE       take over what someone else has measured, or exported\n"
    "  merge FILE... -o FILE    one file of several, of any devices\n"
    "  forget LINE | --all | --programs  forget what is known of a problem's class, or of the "
    "device,\n"
    "                    or remove all built programs from the cache directory\n"
    "  help [COMMAND]    this, or what a command takes\n"
    "\n"
    "Each configuration is built and tried in a process of its own, so a driver that crashes or\n"
    "hangs costs that configuration, which is then never used. Each is checked against double\n"
    "precision, so a wrong result never wins. Results lie under CLATTN_CACHE_DIR, else\n"
    "XDG_CACHE_HOME/clattn, else ~/.cache/clattn. NO_COLOR is honoured. POCL_AFFINITY=1 is set\n"
    "unless it is set already.\n"
    "Exit status: 0 all is well (also if there was nothing to do), 1 something is wrong with a\n"
    "device, a file or a problem, 2 usage, 130 interrupted.\n";

int tune_option_usage(const char *program, int complaint, char *const *argv)
{
    if (complaint == ':')
        message_say(stderr, "%s: %s needs a value; --help shows how it is used", program,
                    argv[optind - 1]);
    else
        message_say(stderr, "%s: there is no option '%s'; --help shows all", program,
                    argv[optind - 1]);
    return EXIT_USAGE;
}

bool tune_problem_parse(const char *program, const char *line, clattn_problem *problem)
{
    char reason[256];

    if (clattn_problem_parse(line, problem, reason, sizeof reason) == CLATTN_SUCCESS)
        return true;
    message_say(stderr, "%s: '%s' is no problem: %s", program, line, reason);
    return false;
}

static bool add_problem(struct tune_options *options, const clattn_problem *problem)
{
    clattn_problem *grown = realloc(options->problems, (options->num_problems + 1) * sizeof *grown);

    if (!grown) {
        fputs("clattn-tune: there is no memory for the problems\n", stderr);
        return false;
    }
    options->problems = grown;
    options->problems[options->num_problems++] = *problem;
    return true;
}

/* A layer is tuned step by step. */
static bool add_job(struct tune_options *options, const struct job *job)
{
    struct ca_steps steps;

    if (!job->is_layer)
        return add_problem(options, &job->problem);
    ca_layer_steps(&job->layer, &steps);
    for (size_t n = 0; n < steps.count; n++)
        if (!add_problem(options, &steps.list[n].problem))
            return false;
    return true;
}

static bool add_line(struct tune_options *options, const char *line)
{
    char reason[256];
    struct job job;

    if (job_parse(line, &job, reason, sizeof reason))
        return add_job(options, &job);
    message_say(stderr, "clattn-tune: '%s' is no problem: %s", line, reason);
    return false;
}

static bool add_file(struct tune_options *options, const char *path)
{
    struct problem_file file;
    struct message why;
    bool ok = problem_file_read(&file, path, &why);

    if (!ok)
        fprintf(stderr, "clattn-tune: %s\n", why.text);
    for (size_t n = 0; ok && n < file.count; n++)
        ok = add_job(options, &file.line[n].job);
    problem_file_free(&file);
    return ok;
}

static void list_workloads(void)
{
    for (const struct workload *w = workloads; w->name; w++)
        printf("%-22s %s\n", w->name, w->meaning);
}

static enum tune_action add_workload(struct tune_options *options, const char *name)
{
    const struct workload *workload = workload_find(name);
    struct ca_file_facts facts;
    bool ok = true;

    if (strcmp(name, "list") == 0) {
        list_workloads();
        return TUNE_DONE;
    }
    if (!workload && ca_file_follow(name, &facts)) {
        ok = add_file(options, name);
    } else if (!workload) {
        message_say(stderr,
                    "clattn-tune: there is no workload '%s' and no such file; --workload list "
                    "names them",
                    name);
        ok = false;
    }
    for (size_t n = 0; workload && ok && workload->problems[n]; n++)
        ok = add_line(options, workload->problems[n]);
    return ok ? TUNE_RUN : TUNE_USAGE;
}

/* A whole number with nothing after it. */
static bool parse_count(const char *text, uint64_t least, uint64_t *number)
{
    char *rest;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *number = strtoull(text, &rest, 10);
    return errno == 0 && *rest == '\0' && *number >= least;
}

/* A positive number, followed by `rest`. */
static bool parse_positive(const char *text, double *number, const char **rest)
{
    char *end;

    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    *number = strtod(text, &end);
    *rest = end;
    return end != text && *number > 0.0 && *number < 1e9;
}

static bool parse_budget(const char *text, struct tune_options *options)
{
    const char *unit;
    uint64_t count;

    options->seconds = 0.0;
    options->evaluations = 0;
    if (parse_count(text, 1, &count)) {
        options->evaluations = (size_t)count;
        return true;
    }
    if (!parse_positive(text, &options->seconds, &unit) ||
        (strcmp(unit, "s") != 0 && strcmp(unit, "m") != 0))
        return false;
    options->seconds *= *unit == 'm' ? 60.0 : 1.0;
    return true;
}

static const struct option words[] = {
    {"device", required_argument, NULL, 'd'},   {"problem", required_argument, NULL, 'p'},
    {"workload", required_argument, NULL, 'w'}, {"budget", required_argument, NULL, 'b'},
    {"strategy", required_argument, NULL, 's'}, {"seed", required_argument, NULL, 'n'},
    {"again", no_argument, NULL, 'a'},          {"json", optional_argument, NULL, 'j'},
    {"quiet", no_argument, NULL, 'q'},          {"timeout", required_argument, NULL, 't'},
    {"builders", required_argument, NULL, 'c'}, {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},        {NULL, 0, NULL, 0},
};

/* "guided, random" and so on. */
static const char *strategies(void)
{
    static char text[256];

    text[0] = '\0';
    for (int n = 0; n < CA_NUM_STRATEGIES; n++) {
        const size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%s", n ? ", " : "",
                 ca_strategy_name((enum ca_strategy)n));
    }
    return text;
}

/* NULL, or what the option takes instead of this value. */
static const char *take(int word, const char *text, struct tune_options *options)
{
    const char *rest;
    uint64_t count;

    switch (word) {
    case 'd':
        options->device = text;
        return NULL;
    case 'b':
        return parse_budget(text, options)
                   ? NULL
                   : "a number of configurations, or a time such as 60s or 10m";
    case 's':
        options->strategy = ca_strategy_find(text);
        return options->strategy != CA_NUM_STRATEGIES ? NULL : strategies();
    case 'n':
        return parse_count(text, 0, &options->seed) ? NULL : "a whole number from 0 on";
    case 't':
        return parse_positive(text, &options->timeout, &rest) && *rest == '\0'
                   ? NULL
                   : "a number of seconds, over 0";
    case 'c':
        if (!parse_count(text, 0, &count) || count > CA_BUILDERS)
            return "a number of processes from 0 to 16";
        options->builders = (int)count;
        return NULL;
    default:
        options->again |= word == 'a';
        options->quiet |= word == 'q';
        options->json |= word == 'j';
        options->json_file = word == 'j' ? text : options->json_file;
        return NULL;
    }
}

/* Returns whether a file can be made there, to be known before the tuning and not after it. */
static bool can_write(const char *path)
{
    char folder[4096] = ".";

    if (!path)
        return true;
    if (ca_path_name(path) != path) /* with the slash at its end */
        snprintf(folder, sizeof folder, "%.*s", (int)(ca_path_name(path) - path), path);
    if (ca_file_is_writable(path) || (errno == ENOENT && ca_file_is_writable(folder)))
        return true;
    message_say(stderr, "clattn-tune: %s cannot be written: %s", path, strerror(errno));
    return false;
}

static enum tune_action parse_words(int argc, char **argv, struct tune_options *options)
{
    enum tune_action action = TUNE_RUN;
    int word, which = 0;

    opterr = 0;
    while (action == TUNE_RUN && (word = getopt_long(argc, argv, ":h", words, &which)) != -1) {
        const char *wanted = NULL;
        if (word == 'j' && !optarg && optind < argc && argv[optind][0] != '-')
            optarg = argv[optind++]; /* there are no other words without dashes */
        if (word == 'h') {
            fputs(tune_help, stdout);
            action = TUNE_DONE;
        } else if (word == 'v') {
            printf("clattn-tune %s\n", CA_TUNE_VERSION);
            action = TUNE_DONE;
        } else if (word == '?' || word == ':') {
            tune_option_usage("clattn-tune", word, argv);
            action = TUNE_USAGE;
        } else if (word == 'p') {
            action = add_line(options, optarg) ? TUNE_RUN : TUNE_USAGE;
        } else if (word == 'w') {
            action = add_workload(options, optarg);
        } else if ((wanted = take(word, optarg, options)) != NULL) {
            message_say(stderr, "clattn-tune: --%s cannot be '%s': it takes %s", words[which].name,
                        optarg, wanted);
            action = TUNE_USAGE;
        }
    }
    return action;
}

enum tune_action tune_options_parse(int argc, char **argv, struct tune_options *options)
{
    *options = (struct tune_options){.device = "",
                                     .seconds = 60.0,
                                     .strategy = CA_GUIDED,
                                     .seed = 1,
                                     .timeout = 20.0,
                                     .builders = ca_builders_automatic()};
    enum tune_action action = parse_words(argc, argv, options);
    if (action == TUNE_RUN && optind < argc) {
        message_say(stderr,
                    "clattn-tune: '%s' is neither a command nor an option; --help shows all",
                    argv[optind]);
        return TUNE_USAGE;
    }
    if (action == TUNE_RUN && options->num_problems == 0)
        action = add_workload(options, "tuning");
    if (action == TUNE_RUN && !can_write(options->json_file))
        action = TUNE_FAILED;
    return action;
}
