/* SPDX-License-Identifier: Apache-2.0 */
#include "search/session_race.h"

#include <math.h>
#include <string.h>

/* A finalist may have looked slower than the fastest by this part. */
static const double FINALIST_MARGIN = 0.15;

/* Without a race, what is not faster by this (or by twice the noise) ties with the incumbent. */
static const double UNRACED_MARGIN = 0.02;

/* Part of a time budget spent on measuring the noise of all problems. */
static const double NOISE_SHARE = 0.03;

/* The rounds that a race should have time for; fewer configurations take part if it has not. */
static const double WANTED_ROUNDS = 8.0;

/* The number of rounds for finalists that are slower by more than FAR or alone, and for the others.
 * Both are guesses. */
static const double FAR = 0.04, FAR_ROUNDS = 7.0, CLOSE_ROUNDS = 20.0;

/* Trials in the order in which they come in the result. */
struct ranking {
    const struct ca_trial *trials[CA_FINALISTS + CA_TOP];
    size_t count;
};

static bool is_ranked(const struct ranking *ranking, const struct ca_trial *trial)
{
    for (size_t n = 0; n < ranking->count; n++) {
        const struct ca_trial *other = ranking->trials[n];
        if (other == trial ||
            (other->reading.binary != 0 && other->reading.binary == trial->reading.binary))
            return true;
    }
    return false;
}

/* The fastest trial that is not ranked yet and whose program is not that of a ranked one; NULL if there is none. */
static const struct ca_trial *next_best(const struct ca_task *task, const struct ranking *ranking)
{
    const struct ca_trial *best = NULL;

    for (size_t n = 0; n < task->num_trials; n++) {
        const struct ca_trial *trial = &task->trials[n];
        if (trial->time < (best ? best->time : INFINITY) && !is_ranked(ranking, trial))
            best = trial;
    }
    return best;
}

static const struct ca_trial *fastest(const struct ca_task *task)
{
    const struct ranking none = {.count = 0};

    return next_best(task, &none);
}

/* Returns NULL if there is none that worked. */
static const struct ca_trial *incumbent_trial(const struct ca_task *task)
{
    const struct ca_trial *trial = ca_session_trial(task, task->incumbent);

    return trial && trial->time < INFINITY ? trial : NULL;
}

void ca_session_measure_noise(struct ca_task *task)
{
    struct ca_session *session = task->session;
    const struct ca_trial *trial = incumbent_trial(task);
    const double begin = ca_session_seconds(session);
    const double share = NOISE_SHARE * session->options->max_seconds / (double)session->num_tasks;

    if (!trial)
        trial = fastest(task);
    if (task->has_noise || session->ended || !trial || !ca_session_rebuild(task, trial->config))
        return;
    ca_race_noise(task, trial, ca_session_is_timed(session) ? begin + share : INFINITY);
    session->noise_seconds += ca_session_seconds(session) - begin;
}

/* The incumbent, then the fastest ones. */
static struct ranking choose_finalists(const struct ca_task *task, size_t most)
{
    const struct ca_trial *trial = incumbent_trial(task);
    struct ranking ranking = {.count = 0};
    const struct ca_trial *best = next_best(task, &ranking);

    if (trial)
        ranking.trials[ranking.count++] = trial;
    while (ranking.count < most) {
        trial = next_best(task, &ranking);
        if (!trial || trial->time > best->time * (1.0 + FINALIST_MARGIN))
            break;
        ranking.trials[ranking.count++] = trial;
    }
    return ranking;
}

double ca_session_race_readings(const struct ca_task *task)
{
    const struct ranking finalists = choose_finalists(task, CA_FINALISTS);
    const struct ca_trial *best = fastest(task);
    double readings = 0.0;

    if (finalists.count == 1)
        return FAR_ROUNDS;
    for (size_t n = 0; n < finalists.count; n++) {
        const struct ca_trial *trial = finalists.trials[n];
        const double gap = trial->time / best->time - 1.0;
        readings += gap > FAR ? FAR_ROUNDS : CLOSE_ROUNDS;
        if (trial->config == task->incumbent && gap > 0.0 && gap <= FAR)
            readings += 2.0 * CLOSE_ROUNDS; /* the incumbent also meets the leader alone */
    }
    return readings;
}

/* Returns how many finalists can be raced until then. */
static size_t room(const struct ca_task *task, double end)
{
    const double left = 0.5 * (end - ca_session_seconds(task->session));

    if (!(left < CA_FINALISTS * WANTED_ROUNDS * task->round_seconds))
        return CA_FINALISTS;
    const double most = left / (WANTED_ROUNDS * task->round_seconds);
    return most > 2.0 ? (size_t)most : 2;
}

static const struct ca_entrant *find_entrant(const struct ca_race *race,
                                             const struct ca_trial *trial)
{
    for (size_t n = 0; n < race->count; n++)
        if (race->entrants[n].trial == trial)
            return &race->entrants[n];
    return NULL;
}

/* Rejects a trial that has failed in a race, and other configurations with the same program. */
static void reject(struct ca_task *task, const struct ca_trial *failed)
{
    const struct ranking alone = {.trials = {failed}, .count = 1};

    for (size_t n = 0; n < task->num_trials; n++)
        if (is_ranked(&alone, &task->trials[n]))
            task->trials[n].time = INFINITY;
}

/* Enters those finalists in a race that are built or can be built, in at most half of the time. If the fastest cannot be
 * entered, there is no race. */
static void admit(struct ca_task *task, const struct ranking *finalists, double end,
                  struct ca_race *race)
{
    struct ca_session *session = task->session;
    const double begin = ca_session_seconds(session);

    for (size_t n = 0; n < finalists->count && !session->failed; n++) {
        const struct ca_trial *trial = finalists->trials[n];
        if (!ca_session_is_built(session, trial->config)) {
            if (session->ended || ca_session_seconds(session) > begin + 0.5 * (end - begin))
                continue;
            if (!ca_session_rebuild(task, trial->config)) {
                reject(task, trial);
                continue;
            }
        }
        struct ca_entrant *entrant = ca_race_enter(race, trial);
        if (trial->config == task->incumbent)
            race->incumbent = entrant;
    }
    if (!find_entrant(race, fastest(task)))
        race->count = 0;
}

/* The winner, then the others of the race by their ratio to the leader. An incumbent that is slow
 * comes among those that were not raced. */
static void rank_raced(const struct ca_race *race, double noise, struct ranking *ranking)
{
    const struct ca_entrant *next = ca_race_winner(race, noise);

    while (next) {
        double least = 1.0 + FINALIST_MARGIN;
        ranking->trials[ranking->count++] = next->trial;
        next = NULL;
        for (size_t n = 0; n < race->count; n++) {
            const struct ca_entrant *entrant = &race->entrants[n];
            if (entrant->failed || is_ranked(ranking, entrant->trial))
                continue;
            const double ratio = ca_race_ratio(entrant, race->leader).middle;
            if (ratio < least) {
                least = ratio;
                next = entrant;
            }
        }
    }
}

/* The fastest, or the incumbent if that ties with it; but what ties with the fastest and builds faster
 * comes first. */
static void rank_unraced(const struct ca_task *task, struct ranking *ranking)
{
    const struct ca_trial *best = next_best(task, ranking), *winner = incumbent_trial(task);

    if (!best)
        return;
    const double most = best->time * (1.0 + fmax(UNRACED_MARGIN, 2.0 * task->noise));
    if (!winner || winner->time > most)
        winner = best;
    for (size_t n = 0; n < task->num_trials; n++)
        if (task->trials[n].time <= best->time * (1.0 + CA_BUILD_WORTH) &&
            ca_builds_faster(&task->trials[n], winner))
            winner = &task->trials[n];
    ranking->trials[ranking->count++] = winner;
}

/* The ratio to the incumbent, from readings that were not taken together. */
static struct ca_interval unpaired_ratio(const struct ca_task *task, const struct ca_trial *trial)
{
    const struct ca_trial *incumbent = incumbent_trial(task);

    if (!incumbent || incumbent == trial)
        return (struct ca_interval){1.0, 1.0, 1.0};
    const struct ca_interval a = ca_median(trial->reading.times, trial->reading.num_times);
    const struct ca_interval b = ca_median(incumbent->reading.times, incumbent->reading.num_times);
    return (struct ca_interval){a.middle / b.middle, a.low / b.high, a.high / b.low};
}

static struct ca_finalist describe(const struct ca_task *task, const struct ca_race *race,
                                   const struct ca_trial *trial)
{
    const struct ca_entrant *entrant = find_entrant(race, trial);
    const bool raced = ca_race_decided(race) && entrant;
    const double *times = raced ? entrant->times : trial->reading.times;
    struct ca_finalist finalist = {
        .config = trial->config,
        .num_times = raced ? entrant->num_times : trial->reading.num_times,
        .error = trial->reading.error,
        .compile_seconds = trial->reading.compile_seconds,
    };

    memcpy(finalist.times, times, finalist.num_times * sizeof *times);
    finalist.seconds = ca_median(times, finalist.num_times);
    if (raced && race->incumbent && !race->incumbent->failed)
        finalist.ratio = ca_race_ratio_to_incumbent(race, entrant);
    else
        finalist.ratio = unpaired_ratio(task, trial);
    return finalist;
}

/* Returns whether the budget was spent before the incumbent was tried. Then the trials of this
 * problem are of programs that were built for others, and may all be far slower than it. */
static bool lacks_incumbent(const struct ca_task *task)
{
    return task->incumbent != CA_NO_CONFIG && ca_session_allows(task, task->incumbent) &&
           !ca_session_trial(task, task->incumbent);
}

void ca_session_decide(struct ca_task *task, struct ca_session_result *result)
{
    const double end = ca_session_race_end(task->session);
    struct ranking finalists, ranking = {.count = 0};
    struct ca_race race = {.count = 0};

    if (lacks_incumbent(task)) {
        *result = (struct ca_session_result){.too_early = true, .evaluations = task->num_trials};
        return;
    }
    task->session->race_left = ca_session_race_readings(task) * task->round_seconds;
    ca_session_measure_noise(task);
    finalists = choose_finalists(task, room(task, end));
    admit(task, &finalists, end, &race);
    ca_race_run(task, &race, end);
    for (size_t n = 0; n < race.count; n++)
        if (race.entrants[n].failed)
            reject(task, race.entrants[n].trial);
    if (ca_race_decided(&race))
        rank_raced(&race, task->noise, &ranking);
    else
        rank_unraced(task, &ranking);
    while (ranking.count < CA_TOP) {
        const struct ca_trial *trial = next_best(task, &ranking);
        if (!trial)
            break;
        ranking.trials[ranking.count++] = trial;
    }
    *result = (struct ca_session_result){
        .num_top = ranking.count < CA_TOP ? ranking.count : CA_TOP,
        .evaluations = task->num_trials,
        .noise = task->noise,
        .raced = ca_race_decided(&race),
    };
    for (size_t n = 0; n < result->num_top; n++)
        result->top[n] = describe(task, &race, ranking.trials[n]);
}
