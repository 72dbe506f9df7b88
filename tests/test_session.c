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
    cr_assert(lab->num_builds == 40 && lab->num_announced >= 40);
    lab_close(lab);
}
