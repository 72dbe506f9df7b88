/* Plans for one case, taking turns: what disturbs the machine disturbs all of them alike. */
#ifndef CLATTN_BENCH_CONTEST_H
#define CLATTN_BENCH_CONTEST_H

#include "measure.h"
#include "record.h"

#include <stdint.h>

#define CONTEST_MOST 16

struct contestant {
    struct measurement *measurement;
    struct samples *seconds;
    struct worst *worst;
};

struct contest {
    struct contestant contestant[CONTEST_MOST];
    size_t count;
    uint64_t random; /* Not 0; shuffles the order of each round. */
};

/* Executes each until the device has settled. */
bool contest_warm_up(const struct contest *contest, struct message *why);

/* Takes the results of each one's last execution into account. */
bool contest_check(const struct contest *contest, const struct attention_case *attention,
                   struct message *why);

/* One sample of each, in an order drawn anew. */
bool contest_round(struct contest *contest, struct message *why);

#endif
