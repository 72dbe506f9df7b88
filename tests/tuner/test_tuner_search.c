/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tuner/test_tuner_fixture.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

enum { ALL = 108 };

/* Runs at most so many steps of a search, checking what holds for every strategy. Returns the
 * evaluations until the optimum was found, 0 if it was not. */
static size_t run(const struct ca_space *space, const struct ca_search_options *options,
                  size_t most, size_t *order)
{
    struct ca_search *search = ca_search_create(space, options);
    const size_t optimum = made_up_optimum(space);
    size_t config, again, found = 0, count = 0;

    cr_assert(search && ca_search_best(search) == CA_NO_CONFIG);
    while (count < most && ca_search_suggest(search, &config)) {
        cr_assert(config < space->count && isnan(ca_search_time(search, config)));
        cr_assert(ca_search_suggest(search, &again) && again == config);
        ca_search_report(search, config, made_up_time(space, config));
        order[count++] = config;
        if (config == optimum)
            found = count;
    }
    if (found)
        cr_assert(made_up_time(space, ca_search_best(search)) == made_up_time(space, optimum));
    cr_assert(count == most);
    ca_search_destroy(search);
    return found;
}

ParameterizedTestParameters(tuner_search, every_strategy_evaluates_all_once) {
    static int strategies[] = {CA_GUIDED, CA_RANDOM, CA_EXHAUSTIVE};
    return cr_make_param_array(int, strategies, CA_NUM_STRATEGIES);
}

ParameterizedTest(int *strategy, tuner_search, every_strategy_evaluates_all_once) {
    struct ca_space *space = made_up_space();
    const struct ca_search_options options = {.strategy = (enum ca_strategy) * strategy, .seed = 3};
    size_t order[ALL];

    cr_assert(run(space, &options, ALL, order) > 0);
    ca_space_destroy(space);
}

ParameterizedTestParameters(tuner_search, a_seed_decides_everything) {
    static int strategies[] = {CA_GUIDED, CA_RANDOM};
    return cr_make_param_array(int, strategies, sizeof strategies / sizeof *strategies);
}

ParameterizedTest(int *strategy, tuner_search, a_seed_decides_everything) {
    struct ca_space *space = made_up_space();
    struct ca_search_options options = {.strategy = (enum ca_strategy) * strategy, .seed = 11};
    size_t a[40], b[40], c[40];

    run(space, &options, 40, a);
    run(space, &options, 40, b);
    cr_assert(memcmp(a, b, sizeof a) == 0);
    options.seed = 12;
    run(space, &options, 40, c);
    cr_assert(memcmp(a, c, sizeof a) != 0);
    ca_space_destroy(space);
}

/* Mean evaluations until the optimum over some seeds. */
static double mean_evaluations(enum ca_strategy strategy)
{
    struct ca_space *space = made_up_space();
    struct ca_search_options options = {.strategy = strategy};
    size_t order[ALL];
    double sum = 0.0;

    for (options.seed = 1; options.seed <= 20; options.seed++)
        sum += (double)run(space, &options, ALL, order);
    ca_space_destroy(space);
    return sum / 20.0;
}

Test(tuner_search, guided_is_better_than_chance) {
    const double chance = mean_evaluations(CA_RANDOM);

    cr_assert(chance >= 35.0 && chance <= 75.0, "%g", chance);
    cr_assert(mean_evaluations(CA_GUIDED) <= 0.35 * chance, "%g", mean_evaluations(CA_GUIDED));
}

Test(tuner_search, seeds_come_first_and_once) {
    struct ca_space *space = made_up_space();
    const size_t first[] = {50, 7, 50, 31};
    const struct ca_search_options options = {.first = first, .num_first = 4};
    size_t order[5];

    run(space, &options, 5, order);
    cr_assert(order[0] == 50 && order[1] == 7 && order[2] == 31);
    ca_space_destroy(space);
}

Test(tuner_search, what_is_known_is_not_suggested_and_counts) {
    struct ca_space *space = made_up_space();
    const struct ca_search_options options = {.num_first = 0};
    struct ca_search *search = ca_search_create(space, &options);
    size_t config, suggested = 0;

    for (config = 0; config < 100; config++)
        ca_search_report(search, config, made_up_time(space, config));
    ca_search_report(search, 0, 1e-9); /* the second report of one is ignored */
    cr_assert(ca_search_time(search, 0) == made_up_time(space, 0));
    while (ca_search_suggest(search, &config)) {
        cr_assert(config >= 100);
        ca_search_report(search, config, INFINITY);
        suggested++;
    }
    cr_assert(suggested == ALL - 100);
    ca_search_destroy(search);
    ca_space_destroy(space);
}

ParameterizedTestParameters(tuner_search, failures_are_survived_and_never_the_best) {
    static int strategies[] = {CA_GUIDED, CA_RANDOM, CA_EXHAUSTIVE};
    return cr_make_param_array(int, strategies, CA_NUM_STRATEGIES);
}

ParameterizedTest(int *strategy, tuner_search, failures_are_survived_and_never_the_best) {
    static const double failures[] = {INFINITY, NAN, 0.0, -1.0, -INFINITY};
    struct ca_space *space = made_up_space();
    const struct ca_search_options options = {.strategy = (enum ca_strategy) * strategy};
    struct ca_search *search = ca_search_create(space, &options);
    struct ca_confidence confidence;
    size_t config, count = 0;

    cr_assert(!ca_search_confidence(search, &confidence));
    while (ca_search_suggest(search, &config)) {
        ca_search_report(search, config, config == 77 ? 2.0 : failures[count % 5]);
        count++;
    }
    cr_assert(count == ALL && ca_search_best(search) == 77);
    ca_search_destroy(search);
    ca_space_destroy(space);
}

Test(tuner_search, confidence_grows) {
    struct ca_space *space = made_up_space();
    const struct ca_search_options options = {.seed = 5};
    struct ca_search *search = ca_search_create(space, &options);
    struct ca_confidence early, late;
    size_t config;

    for (int n = 0; n < 6 && ca_search_suggest(search, &config); n++)
        ca_search_report(search, config, made_up_time(space, config));
    cr_assert(ca_search_confidence(search, &early));
    while (ca_search_suggest(search, &config))
        ca_search_report(search, config, made_up_time(space, config));
    cr_assert(ca_search_confidence(search, &late));
    cr_assert(early.within_2 > 0.0 && early.within_2 <= early.within_5 && early.within_5 < 0.9,
              "%g %g", early.within_2, early.within_5);
    cr_assert(early.expected_gain > 0.0 && early.expected_gain < 1.0);
    cr_assert(late.within_2 == 1.0 && late.expected_gain == 0.0, "nothing is left");
    ca_search_destroy(search);
    ca_space_destroy(space);
}

Test(tuner_search, an_empty_space_suggests_nothing) {
    struct ca_space *space = ca_space_create();
    const struct ca_search_options options = {.strategy = CA_GUIDED};
    struct ca_search *search = ca_search_create(space, &options);
    size_t config;

    cr_assert(search && !ca_search_suggest(search, &config));
    ca_search_destroy(search);
    ca_space_destroy(space);
}

Test(tuner_search, strategies_have_names) {
    for (int n = 0; n < CA_NUM_STRATEGIES; n++)
        cr_assert((int)ca_strategy_find(ca_strategy_name((enum ca_strategy)n)) == n);
    cr_assert(ca_strategy_find("guide") == CA_NUM_STRATEGIES);
}
