/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a made-up device: searching, budgets and failures. */
#include "tests/tuner/session_lab.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

/* On which a build takes far longer than a measurement. */
static const struct lab_device slow_builds = {
    .noise = 0.02, .build_seconds = 1.0, .reading_seconds = 0.002};

Test(session, the_optimum_of_each_problem_is_found) {
    struct lab *lab = lab_session(&(struct lab_device){.noise = 0.01}, PROBLEMS,
                                  &(struct ca_session_options){.seed = 7, .max_evaluations = 40});
    bool seen[CA_NUM_PHASES] = {false};

    lab_assert_found(lab, PROBLEMS, 0.02);
    for (size_t p = 0; p < PROBLEMS; p++) {
        const struct ca_session_result *result = &lab->results[p];
        cr_assert(result->raced && result->num_top == CA_TOP && result->evaluations == 40);
        cr_assert(result->has_confidence && result->confidence.within_5 > 0.0);
        cr_assert(result->top[0].ratio.high < 1.0, "the incumbent is bad");
        cr_assert(result->noise > 0.0 && result->noise < 0.03, "%g", result->noise);
    }
    for (size_t n = 0; n < lab->num_events; n++) {
        const enum ca_phase phase = lab->events[n].phase;
        cr_assert(n == 0 || phase >= lab->events[n - 1].phase);
        seen[phase] = true;
    }
    for (int phase = 0; phase < CA_NUM_PHASES; phase++)
        cr_assert(seen[phase], "%s", ca_phase_name((enum ca_phase)phase));
    cr_assert(lab->num_builds == 40 && lab->num_announced == 5);
    lab_close(lab);
}

/* One by one, and four at once. */
Test(session, what_is_slow_to_build_fits_the_time) {
    for (size_t batch = 0; batch <= 4; batch += 4) {
        struct lab_device device = slow_builds;
        device.drift = batch ? 0.0 : 0.003;
        device.batch = batch;
        struct lab *lab = lab_session(&device, PROBLEMS,
                                      &(struct ca_session_options){.seed = 3, .max_seconds = 60.0});
        lab_assert_found(lab, PROBLEMS, 0.1);
        cr_assert(lab->seconds > 40.0 && lab->seconds <= 61.0, "%g", lab->seconds);
        cr_assert(lab->num_builds > 35);
        for (size_t p = 0; p < PROBLEMS; p++)
            cr_assert(lab->results[p].raced);
        lab_close(lab);
    }
}

/* A configuration that is far slower for the problem that asked for it costs the others no time,
 * however cheap it is. */
Test(session, what_is_far_slower_is_tried_on_who_asked) {
    const size_t seed = lab_seeds[0][1];

    for (int slow = 0; slow < 2; slow++) {
        struct lab *lab = lab_session(
            &(struct lab_device){
                .build_seconds = 1.0, .reading_seconds = 0.002, .slow = slow ? seed : 0},
            PROBLEMS, &(struct ca_session_options){.seed = 3, .max_seconds = 12.0});
        cr_assert(lab->measured[0][seed] == 1);
        for (size_t p = 1; p < PROBLEMS; p++)
            cr_assert(lab->measured[p][seed] == !slow, "problem %zu", p);
        lab_close(lab);
    }
}

/* The time left may be off by a quarter, and two seconds near the end. */
Test(session, the_time_left_is_estimated) {
    static const struct ca_session_options budgets[] = {{.seed = 3, .max_seconds = 60.0},
                                                        {.seed = 3, .max_evaluations = 50}};

    for (size_t b = 0; b < 2; b++) {
        struct lab_device device = slow_builds;
        device.build_seconds = b ? 0.7 : 1.0;
        struct lab *lab = lab_session(&device, PROBLEMS, &budgets[b]);
        for (size_t n = 0; n < lab->num_events; n++) {
            const struct ca_session_event *e = &lab->events[n];
            const double left = lab->seconds - e->seconds;
            if (e->evaluations >= 10)
                cr_assert(fabs(e->seconds_left - left) <= 0.25 * left + 2.0, "%g instead of %g",
                          e->seconds_left, left);
        }
        lab_close(lab);
    }
}

/* A second for each build: the budget is overrun by less than two configurations. */
Test(session, no_budget_is_overrun_by_more_than_a_configuration) {
    static const double budgets[] = {0.1, 0.9, 1.5, 2.0, 3.3, 5.0, 10.0, 20.0};

    for (size_t n = 0; n < sizeof budgets / sizeof *budgets; n++) {
        struct lab *lab = lab_session(&slow_builds, PROBLEMS,
                                      &(struct ca_session_options){.max_seconds = budgets[n]});
        cr_assert(lab->num_builds > 0 && lab->results[0].num_top > 0);
        cr_assert(lab->seconds <= budgets[n] + 1.5, "%g for %g", lab->seconds, budgets[n]);
        lab_close(lab);
    }
    for (size_t evaluations = 1; evaluations < 20; evaluations++) {
        struct lab *lab = lab_session(&(struct lab_device){.noise = 0.0}, PROBLEMS,
                                      &(struct ca_session_options){.max_evaluations = evaluations});
        cr_assert(lab->num_builds == evaluations);
        cr_assert(lab->results[0].has_confidence == (evaluations >= 8), "a few say nothing");
        /* The third has an incumbent of its own: without it, nothing is found. */
        cr_assert(lab->results[1].num_top > 0 && lab->measured[2][0] == 1);
        cr_assert((lab->results[2].num_top > 0) == (evaluations >= 2), "%zu", evaluations);
        cr_assert(lab->results[2].too_early == (evaluations < 2));
        lab_close(lab);
    }
}

/* A large problem costs more to measure than a program to build: only what it asks for. */
Test(session, what_costs_more_than_a_build_is_measured_if_asked_for) {
    struct lab *lab =
        lab_session(&(struct lab_device){.build_seconds = 1.0, .reading_seconds = 0.05}, PROBLEMS,
                    &(struct ca_session_options){.seed = 1, .max_seconds = 60.0});

    cr_assert(lab->results[0].evaluations == lab->results[1].evaluations);
    cr_assert(2 * lab->results[2].evaluations < lab->results[0].evaluations, "%zu of %zu",
              lab->results[2].evaluations, lab->results[0].evaluations);
    for (size_t p = 0; p < PROBLEMS; p++) /* there was time for a race */
        cr_assert(lab->results[p].raced && lab->results[p].top[0].num_times >= 5);
    lab_close(lab);
}

ParameterizedTestParameters(session, what_fails_is_never_in_the_top) {
    static int strategies[] = {CA_GUIDED, CA_RANDOM, CA_EXHAUSTIVE};
    return cr_make_param_array(int, strategies, CA_NUM_STRATEGIES);
}

ParameterizedTest(int *strategy, session, what_fails_is_never_in_the_top) {
    struct lab *lab =
        lab_session(&(struct lab_device){.noise = 0.01, .failing = true}, PROBLEMS,
                    &(struct ca_session_options){.strategy = (enum ca_strategy) * strategy});
    bool seen[CA_NUM_OUTCOMES] = {false};

    lab_assert_found(lab, PROBLEMS, 0.02);
    cr_assert(lab->num_builds == ALL);
    for (size_t n = 0; n < lab->num_known; n++)
        seen[lab->known[n].reading.outcome] = true;
    for (int n = 0; n < CA_NUM_OUTCOMES; n++)
        cr_assert(seen[n]);
    lab_close(lab);
}

Test(session, nothing_works) {
    struct lab *lab = lab_open(&(struct lab_device){.failing = true});
    struct ca_session_options options = {
        .max_evaluations = 2, .candidates = lab_candidates, .user = lab};
    const struct ca_measurer measurer = lab_measurer(lab);
    const size_t bad[] = {2, 12};
    const struct ca_session_problem problem = {bad, 2, NULL};
    struct ca_session_result result;

    cr_assert(lab_outcome(lab, 0, 2, false) != CA_CORRECT);
    cr_assert(ca_session_run(lab->space, &measurer, &problem, 1, &options, &result));
    cr_assert(result.num_top == 0 && !result.raced && !result.has_confidence &&
              result.noise == 0.0);
    cr_assert(result.evaluations == 2);
    options.max_evaluations = 10;
    cr_assert(ca_session_run(lab->space, &measurer, &problem, 1, &options, &result));
    cr_assert(result.num_top > 0 && result.top[0].ratio.middle == 1.0, "no incumbent works");
    lab_close(lab);
}

Test(session, programs_that_are_the_same_are_measured_once) {
    struct lab *lab = lab_session(&(struct lab_device){.twins = true, .noise = 0.02}, PROBLEMS,
                                  &(struct ca_session_options){.seed = 2});
    size_t measured = 0;

    for (size_t config = 0; config < ALL; config++)
        measured += lab->measured[0][config];
    cr_assert(lab->num_builds == ALL && measured == ALL / 2);
    cr_assert(lab->results[0].evaluations == ALL);
    for (size_t a = 0; a < CA_TOP; a++) /* no program twice */
        for (size_t b = 0; b < a; b++)
            cr_assert(lab->results[0].top[a].config / 2 != lab->results[0].top[b].config / 2);
    for (size_t n = 0; n < lab->num_known; n++)
        for (size_t m = 0; m < n; m++)
            if (lab->known[n].problem == lab->known[m].problem &&
                lab->known[n].reading.binary == lab->known[m].reading.binary)
                cr_assert(lab->known[n].reading.times[0] == lab->known[m].reading.times[0]);
    lab_close(lab);
}

/* Among what the second does not allow is a seed of the first. */
Test(session, what_a_problem_does_not_allow_is_not_built_for_it) {
    struct lab *lab = lab_session(&(struct lab_device){.second_excludes = true}, PROBLEMS,
                                  &(struct ca_session_options){.seed = 4});

    cr_assert(!lab_allows(lab, 1, lab_seeds[0][1]) && lab_allows(lab, 1, lab_seeds[1][0]));
    cr_assert(lab->num_builds == ALL && lab->results[0].evaluations == ALL);
    cr_assert(lab->results[1].evaluations == 2 * ALL / 3);
    lab_assert_found(lab, PROBLEMS, 0.0);
    lab_close(lab);
}

static bool allows_first_kind(void *user, size_t problem, size_t config)
{
    const struct lab *lab = user;

    (void)problem;
    return ca_space_choices(lab->space, config)[2] == 0;
}

Test(session, what_no_problem_allows_is_not_built) {
    struct lab *lab = lab_open(&(struct lab_device){.noise = 0.0});
    const struct ca_measurer measurer = lab_measurer(lab);
    const struct ca_session_problem problem = {lab_seeds[0], 3, allows_first_kind};
    const struct ca_session_options options = {.candidates = lab_candidates, .user = lab};

    cr_assert(ca_session_run(lab->space, &measurer, &problem, 1, &options, lab->results));
    cr_assert(lab->num_builds == ALL / 3 && lab->results[0].evaluations == ALL / 3);
    lab_close(lab);
}

/* The same options and readings make the same session, whether configurations are chosen one by one. */
Test(session, a_seed_decides_everything) {
    for (size_t batch = 0; batch <= 3; batch += 3) {
        const struct lab_device device = {.noise = 0.05, .batch = batch};
        struct ca_session_options options = {
            .strategy = batch ? CA_GUIDED : CA_RANDOM, .seed = 21, .max_evaluations = 30};
        struct lab *a = lab_session(&device, PROBLEMS, &options);
        struct lab *b = lab_session(&device, PROBLEMS, &options);
        options.seed = 22;
        struct lab *c = lab_session(&device, PROBLEMS, &options);
        cr_assert(a->num_events == b->num_events);
        for (size_t n = 0; n < a->num_events; n++)
            cr_assert(a->events[n].config == b->events[n].config &&
                      a->events[n].problem == b->events[n].problem &&
                      a->events[n].phase == b->events[n].phase);
        for (size_t p = 0; p < PROBLEMS; p++)
            for (size_t n = 0; n < CA_TOP; n++)
                cr_assert(a->results[p].top[n].config == b->results[p].top[n].config &&
                          a->results[p].top[n].seconds.middle ==
                              b->results[p].top[n].seconds.middle);
        cr_assert(batch || memcmp(a->builds, c->builds, sizeof a->builds) != 0);
        lab_close(a);
        lab_close(b);
        lab_close(c);
    }
}

Test(session, phases_have_names) {
    static const char *const names[CA_NUM_PHASES] = {"seeds", "search", "finish", "race"};

    for (int phase = 0; phase < CA_NUM_PHASES; phase++)
        cr_assert_str_eq(ca_phase_name((enum ca_phase)phase), names[phase]);
}
