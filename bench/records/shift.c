/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/shift.h"

#include <math.h>
#include <stdlib.h>

#define MOST_PAIRS (RECORD_MOST_SAMPLES * RECORD_MOST_SAMPLES)
#define OUTSIDE 0.025 /* On either side. */

/* The probabilities of the Mann-Whitney statistic are the coefficients of the polynomial
 *     product over i = 1..count_b of (1 - q^(count_a + i)) / (1 - q^i),  over their sum,
 * which grows by (count_a + i) / i with each factor (E. F. Harding, "An Efficient, Minimal-storage
 * Procedure for Calculating the Mann-Whitney U, Generalized U and Similar Distributions", 1984). */
size_t shift_rank(size_t count_a, size_t count_b)
{
    double chance[MOST_PAIRS / 2 + 1] = {1.0}, sum = 0.0;
    const size_t most = count_a * count_b / 2;
    size_t rank = 0;

    for (size_t i = 1; i <= count_b; i++) {
        for (size_t u = most; u >= count_a + i; u--)
            chance[u] -= chance[u - count_a - i];
        for (size_t u = i; u <= most; u++)
            chance[u] += chance[u - i];
        for (size_t u = 0; u <= most; u++)
            chance[u] *= (double)i / (double)(count_a + i);
    }
    for (sum = chance[0]; sum <= OUTSIDE && rank < most; sum += chance[rank])
        rank++;
    return rank;
}

bool shift_ratio(const struct samples *a, const struct samples *b, struct ca_interval *ratio)
{
    double pairs[MOST_PAIRS];
    const size_t count = a->count * b->count, rank = shift_rank(a->count, b->count);
    const size_t cut = rank > 0 ? rank - 1 : 0;

    for (size_t n = 0; n < count; n++)
        pairs[n] = a->value[n / b->count] / b->value[n % b->count];
    qsort(pairs, count, sizeof *pairs, ca_ascending);
    ratio->middle = sqrt(pairs[count / 2] * pairs[(count - 1) / 2]);
    ratio->low = pairs[cut];
    ratio->high = pairs[count - 1 - cut];
    return rank > 0;
}
