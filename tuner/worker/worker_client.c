/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/worker/worker_client.h"
#include "internal.h"
#include "tuner/worker/worker_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Successive failures that end the tuning: at the start, and of candidates with no answer
 * between. */
enum { MOST_START_FAILURES = 3, MOST_DEATHS = 16 };

/* Opening allocates and fills all buffers of all problems. */
#define OPEN_TIMEOUTS 3.0
/* Warm-up, checks and readings of a candidate take less than so many executions of the best. */
#define EXECUTIONS 200.0

struct ca_worker {
    struct ca_worker_options options;
    struct ca_process process;
    struct ca_builders *builders; /* NULL: none */
    bool doubtful; /* the worker's driver may be in a bad state: replace the worker */
    struct ca_problem *problems;
    size_t num_problems;
    double *best;               /* seconds, of each problem; 0 if not known */
    struct ca_candidate *built; /* candidates built in the present worker process */
    size_t num_built, capacity;
    size_t deaths, starts;
    enum ca_outcome round_failure; /* outcome of the last candidate that failed in a round */
    struct message broken;
};

struct ca_worker *ca_worker_create(const struct ca_worker_options *options)
{
    struct ca_worker *worker = calloc(1, sizeof *worker);

    if (!worker)
        return NULL;
    worker->options = *options;
    worker->builders = options->builders > 0 ? ca_builders_create(options) : NULL;
    return worker;
}

void ca_worker_destroy(struct ca_worker *worker)
{
    if (!worker)
        return;
    ca_builders_destroy(worker->builders);
    ca_process_end(&worker->process);
    free(worker->built);
    free(worker->best);
    free(worker->problems);
    free(worker);
}

const char *ca_worker_broken(const struct ca_worker *worker)
{
    return worker->broken.text[0] ? worker->broken.text : NULL;
}

size_t ca_worker_restarts(const struct ca_worker *worker)
{
    return worker->starts > 0 ? worker->starts - 1 : 0;
}

/* ---- the process ----------------------------------------------------------------------------- */

static enum ca_asked ask(struct ca_worker *worker, json_t *request, double seconds, json_t **answer,
                         struct message *how)
{
    return ca_process_ask(&worker->process, request, seconds, worker->options.patience,
                          worker->options.user, answer, how);
}

static json_t *open_request(const struct ca_worker *worker)
{
    json_t *lines = json_array();
    size_t bytes;

    for (size_t n = 0; n < worker->num_problems; n++) {
        const clattn_problem *p = &worker->problems[n].normal;
        clattn_problem_print(p, NULL, 0, &bytes);
        char *line = malloc(bytes);
        if (line && clattn_problem_print(p, line, bytes, NULL) == CLATTN_SUCCESS)
            json_array_append_new(lines, json_string(line));
        free(line);
    }
    return json_pack("{s:s, s:o}", "do", "open", "problems", lines);
}

/* Opens the problems in a process that runs. */
static enum ca_asked open_problems(struct ca_worker *worker, clattn_status *status,
                                   struct message *how)
{
    json_t *answer;
    const enum ca_asked asked =
        ask(worker, open_request(worker), OPEN_TIMEOUTS * worker->options.timeout, &answer, how);

    worker->num_built = 0;
    if (asked == CA_ANSWERED) {
        const json_t *code = json_object_get(answer, "status");
        const char *reason = json_string_value(json_object_get(answer, "reason"));
        *status =
            json_is_integer(code) ? (clattn_status)json_integer_value(code) : CLATTN_OPENCL_ERROR;
        if (*status != CLATTN_SUCCESS)
            message_set(how, "%s", reason && *reason ? reason : clattn_status_string(*status));
    }
    json_decref(answer);
    return asked;
}

/* Sees to it that a sound process has the problems open. False if there is no patience for it, or
 * the worker is broken. */
static bool ready(struct ca_worker *worker)
{
    struct message how;
    clattn_status status = CLATTN_SUCCESS;

    if (worker->doubtful)
        ca_process_end(&worker->process);
    worker->doubtful = false;
    for (int n = 0; !worker->broken.text[0] && worker->process.child.number == 0; n++) {
        if (n == MOST_START_FAILURES)
            return message_set(&worker->broken,
                               "the worker process fails whenever it starts: the last %s",
                               how.text);
        if (!worker->options.patience(worker->options.user))
            return false;
        worker->starts++;
        if (!ca_worker_start(&worker->process, &worker->options, &how))
            continue;
        const enum ca_asked asked = open_problems(worker, &status, &how);
        if (asked == CA_STOPPED)
            return false;
        if (asked == CA_ANSWERED && status != CLATTN_SUCCESS)
            return message_set(&worker->broken, "the worker process cannot use the device: %s",
                               how.text);
    }
    return !worker->broken.text[0];
}

/* ---- candidates ------------------------------------------------------------------------------ */

static bool is_built(const struct ca_worker *worker, const struct ca_candidate *candidate)
{
    for (size_t n = 0; n < worker->num_built; n++)
        if (ca_candidates_equal(&worker->built[n], candidate))
            return true;
    return false;
}

/* Notes a candidate as built; without memory for that it is built once more than needed. */
static void note_built(struct ca_worker *worker, const struct ca_candidate *candidate)
{
    if (worker->num_built == worker->capacity) {
        const size_t capacity = worker->capacity + 64;
        struct ca_candidate *grown = realloc(worker->built, capacity * sizeof *grown);
        if (!grown)
            return;
        worker->built = grown;
        worker->capacity = capacity;
    }
    worker->built[worker->num_built++] = *candidate;
}

static void fail_untried(struct ca_reading *reading)
{
    memset(reading, 0, sizeof *reading);
    reading->outcome = CA_CONSTRAINT_FAILED;
    snprintf(reading->reason, sizeof reading->reason, "it was not tried");
}

/* A process that was killed from outside, as Linux does where memory is short, has not crashed.
 * One that others kept from running has not hung. */
static enum ca_outcome outcome_of(enum ca_asked asked, const struct ca_process *process)
{
    return asked == CA_LATE      ? process->starved ? CA_RUNTIME_FAILED : CA_TIMED_OUT
           : asked != CA_DIED    ? CA_CONSTRAINT_FAILED
           : process->was_killed ? CA_RUNTIME_FAILED
                                 : CA_CRASHED;
}

/* Sends one request about one candidate and turns whatever happens into a reading. */
static enum ca_asked evaluate(struct ca_worker *worker, json_t *request, double seconds,
                              const char *doing, struct ca_reading *reading)
{
    struct message how;
    json_t *answer;
    enum ca_asked asked = ask(worker, request, seconds, &answer, &how);

    if (asked == CA_ANSWERED &&
        !ca_reading_from_json(json_object_get(answer, "reading"), reading)) {
        asked = CA_DIED;
        message_set(&how, "answered nonsense");
        ca_process_end(&worker->process);
    }
    json_decref(answer);
    if (asked != CA_ANSWERED) {
        fail_untried(reading);
        reading->outcome = outcome_of(asked, &worker->process);
    }
    if (asked == CA_LATE)
        snprintf(reading->reason, sizeof reading->reason, "%s it %.200s", doing, how.text);
    if (asked == CA_DIED)
        snprintf(reading->reason, sizeof reading->reason, "the worker that was %s it %.200s", doing,
                 how.text);
    worker->doubtful = reading->outcome == CA_RUNTIME_FAILED || reading->outcome == CA_WRONG;
    return asked;
}

/* Builds in the present worker process, which is ready. */
static void build_here(struct ca_worker *worker, const struct ca_candidate *candidate,
                       struct ca_reading *reading)
{
    evaluate(worker, ca_worker_request("build", candidate), worker->options.timeout, "building",
             reading);
    note_built(worker, candidate);
}

static void measure_here(struct ca_worker *worker, size_t problem,
                         const struct ca_candidate *candidate, double best,
                         struct ca_reading *reading)
{
    json_t *request = ca_worker_request("measure", candidate);

    json_object_set_new(request, "problem", json_integer((json_int_t)problem));
    json_object_set_new(request, "best", ca_seconds_json(best));
    evaluate(worker, request, worker->options.timeout + EXECUTIONS * best, "measuring", reading);
}

static bool ended_process(enum ca_outcome outcome)
{
    return outcome == CA_CRASHED || outcome == CA_TIMED_OUT;
}

/* A crash or a hang counts if it comes again in a new process: it may have been another candidate's
 * fault, or the machine's. */
static bool is_again(struct ca_worker *worker, int attempt, const struct ca_reading *reading)
{
    const bool ended = ended_process(reading->outcome);

    if (ended && attempt == 1)
        return true;
    worker->deaths = ended                                      ? worker->deaths + 1
                     : reading->outcome == CA_CONSTRAINT_FAILED ? worker->deaths
                                                                : 0;
    if (worker->deaths == MOST_DEATHS)
        message_set(&worker->broken,
                    "%d candidates in a row ended the worker process; the last: %s", MOST_DEATHS,
                    reading->reason);
    return false;
}

static void build(void *user, const struct ca_candidate *candidate, struct ca_reading *reading)
{
    struct ca_worker *worker = user;
    int attempt = 0;

    if (worker->builders)
        ca_builders_run(worker->builders, candidate);
    do {
        if (!ready(worker)) {
            fail_untried(reading);
            return;
        }
        build_here(worker, candidate, reading);
    } while (is_again(worker, ++attempt, reading));
    if (!worker->builders)
        return;
    ca_builders_judge(worker->builders, candidate, reading);
    reading->compile_seconds =
        fmax(reading->compile_seconds, ca_builders_seconds(worker->builders, candidate));
}

static void announce(void *user, const struct ca_candidate *candidates, size_t count)
{
    struct ca_worker *worker = user;

    ca_builders_announce(worker->builders, candidates, count);
}

static void measure(void *user, size_t problem, const struct ca_candidate *candidate, double best,
                    struct ca_reading *reading)
{
    struct ca_worker *worker = user;
    int attempt = 0;

    do {
        if (!ready(worker)) {
            fail_untried(reading);
            return;
        }
        reading->outcome = CA_CORRECT;
        if (!is_built(worker, candidate))
            build_here(worker, candidate, reading);
        if (reading->outcome == CA_CORRECT)
            measure_here(worker, problem, candidate, best, reading);
    } while (is_again(worker, ++attempt, reading));
    for (size_t n = 0; n < reading->num_times; n++)
        if (worker->best[problem] == 0.0 || reading->times[n] < worker->best[problem])
            worker->best[problem] = reading->times[n];
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Fills seconds unless the worker fails. */
static enum ca_asked round_here(struct ca_worker *worker, size_t problem,
                                const struct ca_candidate *candidates, size_t count,
                                double *seconds)
{
    const double limit =
        worker->options.timeout + EXECUTIONS * (double)count * worker->best[problem];
    json_t *list = json_array(), *answer;
    struct message how;

    for (size_t n = 0; n < count; n++)
        json_array_append_new(list, ca_candidate_json(&candidates[n]));
    json_t *request = json_pack("{s:s, s:I, s:o}", "do", "round", "problem", (json_int_t)problem,
                                "candidates", list);
    const enum ca_asked asked = ask(worker, request, limit, &answer, &how);
    const json_t *times = json_object_get(answer, "seconds");
    for (size_t n = 0; asked == CA_ANSWERED && n < count; n++) {
        const double time = json_number_value(json_array_get(times, n));
        seconds[n] = time > 0.0 ? time : INFINITY;
        worker->doubtful |= !(time > 0.0);
    }
    worker->round_failure =
        asked == CA_ANSWERED ? CA_RUNTIME_FAILED : outcome_of(asked, &worker->process);
    json_decref(answer);
    return asked;
}

/* Sees to it that a sound process has built them: CA_ANSWERED; CA_DIED if one does not build,
 * CA_STOPPED if they cannot be tried. */
static enum ca_asked ready_for_round(struct ca_worker *worker,
                                     const struct ca_candidate *candidates, size_t count)
{
    struct ca_reading reading;

    if (!ready(worker))
        return CA_STOPPED;
    for (size_t n = 0; n < count; n++)
        if (!is_built(worker, &candidates[n])) {
            build_here(worker, &candidates[n], &reading);
            worker->round_failure = reading.outcome;
            if (reading.outcome != CA_CORRECT)
                return reading.outcome == CA_CONSTRAINT_FAILED ? CA_STOPPED : CA_DIED;
        }
    return CA_ANSWERED;
}

/* NaN for those that cannot be tried. */
static void round_of(void *user, size_t problem, const struct ca_candidate *candidates,
                     size_t count, double *seconds)
{
    struct ca_worker *worker = user;
    enum ca_asked asked = ready_for_round(worker, candidates, count);

    if (asked == CA_ANSWERED)
        asked = round_here(worker, problem, candidates, count, seconds);
    if (asked == CA_ANSWERED)
        return;
    for (size_t n = 0; n < count; n++)
        seconds[n] = asked == CA_STOPPED ? NAN : INFINITY;
    for (size_t n = 0; asked != CA_STOPPED && count > 1 && n < count; n++)
        /* one by one, to find the candidate that failed */
        round_of(worker, problem, &candidates[n], 1, &seconds[n]);
}

static enum ca_outcome failure(void *user)
{
    const struct ca_worker *worker = user;

    return worker->round_failure;
}

/* ---- the measurer ---------------------------------------------------------------------------- */

clattn_status ca_worker_open(struct ca_worker *worker, const struct ca_problem *problems,
                             size_t count, struct ca_measurer *measurer)
{
    struct ca_problem *copies = malloc(count * sizeof *copies);
    double *best = calloc(count, sizeof *best);
    struct message how;
    clattn_status status;

    *measurer = (struct ca_measurer){
        .user = worker, .build = build, .measure = measure, .round = round_of, .failure = failure};
    if (worker->builders) {
        measurer->announce = announce;
        measurer->batch = (size_t)worker->options.builders;
    }
    if (!copies || !best) {
        free(best);
        free(copies);
        return CLATTN_OUT_OF_MEMORY;
    }
    memcpy(copies, problems, count * sizeof *copies);
    free(worker->problems);
    free(worker->best);
    worker->problems = copies;
    worker->num_problems = count;
    worker->best = best;
    if (worker->builders)
        ca_builders_open(worker->builders, open_request(worker));
    if (worker->process.child.number > 0 &&
        (open_problems(worker, &status, &how) != CA_ANSWERED || status != CLATTN_SUCCESS))
        worker->doubtful = true; /* replace the worker: opening anew shows what is wrong */
    return ready(worker) || !worker->broken.text[0] ? CLATTN_SUCCESS : CLATTN_OPENCL_ERROR;
}
