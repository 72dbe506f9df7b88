#define _POSIX_C_SOURCE 200809L /* sysconf */
#include "tuner/replay/replay_options.h"
#include "cli/message.h"
#include "tuner/replay/replay.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: clattn-replay FILE.json[.gz]... [OPTION...]\n"
    "Searches recorded spaces (Kernel Tuner cache files) instead of a device, and prints the\n"
    "share of runs that come within 2 % of the recorded optimum after 25, 50, 100 and 200\n"
    "evaluations and after 5 % of the space. A failed configuration counts as an evaluation.\n"
    "\n"
    "  --strategy NAME,...    guided (default), ils, genetic, annealing, random, exhaustive, all\n"
    "  --runs N               runs of each, default 100\n"
    "  --budget N|P%          evaluations of a run, or that part of the space; default 5 %, but\n"
    "                         at least 200\n"
    "  --seed N               of the first run, default 1; the others count up\n"
    "  --seeds-from FILE...   begin with configurations that are good in these recordings of the\n"
    "                         same kernel, up to the next option; a file never seeds itself\n"
    "  --num-seeds N          how many of them, 1 to 8, default 3\n"
    "  --confidence           also print how sure the runs were, on average, of being within 2 %\n"
    "  --threads N            default: as many as there are processors\n"
    "  --json                 print JSON instead of a table\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 all is well, 1 a file cannot be used, 2 usage.\n";

static enum replay_action usage(const char *format, const char *word)
{
    struct message what;

    message_set(&what, format, word);
    message_say(stderr, "clattn-replay: %s; --help shows how it is used", what.text);
    return REPLAY_USAGE;
}

/* A whole number from least to most, and nothing after it but `end`. */
static bool parse_number(const char *text, const char *end, uint64_t least, uint64_t most,
                         uint64_t *number)
{
    char *rest;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    const unsigned long long value = strtoull(text, &rest, 10);
    *number = value;
    return errno == 0 && strcmp(rest, end) == 0 && value >= least && value <= most;
}

static bool parse_size(const char *text, size_t least, size_t most, size_t *size)
{
    uint64_t number;

    if (!parse_number(text, "", least, most, &number))
        return false;
    *size = (size_t)number;
    return true;
}

static bool parse_budget(const char *text, struct replay_options *options)
{
    char *rest;

    options->budget = 0;
    options->budget_percent = 0.0;
    if (parse_size(text, 1, SIZE_MAX, &options->budget))
        return true;
    options->budget = 0;
    if (!isdigit((unsigned char)*text))
        return false;
    options->budget_percent = strtod(text, &rest);
    return strcmp(rest, "%") == 0 && options->budget_percent > 0.0 &&
           options->budget_percent <= 100.0;
}

/* Names between commas. */
static bool parse_strategies(const char *text, bool *wanted)
{
    char name[32];

    for (int n = 0; n < CA_NUM_STRATEGIES; n++)
        wanted[n] = strcmp(text, "all") == 0;
    if (wanted[0])
        return true;
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 0, text);
        const enum ca_strategy strategy = ca_strategy_find(name);
        if (strategy == CA_NUM_STRATEGIES)
            return false;
        wanted[strategy] = true;
        text += length;
        if (*text == '\0')
            return true;
    }
}

enum {
    STRATEGY,
    RUNS,
    BUDGET,
    SEED,
    SEEDS_FROM,
    NUM_SEEDS,
    CONFIDENCE,
    THREADS,
    JSON,
    HELP,
    VERSION
};

static const struct option words[] = {
    {"strategy", required_argument, NULL, STRATEGY},
    {"runs", required_argument, NULL, RUNS},
    {"budget", required_argument, NULL, BUDGET},
    {"seed", required_argument, NULL, SEED},
    {"seeds-from", required_argument, NULL, SEEDS_FROM},
    {"num-seeds", required_argument, NULL, NUM_SEEDS},
    {"confidence", no_argument, NULL, CONFIDENCE},
    {"threads", required_argument, NULL, THREADS},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {NULL, 0, NULL, 0},
};

static bool take(int word, const char *text, struct replay_options *options)
{
    switch (word) {
    case STRATEGY:
        return parse_strategies(text, options->wanted);
    case RUNS:
        return parse_size(text, 1, 1000000, &options->runs);
    case BUDGET:
        return parse_budget(text, options);
    case SEED:
        return parse_number(text, "", 0, UINT64_MAX, &options->seed);
    case NUM_SEEDS:
        return parse_size(text, 1, CA_REPLAY_MAX_SEEDS, &options->num_seeds);
    case THREADS:
        return parse_size(text, 1, 64, &options->threads);
    case CONFIDENCE:
        options->confidence = true;
        return true;
    default:
        options->json = true;
        return true;
    }
}

enum replay_action replay_options_parse(int argc, char **argv, struct replay_options *options)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int word, which = 0;

    *options = (struct replay_options){.wanted = {[CA_GUIDED] = true},
                                       .runs = 100,
                                       .seed = 1,
                                       .num_seeds = 3,
                                       .threads = (size_t)fmax(processors, 1)};
    options->files = calloc((size_t)argc + 1, sizeof *options->files);
    options->seed_files = calloc((size_t)argc + 1, sizeof *options->seed_files);
    if (!options->files || !options->seed_files)
        return usage("there is %s", "no memory");
    opterr = 0;
    while ((word = getopt_long(argc, argv, ":h", words, &which)) != -1) {
        if (word == '?')
            return usage("there is no option '%s'", argv[optind - 1]);
        if (word == ':')
            return usage("%s needs a value", argv[optind - 1]);
        if (word == HELP || word == 'h') {
            fputs(help, stdout);
            return REPLAY_DONE;
        }
        if (word == VERSION) {
            puts("clattn-replay " CA_TUNE_VERSION);
            return REPLAY_DONE;
        }
        if (word == SEEDS_FROM) {
            options->seed_files[options->num_seed_files++] = optarg;
            while (optind < argc && argv[optind][0] != '-')
                options->seed_files[options->num_seed_files++] = argv[optind++];
        } else if (!take(word, optarg, options)) {
            message_say(stderr, "clattn-replay: --%s cannot be '%s'", words[which].name, optarg);
            return REPLAY_USAGE;
        }
    }
    if (optind + 1 == argc && strcmp(argv[optind], "help") == 0) { /* as of the other programs */
        fputs(help, stdout);
        return REPLAY_DONE;
    }
    while (optind < argc)
        options->files[options->num_files++] = argv[optind++];
    return options->num_files ? REPLAY_RUN : usage("%s", "no file is named");
}
