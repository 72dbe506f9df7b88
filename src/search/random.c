/* SPDX-License-Identifier: Apache-2.0 */
#include "search/random.h"

uint64_t ca_random_next(struct ca_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double ca_random_unit(struct ca_random *random)
{
    return (double)(ca_random_next(random) >> 11) / 9007199254740992.0;
}

size_t ca_random_below(struct ca_random *random, size_t count)
{
    return (size_t)(ca_random_unit(random) * (double)count);
}

void ca_random_shuffle(struct ca_random *random, size_t *items, size_t count)
{
    for (size_t n = count; n > 1; n--) {
        const size_t other = ca_random_below(random, n), item = items[other];
        items[other] = items[n - 1];
        items[n - 1] = item;
    }
}
