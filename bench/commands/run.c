/* clattn-bench run: problems timed beside other libraries and the device's measured peaks. */
#define _POSIX_C_SOURCE 200809L /* access, strdup */
#include "bench/commands/run_list.h"
#include "bench/commands/run_watch.h"
#include "bench/fleet/fleet.h"
#include "bench/options.h"
#include "bench/records/csv.h"
#include "cli/interrupt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_WORKLOAD "quick"
#define DEFAULT_PATIENCE 20.0
#define DEFAULT_SILENCE 600.0 /* A compiler may take minutes; it gives no signs of life. */

static char default_workload[] = DEFAULT_WORKLOAD; /* Beside arguments, which are not const. */

static const char help[] =
    "Usage: clattn-bench run [OPTION...] [WORKLOAD | PROBLEM | FILE]...\n"
    "Times attention by clattn and by other libraries, interleaved, and compares all results with\n"
    "double precision: what is wrong has no time. Problems are lines such as\n"
    "\"fwd f16 b1 h32/8 q512 d128 causal=tl\", \"bwd ...\" for its gradients, \"proj ...\" for a\n"
    "projection or \"layer ...\", with random data; a FILE.safetensors has tensors of its own, "
    "any\n"
    "other file a problem a line. Without arguments the workload '" DEFAULT_WORKLOAD "' runs.\n"
    "  --device SEL      index or part of a name, as 'clattn-bench devices' lists them; several "
    "with\n"
    "                    commas between them, or 'all': each runs in a process of its own\n"
    "  --workload NAME   the same as the name alone; may be repeated\n"
    "  --filter TEXT     only problems whose workload's name or text contains this\n"
    "  --list            print all workloads and their problems, or those that would run, and end\n"
    "  --peers LIST      other libraries: all (default), none, or some of clblast, openblas, "
    "onednn,\n"
    "                    ggml, torch, onnxruntime and paths of programs, with commas between them; "
    "those\n"
    "                    of the processor run beside CPU devices only\n"
    "  --repeat N        samples of each (default 9, fewer where one execution takes over a "
    "second)\n"
    "  --patience S      give up where one execution takes longer (default 20)\n"
    "  --timeout S       end a device that gives no sign of life for so long (default 600, 0: "
    "never),\n"
    "                    keep what was measured and exit with 1\n"
    "  --no-first-call   do not measure what the first call costs in a new process\n"
    "  --family F        force a kernel family\n"
    "  --tunables T      force its tunables, \"NAME=value ...\"\n"
    "  --untuned         only what a device gets that was never tuned\n"
    "  --known-only      only what was tuned for each problem; others fail\n"
    "  --json FILE       write the run as JSON, after each problem; to standard output, without a\n"
    "                    table, for -\n"
    "  --csv FILE        likewise a row for each time, at the end\n"
    "  --quiet           print nothing but errors\n"
    "What clattn-tune has found is used, and timed beside what would run without it. A choice is\n"
    "  tuned     found for this class of problems\n"
    "  stale     ... with another driver or source\n"
    "  nearest   found for the nearest class\n"
    "  shipped   found elsewhere on such a device\n"
    "  override  set by CLATTN_OVERRIDE\n"
    "  forced    by --family\n"
    "  untuned   from the device's facts\n"
    "Ctrl-C ends it after the sample that is being taken, with what was measured by then.\n"
    "Exit status: 0 all is well, 1 clattn failed, was wrong or a device is gone, 2 usage,\n"
    "130 interrupted.\n";

/* The command line as it was understood. */
struct request {
    struct common_options common;
    struct run_settings settings;
    char *filter;
    char *repeat, *patience, *peers; /* As given, for children; NULL: not given. */
    char *peers_text;                /* The copy that the choice has cut up; owned. */
    char **what;                     /* Workloads, problems and files; the list is owned. */
    int count;
    bool list; /* Instead of running. */
};

/* ---- the command line ------------------------------------------------------------------------ */

static bool read_peers(struct request *request, struct message *why)
{
    free(request->peers_text);
    request->peers_text = strdup(request->peers != NULL ? request->peers : "all");
    return request->peers_text != NULL
               ? peer_choice_read(request->peers_text, &request->settings.peers, why)
               : message_set(why, "no memory for the names of libraries");
}

/* One of run's own options. False, with *why "" if getopt has spoken. */
static bool take_option(int option, struct request *request, struct message *why)
{
    struct run_settings *settings = &request->settings;
    double repeat = 0.0;
    bool ok = true;

    switch (option) {
    case 'w':
        request->what[request->count++] = optarg;
        break;
    case 'F':
        request->filter = optarg;
        break;
    case 'p':
        request->peers = optarg;
        break;
    case 'r':
        request->repeat = optarg;
        ok = option_whole("--repeat", optarg, 1.0, RECORD_MOST_SAMPLES, &repeat, why);
        settings->repeat = (size_t)repeat;
        break;
    case 's':
        request->patience = optarg;
        ok = option_number("--patience", optarg, 1e-9, 1e6, &settings->patience, why);
        break;
    case 't':
        ok = option_number("--timeout", optarg, 0.0, 1e6, &settings->silence, why);
        settings->silence = settings->silence > 0.0 ? settings->silence : INFINITY;
        break;
    case 'n':
        settings->no_cold_start = true;
        break;
    case 'c':
        settings->csv = optarg;
        break;
    case 'q':
        settings->quiet = true;
        break;
    case 'l':
        request->list = true;
        break;
    default:
        ok = message_set(why, "%s", "");
    }
    return ok;
}

/* 0 to go on, 1 if all was said, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        {"workload", required_argument, NULL, 'w'}, {"filter", required_argument, NULL, 'F'},
        {"peers", required_argument, NULL, 'p'},    {"repeat", required_argument, NULL, 'r'},
        {"patience", required_argument, NULL, 's'}, {"timeout", required_argument, NULL, 't'},
        {"no-first-call", no_argument, NULL, 'n'},  {"csv", required_argument, NULL, 'c'},
        {"quiet", no_argument, NULL, 'q'},          {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    struct message why;
    int option;

    while ((option = option_next(argc, argv, options, OPTION_DEVICE | OPTION_PLAN | OPTION_JSON,
                                 &request->common)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 1;
        }
        if (!take_option(option, request, &why))
            return option_usage("run", why.text);
    }
    for (int n = optind; n < argc; n++)
        request->what[request->count++] = argv[n];
    if (request->list && request->count == 0 && request->filter == NULL) {
        run_list_workloads();
        return 1;
    }
    if (request->count == 0)
        request->what[request->count++] = default_workload;
    if (!option_choice(&request->common.plan, &why) || !read_peers(request, &why))
        return option_usage("run", why.text);
    if (request->common.json != NULL && request->settings.csv != NULL &&
        strcmp(request->common.json, "-") == 0 && strcmp(request->settings.csv, "-") == 0)
        return option_usage("run", "--json and --csv cannot both go to standard output");
    request->settings.plan = request->common.plan;
    request->settings.json = request->common.json;
    request->settings.device = request->common.device;
    return 0;
}

/* Keeps the items whose heading, file or problem contains the text. */
static bool filter_items(struct items *items, const char *filter, struct message *why)
{
    const char *heading = "";
    size_t kept = 0;

    for (size_t n = 0; n < items->count; n++) {
        struct item *item = &items->item[n];
        char *text = NULL;
        heading = item->heading != NULL ? item->heading : heading;
        item->heading = heading; /* the one before it may not stay */
        if (item->path == NULL)
            text = job_text(&item->job);
        if (strstr(heading, filter) != NULL || (text != NULL && strstr(text, filter) != NULL) ||
            (item->path != NULL && strstr(item->path, filter) != NULL))
            items->item[kept++] = *item;
        free(text);
    }
    items->count = kept;
    return kept > 0 ||
           message_set(why, "no problem contains '%.200s', which --filter wants", filter);
}

static bool is_fleet(const struct run_settings *settings)
{
    return settings->device != NULL && fleet_wanted(settings->device);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Whatever was asked for, but for the devices and where results go. */
static size_t list_arguments(const struct request *request, const char **list)
{
    const clattn_plan_options *plan = &request->settings.plan;
    const struct {
        const char *option;
        const char *value; /* NULL: was not given. */
        bool alone;        /* Was given, and takes no value. */
    } options[] = {
        {"--family", plan->family, false},
        {"--tunables", plan->tunables, false},
        {"--untuned", NULL, (plan->flags & CLATTN_PLAN_UNTUNED) != 0},
        {"--known-only", NULL, (plan->flags & CLATTN_PLAN_KNOWN_ONLY) != 0},
        {"--filter", request->filter, false},
        {"--peers", request->peers, false},
        {"--repeat", request->repeat, false},
        {"--patience", request->patience, false},
        {"--no-first-call", NULL, request->settings.no_cold_start},
        {"--quiet", NULL, request->settings.quiet},
    };
    size_t count = 0;

    for (size_t n = 0; n < sizeof options / sizeof *options; n++) {
        if (options[n].alone || options[n].value != NULL)
            list[count++] = options[n].option;
        if (options[n].value != NULL)
            list[count++] = options[n].value;
    }
    list[count++] = "--";
    for (int n = 0; n < request->count; n++)
        list[count++] = request->what[n];
    return count;
}

#define MOST_OPTIONS 32 /* In that list. */

static bool run_fleet(const struct request *request, struct run_results *results)
{
    const struct run_settings *settings = &request->settings;
    const bool save = settings->json != NULL && strcmp(settings->json, "-") != 0;
    const char **arguments = calloc((size_t)request->count + MOST_OPTIONS, sizeof *arguments);

    if (arguments == NULL)
        return run_complain(NULL, "no memory");
    const struct fleet fleet = {
        .program = settings->program,
        .arguments = arguments,
        .num_arguments = list_arguments(request, arguments),
        .devices = settings->device,
        .save = save ? settings->json : NULL,
        .quiet = !run_has_table(settings),
        .silence = settings->silence,
    };
    const bool ok = fleet_run(&fleet, results);
    free((void *)arguments);
    return ok;
}

/* What is written once, at the end. */
static bool write_results(const struct run_settings *settings, const struct run_results *results)
{
    struct message why;

    if (settings->json != NULL && strcmp(settings->json, "-") == 0 &&
        !results_write("-", results, &why))
        return run_complain(NULL, why.text);
    return settings->csv == NULL || csv_write(settings->csv, results, &why) ||
           run_complain(NULL, why.text);
}

static int run_request(const struct request *request, const struct items *items)
{
    const struct run_settings *settings = &request->settings;
    struct run_results results;

    ca_interrupt_catch();
    results_begin(&results);
    bool ok =
        is_fleet(settings) ? run_fleet(request, &results) : run_device(settings, items, &results);
    if (results.count > 0)
        ok = write_results(settings, &results) && ok;
    results_free(&results);
    return ca_interrupted() ? EXIT_INTERRUPTED : ok ? EXIT_SUCCESS : EXIT_FAILED;
}

static int list_items(const struct items *items)
{
    struct message why;

    return run_list_items(items, &why) || run_complain(NULL, why.text) ? EXIT_SUCCESS : EXIT_FAILED;
}

/* One device, or all of a fleet, by this process; or the list of what that would be. */
static int run_here(struct request *request)
{
    struct items items = {.item = NULL};
    struct message why;
    int status;

    if (items_read(&items, request->count, request->what, &why) &&
        (request->filter == NULL || filter_items(&items, request->filter, &why)))
        status = request->list ? list_items(&items) : run_request(request, &items);
    else
        status = option_usage("run", why.text);
    items_free(&items);
    return status;
}

int run_command(int argc, char **argv)
{
    const bool child = run_is_watched();
    struct request request = {.common.plan.struct_size = sizeof request.common.plan,
                              .settings.patience = DEFAULT_PATIENCE,
                              .settings.silence = DEFAULT_SILENCE,
                              .settings.save = child ? getenv(RUN_WATCH_SAVE) : NULL,
                              .what = calloc((size_t)argc + 1, sizeof *request.what)};
    const struct run_settings *settings = &request.settings;

    if (request.what == NULL) {
        run_complain(NULL, "no memory");
        return EXIT_FAILED;
    }
    /* Where the system does not tell, the program is on the PATH. */
    request.settings.program =
        access("/proc/self/exe", X_OK) == 0 ? "/proc/self/exe" : "clattn-bench";
    int status = read_options(argc, argv, &request);
    if (status == 1)
        status = EXIT_SUCCESS;
    else if (status == 0 && !child && !request.list && !is_fleet(settings) &&
             isfinite(settings->silence))
        status = run_watch(settings, argc, argv);
    else if (status == 0)
        status = run_here(&request);
    free(request.peers_text);
    free(request.what);
    return status;
}
