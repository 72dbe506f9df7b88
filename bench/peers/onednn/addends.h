/* SPDX-License-Identifier: Apache-2.0 */
/* What is added to the scores of each step for libraries that know of nothing but that: bias,
 * ALiBi, and -inf where masks, causality, windows and lengths hide a key. */
#ifndef CLATTN_BENCH_PEER_ADDENDS_H
#define CLATTN_BENCH_PEER_ADDENDS_H

#include "bench/peers/steps.h"

struct addend {
    float *values;  /* (entries, rows, keys + spare); NULL if all are 0. */
    size_t entries; /* 1 if they are the same for each. */
    bool shared;    /* An earlier step owns them. */
};

struct addends {
    struct addend *addend; /* Owned; one for each step. */
    size_t count;
    size_t *blind; /* Owned; the rows of o, counted over all of it, that see no key. */
    size_t num_blind;
};

/* Whether there may be any. */
bool addends_needed(const struct problem_data *data);

/* Rows have `spare` columns after the keys', whose values mean nothing. */
bool addends_make(struct addends *addends, const struct problem_data *data,
                  const struct steps *steps, size_t spare, struct message *why);

/* Allowed on one that is all zeros. */
void addends_free(struct addends *addends);

#endif
