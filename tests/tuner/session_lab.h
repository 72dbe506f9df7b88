/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up device for sessions: its clock, noise, drift and failures are simulated. */
#ifndef SESSION_LAB_H
#define SESSION_LAB_H

#include "search/random.h"
#include "search/session.h"
#include "tests/tuner/test_tuner_fixture.h"

enum { ALL = 108, PROBLEMS = 3, MAX_EVENTS = 4000 };

/* The behaviour of the device. With zeros everything takes no time, without noise or failures. */
struct lab_device {
    uint64_t luck;                         /* seed of the noise */
    double build_seconds, reading_seconds; /* what things cost */
    double noise;                          /* relative deviation of a reading */
    double drift;                          /* growth of all times per second */
    bool level;                            /* all take the same time, but one */
    size_t better;                         /* ... which is 4 % faster, or by gain; 0: none */
    double gain;
    bool twins;                    /* the flag makes no difference to the program */
    bool failing;                  /* see lab_outcome() */
    bool second_excludes;          /* see lab_allows() */
    size_t stop_at, stop_again_at; /* events that answer false; 0: none */
    size_t breaks;                 /* configuration that fails in a race; 0: none */
    size_t quick;                  /* builds in half the time; 0: none */
    size_t slow;                   /* takes four times as long; 0: none */
    double first_slower;           /* what the first of a round takes longer */
    size_t batch;                  /* configurations chosen at once */
};

struct lab {
    struct lab_device device;
    struct ca_space *space;
    struct ca_random random;
    double seconds; /* the clock */
    size_t builds[ALL], measured[PROBLEMS][ALL];
    size_t raced[PROBLEMS][ALL]; /* rounds against others */
    size_t num_builds, num_announced, num_events;
    struct ca_session_event events[MAX_EVENTS];
    struct ca_known known[PROBLEMS * ALL]; /* the readings of all events */
    size_t num_known;
    struct ca_session_result results[PROBLEMS];
};

struct lab *lab_open(const struct lab_device *device);
void lab_close(struct lab *lab);

/* A fifth of all fail in every way there is, half of them when built, the others when measured;
 * some of these on the second problem only. */
enum ca_outcome lab_outcome(const struct lab *lab, size_t problem, size_t config, bool built);

/* As struct ca_session_problem has it; user is the lab. */
bool lab_allows(void *user, size_t problem, size_t config);

/* The fastest that works. */
size_t lab_optimum(struct lab *lab, size_t problem);

struct ca_measurer lab_measurer(struct lab *lab);

/* As struct ca_session_options has it; user is the lab. */
const struct ca_candidate *lab_candidates(void *user, const size_t *configs, size_t count);

/* The configurations that the problems begin with; the first of each is its incumbent. */
extern const size_t lab_seeds[PROBLEMS][3], lab_num_seeds[PROBLEMS];

/* Runs a session of the first problems. The options get the lab's hooks. Checks what holds for all:
 * nothing is measured twice, nothing built twice but for a race after a resumption, and only what
 * works is in the top. */
void lab_run(struct lab *lab, size_t num_problems, const struct ca_session_options *given);

/* Opens one and runs a session. */
struct lab *lab_session(const struct lab_device *device, size_t num_problems,
                        const struct ca_session_options *given);

/* Each winner is as fast as the optimum, up to a margin. */
void lab_assert_found(struct lab *lab, size_t num_problems, double margin);

#endif
