/* Sessions on a made-up device: its clock, noise, drift and failures are simulated. */
#include "random.h"
#include "session.h"
#include "test_tuner_fixture.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

enum { ALL = 108, PROBLEMS = 3, MAX_EVENTS = 4000 };

struct lab {
    struct ca_space *space;
    struct ca_random random;
    double seconds;                        /* the clock */
    double build_seconds, reading_seconds; /* what things cost */
    double noise;                          /* relative deviation of a reading */
    double drift;                          /* growth of all times per second */
    bool level;                            /* all take the same time, but one */
    size_t better;                         /* ... which is 4 % faster; 0: none */
    bool twins;                            /* the flag makes no difference to the program */
    bool failing;                          /* see outcome() */
    bool second_excludes;                  /* see allows() */
    size_t stop_at, stop_again_at;         /* events that answer false; 0: none */
    size_t builds[ALL], measured[PROBLEMS][ALL];
    size_t num_builds, num_rounds, num_announced, num_events;
    struct ca_session_event events[MAX_EVENTS];
    struct ca_known known[PROBLEMS * ALL]; /* the readings of all events */
    size_t num_known;
    struct ca_session_result results[PROBLEMS];
};

static struct lab *lab_open(void)
{
    struct lab *lab = calloc(1, sizeof *lab);

    cr_assert(lab);
    lab->space = made_up_space();
    lab->random.state = 1;
    return lab;
}

static void lab_close(struct lab *lab)
{
    ca_space_destroy(lab->space);
    free(lab);
}

/* The second problem has another optimum; the third is the first, twenty times as large. */
static double true_time(const struct lab *lab, size_t problem, size_t config)
{
    const uint16_t *at = ca_space_choices(lab->space, config);
    const double wanted = problem == 1 ? 2.0 : 4.0;
    const double flag = lab->twins ? 0.0 : 0.08 * (at[3] != at[0] % 2);
    const double time = 1.0 + 0.3 * fabs(at[0] - wanted) + 0.2 * fabs(at[1] - 0.5 * at[0]) +
                        0.15 * (at[2] != 1) + flag;

    if (lab->level)
        return lab->better && config == lab->better ? 0.96e-3 : 1e-3;
    return time * (problem == 2 ? 20e-3 : 1e-3);
}

/* A fifth of all fail in every way there is, half of them when built, the others when measured;
 * some of these on the second problem only. */
static enum ca_outcome outcome(const struct lab *lab, size_t problem, size_t config, bool built)
{
    const enum ca_outcome way = (enum ca_outcome)(1 + config / 5 % (CA_NUM_OUTCOMES - 1));

    if (!lab->failing || config % 5 != 2)
        return CA_CORRECT;
    if (config % 2 == 0)
        return way;
    return built && (problem == 1 || config % 3 != 0) ? way : CA_CORRECT;
}

static bool allows(void *user, size_t problem, size_t config)
{
    const struct lab *lab = user;

    return !lab->second_excludes || problem != 1 || ca_space_choices(lab->space, config)[2] != 1;
}

/* The fastest that works. */
static size_t optimum(struct lab *lab, size_t problem)
{
    size_t best = CA_NO_CONFIG;

    for (size_t config = 0; config < ALL; config++)
        if (outcome(lab, problem, config, false) == CA_CORRECT &&
            outcome(lab, problem, config, true) == CA_CORRECT && allows(lab, problem, config) &&
            (best == CA_NO_CONFIG ||
             true_time(lab, problem, config) < true_time(lab, problem, best)))
            best = config;
    return best;
}

static double reading(struct lab *lab, size_t problem, size_t config)
{
    double chance = -2.0;

    for (int n = 0; n < 4; n++)
        chance += ca_random_unit(&lab->random);
    lab->seconds += lab->reading_seconds * (problem == 2 ? 20.0 : 1.0);
    return true_time(lab, problem, config) *
           exp(sqrt(3.0) * lab->noise * chance + lab->drift * lab->seconds);
}

static void build(void *user, size_t config, struct ca_reading *out)
{
    struct lab *lab = user;
    const uint16_t *at = ca_space_choices(lab->space, config);

    *out = (struct ca_reading){
        .outcome = outcome(lab, 0, config, false),
        .compile_seconds = lab->build_seconds,
        .binary = 1 + (lab->twins ? (uint64_t)at[0] * 12 + at[1] * 3 + at[2] : config),
    };
    lab->builds[config]++;
    lab->num_builds++;
    lab->seconds += lab->build_seconds;
}

static void measure(void *user, size_t problem, size_t config, double best, struct ca_reading *out)
{
    struct lab *lab = user;

    cr_assert(lab->builds[config] > 0 && allows(lab, problem, config));
    cr_assert(best >= 0.0);
    lab->measured[problem][config]++;
    *out = (struct ca_reading){.outcome = outcome(lab, problem, config, true), .error = 0.25};
    if (out->outcome == CA_CORRECT)
        for (; out->num_times < 3; out->num_times++)
            out->times[out->num_times] = reading(lab, problem, config);
}

static void run_round(void *user, size_t problem, const size_t *configs, size_t count,
                      double *times)
{
    struct lab *lab = user;

    cr_assert(count > 0 && count <= CA_FINALISTS);
    lab->num_rounds++;
    for (size_t n = 0; n < count; n++) {
        cr_assert(lab->builds[configs[n]] > 0 && allows(lab, problem, configs[n]));
        times[n] = reading(lab, problem, configs[n]);
    }
}

static void announced(void *user, const size_t *configs, size_t count)
{
    struct lab *lab = user;

    for (size_t n = 0; n < count; n++)
        cr_assert(configs[n] < ALL);
    lab->num_announced += count;
}

static double now(void *user)
{
    return ((struct lab *)user)->seconds;
}

static bool event(void *user, const struct ca_session_event *e)
{
    struct lab *lab = user;

    cr_assert(lab->num_events < MAX_EVENTS && e->problem < PROBLEMS && e->config < ALL);
    if (e->reading)
        lab->known[lab->num_known++] = (struct ca_known){e->problem, e->config, *e->reading};
    lab->events[lab->num_events++] = *e;
    return lab->num_events != lab->stop_at && lab->num_events != lab->stop_again_at;
}

/* What holds for every session: all that was measured once at most, and only what works wins. */
static void check_results(struct lab *lab, size_t num_problems, size_t times_built)
{
    for (size_t config = 0; config < ALL; config++) {
        cr_assert(lab->builds[config] <= times_built, "%zu", lab->builds[config]);
        for (size_t p = 0; p < num_problems; p++)
            cr_assert(lab->measured[p][config] <= 1);
    }
    for (size_t p = 0; p < num_problems; p++) {
        const struct ca_session_result *result = &lab->results[p];
        cr_assert(result->num_top <= CA_TOP && result->noise >= 0.0 && result->noise < 1.0);
        for (size_t n = 0; n < result->num_top; n++) {
            const struct ca_finalist *f = &result->top[n];
            cr_assert(outcome(lab, p, f->config, false) == CA_CORRECT);
            cr_assert(outcome(lab, p, f->config, true) == CA_CORRECT);
            cr_assert(allows(lab, p, f->config));
            cr_assert(f->num_times > 0 && f->num_times <= CA_READING_TIMES && f->error == 0.25);
            cr_assert(f->seconds.low > 0.0 && f->seconds.low <= f->seconds.middle &&
                      f->seconds.middle <= f->seconds.high && f->seconds.high < 1.0);
            cr_assert(f->ratio.low > 0.0 && f->ratio.low <= f->ratio.middle &&
                      f->ratio.middle <= f->ratio.high);
            for (size_t m = 0; m < n; m++)
                cr_assert(result->top[m].config != f->config);
        }
    }
}

/* The slowest of a kind and some others. */
static const size_t seeds[PROBLEMS][3] = {{0, 50, 100}, {0, 90}, {3}};

static const size_t num_seeds[PROBLEMS] = {3, 2, 1};

/* Runs a session; options get the lab's hooks. */
static void run(struct lab *lab, size_t num_problems, const struct ca_session_options *given)
{
    const struct ca_bench bench = {lab, announced, build, measure, run_round};
    struct ca_session_problem problems[PROBLEMS];
    struct ca_session_options options = *given;

    options.clock = now;
    options.event = event;
    options.user = lab;
    for (size_t p = 0; p < num_problems; p++)
        problems[p] = (struct ca_session_problem){seeds[p], num_seeds[p], allows};
    cr_assert(ca_session_run(lab->space, &bench, problems, num_problems, &options, lab->results));
    check_results(lab, num_problems, 1 + (options.num_known > 0));
}

static void assert_found(struct lab *lab, size_t num_problems, double margin)
{
    for (size_t p = 0; p < num_problems; p++) {
        const double best = true_time(lab, p, optimum(lab, p));
        cr_assert(lab->results[p].num_top > 0);
        const double got = true_time(lab, p, lab->results[p].top[0].config);
        cr_assert(got <= best * (1.0 + margin), "problem %zu: %g instead of %g", p, got, best);
    }
}

Test(session, the_optimum_of_each_problem_is_found) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.seed = 7, .max_evaluations = 40};

    lab->noise = 0.01;
    run(lab, PROBLEMS, &options);
    assert_found(lab, PROBLEMS, 0.02);
    for (size_t p = 0; p < PROBLEMS; p++) {
        const struct ca_session_result *result = &lab->results[p];
        cr_assert(result->raced && result->num_top == CA_TOP && result->evaluations == 40);
        cr_assert(result->has_outlook && result->outlook.within_5 > 0.0);
        cr_assert(result->top[0].ratio.high < 1.0, "the incumbent is bad");
        cr_assert(result->noise > 0.0 && result->noise < 0.03, "%g", result->noise);
    }
    cr_assert(lab->num_builds == 40 && lab->num_announced == 5);
    lab_close(lab);
}

Test(session, what_is_slow_to_build_fits_the_time) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.seed = 3, .max_seconds = 60.0};

    lab->noise = 0.02;
    lab->drift = 0.003;
    lab->build_seconds = 1.0;
    lab->reading_seconds = 0.002;
    run(lab, PROBLEMS, &options);
    assert_found(lab, PROBLEMS, 0.1);
    cr_assert(lab->seconds > 40.0 && lab->seconds <= 61.0, "%g", lab->seconds);
    cr_assert(lab->num_builds > 35);
    for (size_t p = 0; p < PROBLEMS; p++)
        cr_assert(lab->results[p].raced);
    lab_close(lab);
}

/* The time left may be off by a quarter, and two seconds near the end. */
static void assert_estimates(const struct lab *lab)
{
    for (size_t n = 0; n < lab->num_events; n++) {
        const struct ca_session_event *e = &lab->events[n];
        const double left = lab->seconds - e->seconds;
        if (e->evaluations >= 10)
            cr_assert(fabs(e->seconds_left - left) <= 0.25 * left + 2.0, "%g instead of %g",
                      e->seconds_left, left);
    }
}

Test(session, the_time_left_is_estimated) {
    struct lab *lab = lab_open();
    struct ca_session_options options = {.seed = 3, .max_seconds = 60.0};

    lab->noise = 0.02;
    lab->build_seconds = 1.0;
    lab->reading_seconds = 0.002;
    run(lab, PROBLEMS, &options);
    assert_estimates(lab);
    lab_close(lab);
    lab = lab_open();
    lab->noise = 0.02;
    lab->build_seconds = 0.7;
    lab->reading_seconds = 0.002;
    options = (struct ca_session_options){.seed = 3, .max_evaluations = 50};
    run(lab, PROBLEMS, &options);
    assert_estimates(lab);
    lab_close(lab);
}

/* A second for each build: the budget is overrun by less than two configurations. */
Test(session, no_budget_is_overrun_by_more_than_a_configuration) {
    static const double budgets[] = {0.1, 0.9, 1.5, 2.0, 3.3, 5.0, 10.0, 20.0};

    for (size_t n = 0; n < sizeof budgets / sizeof *budgets; n++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.max_seconds = budgets[n]};
        lab->noise = 0.02;
        lab->build_seconds = 1.0;
        lab->reading_seconds = 0.002;
        run(lab, PROBLEMS, &options);
        cr_assert(lab->num_builds > 0 && lab->results[0].num_top > 0);
        cr_assert(lab->seconds <= budgets[n] + 1.5, "%g for %g", lab->seconds, budgets[n]);
        lab_close(lab);
    }
    for (size_t evaluations = 1; evaluations < 20; evaluations++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.max_evaluations = evaluations};
        run(lab, PROBLEMS, &options);
        cr_assert(lab->num_builds == evaluations);
        lab_close(lab);
    }
}

/* A large problem costs more to measure than a program to build: only what it asks for. */
Test(session, what_costs_more_than_a_build_is_measured_if_asked_for) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.seed = 1, .max_seconds = 60.0};

    lab->build_seconds = 1.0;
    lab->reading_seconds = 0.05;
    run(lab, PROBLEMS, &options);
    cr_assert(lab->results[0].evaluations == lab->results[1].evaluations);
    cr_assert(2 * lab->results[2].evaluations < lab->results[0].evaluations, "%zu of %zu",
              lab->results[2].evaluations, lab->results[0].evaluations);
    cr_assert(lab->results[2].num_top > 0);
    lab_close(lab);
}

Test(session, what_fails_is_never_in_the_top) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.seed = 5};
    bool seen[CA_NUM_OUTCOMES] = {false};

    lab->failing = true;
    lab->noise = 0.01;
    run(lab, PROBLEMS, &options);
    assert_found(lab, PROBLEMS, 0.02);
    cr_assert(lab->num_builds == ALL);
    for (size_t n = 0; n < lab->num_known; n++)
        seen[lab->known[n].reading.outcome] = true;
    for (int n = 0; n < CA_NUM_OUTCOMES; n++)
        cr_assert(seen[n]);
    lab_close(lab);
}

Test(session, nothing_works) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.max_evaluations = 10};
    const struct ca_bench bench = {lab, NULL, build, measure, run_round};
    const size_t bad[] = {2, 12};
    const struct ca_session_problem problem = {bad, 2, NULL};
    struct ca_session_result result;

    lab->failing = true;
    for (size_t config = 0; config < ALL; config++)
        lab->failing &= config != 2 || outcome(lab, 0, config, false) != CA_CORRECT;
    const struct ca_session_options two = {.max_evaluations = 2};
    cr_assert(ca_session_run(lab->space, &bench, &problem, 1, &two, &result));
    cr_assert(result.num_top == 0 && !result.raced && !result.has_outlook && result.noise == 0.0);
    cr_assert(result.evaluations == 2);
    cr_assert(ca_session_run(lab->space, &bench, &problem, 1, &options, &result));
    cr_assert(result.num_top > 0 && result.top[0].ratio.middle == 1.0, "no incumbent works");
    lab_close(lab);
}

Test(session, programs_that_are_the_same_are_measured_once) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.seed = 2};
    size_t measured = 0;

    lab->twins = true;
    lab->noise = 0.02;
    run(lab, PROBLEMS, &options);
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

Test(session, what_a_problem_does_not_allow_is_not_built_for_it) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.seed = 4};

    lab->second_excludes = true; /* among them a seed of the first */
    cr_assert(!allows(lab, 1, seeds[0][1]) && allows(lab, 1, seeds[1][0]));
    run(lab, PROBLEMS, &options);
    cr_assert(lab->num_builds == ALL && lab->results[0].evaluations == ALL);
    cr_assert(lab->results[1].evaluations == 2 * ALL / 3);
    assert_found(lab, PROBLEMS, 0.0);
    lab_close(lab);
}

static bool allows_first_kind(void *user, size_t problem, size_t config)
{
    const struct lab *lab = user;

    (void)problem;
    return ca_space_choices(lab->space, config)[2] == 0;
}

Test(session, what_no_problem_allows_is_not_built) {
    struct lab *lab = lab_open();
    const struct ca_bench bench = {lab, announced, build, measure, run_round};
    const struct ca_session_problem problem = {seeds[0], 3, allows_first_kind};
    const struct ca_session_options options = {.user = lab};

    cr_assert(ca_session_run(lab->space, &bench, &problem, 1, &options, lab->results));
    cr_assert(lab->num_builds == ALL / 3 && lab->results[0].evaluations == ALL / 3);
    lab_close(lab);
}

/* The same options and readings make the same session. */
Test(session, a_seed_decides_everything) {
    struct lab *a = lab_open(), *b = lab_open(), *c = lab_open();
    struct ca_session_options options = {.strategy = CA_GENETIC, .seed = 21, .max_evaluations = 30};

    a->noise = b->noise = c->noise = 0.05;
    run(a, PROBLEMS, &options);
    run(b, PROBLEMS, &options);
    cr_assert(a->num_events == b->num_events);
    for (size_t n = 0; n < a->num_events; n++)
        cr_assert(a->events[n].config == b->events[n].config &&
                  a->events[n].problem == b->events[n].problem &&
                  a->events[n].phase == b->events[n].phase);
    for (size_t p = 0; p < PROBLEMS; p++)
        for (size_t n = 0; n < CA_TOP; n++)
            cr_assert(a->results[p].top[n].config == b->results[p].top[n].config &&
                      a->results[p].top[n].seconds.middle == b->results[p].top[n].seconds.middle);
    options.seed = 22;
    run(c, PROBLEMS, &options);
    cr_assert(memcmp(a->builds, c->builds, sizeof a->builds) != 0);
    lab_close(a);
    lab_close(b);
    lab_close(c);
}

ParameterizedTestParameters(session, every_strategy_can_be_chosen) {
    static int strategies[] = {CA_GUIDED,    CA_ILS,    CA_GENETIC,
                               CA_ANNEALING, CA_RANDOM, CA_EXHAUSTIVE};
    return cr_make_param_array(int, strategies, CA_NUM_STRATEGIES);
}

ParameterizedTest(int *strategy, session, every_strategy_can_be_chosen) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.strategy = (enum ca_strategy) * strategy};

    lab->noise = 0.01;
    lab->failing = true;
    run(lab, PROBLEMS, &options);
    cr_assert(lab->num_builds == ALL);
    assert_found(lab, PROBLEMS, 0.02);
    lab_close(lab);
}

/* Interrupted after each number of configurations, it goes on and builds nothing known again but
 * for the race. */
Test(session, it_goes_on_where_it_was) {
    static struct ca_known known[PROBLEMS * ALL];
    struct ca_session_options options = {.seed = 9, .max_evaluations = 30};

    for (size_t evaluations = 1; evaluations <= 30; evaluations += 7) {
        struct lab *first = lab_open(), *second = lab_open();
        size_t again = 0;
        first->noise = second->noise = 0.01;
        options.max_evaluations = evaluations;
        options.known = NULL;
        options.num_known = 0;
        run(first, PROBLEMS, &options);
        memcpy(known, first->known, sizeof known);
        options.max_evaluations = 30;
        options.known = known;
        options.num_known = first->num_known;
        run(second, PROBLEMS, &options);
        for (size_t config = 0; config < ALL; config++) {
            for (size_t p = 0; p < PROBLEMS; p++)
                cr_assert(!first->measured[p][config] || !second->measured[p][config]);
            again += first->builds[config] && second->builds[config];
        }
        cr_assert(again <= PROBLEMS * CA_FINALISTS);
        cr_assert(second->num_builds - again == 30 - evaluations, "%zu", second->num_builds);
        for (size_t p = 0; p < PROBLEMS; p++)
            cr_assert(second->results[p].evaluations == 30 && second->results[p].raced);
        assert_found(second, PROBLEMS, 0.05);
        lab_close(first);
        lab_close(second);
    }
}

/* Ended at each event there is, and again at a later one, it still has results. */
Test(session, it_can_be_ended_at_any_event) {
    const struct ca_session_options options = {.seed = 6, .max_evaluations = 12};
    struct lab *whole = lab_open();
    whole->noise = 0.02;
    whole->failing = true;
    run(whole, 2, &options);
    cr_assert(whole->num_events > 60);
    for (size_t stop = 1; stop <= whole->num_events; stop++) {
        for (size_t more = 0; more <= 2; more++) {
            struct lab *lab = lab_open();
            lab->noise = 0.02;
            lab->failing = true;
            lab->stop_at = stop;
            lab->stop_again_at = more ? stop + more : 0;
            run(lab, 2, &options);
            cr_assert(lab->num_events >= stop && lab->num_events <= stop + (more ? more : 24));
            cr_assert(lab->results[0].num_top > 0, "the first seed works");
            const size_t done = lab->events[stop - 1].evaluations;
            cr_assert(lab->num_builds == done && done <= 12, "nothing was built after it");
            if (more == 0 && lab->events[stop - 1].phase != CA_PHASE_RACE && done > 1)
                cr_assert(lab->results[0].raced);
            lab_close(lab);
        }
    }
    lab_close(whole);
}

/* Equal configurations: the incumbent stays, whatever chance says. */
Test(session, a_tie_keeps_the_incumbent) {
    size_t kept = 0, claimed = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 8};
        lab->random.state = seed;
        lab->noise = 0.03;
        lab->level = true;
        run(lab, PROBLEMS, &options);
        for (size_t p = 0; p < PROBLEMS; p++) {
            const struct ca_session_result *result = &lab->results[p];
            cr_assert(result->raced && result->num_top == CA_TOP);
            kept += result->top[0].config == seeds[p][0];
            claimed += result->top[0].ratio.high < 0.98;
        }
        lab_close(lab);
    }
    cr_assert(kept >= 48 && claimed == 0, "%zu kept of 60, %zu claims", kept, claimed);
}

/* What is 4 % faster wins a race against noise of 3 % and times that grow by a half. */
Test(session, a_small_gain_is_found) {
    size_t found = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 8};
        lab->random.state = seed;
        lab->noise = 0.03;
        lab->reading_seconds = 0.01;
        lab->drift = 0.1;
        lab->level = true;
        lab->better = 50;
        run(lab, 1, &options);
        found += lab->results[0].top[0].config == 50;
        lab_close(lab);
    }
    cr_assert(found >= 18, "%zu of 20", found);
}

Test(session, its_noise_is_measured) {
    static const double noises[] = {0.0, 0.01, 0.1};
    double before = -1.0;

    for (size_t n = 0; n < 3; n++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.max_evaluations = 3};
        lab->noise = noises[n];
        run(lab, 1, &options);
        const double noise = lab->results[0].noise;
        cr_assert(noise > before && noise >= 0.3 * noises[n] && noise <= 2.0 * noises[n], "%g",
                  noise);
        before = noise;
        lab_close(lab);
    }
}

Test(session, phases_have_names) {
    cr_assert(strcmp(ca_phase_name(CA_PHASE_SEEDS), "seeds") == 0);
    cr_assert(strcmp(ca_phase_name(CA_PHASE_SEARCH), "search") == 0);
    cr_assert(strcmp(ca_phase_name(CA_PHASE_FINISH), "finish") == 0);
    cr_assert(strcmp(ca_phase_name(CA_PHASE_RACE), "race") == 0);
}
