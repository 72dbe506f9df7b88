/* SPDX-License-Identifier: Apache-2.0 */
#include "search/session_race.h"

#include <math.h>

/* Intervals are 95 % from MIN_ROUNDS on; with less than FEWEST nothing is decided. */
enum {
    FEWEST = 3,
    MIN_ROUNDS = 6,
    BRIEF_ROUNDS = 8,
    SETTLED_ROUNDS = 12,
    NOISE_ROUNDS = 16,
    MAX_ROUNDS = CA_READING_TIMES / 2 /* most rounds of the race, and of the duel */
};

/* Smaller differences of time are ignored. */
static const double NEGLIGIBLE = 0.005;

/* The incumbent stays for the duel unless it is surely slower by this. */
static const double HOPELESS = 0.03;

/* A configuration that builds in less than this part of another's time counts as faster to
 * build. Builds are timed once, beside others. */
static const double BUILDS_FASTER = 0.8;

/* The race's part of the time; the rest is for the duel. */
static const double RACE_PART = 0.65;

struct ca_entrant *ca_race_enter(struct ca_race *race, const struct ca_trial *trial)
{
    struct ca_entrant *entrant = &race->entrants[race->count++];

    entrant->trial = trial;
    return entrant;
}

struct ca_interval ca_race_ratio(const struct ca_entrant *a, const struct ca_entrant *b)
{
    const size_t count = a->num_times < b->num_times ? a->num_times : b->num_times;

    return ca_paired_ratio(a->times, b->times, count);
}

static size_t num_left(const struct ca_race *race)
{
    size_t count = 0;

    for (size_t n = 0; n < race->count; n++)
        count += !race->entrants[n].out;
    return count;
}

/* Returns the fastest that is left; NULL if there is none. Among equals it is the first. */
static struct ca_entrant *find_leader(struct ca_race *race)
{
    struct ca_entrant *leader = NULL;

    for (size_t n = 0; n < race->count; n++) {
        struct ca_entrant *entrant = &race->entrants[n];
        if (!entrant->out && (!leader || ca_race_ratio(entrant, leader).middle < 1.0))
            leader = entrant;
    }
    return leader;
}

/* Removes entrants that are surely slower. Returns whether no remaining one may be notably faster.
 * An entrant that never met another needs only the rounds for its own time's interval. */
static bool judge(struct ca_race *race)
{
    bool settled = race->rounds >= (race->count > 1 ? SETTLED_ROUNDS : MIN_ROUNDS);

    race->leader = find_leader(race);
    for (size_t n = 0; race->leader && n < race->count; n++) {
        struct ca_entrant *entrant = &race->entrants[n];
        if (entrant->out || entrant == race->leader)
            continue;
        const struct ca_interval ratio = ca_race_ratio(entrant, race->leader);
        const double limit = entrant == race->incumbent ? 1.0 + HOPELESS : 1.0;
        entrant->out = race->rounds >= MIN_ROUNDS && ratio.low > limit;
        settled &= ratio.low > 1.0 - NEGLIGIBLE;
    }
    return settled || !race->leader;
}

/* Times each entrant that is left, in a random order. */
static void run_round(struct ca_task *task, struct ca_race *race)
{
    struct ca_session *session = task->session;
    const struct ca_measurer *m = session->measurer;
    size_t order[CA_FINALISTS], configs[CA_FINALISTS], count = 0;
    double times[CA_FINALISTS];

    for (size_t n = 0; n < race->count; n++)
        if (!race->entrants[n].out)
            order[count++] = n;
    ca_random_shuffle(&session->random, order, count);
    for (size_t n = 0; n < count; n++)
        configs[n] = race->entrants[order[n]].trial->config;
    const double begin = ca_session_seconds(session);
    m->round(m->user, task->index, ca_session_candidates(session, configs, count), count, times);
    const double each = (ca_session_seconds(session) - begin) / (double)count;
    task->round_seconds = task->round_seconds > 0.0 ? 0.5 * (task->round_seconds + each) : each;
    for (size_t n = 0; n < count; n++) {
        struct ca_entrant *entrant = &race->entrants[order[n]];
        entrant->failed = !(times[n] > 0.0 && times[n] < INFINITY);
        entrant->out = entrant->failed;
        if (!entrant->failed)
            entrant->times[entrant->num_times++] = times[n];
    }
    race->rounds++;
}

/* Runs one more round if the time and the event hook allow it. */
static bool go_on(struct ca_task *task, struct ca_race *race, double end)
{
    struct ca_session *session = task->session;
    const size_t count = num_left(race);

    if (count == 0 || session->cut || (session->ended && race->rounds >= BRIEF_ROUNDS) ||
        ca_session_seconds(session) + task->round_seconds * (double)count > end)
        return false;
    run_round(task, race);
    return true;
}

static void tell(struct ca_task *task, const struct ca_race *race, size_t rounds_left)
{
    const struct ca_entrant *shown = race->leader ? race->leader : race->entrants;

    task->session->race_left = task->round_seconds * (double)(rounds_left * num_left(race));
    ca_session_tell(task, shown->trial->config, NULL);
}

/* The fastest of many is partly so by luck. So leader and incumbent are timed again, alone, and
 * only these rounds count. */
static void duel(struct ca_task *task, struct ca_race *race, double end)
{
    struct ca_entrant *leader = race->leader;

    race->duel = race->rounds;
    for (size_t n = 0; n < race->count; n++) {
        struct ca_entrant *entrant = &race->entrants[n];
        entrant->out |= entrant != leader && entrant != race->incumbent;
    }
    while (race->rounds - race->duel < MAX_ROUNDS && num_left(race) == 2 &&
           go_on(task, race, end)) {
        const size_t rounds = race->rounds - race->duel;
        tell(task, race, MAX_ROUNDS - rounds);
        if (rounds < SETTLED_ROUNDS || num_left(race) < 2)
            continue;
        const struct ca_interval ratio = ca_race_ratio_to_incumbent(race, leader);
        if (ratio.high < 1.0 - NEGLIGIBLE || ratio.low > 1.0)
            break;
    }
    if (leader->failed)
        race->leader = race->incumbent->failed ? NULL : race->incumbent;
}

void ca_race_run(struct ca_task *task, struct ca_race *race, double end)
{
    const double begin = ca_session_seconds(task->session);
    const bool has_duel = race->incumbent && race->count > 2;
    const double race_end = has_duel ? begin + RACE_PART * (end - begin) : end;
    bool settled = false;

    while (!settled && race->rounds < MAX_ROUNDS && go_on(task, race, race_end)) {
        settled = judge(race);
        tell(task, race, settled ? 0 : (MAX_ROUNDS - race->rounds) / 3);
    }
    if (has_duel && race->leader && race->leader != race->incumbent && !race->incumbent->out &&
        !task->session->ended)
        duel(task, race, end);
}

bool ca_race_decided(const struct ca_race *race)
{
    return race->leader && race->rounds >= FEWEST;
}

struct ca_interval ca_race_ratio_to_incumbent(const struct ca_race *race,
                                              const struct ca_entrant *entrant)
{
    const struct ca_entrant *incumbent = race->incumbent;
    const size_t a = entrant->num_times, b = incumbent->num_times, count = a < b ? a : b;

    if (race->duel == 0 || count < race->duel + MIN_ROUNDS)
        return ca_race_ratio(entrant, incumbent);
    return ca_paired_ratio(entrant->times + race->duel, incumbent->times + race->duel,
                           count - race->duel);
}

bool ca_builds_faster(const struct ca_trial *a, const struct ca_trial *b)
{
    const double seconds = a->reading.compile_seconds;

    return seconds > 0.0 && seconds < BUILDS_FASTER * b->reading.compile_seconds;
}

/* Returns whether an entrant ties with the leader. The interval of their ratio contains 1, and its middle exceeds 1 by at most
 * the noise or CA_BUILD_WORTH, whichever is smaller. */
static bool ties(const struct ca_race *race, const struct ca_entrant *entrant, double noise)
{
    const struct ca_interval ratio = ca_race_ratio(entrant, race->leader);

    return !entrant->failed && ratio.low <= 1.0 &&
           ratio.middle <= 1.0 + fmin(noise, CA_BUILD_WORTH);
}

const struct ca_entrant *ca_race_winner(const struct ca_race *race, double noise)
{
    const struct ca_entrant *incumbent = race->incumbent, *winner = race->leader;

    if (incumbent && !incumbent->out && ca_race_ratio_to_incumbent(race, winner).high >= 1.0)
        winner = incumbent;
    for (size_t n = 0; n < race->count; n++)
        if (ca_builds_faster(race->entrants[n].trial, winner->trial) &&
            ties(race, &race->entrants[n], noise))
            winner = &race->entrants[n];
    return winner;
}

void ca_race_noise(struct ca_task *task, const struct ca_trial *trial, double end)
{
    struct ca_session *session = task->session;
    struct ca_race race = {.count = 0};

    ca_race_enter(&race, trial);
    ca_race_enter(&race, trial);
    while (!session->ended && num_left(&race) == 2 && race.rounds < NOISE_ROUNDS &&
           (race.rounds < FEWEST || ca_session_seconds(session) < end)) {
        run_round(task, &race);
        ca_session_tell(task, trial->config, NULL);
    }
    if (num_left(&race) < 2 || race.rounds < FEWEST)
        return;
    const struct ca_interval ratio = ca_race_ratio(&race.entrants[0], &race.entrants[1]);
    task->noise = 0.5 * (ratio.high - ratio.low);
    task->has_noise = true;
}
