/* SPDX-License-Identifier: Apache-2.0 */
/* A small pseudo-random generator (splitmix64): the same numbers on every machine. */
#ifndef CA_RANDOM_H
#define CA_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct ca_random {
    uint64_t state; /* any value is a good seed */
};

uint64_t ca_random_next(struct ca_random *random);

/* A random number in [0, 1). */
double ca_random_unit(struct ca_random *random);

/* A random integer in [0, count); count is not 0. */
size_t ca_random_below(struct ca_random *random, size_t count);

void ca_random_shuffle(struct ca_random *random, size_t *items, size_t count);

#endif
