/* SPDX-License-Identifier: Apache-2.0 */
#include "search/model.h"
#include "search/session_state.h"

#include <math.h>
#include <stdlib.h>

/* The last part of the search that may be spent on the incumbents' neighbourhoods. Like the number
 * of seeds among which one is probably so good that a guided search should first descend from it,
 * measured by replay of recorded spaces as sessions of one to four problems; neither is sharp. */
static const double FINISH_SHARE = 0.1;
enum { GOOD_SEEDS = 3 };

enum { CONFIDENCE_TRIALS = 8 };

const char *ca_phase_name(enum ca_phase phase)
{
    static const char *const names[CA_NUM_PHASES] = {"seeds", "search", "finish", "race"};

    return names[phase];
}

static bool is_known(const struct ca_task *task, size_t config)
{
    const double time = ca_search_time(task->search, config);

    return time == time;
}

static bool begin(struct ca_session *session, const struct ca_session_problem *problems)
{
    const struct ca_session_options *options = session->options;

    session->random.state = options->seed;
    session->start = options->clock ? options->clock(options->user) : 0.0;
    session->tasks = calloc(session->num_tasks + 1, sizeof *session->tasks);
    for (size_t t = 0; session->tasks && t < session->num_tasks; t++) {
        struct ca_task *task = &session->tasks[t];
        *task = (struct ca_task){
            .session = session,
            .problem = &problems[t],
            .index = t,
            .incumbent = problems[t].num_seeds > 0 ? problems[t].seeds[0] : CA_NO_CONFIG,
            .measure_seconds = INFINITY,
        };
        const struct ca_search_options search = {
            .strategy = options->strategy,
            .seed = options->seed + t,
            .first = task->problem->seeds,
            .num_first = problems[t].num_seeds < GOOD_SEEDS ? 0 : problems[t].num_seeds,
        };
        task->search = ca_search_create(session->space, &search);
        if (!task->search)
            return false;
    }
    return session->tasks != NULL;
}

static void end(struct ca_session *session)
{
    for (size_t t = 0; session->tasks && t < session->num_tasks; t++) {
        ca_search_destroy(session->tasks[t].search);
        free(session->tasks[t].trials);
    }
    free(session->tasks);
    free(session->built);
}

static void recall(struct ca_session *session)
{
    for (size_t n = 0; n < session->options->num_known; n++) {
        const struct ca_known *known = &session->options->known[n];
        bool again = false;
        if (known->problem >= session->num_tasks || known->config >= session->space->count)
            continue;
        for (size_t t = 0; t < session->num_tasks; t++)
            again |= ca_session_trial(&session->tasks[t], known->config) != NULL;
        session->evaluations += !again;
        if (!ca_session_trial(&session->tasks[known->problem], known->config))
            ca_session_record(&session->tasks[known->problem], known->config, &known->reading);
    }
}

/* Returns whether building it is worthwhile for this task. A configuration that the problem does
 * not allow counts as failed. */
static bool is_wanted(struct ca_task *task, size_t config)
{
    if (is_known(task, config))
        return false;
    if (ca_session_allows(task, config))
        return true;
    ca_search_report(task->search, config, INFINITY);
    return false;
}

static void announce(const struct ca_session *session, const size_t *configs, size_t count)
{
    const struct ca_measurer *m = session->measurer;

    if (m->announce && count > 0)
        m->announce(m->user, ca_session_candidates(session, configs, count), count);
}

/* The seeds in the order in which they are tried. False without memory. */
static bool announce_seeds(struct ca_session *session)
{
    size_t *configs = malloc((session->num_tasks * CA_SESSION_SEEDS + 1) * sizeof *configs);
    size_t count = 0;

    for (size_t turn = 0; configs && turn < CA_SESSION_SEEDS; turn++) {
        for (size_t t = 0; t < session->num_tasks; t++) {
            struct ca_task *task = &session->tasks[t];
            size_t n = 0;
            if (turn >= task->problem->num_seeds || !is_wanted(task, task->problem->seeds[turn]))
                continue;
            while (n < count && configs[n] != task->problem->seeds[turn])
                n++;
            configs[n] = task->problem->seeds[turn];
            count += n == count;
        }
    }
    if (configs)
        announce(session, configs, count < CA_SESSION_MOST ? count : CA_SESSION_MOST);
    free(configs);
    return configs != NULL;
}

static void measure_noise(struct ca_session *session)
{
    for (size_t t = 0; t < session->num_tasks; t++)
        ca_session_measure_noise(&session->tasks[t]);
}

static void try_seeds(struct ca_session *session)
{
    for (size_t turn = 0; turn < CA_SESSION_SEEDS; turn++) {
        for (size_t t = 0; t < session->num_tasks; t++) {
            struct ca_task *task = &session->tasks[t];
            if (turn < task->problem->num_seeds && ca_session_may_try(session) &&
                is_wanted(task, task->problem->seeds[turn]))
                ca_session_try(task, task->problem->seeds[turn]);
        }
        if (turn == 0)
            measure_noise(session);
    }
    measure_noise(session); /* if the incumbent failed: the noise of the best so far */
}

/* True once the remaining budget suffices only for the incumbents' neighbours. */
static bool is_finish(struct ca_session *session)
{
    const double left = ca_session_tries_left(session);
    size_t neighbours = 0, promising;

    if (session->options->strategy != CA_GUIDED ||
        left > FINISH_SHARE * (left + (double)session->evaluations))
        return false;
    for (size_t t = 0; t < session->num_tasks; t++)
        neighbours += ca_search_neighbours(session->tasks[t].search, &promising, 1);
    return left <= (double)neighbours;
}

/* The configuration that the task wants to try next; CA_NO_CONFIG for none. */
static size_t choose(struct ca_task *task)
{
    const bool finish = task->session->phase == CA_PHASE_FINISH;
    size_t config;

    while ((finish && ca_search_neighbours(task->search, &config, 1) > 0) ||
           ca_search_suggest(task->search, &config))
        if (is_wanted(task, config))
            return config;
    return CA_NO_CONFIG;
}

/* Configurations that are chosen before the first of them is tried. */
struct batch {
    struct ca_task *askers[CA_SESSION_BATCH];
    size_t configs[CA_SESSION_BATCH], count;
    size_t turn; /* index of the task whose turn it is */
    size_t idle; /* tasks in a row that have nothing to try */
};

static size_t batch_size(const struct ca_session *session)
{
    const double left = ca_session_tries_left(session);
    const size_t most =
        session->measurer->batch < CA_SESSION_BATCH ? session->measurer->batch : CA_SESSION_BATCH;

    return left < (double)most ? (size_t)fmax(left, 1.0) : most > 0 ? most : 1;
}

static bool is_in(const struct batch *batch, size_t config)
{
    for (size_t n = 0; n < batch->count; n++)
        if (batch->configs[n] == config)
            return true;
    return false;
}

/* The tasks take turns. Several choices at once: each is believed to come out as its task's model
 * says until it is tried; where that cannot be, a task has one. */
static void draw(struct ca_session *session, struct batch *batch)
{
    const size_t size = batch_size(session);

    batch->count = 0;
    while (batch->count < size && batch->idle < session->num_tasks) {
        struct ca_task *task = &session->tasks[batch->turn++ % session->num_tasks];
        if (session->phase == CA_PHASE_SEARCH && is_finish(session))
            session->phase = CA_PHASE_FINISH;
        const size_t config = choose(task);
        batch->idle = config == CA_NO_CONFIG ? batch->idle + 1 : 0;
        if (config == CA_NO_CONFIG)
            continue;
        const bool believed = size > 1 && ca_search_believe(task->search, config);
        if (!is_in(batch, config)) {
            batch->askers[batch->count] = task;
            batch->configs[batch->count++] = config;
        } else if (!believed) {
            break;
        }
        if (!believed && batch->count >= session->num_tasks)
            break;
    }
}

static void search(struct ca_session *session)
{
    struct batch batch = {.count = 0};

    session->phase = CA_PHASE_SEARCH;
    while (batch.idle < session->num_tasks && ca_session_may_try(session)) {
        draw(session, &batch);
        if (batch.count > 1)
            announce(session, batch.configs, batch.count);
        for (size_t n = 0; n < batch.count && (n == 0 || ca_session_may_try(session)); n++)
            /* unless another task has had it tried already */
            if (!ca_session_trial(batch.askers[n], batch.configs[n]))
                ca_session_try(batch.askers[n], batch.configs[n]);
        for (size_t t = 0; t < session->num_tasks; t++)
            ca_search_disbelieve(session->tasks[t].search);
    }
}

/* Returns whether the confidence is computed. A few trials say nothing about the rest, and with
 * many a model of the whole space takes seconds. */
static bool has_confidence(const struct ca_session *session, struct ca_task *task,
                           struct ca_confidence *confidence)
{
    const double trials = (double)task->num_trials;
    const double made = session->options->strategy == CA_GUIDED ? 1.0 : trials;
    const double pool = fmin((double)session->space->count, CA_MODEL_POOL);

    return (task->num_trials >= CONFIDENCE_TRIALS || task->num_trials == session->space->count) &&
           made * trials * pool < 5e8 && ca_search_confidence(task->search, confidence);
}

bool ca_session_run(const struct ca_space *space, const struct ca_measurer *measurer,
                    const struct ca_session_problem *problems, size_t num_problems,
                    const struct ca_session_options *options, struct ca_session_result *results)
{
    struct ca_session session = {
        .space = space, .measurer = measurer, .options = options, .num_tasks = num_problems};

    for (size_t t = 0; t < num_problems; t++)
        results[t] = (struct ca_session_result){.num_top = 0};
    if (!begin(&session, problems)) {
        end(&session);
        return false;
    }
    recall(&session);
    session.failed |= !announce_seeds(&session);
    try_seeds(&session);
    search(&session);
    session.phase = CA_PHASE_RACE;
    for (; session.num_decided < num_problems && !session.failed; session.num_decided++) {
        struct ca_task *task = &session.tasks[session.num_decided];
        struct ca_session_result *result = &results[session.num_decided];
        ca_session_decide(task, result);
        result->has_confidence = has_confidence(&session, task, &result->confidence);
    }
    end(&session);
    return !session.failed;
}
