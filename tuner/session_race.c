#include "session_race.h"

#include <math.h>

/* Intervals are 95 % from MIN_ROUNDS on; with less than FEWEST nothing is decided. */
enum {
    FEWEST = 3,
    MIN_ROUNDS = 6,
    BRIEF_ROUNDS = 8,
    SETTLED_ROUNDS = 12,
    NOISE_ROUNDS = 16,
    UNTIMED_ROUNDS = 32,
    MAX_ROUNDS = CA_READING_TIMES
};

/* Differences that do not matter any more. */
static const double NEGLIGIBLE = 0.005;

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

/* NULL if none is left. Among equals the first. */
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

/* Sends away who is surely slower. Returns whether what is still open does not matter. */
static bool judge(struct ca_race *race)
{
    bool settled = race->rounds >= SETTLED_ROUNDS;

    race->leader = find_leader(race);
    for (size_t n = 0; race->leader && n < race->count; n++) {
        struct ca_entrant *entrant = &race->entrants[n];
        if (entrant->out || entrant == race->leader)
            continue;
        const struct ca_interval ratio = ca_race_ratio(entrant, race->leader);
        entrant->out = race->rounds >= MIN_ROUNDS && ratio.low > 1.0;
        const bool can_win = ratio.low < 1.0 - NEGLIGIBLE;
        const bool may_tie = entrant == race->incumbent && ratio.high > 1.0 + NEGLIGIBLE;
        settled &= entrant->out || (!can_win && !may_tie);
    }
    return settled || !race->leader;
}

/* Times each entrant that is left, in a random order. */
static void run_round(struct ca_task *task, struct ca_race *race)
{
    struct ca_session *session = task->session;
    const struct ca_bench *bench = session->bench;
    size_t order[CA_FINALISTS], configs[CA_FINALISTS], count = 0;
    double times[CA_FINALISTS];

    for (size_t n = 0; n < race->count; n++)
        if (!race->entrants[n].out)
            order[count++] = n;
    ca_random_shuffle(&session->random, order, count);
    for (size_t n = 0; n < count; n++)
        configs[n] = race->entrants[order[n]].trial->config;
    const double begin = ca_session_seconds(session);
    bench->round(bench->user, task->index, configs, count, times);
    task->round_seconds = (ca_session_seconds(session) - begin) / (double)count;
    for (size_t n = 0; n < count; n++) {
        struct ca_entrant *entrant = &race->entrants[order[n]];
        entrant->failed = !(times[n] > 0.0 && times[n] < INFINITY);
        entrant->out = entrant->failed;
        if (!entrant->failed)
            entrant->times[entrant->num_times++] = times[n];
    }
    race->rounds++;
}

void ca_race_run(struct ca_task *task, struct ca_race *race, double end)
{
    struct ca_session *session = task->session;
    size_t most = end < INFINITY ? MAX_ROUNDS : UNTIMED_ROUNDS;
    bool settled = race->count == 0;

    while (!settled && !session->cut && race->rounds < most) {
        if (session->ended)
            most = BRIEF_ROUNDS;
        const double round = task->round_seconds * (double)num_left(race);
        if (ca_session_seconds(session) + round > end)
            break;
        run_round(task, race);
        settled = judge(race);
        ca_session_expect_race(session, (double)most - (double)race->rounds);
        ca_session_tell(task, (race->leader ? race->leader : race->entrants)->trial->config, NULL);
    }
}

bool ca_race_decided(const struct ca_race *race)
{
    return race->leader && race->rounds >= FEWEST;
}

const struct ca_entrant *ca_race_winner(const struct ca_race *race)
{
    const struct ca_entrant *incumbent = race->incumbent;

    if (!incumbent || incumbent->out || ca_race_ratio(race->leader, incumbent).high < 1.0)
        return race->leader;
    return incumbent;
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
