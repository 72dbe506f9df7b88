/* SPDX-License-Identifier: Apache-2.0 */
/* The tests' random numbers: the same everywhere for the same seed. */
#ifndef TEST_RNG_H
#define TEST_RNG_H

#include <stddef.h>
#include <stdint.h>

/* splitmix64 (S. Vigna, 2015): any seed will do, and close seeds give unrelated sequences. */
struct rng {
    uint64_t state;
};

struct rng rng_seed(uint64_t seed);
uint64_t rng_next(struct rng *r);
size_t rng_below(struct rng *r, size_t n); /* 0..n-1; n is not 0 */
double rng_uniform(struct rng *r, double low, double high);
int rng_one_in(struct rng *r, size_t n); /* true once in n draws, on average */

/* An element of a list of sizes. */
#define RNG_PICK(r, ...)                                                                           \
    (((const size_t[]){                                                                            \
        __VA_ARGS__})[rng_below((r), sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t))])

#endif
