/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rng.h"

struct rng rng_seed(const uint64_t seed)
{
    return (struct rng){seed};
}

uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

size_t rng_below(struct rng *r, const size_t n)
{
    return (size_t)(rng_next(r) % n);
}

double rng_uniform(struct rng *r, const double low, const double high)
{
    return low + (high - low) * (double)(rng_next(r) >> 11) * 0x1p-53;
}

int rng_one_in(struct rng *r, const size_t n)
{
    return rng_below(r, n) == 0;
}
