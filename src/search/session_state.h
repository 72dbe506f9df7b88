/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a search, which its files share. session_run.c runs its phases, session_try.c builds and measures candidates,
 * session_time.c keeps the time budget, session_race.c times finalists in turns, and session_result.c decides. */
#ifndef CA_SESSION_STATE_H
#define CA_SESSION_STATE_H

#include "search/random.h"
#include "search/session.h"

/* A configuration on a problem. */
struct ca_trial {
    size_t config;
    double time; /* the fastest reading, which searches compare; INFINITY if it failed */
    struct ca_reading reading;
};

/* A configuration whose build was tried, with or without success. */
struct ca_built {
    size_t config;
    struct ca_reading reading;
};

/* One problem's part of the session. */
struct ca_task {
    struct ca_session *session;
    const struct ca_session_problem *problem;
    size_t index;
    struct ca_search *search;
    struct ca_trial *trials; /* trials in the order in which they were made */
    size_t num_trials, capacity;
    size_t incumbent; /* CA_NO_CONFIG without seeds */
    /* seconds that the cheapest measurement took; INFINITY before the first */
    double measure_seconds;
    double round_seconds; /* seconds that one configuration takes in a round of a race */
    double noise;
    bool has_noise;
};

struct ca_session {
    const struct ca_space *space;
    const struct ca_measurer *measurer;
    const struct ca_session_options *options;
    struct ca_task *tasks;
    size_t num_tasks;
    struct ca_built *built;
    size_t num_built, capacity;
    size_t evaluations;   /* configurations known from before or built */
    size_t tries;         /* configurations built for the search */
    size_t num_decided;   /* number of tasks that are decided */
    double build_seconds; /* seconds that the builds of the tries took */
    double start;
    double noise_seconds; /* seconds spent on measuring noise */
    double race_left;     /* seconds that the present race will still take */
    enum ca_phase phase;
    struct ca_random random;
    bool ended;  /* the event hook has ended the search; it may end the races, too */
    bool cut;    /* the event hook has ended the races, too */
    bool failed; /* memory ran out */
};

/* session_try.c */

/* The candidates of these configurations, in an array that is valid until the next call. */
const struct ca_candidate *ca_session_candidates(const struct ca_session *session,
                                                 const size_t *configs, size_t count);

/* Returns whether a problem allows a configuration. */
bool ca_session_allows(const struct ca_task *task, size_t config);

/* Builds a configuration that the task does not know and measures it on all tasks that want it.
 * Sets session->ended and ->failed. */
void ca_session_try(struct ca_task *asker, size_t config);

/* Builds a configuration for a race that was measured before, but whose program is gone. False if that fails. */
bool ca_session_rebuild(struct ca_task *task, size_t config);
bool ca_session_is_built(const struct ca_session *session, size_t config);

/* Records a result; the event hook is not called. */
void ca_session_record(struct ca_task *task, size_t config, const struct ca_reading *reading);

/* Returns NULL if the configuration was not tried on this task. */
const struct ca_trial *ca_session_trial(const struct ca_task *task, size_t config);

/* Calls the event hook, and ends the search or the races if it says so. reading is NULL after a round. */
void ca_session_tell(struct ca_task *task, size_t config, const struct ca_reading *reading);

/* session_time.c */

/* Seconds since the session began; 0 without a clock. */
double ca_session_seconds(const struct ca_session *session);

/* Returns whether the budget allows another configuration. */
bool ca_session_may_try(const struct ca_session *session);

/* Return how many more configurations the budget probably allows, and how many seconds are left. */
double ca_session_tries_left(const struct ca_session *session);

double ca_session_seconds_left(const struct ca_session *session);

/* When the race of the first task that is not decided must end; INFINITY without a limit. */
double ca_session_race_end(const struct ca_session *session);

/* Returns whether there is a limit to the time. */
bool ca_session_is_timed(const struct ca_session *session);

/* session_result.c */

/* Races the incumbent (if it failed, the fastest) with itself, unless that was done. */
void ca_session_measure_noise(struct ca_task *task);

/* Returns how many readings a race would probably take. */
double ca_session_race_readings(const struct ca_task *task);

/* Races the finalists and fills the result but for its confidence. */
void ca_session_decide(struct ca_task *task, struct ca_session_result *result);

#endif
