/* Implementations of one case, taking turns: what disturbs the machine disturbs all alike. */
#ifndef CLATTN_BENCH_CONTEST_H
#define CLATTN_BENCH_CONTEST_H

#include "bench/peer/peer.h"
#include "bench/records/record.h"
#include "bench/timing/measure.h"

#include <stdint.h>

#define CONTEST_MOST 16

struct contestant {
    struct measurement *measurement; /* Of a plan of ours; */
    struct peer *peer;               /* or another library, the case open. One of them is NULL. */
    struct outcome *outcome;
};

/* Called right before and right after each sample of the first contestant. */
typedef bool contest_beside(void *user, struct message *why);

/* Who fails or is wrong has an outcome that says so, and takes no further part. */
struct contest {
    struct contestant contestant[CONTEST_MOST];
    size_t count;
    uint64_t random;        /* Not 0; shuffles the order of each round. */
    contest_beside *beside; /* May be NULL. */
    void *user;
};

/* Executes each until its device has settled. */
void contest_warm_up(const struct contest *contest);

/* Compares the results of each. */
void contest_check(const struct contest *contest, const struct attention_case *attention);

/* One sample of each, in an order drawn anew. False, with nothing added, if `beside` failed or the
 * user has interrupted it; *why is "" then. */
bool contest_round(struct contest *contest, struct message *why);

/* Whether anybody still takes part. */
bool contest_goes_on(const struct contest *contest);

/* The longest that one execution of any of them takes. */
double contest_slowest(const struct contest *contest);

#endif
