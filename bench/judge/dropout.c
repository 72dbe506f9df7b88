/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/dropout.h"

#include <math.h>

void reference_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t words[4])
{
    uint32_t low = key[0], high = key[1];

    for (int n = 0; n < 4; n++)
        words[n] = counter[n];
    for (int round = 0; round < 10; round++) {
        const uint64_t first = (uint64_t)words[0] * UINT64_C(0xd2511f53);
        const uint64_t second = (uint64_t)words[2] * UINT64_C(0xcd9e8d57);
        words[0] = (uint32_t)(second >> 32) ^ words[1] ^ low;
        words[1] = (uint32_t)second;
        words[2] = (uint32_t)(first >> 32) ^ words[3] ^ high;
        words[3] = (uint32_t)first;
        low += UINT32_C(0x9e3779b9); /* the golden ratio, and sqrt(3) - 1 */
        high += UINT32_C(0xbb67ae85);
    }
}

bool reference_dropout_keeps(const clattn_problem *p, const struct tensor_view *view, size_t b,
                             size_t h, size_t i, size_t j)
{
    const uint32_t key[2] = {(uint32_t)view->dropout_seed, (uint32_t)(view->dropout_seed >> 32)};
    const clattn_dropout_place *first = &view->dropout_place;
    const size_t heads = first->heads == 0 ? p->heads : first->heads;
    const size_t row = (first->batch + b) * heads + first->head + h;
    const uint32_t counter[4] = {(uint32_t)((first->key + j) / 4), (uint32_t)(first->query + i),
                                 (uint32_t)row, view->dropout_offset};
    uint32_t words[4];

    reference_philox(key, counter, words);
    return words[j % 4] >= nearbyint((double)p->dropout * 0x1p32);
}

double reference_dropout_factor(const clattn_problem *p, const struct tensor_view *view, size_t b,
                                size_t h, size_t i, size_t j)
{
    if (!(p->dropout > 0.0f))
        return 1.0;
    return reference_dropout_keeps(p, view, b, h, i, j) ? 1.0 / (1.0 - (double)p->dropout) : 0.0;
}
