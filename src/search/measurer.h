/* SPDX-License-Identifier: Apache-2.0 */
/* Trying candidates: building, checking and timing them. One interface, which a session calls; what
 * implements it measures in this process (src/tune/measurer.h) or in a worker (tuner/worker/), or passes
 * calls on to another measurer: to keep a journal (tuner/journal_measurer.h), to try again and to note what
 * failed (src/tune/tune_try.c). */
#ifndef CA_SEARCH_MEASURER_H
#define CA_SEARCH_MEASURER_H

#include <stddef.h>
#include <stdint.h>

/* The outcome of trying a configuration. */
enum ca_outcome {
    CA_CORRECT,
    CA_COMPILE_FAILED, /* the compiler named an error in the source */
    CA_RUNTIME_FAILED, /* it failed for a reason that may pass: no memory, a full disk */
    CA_CONSTRAINT_FAILED,
    CA_TIMED_OUT, /* two attempts timed out */
    CA_WRONG,     /* the kernel ran, and its result is wrong */
    CA_CRASHED,   /* two attempts each ended a process */
    CA_NUM_OUTCOMES
};

enum { CA_READING_TIMES = 64, CA_READING_REASON = 256 };

/* One configuration on one problem. */
struct ca_reading {
    enum ca_outcome outcome;
    double times[CA_READING_TIMES]; /* seconds of one execution each */
    size_t num_times;
    double error;    /* the worst element's error divided by its bound */
    uint64_t binary; /* hash of the built program; 0 if unknown. Equal: the same program */
    double compile_seconds;
    char reason[CA_READING_REASON]; /* why it failed, a sentence; else empty */
};

struct ca_candidate; /* The candidate of a configuration; sessions do not look into it. */

/* A reading that an interrupted session has taken. */
struct ca_earlier {
    size_t problem;
    const struct ca_candidate *candidate;
    const struct ca_reading *reading;
};

/* Problems are known by their index among those that a measurer was made with. All calls come from
 * one thread, one at a time. Each may take long, and must return. */
struct ca_measurer {
    void *user;
    /* Hint: these will be built next, in this order; may build some ahead. NULL: not wanted. */
    void (*announce)(void *user, const struct ca_candidate *candidates, size_t count);
    /* Builds the program for the first problem (all are alike) and self-checks it. compile_seconds
     * holds both: many drivers finish compiling when a program first runs. Keeps the program. */
    void (*build)(void *user, const struct ca_candidate *candidate, struct ca_reading *reading);
    /* Checks the candidate on the problem itself (its values at sampled rows, nothing written out
     * of bounds, no NaN), then times it: warm-up by busy time until three readings agree, each
     * reading long enough for the device's timer; at least three readings, but only one if it is over
     * 2.5 * best, two if both are over 1.5 * best (best 0: never). The reading's binary and compile time stay as build() has
     * set them. Only after a correct build. */
    void (*measure)(void *user, size_t problem, const struct ca_candidate *candidate, double best,
                    struct ca_reading *reading);
    /* One reading of each, in this order; INFINITY for one that fails. Nothing is checked again. */
    void (*round)(void *user, size_t problem, const struct ca_candidate *candidates, size_t count,
                  double *seconds);
    /* Returns why a candidate failed in the last round. NULL: it counts as CA_RUNTIME_FAILED. */
    enum ca_outcome (*failure)(void *user);
    /* Returns how many results it has from an interrupted session, in an array that is the
     * measurer's until the next call. NULL: none. */
    size_t (*known)(void *user, const struct ca_earlier **known);
    /* Closes the measurer and those that it calls. NULL: it is closed in another way. */
    void (*close)(void *user);
    /* How many it builds at once if they are announced: so many configurations of a search are chosen before the
     * first of them is built. 0 or 1: each with all that is known; more is worse informed. */
    size_t batch;
};

#endif
