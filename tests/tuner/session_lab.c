/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tuner/session_lab.h"
#include "families/candidate.h"

#include <criterion/criterion.h>
#include <math.h>

struct lab *lab_open(const struct lab_device *device)
{
    struct lab *lab = calloc(1, sizeof *lab);

    cr_assert(lab);
    lab->device = *device;
    lab->space = made_up_space();
    lab->random.state = device->luck ? device->luck : 1;
    return lab;
}

void lab_close(struct lab *lab)
{
    ca_space_destroy(lab->space);
    free(lab);
}

/* The second problem has another optimum; the third is the first, twenty times as large. */
static double true_time(const struct lab *lab, size_t problem, size_t config)
{
    const uint16_t *at = ca_space_choices(lab->space, config);
    const double wanted = problem == 1 ? 2.0 : 4.0;
    const double flag = lab->device.twins ? 0.0 : 0.08 * (at[3] != at[0] % 2);
    const double time = 1.0 + 0.3 * fabs(at[0] - wanted) + 0.2 * fabs(at[1] - 0.5 * at[0]) +
                        0.15 * (at[2] != 1) + flag;

    if (lab->device.level)
        return lab->device.better && config == lab->device.better
                   ? 1e-3 - 1e-3 * (lab->device.gain ? lab->device.gain : 0.04)
                   : 1e-3;
    return time * (problem == 2 ? 20e-3 : 1e-3) *
           (lab->device.slow && config == lab->device.slow ? 4.0 : 1.0);
}

enum ca_outcome lab_outcome(const struct lab *lab, size_t problem, size_t config, bool built)
{
    const enum ca_outcome way = (enum ca_outcome)(1 + config / 5 % (CA_NUM_OUTCOMES - 1));

    if (!lab->device.failing || config % 5 != 2)
        return CA_CORRECT;
    if (config % 2 == 0)
        return way;
    return built && (problem == 1 || config % 3 != 0) ? way : CA_CORRECT;
}

bool lab_allows(void *user, size_t problem, size_t config)
{
    const struct lab *lab = user;

    return !lab->device.second_excludes || problem != 1 ||
           ca_space_choices(lab->space, config)[2] != 1;
}

size_t lab_optimum(struct lab *lab, size_t problem)
{
    size_t best = CA_NO_CONFIG;

    for (size_t config = 0; config < ALL; config++)
        if (lab_outcome(lab, problem, config, false) == CA_CORRECT &&
            lab_outcome(lab, problem, config, true) == CA_CORRECT &&
            lab_allows(lab, problem, config) &&
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
    lab->seconds += lab->device.reading_seconds * (problem == 2 ? 20.0 : 1.0);
    return true_time(lab, problem, config) *
           exp(sqrt(3.0) * lab->device.noise * chance + lab->device.drift * lab->seconds);
}

static void build(void *user, const struct ca_candidate *candidate, struct ca_reading *out)
{
    struct lab *lab = user;
    const size_t config = candidate->values[0];
    const uint16_t *at = ca_space_choices(lab->space, config);

    const double seconds = lab->device.quick && config == lab->device.quick
                               ? 0.5 * lab->device.build_seconds
                               : lab->device.build_seconds;

    *out = (struct ca_reading){
        .outcome = lab_outcome(lab, 0, config, false),
        .compile_seconds = seconds,
        .binary = 1 + (lab->device.twins ? (uint64_t)at[0] * 12 + at[1] * 3 + at[2] : config),
    };
    lab->builds[config]++;
    lab->num_builds++;
    lab->seconds += seconds;
}

static void measure(void *user, size_t problem, const struct ca_candidate *candidate, double best,
                    struct ca_reading *out)
{
    struct lab *lab = user;
    const size_t config = candidate->values[0];

    cr_assert(lab->builds[config] > 0 && lab_allows(lab, problem, config));
    cr_assert(best >= 0.0);
    lab->measured[problem][config]++;
    *out = (struct ca_reading){.outcome = lab_outcome(lab, problem, config, true), .error = 0.25};
    if (out->outcome == CA_CORRECT)
        for (; out->num_times < 3; out->num_times++)
            out->times[out->num_times] = reading(lab, problem, config);
}

static void run_round(void *user, size_t problem, const struct ca_candidate *candidates,
                      size_t count, double *times)
{
    struct lab *lab = user;

    cr_assert(count > 0 && count <= CA_FINALISTS);
    for (size_t n = 0; n < count; n++) {
        const size_t config = candidates[n].values[0];
        cr_assert(lab->builds[config] > 0 && lab_allows(lab, problem, config));
        times[n] = reading(lab, problem, config) * (n == 0 ? 1.0 + lab->device.first_slower : 1.0);
        if (lab->device.breaks && config == lab->device.breaks)
            times[n] = INFINITY;
        lab->raced[problem][config] += candidates[0].values[0] != candidates[count - 1].values[0];
    }
}

static void announced(void *user, const struct ca_candidate *candidates, size_t count)
{
    struct lab *lab = user;

    for (size_t n = 0; n < count; n++)
        cr_assert(candidates[n].values[0] < ALL);
    lab->num_announced += count;
}

/* Sessions do not look into candidates: here one has its configuration in values[0]. */
const struct ca_candidate *lab_candidates(void *user, const size_t *configs, size_t count)
{
    static struct ca_candidate candidates[CA_SESSION_MOST];

    (void)user;
    cr_assert(count <= CA_SESSION_MOST);
    for (size_t n = 0; n < count; n++)
        candidates[n].values[0] = configs[n];
    return candidates;
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
    return lab->num_events != lab->device.stop_at && lab->num_events != lab->device.stop_again_at;
}

/* Checks that hold for every session: nothing is measured twice, and only configurations that
 * work win. */
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
            cr_assert(lab_outcome(lab, p, f->config, false) == CA_CORRECT);
            cr_assert(lab_outcome(lab, p, f->config, true) == CA_CORRECT);
            cr_assert(lab_allows(lab, p, f->config));
            cr_assert(lab->device.breaks == 0 || !result->raced || f->config != lab->device.breaks);
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
const size_t lab_seeds[PROBLEMS][3] = {{0, 50, 100}, {0, 90}, {3}};

const size_t lab_num_seeds[PROBLEMS] = {3, 2, 1};

struct ca_measurer lab_measurer(struct lab *lab)
{
    return (struct ca_measurer){.user = lab,
                                .announce = announced,
                                .build = build,
                                .measure = measure,
                                .round = run_round,
                                .batch = lab->device.batch};
}

void lab_run(struct lab *lab, size_t num_problems, const struct ca_session_options *given)
{
    const struct ca_measurer measurer = lab_measurer(lab);
    struct ca_session_problem problems[PROBLEMS];
    struct ca_session_options options = *given;

    options.clock = now;
    options.event = event;
    options.candidates = lab_candidates;
    options.user = lab;
    for (size_t p = 0; p < num_problems; p++)
        problems[p] = (struct ca_session_problem){lab_seeds[p], lab_num_seeds[p], lab_allows};
    cr_assert(
        ca_session_run(lab->space, &measurer, problems, num_problems, &options, lab->results));
    check_results(lab, num_problems, 1 + (options.num_known > 0));
}

void lab_assert_found(struct lab *lab, size_t num_problems, double margin)
{
    for (size_t p = 0; p < num_problems; p++) {
        const double best = true_time(lab, p, lab_optimum(lab, p));
        cr_assert(lab->results[p].num_top > 0);
        const double got = true_time(lab, p, lab->results[p].top[0].config);
        cr_assert(got <= best * (1.0 + margin), "problem %zu: %g instead of %g", p, got, best);
    }
}

struct lab *lab_session(const struct lab_device *device, size_t num_problems,
                        const struct ca_session_options *given)
{
    struct lab *lab = lab_open(device);

    lab_run(lab, num_problems, given);
    return lab;
}
