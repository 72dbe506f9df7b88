/* SPDX-License-Identifier: Apache-2.0 */
/* A race of configurations of one problem, and how it is shown. */
#ifndef CLATTN_BENCH_DUEL_H
#define CLATTN_BENCH_DUEL_H

#include "bench/commands/interleaved.h"

struct duellist {
    const char *name; /* As on the command line. */
    char *family;     /* Owned; the name's first word, the rest are tunables. */
    clattn_plan_options options;
    struct measurement measurement;
    struct outcome outcome;
    struct ca_interval median;
};

struct duel {
    const char *problem;
    struct target target;
    struct attention_case attention;
    struct duellist duellist[INTERLEAVED_MOST];
    size_t count;
    size_t opened; /* So many have a measurement. */
};

/* "faster" or "slower" than the first where the interval of the ratio says so, else "tie". */
const char *duel_verdict(const struct ca_interval *ratio);

void duel_print(const struct duel *duel);

bool duel_write(const char *path, const struct duel *duel, struct message *why);

#endif
