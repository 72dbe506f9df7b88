/* SPDX-License-Identifier: Apache-2.0 */
/* Implementations of one case, taking turns: what disturbs the machine disturbs all alike. */
#ifndef CLATTN_BENCH_INTERLEAVED_H
#define CLATTN_BENCH_INTERLEAVED_H

#include "bench/peer/peer.h"
#include "bench/records/record.h"
#include "bench/timing/measure.h"

#include <stdint.h>

#define INTERLEAVED_MOST 16

struct competitor {
    struct measurement *measurement; /* Measurement of a plan of clattn's, */
    struct peer *peer;               /* or a peer that has the case open; one of the two is NULL. */
    struct outcome *outcome;
};

/* Called right before and right after each sample of the first competitor. */
typedef bool interleaved_beside(void *user, struct message *why);

/* The competitors of an interleaved run. One that fails or is wrong has an outcome that says so,
 * and takes no further part. */
struct interleaved {
    struct competitor competitor[INTERLEAVED_MOST];
    size_t count;
    uint64_t random;            /* Not 0; shuffles the order of each round. */
    interleaved_beside *beside; /* May be NULL. */
    void *user;
};

/* Executes each until its device has settled. */
void interleaved_warm_up(const struct interleaved *interleaved);

/* Compares the results of each. */
void interleaved_check(const struct interleaved *interleaved,
                       const struct attention_case *attention);

/* One sample of each, in an order drawn anew. False, with nothing added, if `beside` failed or the
 * user has interrupted it; *why is "" then. */
bool interleaved_round(struct interleaved *interleaved, struct message *why);

/* Returns whether anybody still takes part. */
bool interleaved_goes_on(const struct interleaved *interleaved);

/* The longest that one execution of any of them takes. */
double interleaved_slowest(const struct interleaved *interleaved);

#endif
