/* SPDX-License-Identifier: Apache-2.0 */
#include "search/session_state.h"

#include <math.h>
#include <stdlib.h>

bool ca_session_allows(const struct ca_task *task, size_t config)
{
    const struct ca_session_problem *problem = task->problem;

    return config < task->session->space->count &&
           (!problem->allows || problem->allows(task->session->options->user, task->index, config));
}

const struct ca_candidate *ca_session_candidates(const struct ca_session *session,
                                                 const size_t *configs, size_t count)
{
    return session->options->candidates(session->options->user, configs, count);
}

const struct ca_trial *ca_session_trial(const struct ca_task *task, size_t config)
{
    for (size_t n = 0; n < task->num_trials; n++)
        if (task->trials[n].config == config)
            return &task->trials[n];
    return NULL;
}

static const struct ca_built *find_built(const struct ca_session *session, size_t config)
{
    for (size_t n = 0; n < session->num_built; n++)
        if (session->built[n].config == config)
            return &session->built[n];
    return NULL;
}

bool ca_session_is_built(const struct ca_session *session, size_t config)
{
    const struct ca_built *built = find_built(session, config);

    return built && built->reading.outcome == CA_CORRECT;
}

/* The task's trial of the same program under another configuration; NULL if there is none. */
static const struct ca_trial *find_twin(const struct ca_task *task, uint64_t binary)
{
    for (size_t n = 0; binary != 0 && n < task->num_trials; n++)
        if (task->trials[n].reading.binary == binary)
            return &task->trials[n];
    return NULL;
}

static double fastest(const struct ca_reading *reading)
{
    double least = INFINITY;

    for (size_t n = 0; reading->outcome == CA_CORRECT && n < reading->num_times; n++)
        least = fmin(least, reading->times[n]);
    return least > 0.0 ? least : INFINITY;
}

void ca_session_record(struct ca_task *task, size_t config, const struct ca_reading *reading)
{
    if (task->num_trials == task->capacity) {
        const size_t capacity = 2 * task->capacity + 16;
        struct ca_trial *trials = realloc(task->trials, capacity * sizeof *trials);
        if (!trials) {
            task->session->failed = true;
            return;
        }
        task->trials = trials;
        task->capacity = capacity;
    }
    struct ca_trial *trial = &task->trials[task->num_trials++];
    trial->config = config;
    trial->time = fastest(reading);
    trial->reading = *reading;
    ca_search_report(task->search, config, trial->time);
}

void ca_session_tell(struct ca_task *task, size_t config, const struct ca_reading *reading)
{
    struct ca_session *session = task->session;
    const size_t best = ca_search_best(task->search);
    const double incumbent =
        task->incumbent == CA_NO_CONFIG ? NAN : ca_search_time(task->search, task->incumbent);
    const struct ca_session_event event = {
        .phase = session->phase,
        .problem = task->index,
        .config = config,
        .reading = reading,
        .evaluations = session->evaluations,
        .seconds = ca_session_seconds(session),
        .seconds_left = ca_session_seconds_left(session),
        .best = best == CA_NO_CONFIG ? 0.0 : ca_search_time(task->search, best),
        .incumbent = incumbent < INFINITY ? incumbent : 0.0,
    };

    if (!session->options->event || session->options->event(session->options->user, &event))
        return;
    session->cut = session->ended;
    session->ended = true;
}

static const struct ca_built *build(struct ca_session *session, size_t config)
{
    if (session->num_built == session->capacity) {
        const size_t capacity = 2 * session->capacity + 16;
        struct ca_built *more = realloc(session->built, capacity * sizeof *more);
        if (!more) {
            session->failed = true;
            return NULL;
        }
        session->built = more;
        session->capacity = capacity;
    }
    struct ca_built *built = &session->built[session->num_built++];
    *built = (struct ca_built){.config = config};
    session->measurer->build(session->measurer->user, ca_session_candidates(session, &config, 1),
                             &built->reading);
    return built;
}

static void measure(struct ca_task *task, const struct ca_built *built, struct ca_reading *reading)
{
    const struct ca_session *session = task->session;
    const struct ca_measurer *m = session->measurer;
    const size_t best = ca_search_best(task->search);
    const double begin = ca_session_seconds(session);

    m->measure(m->user, task->index, ca_session_candidates(session, &built->config, 1),
               best == CA_NO_CONFIG ? 0.0 : ca_search_time(task->search, best), reading);
    reading->binary = built->reading.binary;
    reading->compile_seconds = built->reading.compile_seconds;
    task->measure_seconds = fmin(task->measure_seconds, ca_session_seconds(session) - begin);
}

/* A configuration that takes over so many times the best time of the problem that had it built is not measured for the other
 * problems, which have the same program. They may still ask for it. */
static const double HOPELESS = 2.5;

/* Returns whether measuring for a problem that did not request the configuration would take longer
 * than building one. The time is estimated from other configurations, and from how slow this one
 * was for the problem that requested it. */
static bool costs_more_than_building(const struct ca_task *task, const struct ca_task *asker,
                                     size_t config)
{
    const struct ca_session *session = task->session;
    const size_t best = ca_search_best(asker->search);

    if (!ca_session_is_timed(session) || task->measure_seconds == INFINITY)
        return false;
    const double slowdown = best == CA_NO_CONFIG ? INFINITY
                                                 : ca_search_time(asker->search, config) /
                                                       ca_search_time(asker->search, best);
    return slowdown > HOPELESS ||
           task->measure_seconds * slowdown > session->build_seconds / (double)session->tries;
}

/* Tries a built configuration on one task. */
static void try_on(struct ca_task *task, const struct ca_built *built)
{
    const struct ca_trial *twin = find_twin(task, built->reading.binary);
    struct ca_reading reading = built->reading;

    if (reading.outcome == CA_CORRECT && twin) {
        reading = twin->reading;
        reading.compile_seconds = built->reading.compile_seconds;
    } else if (reading.outcome == CA_CORRECT) {
        measure(task, built, &reading);
    }
    ca_session_record(task, built->config, &reading);
    ca_session_tell(task, built->config, &reading);
}

void ca_session_try(struct ca_task *asker, size_t config)
{
    struct ca_session *session = asker->session;
    const struct ca_built *built = find_built(session, config);
    const double begin = ca_session_seconds(session);

    if (!built) {
        bool known = false; /* reported earlier for another problem */
        for (size_t t = 0; t < session->num_tasks; t++)
            known |= ca_session_trial(&session->tasks[t], config) != NULL;
        built = build(session, config);
        if (!built)
            return;
        session->build_seconds += ca_session_seconds(session) - begin;
        session->evaluations += !known;
        session->tries++;
    }
    const bool correct = built->reading.outcome == CA_CORRECT;
    try_on(asker, built);
    for (size_t t = 0; t < session->num_tasks; t++) {
        struct ca_task *task = &session->tasks[t];
        if (session->ended || session->failed)
            return;
        if (ca_session_trial(task, config) || !ca_session_allows(task, config))
            continue;
        if (!correct || find_twin(task, built->reading.binary) ||
            !costs_more_than_building(task, asker, config))
            try_on(task, built);
    }
}

bool ca_session_rebuild(struct ca_task *task, size_t config)
{
    const struct ca_built *built = find_built(task->session, config);

    if (!built) {
        built = build(task->session, config);
        if (!built)
            return false;
        ca_session_tell(task, config,
                        built->reading.outcome == CA_CORRECT ? NULL : &built->reading);
    }
    return built->reading.outcome == CA_CORRECT;
}
