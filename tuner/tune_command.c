/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-tune without a command: searches problems on a device, in a worker process. */
#include "cli/interrupt.h"
#include "cli/message.h"
#include "internal.h"
#include "tuner/commands.h"
#include "tuner/journal_measurer.h"
#include "tuner/progress.h"
#include "tuner/tune_report.h"
#include "tuner/worker/worker_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds that a worker may go on once the user has interrupted it. */
#define GRACE_SECONDS 0.5

/* A tuning that goes on where another was interrupted has at least this part of its time. */
#define LEAST_SHARE 0.25

struct tuning {
    struct tune_options options;
    clattn_context *context;
    struct ca_worker *worker;
    struct ca_journal *journal;
    struct ca_progress progress;
    struct tune_problem *problems; /* problems to tune, each of another class */
    size_t num_problems;
    size_t *asked; /* for each problem given to ca_tune(): its index in problems */
    size_t num_asked;
    clattn_problem *asked_problems;
    struct ca_tune_result *results; /* one result for each problem given to ca_tune() */
    size_t evaluations;
    double compile_seconds; /* seconds that compiling this run's configurations took */
    bool resumed;
    double begin;
    char complaint[512]; /* the library's last error */
};

/* Prints a sentence of a failure; returns false. */
static bool fail(const char *format, const char *text)
{
    struct message what;

    message_set(&what, format, text);
    message_say(stderr, "clattn-tune: %s", what.text);
    return false;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

static bool patience(void *user)
{
    struct tuning *tuning = user;

    ca_progress_tick(&tuning->progress);
    return ca_interrupt_age() < GRACE_SECONDS;
}

static void show_building(void *user, const struct ca_candidate *candidate)
{
    struct tuning *tuning = user;

    ca_progress_trying(&tuning->progress, candidate->family->full_name);
}

static struct tune_problem *find_problem(struct tuning *tuning, const char *problem_class)
{
    for (size_t n = 0; n < tuning->num_problems; n++)
        if (strcmp(tuning->problems[n].problem_class, problem_class) == 0)
            return &tuning->problems[n];
    return NULL;
}

/* Prints the result of a class, except on a terminal, where the table at the end says it all. */
static void say_result(struct tuning *tuning, const char *problem_class)
{
    char time[CA_TIME_TEXT];

    for (size_t n = 0; n < tuning->num_asked && !tuning->progress.terminal; n++) {
        const struct tune_problem *problem = &tuning->problems[tuning->asked[n]];
        const struct ca_tune_result *found = &tuning->results[n];
        if (found->searched && strcmp(problem->problem_class, problem_class) == 0)
            ca_progress_say(&tuning->progress, "%s: %s, %.2fx, %zu configurations", problem->line,
                            ca_time_print(found->result.top[0].seconds.middle, time),
                            1.0 / found->result.top[0].ratio.middle, found->result.evaluations);
    }
}

static void add_compiling(void *user, double compile_seconds)
{
    struct tuning *tuning = user;

    tuning->compile_seconds += compile_seconds;
}

/* The results are in the store by now. */
static void finish_class(void *user, const char *problem_class)
{
    struct tuning *tuning = user;

    say_result(tuning, problem_class);
    if (!ca_interrupted() && !ca_worker_broken(tuning->worker))
        ca_journal_finish(tuning->journal, problem_class);
}

static clattn_status open_group(void *user, const struct ca_problem *problems, size_t count,
                                struct ca_measurer *measurer)
{
    struct tuning *tuning = user;
    const struct ca_journal_hooks hooks = {
        .user = tuning, .building = show_building, .built = add_compiling, .closing = finish_class};
    struct ca_measurer within;
    const clattn_status status = ca_worker_open(tuning->worker, problems, count, &within);

    if (status != CLATTN_SUCCESS)
        return status;
    return ca_journal_measurer(&within, tuning->journal, problems, count, &hooks, measurer)
               ? CLATTN_SUCCESS
               : CLATTN_OUT_OF_MEMORY;
}

/* Enters an event that is in no journal yet. It was not measured, as another configuration gives
 * the same program, or it failed whenever it was tried but may not always do so. */
static void enter(struct tuning *tuning, const struct ca_tune_event *event)
{
    struct ca_journal_entry entry = {
        .candidate = *event->candidate, .reading = *event->reading, .built = true};
    const bool timed = event->reading->outcome == CA_CORRECT && event->reading->num_times > 0;

    if (!timed && event->reading->outcome != CA_RUNTIME_FAILED)
        return;
    snprintf(entry.problem_class, sizeof entry.problem_class, "%s", event->progress->problem_class);
    ca_journal_add(tuning->journal, &entry);
}

static bool event(void *user, const struct ca_tune_event *event)
{
    struct tuning *tuning = user;
    const struct tune_problem *problem = &tuning->problems[tuning->asked[event->progress->problem]];

    if (event->reading)
        enter(tuning, event);
    tuning->evaluations = event->progress->evaluations;
    ca_progress_update(&tuning->progress, event->progress, problem->line);
    return !ca_interrupted() && !ca_worker_broken(tuning->worker);
}

static void log_line(clattn_log_level level, const char *message, void *user)
{
    struct tuning *tuning = user;

    if (level == CLATTN_LOG_ERROR)
        snprintf(tuning->complaint, sizeof tuning->complaint, "%s", message);
    if (level != CLATTN_LOG_WARNING)
        return;
    ca_progress_clear(&tuning->progress);
    message_say(stderr, "clattn-tune: %s", message);
}

/* ---- problems -------------------------------------------------------------------------------- */

/* One of each class. */
static bool list_problems(struct tuning *tuning)
{
    const struct tune_options *options = &tuning->options;

    tuning->problems = calloc(options->num_problems, sizeof *tuning->problems);
    tuning->asked = calloc(options->num_problems, sizeof *tuning->asked);
    tuning->asked_problems = calloc(options->num_problems, sizeof *tuning->asked_problems);
    if (!tuning->problems || !tuning->asked || !tuning->asked_problems)
        return fail("%s", "there is no memory for the problems");
    for (size_t n = 0; n < options->num_problems; n++) {
        struct tune_problem *problem = &tuning->problems[tuning->num_problems];
        char text[CA_JOURNAL_CLASS];
        clattn_problem_class(&options->problems[n], text, sizeof text, NULL);
        if (find_problem(tuning, text))
            continue;
        problem->problem = options->problems[n];
        memcpy(problem->problem_class, text, sizeof text);
        clattn_problem_print(&problem->problem, problem->line, sizeof problem->line, NULL);
        tuning->num_problems++;
    }
    return true;
}

static int is_fresh(const clattn_tuning_entry *entry, void *user)
{
    bool *fresh = user;

    *fresh |= !entry->quarantine && !entry->stale;
    return *fresh;
}

static bool is_journaled(const struct tuning *tuning, const struct tune_problem *problem)
{
    for (size_t n = 0; n < ca_journal_count(tuning->journal); n++)
        if (strcmp(ca_journal_at(tuning->journal, n)->problem_class, problem->problem_class) == 0)
            return true;
    return false;
}

/* Chooses what ca_tune() is given. An interrupted tuning has left results in the store, too. */
static void choose_problems(struct tuning *tuning)
{
    for (size_t n = 0; n < tuning->num_problems; n++)
        tuning->resumed |= is_journaled(tuning, &tuning->problems[n]);
    for (size_t n = 0; n < tuning->num_problems; n++) {
        struct tune_problem *problem = &tuning->problems[n];
        bool fresh = false;
        clattn_tuning_list(tuning->context, &problem->problem, is_fresh, &fresh);
        if (clattn_plan_supports(tuning->context, &problem->problem, NULL) != CLATTN_SUCCESS) {
            ca_reason(problem->reason, sizeof problem->reason, "%s",
                      clattn_context_last_error(tuning->context));
            problem->state = TUNE_UNSUPPORTED;
        } else if (fresh && !tuning->options.again && !is_journaled(tuning, problem)) {
            problem->state = TUNE_KNOWN;
        } else {
            problem->state = TUNE_NOT_REACHED;
            tuning->asked_problems[tuning->num_asked] = problem->problem;
            tuning->asked[tuning->num_asked++] = n;
        }
    }
}

/* Less what the interrupted tuning of these problems has spent. */
static double seconds_to_spend(const struct tuning *tuning)
{
    const double all = tuning->options.seconds;
    double spent = 0.0;

    for (size_t n = 0; n < ca_journal_count(tuning->journal); n++)
        for (size_t p = 0; p < tuning->num_asked; p++)
            if (strcmp(ca_journal_at(tuning->journal, n)->problem_class,
                       tuning->problems[tuning->asked[p]].problem_class) == 0)
                spent += ca_journal_at(tuning->journal, n)->seconds;
    return fmax(all - spent, LEAST_SHARE * all);
}

/* ---- the tuning ------------------------------------------------------------------------------ */

static bool open_journal(struct tuning *tuning, const char *store_path)
{
    struct message why;
    char path[4200] = "";

    if (*store_path)
        snprintf(path, sizeof path, "%s.journal", store_path);
    switch (ca_journal_open(path, &tuning->journal, &why)) {
    case CA_JOURNAL_OPEN:
        return true;
    case CA_JOURNAL_FORGETFUL:
        ca_progress_say(&tuning->progress, "clattn-tune: %s; an interruption will lose more",
                        why.text);
        return true;
    case CA_JOURNAL_BUSY:
        return fail("another clattn-tune is at work on this device (it has locked %s)", path);
    default:
        return fail("%s", "there is no memory for a journal");
    }
}

/* Returns false if the tuning failed as a whole. */
static bool search(struct tuning *tuning)
{
    const struct tune_options *options = &tuning->options;
    const clattn_tuning_options how = {
        .struct_size = sizeof how,
        .seconds = seconds_to_spend(tuning),
        .evaluations = options->evaluations,
        .strategy = ca_strategy_name(options->strategy),
        .seed = options->seed,
        .again = options->again || tuning->resumed,
    };
    const struct ca_tune_hooks hooks = {.user = tuning, .open = open_group, .event = event};

    tuning->results = calloc(tuning->num_asked, sizeof *tuning->results);
    if (!tuning->results)
        return fail("%s", "there is no memory for the results");
    const clattn_status status = ca_tune(tuning->context, tuning->asked_problems, tuning->num_asked,
                                         &how, &hooks, tuning->results);
    for (size_t n = 0; n < tuning->num_asked; n++) {
        struct tune_problem *problem = &tuning->problems[tuning->asked[n]];
        problem->result = tuning->results[n];
        if (tuning->results[n].known)
            problem->state = TUNE_KNOWN;
        else if (tuning->results[n].searched)
            problem->state = TUNE_TUNED;
        else if (is_journaled(tuning, problem) && !tuning->results[n].result.too_early)
            problem->state = TUNE_NO_RESULT;
    }
    ca_progress_clear(&tuning->progress);
    if (ca_worker_broken(tuning->worker))
        return fail("%s", ca_worker_broken(tuning->worker));
    if (status != CLATTN_SUCCESS && !ca_interrupted())
        return fail("%s", tuning->complaint[0] ? tuning->complaint : clattn_status_string(status));
    return true;
}

static bool tune(struct tuning *tuning, const char *store_path)
{
    bool good = list_problems(tuning) && open_journal(tuning, store_path);

    if (!good)
        return false;
    choose_problems(tuning);
    if (tuning->resumed)
        ca_progress_say(&tuning->progress, "going on with a tuning that was interrupted");
    if (tuning->num_asked > 0)
        good = search(tuning);
    for (size_t n = 0; n < tuning->num_problems; n++)
        good &= tuning->problems[n].state != TUNE_UNSUPPORTED &&
                tuning->problems[n].state != TUNE_NO_RESULT;
    const struct tune_report report = {
        .options = &tuning->options,
        .device = clattn_context_device(tuning->context),
        .store_path = store_path,
        .problems = tuning->problems,
        .num_problems = tuning->num_problems,
        .journal = tuning->journal,
        .seconds = ca_stopwatch_now() - tuning->begin,
        .compile_seconds = tuning->compile_seconds,
        .evaluations = tuning->evaluations,
        .restarts = ca_worker_restarts(tuning->worker),
        .interrupted = ca_interrupted(),
        .kept = ca_tune_is_kept(tuning->context),
    };
    good &= tune_report_write(&report);
    return report.kept ? good : fail("the results are lost: %s cannot be written", store_path);
}

static int run(struct tuning *tuning, char *const *argv)
{
    const struct ca_worker_options worker = {
        .program = ca_own_program(argv[0]),
        .device = tuning->options.device,
        .timeout = tuning->options.timeout,
        .builders = tuning->options.builders,
        .patience = patience,
        .user = tuning,
    };
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = log_line, .log_user_data = tuning};
    char store_path[4096] = "";

    ca_progress_open(&tuning->progress, stderr, tuning->options.quiet, tuning->options.seconds);
    if (clattn_context_create_default(tuning->options.device, &options, &tuning->context) !=
        CLATTN_SUCCESS) {
        fail("%s", tuning->complaint);
        return EXIT_FAILURE;
    }
    tuning->worker = ca_worker_create(&worker);
    if (!tuning->worker) {
        fail("%s", "there is no memory for a worker");
        return EXIT_FAILURE;
    }
    clattn_tuning_path(tuning->context, store_path, sizeof store_path, NULL);
    ca_interrupt_catch();
    const bool good = tune(tuning, store_path);
    return ca_interrupted() ? EXIT_INTERRUPTED : good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void clean_up(struct tuning *tuning)
{
    ca_journal_close(tuning->journal);
    ca_worker_destroy(tuning->worker);
    clattn_context_release(tuning->context);
    free(tuning->results);
    free(tuning->asked_problems);
    free(tuning->asked);
    free(tuning->problems);
    free(tuning->options.problems);
}

int tune_command(int argc, char **argv)
{
    struct tuning tuning = {.begin = ca_stopwatch_now()};
    int status = EXIT_SUCCESS;

    switch (tune_options_parse(argc, argv, &tuning.options)) {
    case TUNE_RUN:
        status = run(&tuning, argv);
        break;
    case TUNE_DONE:
        break;
    case TUNE_USAGE:
        status = EXIT_USAGE;
        break;
    case TUNE_FAILED:
        status = EXIT_FAILURE;
        break;
    }
    clean_up(&tuning);
    return status;
}
