/* SPDX-License-Identifier: Apache-2.0 */
#include "search/random.h"
#include "search/statistics.h"

#include <criterion/criterion.h>
#include <math.h>

enum { MOST = 64, TRIALS = 4000 };

static double normal(struct ca_random *random)
{
    const double radius = sqrt(-2.0 * log(1.0 - ca_random_unit(random)));

    return radius * cos(6.28318530717958647692 * ca_random_unit(random));
}

Test(statistics, medians_of_a_few) {
    const double times[] = {5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 7.0, 8.0, 6.0};
    struct ca_interval m = ca_median(times, 1);

    cr_assert(m.middle == 5.0 && m.low == 5.0 && m.high == 5.0);
    m = ca_median(times, 2);
    cr_assert(m.middle == 3.0 && m.low == 1.0 && m.high == 5.0);
    m = ca_median(times, 5);
    cr_assert(m.middle == 3.0 && m.low == 1.0 && m.high == 5.0);
    m = ca_median(times, 6);
    cr_assert(m.middle == 3.5 && m.low == 1.0 && m.high == 9.0);
    m = ca_median(times, 9); /* from here on the extremes are left out */
    cr_assert(m.middle == 5.0 && m.low == 2.0 && m.high == 8.0);
    cr_assert(times[0] == 5.0 && times[8] == 6.0);
}

Test(statistics, equal_times_make_a_point) {
    const double times[] = {2.0, 2.0, 2.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 2.0, 2.0, 2.0};
    const struct ca_interval m = ca_median(times, sizeof times / sizeof *times);

    cr_assert(m.middle == 2.0 && m.low == 2.0 && m.high == 2.0);
}

/* Ranks of the limits as in tables of the sign test. */
Test(statistics, limits_are_those_of_the_sign_test) {
    static const size_t table[][2] = {{6, 0},  {8, 0},  {9, 1},   {12, 2},  {16, 3}, {20, 5},
                                      {25, 7}, {30, 9}, {40, 13}, {50, 17}, {64, 23}};
    double times[MOST];

    for (size_t n = 0; n < MOST; n++)
        times[n] = (double)n;
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        const size_t count = table[n][0], below = table[n][1];
        const struct ca_interval m = ca_median(times, count);
        cr_assert(m.low == (double)below && m.high == (double)(count - 1 - below), "%zu", count);
    }
}

/* Skewed samples, as timings are: the interval holds the median in 95 % of all cases or more. */
Test(statistics, intervals_hold_the_median) {
    static const size_t counts[] = {6, 9, 16, 33, 64};
    struct ca_random random = {12};

    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t held = 0;
        for (int n = 0; n < TRIALS; n++) {
            double times[MOST];
            for (size_t k = 0; k < counts[c]; k++)
                times[k] = exp(normal(&random));
            const struct ca_interval m = ca_median(times, counts[c]);
            held += m.low <= 1.0 && 1.0 <= m.high;
            cr_assert(m.low <= m.middle && m.middle <= m.high);
        }
        cr_assert(held >= 0.945 * TRIALS && held <= 0.985 * TRIALS, "%zu: %zu", counts[c], held);
    }
}

Test(statistics, the_ratio_of_a_series_to_itself_is_one) {
    const double times[] = {3.0, 1.0, 7.0, 2.0, 2.5, 4.0};
    struct ca_interval ratio = ca_paired_ratio(times, times, 6);

    cr_assert(ratio.middle == 1.0 && ratio.low == 1.0 && ratio.high == 1.0);
    ratio = ca_paired_ratio(times, times + 3, 2);
    cr_assert(ratio.middle == 0.5 * (3.0 / 2.0 + 1.0 / 2.5));
}

/* Two series side by side while the machine slows down by a half: 2 % are seen in pairs, and
 * nothing is claimed where there is nothing; medians apart see neither. */
Test(statistics, pairs_see_through_drift) {
    enum { COUNT = 20, RUNS = 1000 };
    struct ca_random random = {77};
    size_t seen = 0, seen_apart = 0, false_claims = 0;

    for (int n = 0; n < RUNS; n++) {
        double slow[COUNT], fast[COUNT], equal[COUNT];
        for (size_t k = 0; k < COUNT; k++) {
            const double drift = 1.0 + 0.5 * (double)k / COUNT;
            slow[k] = drift * (1.0 + 0.01 * normal(&random));
            fast[k] = drift * 0.98 * (1.0 + 0.01 * normal(&random));
            equal[k] = drift * (1.0 + 0.01 * normal(&random));
        }
        seen += ca_paired_ratio(fast, slow, COUNT).high < 1.0;
        seen_apart += ca_median(fast, COUNT).high < ca_median(slow, COUNT).low;
        const struct ca_interval tie = ca_paired_ratio(equal, slow, COUNT);
        false_claims += tie.high < 1.0 || tie.low > 1.0;
    }
    cr_assert(seen >= 0.97 * RUNS, "%zu", seen);
    cr_assert(seen_apart == 0, "%zu", seen_apart);
    cr_assert(false_claims <= 0.06 * RUNS, "%zu", false_claims);
}
