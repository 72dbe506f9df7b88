/* SPDX-License-Identifier: Apache-2.0 */
/* An interleaved race on one problem.
 *
 * All configurations are timed once per round, in a new order each time: what disturbs a round
 * disturbs all of them, and pairs within rounds are compared. Those that are surely slower than
 * the leader leave. Last, the leader and the incumbent meet alone. */
#ifndef CA_SESSION_RACE_H
#define CA_SESSION_RACE_H

#include "search/session_state.h"

struct ca_entrant {
    const struct ca_trial *trial;
    double times[CA_READING_TIMES]; /* seconds in each round until the entrant left */
    size_t num_times;
    /* out: left the race; failed: left it because a run failed, and must not be used */
    bool out, failed;
};

struct ca_race {
    struct ca_entrant entrants[CA_FINALISTS];
    size_t count, rounds;
    size_t duel;                  /* rounds before the duel, the last part; 0 if there is none */
    struct ca_entrant *leader;    /* NULL if all failed */
    struct ca_entrant *incumbent; /* NULL if it does not take part */
};

/* Adds a configuration, which is built; there is room. */
struct ca_entrant *ca_race_enter(struct ca_race *race, const struct ca_trial *trial);

/* Runs rounds until the rest does not matter, the time is over or the event hook says so. */
void ca_race_run(struct ca_task *task, struct ca_race *race, double end);

/* Returns whether there were rounds enough to decide anything. */
bool ca_race_decided(const struct ca_race *race);

/* After a decided race: the leader, or the incumbent if that ties with it; but what ties with the
 * leader and builds faster wins. noise: of equals, see struct ca_session_result. */
const struct ca_entrant *ca_race_winner(const struct ca_race *race, double noise);

/* The most, as a part of an execution's time, that faster building may cost, whatever the noise. */
#define CA_BUILD_WORTH 0.02

/* Returns whether a builds notably faster, as far as both times are known. */
bool ca_builds_faster(const struct ca_trial *a, const struct ca_trial *b);

/* The time of a over that of b, from the rounds in which both took part. */
struct ca_interval ca_race_ratio(const struct ca_entrant *a, const struct ca_entrant *b);

/* The time over that of the incumbent, which takes part in the race; if both were timed in its last part, from that alone. */
struct ca_interval ca_race_ratio_to_incumbent(const struct ca_race *race,
                                              const struct ca_entrant *entrant);

/* Races a configuration with itself: how far the ratio of equals may be from 1. */
void ca_race_noise(struct ca_task *task, const struct ca_trial *trial, double end);

#endif
