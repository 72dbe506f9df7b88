/* SPDX-License-Identifier: Apache-2.0 */
/* What is added to the scores of each step for libraries that know of nothing but that: bias,
 * ALiBi, and -inf where masks, causality, windows and lengths hide a key. */
#ifndef CLATTN_BENCH_PEER_ADDENDS_H
#define CLATTN_BENCH_PEER_ADDENDS_H

#include "bench/peers/steps.h"

struct addends {
    float **values; /* (rows, keys + spare) of each step; NULL: zeros, or an earlier step's. */
    size_t *same;   /* The step that has them. */
    size_t count;
    size_t *blind; /* Owned; the rows of o, counted over all of it, that see no key. */
    size_t num_blind;
};

/* Of steps of one entry. Rows have `spare` columns after the keys', whose values mean nothing. */
bool addends_make(struct addends *addends, const struct problem_data *data,
                  const struct steps *steps, size_t spare, struct message *why);

/* What is added to a step, or NULL. */
float *addends_of(const struct addends *addends, size_t step);

/* Allowed on one that is all zeros. */
void addends_free(struct addends *addends);

#endif
