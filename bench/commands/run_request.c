/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/run_request.h"
#include "internal.h"
#include "os/process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WORKLOAD "quick"
#define DEFAULT_PATIENCE 20.0
#define DEFAULT_SILENCE 600.0 /* A compiler may take minutes; it gives no signs of life. */

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
    "  --quiet           print nothing but errors\n"
    "  --mpi             under mpirun: each rank computes a shard on its own device, by several\n"
    "                    modes in turns, beside rank 0 alone; of several --device rank n of a\n"
    "                    machine takes the n-th\n"
    "  --mode LIST       with --mpi: of ring, heads (by default these two, where they can),\n"
    "                    heads-ring:N, split-kv and auto, with commas between them\n"
    "  --scaling S       with --mpi: strong (default): all ranks share the problem; weak: "
    "sequences\n"
    "                    are so many times as long as there are ranks; or both\n"
    "  --speed X         with --mpi: how fast this rank is, in any unit that all ranks share, for\n"
    "                    shards in proportion, or, on all ranks, measured: by executions at the\n"
    "                    start; by default shards are equal\n"
    "Results of clattn-tune are used, and timed beside the choice without them. A choice is\n"
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

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool is_mode(const char *name)
{
    static const char *const known[] = {"auto", "ring", "heads", "split-kv"};
    static const char both[] = "heads-ring:";
    double ranks;

    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (strcmp(name, known[n]) == 0)
            return true;
    return strncmp(name, both, strlen(both)) == 0 &&
           option_whole("--mode", name + strlen(both), 1.0, 1e6, &ranks, &(struct message){""});
}

static bool read_modes(const char *list, void *to, struct message *why)
{
    struct run_mpi *mpi = to;

    mpi->option = "--mode";
    free(mpi->modes_text);
    mpi->num_modes = 0;
    mpi->modes_text = ca_text_copy(list);
    if (mpi->modes_text == NULL)
        return message_set(why, "no memory for the names of modes");
    for (char *name = mpi->modes_text, *next; name != NULL; name = next) {
        next = strchr(name, ',');
        if (next != NULL)
            *next++ = '\0';
        if (mpi->num_modes == RUN_MOST_MODES)
            return message_set(why, "--mode takes %d at most", RUN_MOST_MODES);
        for (size_t n = 0; n < mpi->num_modes; n++)
            if (strcmp(name, mpi->modes[n]) == 0)
                return message_set(why, "--mode names '%.100s' twice", name);
        if (!is_mode(name))
            return message_set(why,
                               "--mode takes ring, heads, heads-ring:N, split-kv and auto, with "
                               "commas between them, not '%.100s'",
                               name);
        mpi->modes[mpi->num_modes++] = name;
    }
    return true;
}

static bool read_scaling(const char *text, void *to, struct message *why)
{
    const bool both = strcmp(text, "both") == 0;
    struct run_mpi *mpi = to;

    mpi->option = "--scaling";
    mpi->strong = both || strcmp(text, "strong") == 0;
    mpi->weak = both || strcmp(text, "weak") == 0;
    return mpi->strong || mpi->weak ||
           message_set(why, "--scaling takes strong, weak or both, not '%.100s'", text);
}

static bool read_speed(const char *text, void *to, struct message *why)
{
    struct run_mpi *mpi = to;

    mpi->option = "--speed";
    mpi->measured = strcmp(text, "measured") == 0;
    mpi->speed = 0.0;
    return mpi->measured || option_number("--speed", text, 1e-9, 1e9, &mpi->speed, why);
}

static bool check_mpi(const struct request *request, struct message *why)
{
    const struct run_mpi *mpi = &request->mpi;

    if (!mpi->wanted)
        return mpi->option == NULL || message_set(why, "%s belongs to --mpi", mpi->option);
    return (request->peers == NULL && request->settings.silence < 0.0) ||
           message_set(why, "%s is not for --mpi, which times clattn alone, watched by mpirun",
                       request->peers != NULL ? "--peers" : "--timeout");
}

/* ---- the command line ------------------------------------------------------------------------ */

static bool read_peers(struct request *request, struct message *why)
{
    free(request->peers_text);
    request->peers_text = ca_text_copy(request->peers != NULL ? request->peers : "all");
    return request->peers_text != NULL
               ? peer_choice_read(request->peers_text, &request->settings.peers, why)
               : message_set(why, "no memory for the names of libraries");
}

static bool add_what(const char *name, void *to, struct message *why)
{
    struct request *request = to;

    (void)why;
    request->what[request->count++] = name;
    return true;
}

static int read_options(int argc, char **argv, struct request *r)
{
    struct run_settings *s = &r->settings;
    const struct command_option options[] = {
        {.name = "device", .text = &s->device},
        {.name = "workload", .read = add_what, .to = r},
        {.name = "filter", .text = &r->filter},
        {.name = "list", .flag = &r->list},
        {.name = "peers", .text = &r->peers},
        {.name = "repeat",
         .number = &r->repeat,
         .whole = true,
         .low = 1.0,
         .high = RECORD_MOST_SAMPLES},
        {.name = "patience", .number = &s->patience, .low = 1e-9, .high = 1e6},
        {.name = "timeout", .number = &s->silence, .high = 1e6},
        {.name = "no-first-call", .flag = &s->no_cold_start},
        OPTIONS_FAMILY(s->plan),
        OPTIONS_CHOICE(s->plan),
        {.name = "json", .text = &s->json},
        {.name = "quiet", .flag = &s->quiet},
        {.name = "mpi", .flag = &r->mpi.wanted},
        {.name = "mode", .read = read_modes, .to = &r->mpi},
        {.name = "scaling", .read = read_scaling, .to = &r->mpi},
        {.name = "speed", .read = read_speed, .to = &r->mpi},
        {.name = NULL},
    };
    const int stop = command_line_read(argc, argv, help, options);
    struct message why;

    if (stop != 0)
        return stop;
    for (int n = optind; n < argc; n++)
        r->what[r->count++] = argv[n];
    if (r->list && r->count == 0 && r->filter == NULL) {
        items_print_workloads();
        return 1;
    }
    if (r->count == 0)
        r->what[r->count++] = DEFAULT_WORKLOAD;
    if (!option_choice(&s->plan, &why) || !check_mpi(r, &why) || !read_peers(r, &why))
        return option_usage("run", why.text);
    s->repeat = (size_t)r->repeat;
    s->silence = s->silence > 0.0 ? s->silence : s->silence < 0.0 ? DEFAULT_SILENCE : INFINITY;
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

int run_request_read(int argc, char **argv, struct request *request)
{
    *request = (struct request){.settings.plan.struct_size = sizeof request->settings.plan,
                                .settings.patience = DEFAULT_PATIENCE,
                                .settings.silence = -1.0, /* not given */
                                .mpi.strong = true,
                                .what = calloc((size_t)argc + 1, sizeof *request->what)};
    if (request->what == NULL) {
        run_complain(NULL, "no memory");
        return EXIT_FAILED;
    }
    /* Where the system does not tell, the program is on the PATH. */
    request->settings.program = ca_own_program("clattn-bench");
    return read_options(argc, argv, request);
}

void run_request_free(struct request *request)
{
    free(request->mpi.modes_text);
    free(request->peers_text);
    free((void *)request->what);
}

bool run_request_items(const struct request *request, struct items *items, struct message *why)
{
    return items_read(items, request->count, request->what, why) &&
           (request->filter == NULL || filter_items(items, request->filter, why));
}

int run_request_list(const struct items *items)
{
    struct message why;

    return items_print(items, &why) || run_complain(NULL, why.text) ? EXIT_SUCCESS : EXIT_FAILED;
}
