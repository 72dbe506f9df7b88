/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning problems whose programs are alike, together: what is built for one is measured on all.
 *
 * First the seeds; then, in turns, a search for each problem; then the rest of each incumbent's
 * neighbourhood; last an interleaved race of each problem's finalists, decided by paired
 * differences, where a tie goes to what builds notably faster, else keeps the incumbent (what is used
 * without tuning, or was the winner before). A configuration is measured on problems that did not ask for it only where that is
 * cheaper than a build. Up to 18 % of a time limit is kept for the races. Knows neither kernels nor
 * devices: whoever calls builds and measures. */
#ifndef CA_SESSION_H
#define CA_SESSION_H

#include "search/measurer.h"
#include "search/search.h"
#include "search/statistics.h"

enum {
    CA_FINALISTS = 8,
    CA_TOP = 5,
    CA_SESSION_SEEDS = 16,
    CA_SESSION_BATCH = 16,
    CA_SESSION_MOST = 16 /* candidates that a measurer is given at once */
};

/* A result known from before. */
struct ca_known {
    size_t problem, config;
    struct ca_reading reading;
};

struct ca_session_problem {
    const size_t *seeds; /* tried in this order; the first is the incumbent */
    size_t num_seeds;    /* number of seeds, at most CA_SESSION_SEEDS */
    /* Returns whether a configuration of the space fits this problem; NULL: all do. */
    bool (*allows)(void *user, size_t problem, size_t config);
};

enum ca_phase { CA_PHASE_SEEDS, CA_PHASE_SEARCH, CA_PHASE_FINISH, CA_PHASE_RACE, CA_NUM_PHASES };
const char *ca_phase_name(enum ca_phase phase);

/* After each configuration on each problem, and each round of a race (then reading is NULL). What
 * failed to build did so for all problems that allow it; what one does not allow is no event. The
 * same program under another configuration has the same times. */
struct ca_session_event {
    enum ca_phase phase;
    size_t problem, config;
    const struct ca_reading *reading;
    size_t evaluations; /* configurations built so far, those known from before included */
    double seconds, seconds_left;
    double best, incumbent; /* the problem's best and its incumbent's time; 0 if not known yet */
};

struct ca_session_options {
    enum ca_strategy strategy;
    uint64_t seed;
    double max_seconds;          /* 0: no limit */
    size_t max_evaluations;      /* configurations built and known; 0: no limit */
    double (*clock)(void *user); /* seconds; NULL: no time limit. Without one it decides nothing */
    /* False ends the session: no further build, but what was found is raced (once, briefly) unless
     * it answers false again. */
    bool (*event)(void *user, const struct ca_session_event *event);
    /* The candidates that configurations stand for, as the measurer takes them: an array of as many, valid
     * until the next call. At most CA_SESSION_MOST. */
    const struct ca_candidate *(*candidates)(void *user, const size_t *configs, size_t count);
    void *user; /* first argument of clock, event, candidates and allows */
    const struct ca_known *known;
    size_t num_known;
};

struct ca_finalist {
    size_t config;
    struct ca_interval seconds; /* time of one execution, from the race if there was one */
    double times[CA_READING_TIMES];
    size_t num_times;
    double error;
    double compile_seconds; /* 0 if not known */
    /* time over the incumbent's, paired if both were raced; 1 for the incumbent, or if it failed */
    struct ca_interval ratio;
};

struct ca_session_result {
    struct ca_finalist top[CA_TOP]; /* the winner first */
    size_t num_top;                 /* 0 if nothing worked, or the budget ended too early */
    bool too_early;                 /* the budget ended before the incumbent was tried */
    size_t evaluations;             /* configurations that this problem was measured with */
    /* half-width of the 95 % interval of the ratio when one candidate runs against itself */
    double noise;
    bool raced; /* false: readings decided; a difference below 2 % (or twice the noise) is a tie */
    struct ca_confidence confidence;
    bool has_confidence; /* false where trials are too few, or too many for it to be cheap */
};

/* Fills results[num_problems]. False without memory. */
bool ca_session_run(const struct ca_space *space, const struct ca_measurer *measurer,
                    const struct ca_session_problem *problems, size_t num_problems,
                    const struct ca_session_options *options, struct ca_session_result *results);

#endif
