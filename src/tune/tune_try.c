/* SPDX-License-Identifier: Apache-2.0 */
#include "context/context.h"
#include "families/candidate.h"
#include "os/clock.h"
#include "problem/classes/problem_class.h"
#include "store/store.h"
#include "tune/tune_run.h"
#include "tune/tune_space.h"

#include <math.h>

/* ---- failures -------------------------------------------------------------------------------- */

static void ban(struct ca_run *run, const struct ca_suspect *suspect)
{
    ca_store_ban_candidate(run->tuning->ctx->store, &suspect->candidate, &suspect->problem,
                           suspect->what, suspect->how);
}

/* Bans a candidate that crashed or hung once another one has worked after it. Until then the
 * machine itself may be at fault, for example because a disk is full. */
static void keep_suspect(struct ca_run *run, const struct ca_suspect *suspect)
{
    struct ca_tuning *tuning = run->tuning;

    if (tuning->num_suspects == CA_SUSPECTS)
        return;
    for (size_t n = 0; n < tuning->num_suspects; n++)
        if (ca_candidates_equal(&tuning->suspects[n].candidate, &suspect->candidate))
            return;
    tuning->suspects[tuning->num_suspects++] = *suspect;
}

static void note_success(struct ca_run *run)
{
    struct ca_tuning *tuning = run->tuning;

    run->worked = 1;
    for (size_t n = 0; n < tuning->num_suspects; n++)
        ban(run, &tuning->suspects[n]);
    tuning->num_suspects = 0;
}

void ca_run_note(struct ca_run *run, size_t problem, const struct ca_candidate *candidate,
                 const struct ca_reading *reading)
{
    static const struct {
        enum ca_quarantine what; /* CA_NUM_QUARANTINES: the failure may pass */
        clattn_status status;
    } failures[CA_NUM_OUTCOMES] = {
        [CA_COMPILE_FAILED] = {CA_QUARANTINE_SOURCE, CLATTN_BUILD_FAILED},
        [CA_RUNTIME_FAILED] = {CA_NUM_QUARANTINES, CLATTN_OPENCL_ERROR},
        [CA_TIMED_OUT] = {CA_QUARANTINE_HANG, CLATTN_OPENCL_ERROR},
        [CA_WRONG] = {CA_QUARANTINE_WRONG, CLATTN_MISCOMPILED},
        [CA_CRASHED] = {CA_QUARANTINE_CRASH, CLATTN_OPENCL_ERROR},
    };
    struct ca_suspect failed = {.candidate = *candidate,
                                .problem = run->group->problems[problem].normal};

    if (reading->outcome == CA_CONSTRAINT_FAILED)
        return;
    if (reading->outcome == CA_CORRECT) {
        note_success(run);
        return;
    }
    run->failure = failures[reading->outcome].status;
    failed.what = failures[reading->outcome].what;
    ca_reason(failed.how, sizeof failed.how, "%s", reading->reason);
    if (failed.what == CA_QUARANTINE_CRASH || failed.what == CA_QUARANTINE_HANG)
        keep_suspect(run, &failed);
    else if (failed.what != CA_NUM_QUARANTINES)
        ban(run, &failed);
}

/* ---- trying candidates ----------------------------------------------------------------------- */

/* The run's measurer calls the one that it was given, retries failures that may pass, and records
 * outcomes. */
static void announce(void *user, const struct ca_candidate *candidates, size_t count)
{
    const struct ca_run *run = user;

    run->within.announce(run->within.user, candidates, count);
}

static void build(void *user, const struct ca_candidate *candidate, struct ca_reading *reading)
{
    struct ca_run *run = user;
    const struct ca_measurer *m = &run->within;

    m->build(m->user, candidate, reading);
    if (reading->outcome == CA_RUNTIME_FAILED)
        m->build(m->user, candidate, reading);
    ca_run_note(run, 0, candidate, reading);
}

/* The store's time of the candidate is replaced, so it gets several readings, however slow it is.
 * */
static bool is_stored(const struct ca_run *run, size_t problem,
                      const struct ca_candidate *candidate)
{
    const struct ca_seeds *seeds = run->seeds ? &run->seeds[problem] : NULL;

    for (size_t n = 0; seeds && n < seeds->count; n++) {
        struct ca_candidate seed;
        if (seeds->is_stored[n] && ca_tune_candidate(run->space, seeds->configs[n], &seed) &&
            ca_candidates_equal(&seed, candidate))
            return true;
    }
    return false;
}

static void measure(void *user, size_t problem, const struct ca_candidate *candidate, double best,
                    struct ca_reading *reading)
{
    struct ca_run *run = user;
    const struct ca_measurer *m = &run->within;

    best = is_stored(run, problem, candidate) ? 0.0 : best;
    m->measure(m->user, problem, candidate, best, reading);
    if (reading->outcome == CA_RUNTIME_FAILED)
        m->measure(m->user, problem, candidate, best, reading);
    ca_run_note(run, problem, candidate, reading);
}

/* A candidate that failed in a round of several is measured once more, alone. */
static void race_again(struct ca_run *run, size_t problem, const struct ca_candidate *candidate,
                       double *seconds)
{
    const struct ca_measurer *m = &run->within;
    struct ca_reading reading = {.outcome = CA_RUNTIME_FAILED, .reason = "in a race"};

    m->round(m->user, problem, candidate, 1, seconds);
    if (*seconds != INFINITY)
        return;
    if (m->failure)
        reading.outcome = m->failure(m->user);
    ca_run_note(run, problem, candidate, &reading);
}

static void take_round(void *user, size_t problem, const struct ca_candidate *candidates,
                       size_t count, double *seconds)
{
    struct ca_run *run = user;

    run->within.round(run->within.user, problem, candidates, count, seconds);
    for (size_t n = 0; n < count; n++) {
        if (seconds[n] == INFINITY)
            race_again(run, problem, &candidates[n], &seconds[n]);
        if (isfinite(seconds[n]))
            note_success(run);
    }
}

static void end(void *user)
{
    const struct ca_run *run = user;

    if (run->within.close)
        run->within.close(run->within.user);
}

void ca_run_decorate(struct ca_run *run)
{
    run->measurer = (struct ca_measurer){.user = run,
                                         .announce = run->within.announce ? announce : NULL,
                                         .build = build,
                                         .measure = measure,
                                         .round = take_round,
                                         .close = end,
                                         .batch = run->within.batch};
}

const struct ca_candidate *ca_run_candidates(void *user, const size_t *configs, size_t count)
{
    struct ca_run *run = user;

    for (size_t n = 0; n < count; n++)
        ca_tune_candidate(run->space, configs[n], &run->candidates[n]);
    return run->candidates;
}

/* ---- events ---------------------------------------------------------------------------------- */

double ca_run_clock(void *user)
{
    (void)user;
    return ca_stopwatch_now();
}

bool ca_run_allows(void *user, size_t problem, size_t config)
{
    const struct ca_run *run = user;
    struct ca_candidate candidate;

    return ca_tune_candidate(run->space, config, &candidate) &&
           ca_tune_fits(&candidate, &run->group->problems[problem], &run->tuning->ctx->device);
}

bool ca_run_tell(struct ca_run *run, const struct ca_session_event *event,
                 const struct ca_candidate *candidate)
{
    struct ca_tuning *tuning = run->tuning;
    char class[CA_CLASS_TEXT], text[CA_CANDIDATE_TEXT];
    const int failed = event->reading && event->reading->outcome != CA_CORRECT;

    ca_problem_class(&run->group->problems[event->problem].normal, class);
    ca_candidate_print(candidate, text);
    tuning->evaluations = run->before + event->evaluations;
    const clattn_tuning_progress progress = {
        .struct_size = sizeof progress,
        .phase = ca_phase_name(event->phase),
        .problem_class = class,
        .problem = run->group->index[event->problem],
        .num_problems = tuning->num_problems,
        .evaluations = tuning->evaluations,
        .seconds = ca_stopwatch_now() - tuning->begin,
        .seconds_left = event->seconds_left + run->group->later_seconds,
        .configuration = text,
        .failure = failed ? event->reading->reason : NULL,
        .best = event->best,
        .untuned = event->incumbent,
    };
    if (tuning->options->observer &&
        tuning->options->observer(&progress, tuning->options->user_data))
        tuning->ended = 1;
    const struct ca_tune_event told = {&progress, candidate, event->reading};
    if (tuning->hooks->event && !tuning->hooks->event(tuning->hooks->user, &told))
        tuning->ended = 1;
    return !tuning->ended;
}

bool ca_run_event(void *user, const struct ca_session_event *event)
{
    struct ca_run *run = user;
    struct ca_candidate candidate;

    struct ca_seeds *seeds = &run->seeds[event->problem];

    for (size_t n = 0; event->reading && n < seeds->count; n++)
        if (seeds->configs[n] == event->config)
            seeds->readings[n] = *event->reading;
    ca_tune_candidate(run->space, event->config, &candidate);
    return ca_run_tell(run, event, &candidate);
}
