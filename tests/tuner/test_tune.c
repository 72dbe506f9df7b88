/* SPDX-License-Identifier: Apache-2.0 */
/* clattn_tune() and CLATTN_PLAN_MEASURE on the device: what is searched is kept and used. */
#include "context/context.h"
#include "store/store.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/programs/scratch.h"
#include "tests/support/tables.h"
#include "tests/support/unoptimised.h"
#include "tune/tune.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(tune, .init = unoptimised, .timeout = 300);

static const char first[] = "fwd f32 h2 q64 d32", second[] = "fwd f32 h2 q256 d32";

/* The contents of a store, counted. */
struct census {
    size_t entries, classes, banned, stale;
    double fastest;
    char best[CA_CANDIDATE_TEXT]; /* of the class listed last */
};

static int count(const clattn_tuning_entry *e, void *user)
{
    struct census *census = user;

    if (e->quarantine) {
        census->banned++;
        return 0;
    }
    census->entries++;
    census->stale += e->stale != 0;
    if (e->rank == 0) {
        census->classes++;
        census->fastest = e->seconds;
        snprintf(census->best, sizeof census->best, "%s %s", e->family, e->tunables);
    }
    cr_assert(e->seconds > 0.0 && e->low <= e->seconds && e->seconds <= e->high);
    cr_assert(e->num_samples >= 3 && e->error <= 1.0 && e->when[0] && e->policy[0]);
    return 0;
}

static struct census take_census(const struct fixture *f)
{
    struct census census = {0};

    cr_assert(clattn_tuning_list(f->context, NULL, count, &census) == CLATTN_SUCCESS);
    return census;
}

static clattn_plan_info describe(struct fixture *f, const char *text, unsigned flags,
                                 double seconds, clattn_plan **plan)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .flags = flags, .measure_seconds = seconds};
    const clattn_problem problem = fixture_problem(text);
    clattn_plan_info info = {.struct_size = sizeof info};

    const clattn_status status = clattn_plan_create(f->context, &problem, &options, plan);
    cr_assert(status == CLATTN_SUCCESS, "%s: %s", clattn_status_string(status), f->log.last);
    cr_assert(clattn_plan_describe(*plan, &info) == CLATTN_SUCCESS);
    return info;
}

struct watched {
    size_t calls, most; /* ends after `most` calls; 0: never */
    size_t evaluations;
};

static int watch(const clattn_tuning_progress *p, void *user)
{
    struct watched *w = user;

    cr_assert(p->struct_size == sizeof *p && p->phase && p->problem_class && p->configuration);
    cr_assert(p->problem < p->num_problems && p->seconds >= 0.0 && p->seconds_left >= 0.0);
    cr_assert(p->evaluations >= w->evaluations);
    w->evaluations = p->evaluations;
    return ++w->calls == w->most;
}

Test(tune, what_is_found_is_kept_and_used) {
    char alive[256];
    const clattn_problem problems[3] = {fixture_problem(first), fixture_problem(second),
                                        fixture_problem("fwd f32 h2 q66 d32")};
    struct watched watched = {0};
    const clattn_tuning_options options = {.struct_size = sizeof options,
                                           .evaluations = 7,
                                           .seed = 1,
                                           .observer = watch,
                                           .user_data = &watched};
    struct fixture f;
    clattn_plan *plan;
    size_t tuned;

    scratch_open();
    fixture_open_checked(&f, scratch);
    const long objects = faults_objects_alive(alive, sizeof alive);
    cr_assert(clattn_tune(f.context, problems, 3, &options, &tuned) == CLATTN_SUCCESS, "%s",
              f.log.last);
    cr_assert(tuned == 2, "the third is of the first one's class: %zu", tuned);
    cr_assert(watched.calls > 4 && watched.evaluations <= 8, "%zu", watched.evaluations);
    cr_assert(faults_objects_alive(alive, sizeof alive) - objects <= 8, "%s", alive);
    const struct census census = take_census(&f);
    /* What is far slower than the best is timed once, and not kept. */
    cr_assert(census.classes == 2 && census.entries >= 2 && census.stale == 0);

    /* A plan of the class uses it; one that was tuned is not tuned again. */
    struct census other = {0};
    cr_assert(clattn_tuning_list(f.context, &problems[1], count, &other) == CLATTN_SUCCESS);
    cr_assert(other.classes == 1);
    clattn_plan_info info = describe(&f, "fwd f32 h2 q250 d32", CLATTN_PLAN_KNOWN_ONLY, 0.0, &plan);
    char used[CA_CANDIDATE_TEXT];
    snprintf(used, sizeof used, "%s %s", info.family, info.tunables);
    cr_assert(strcmp(used, other.best) == 0, "%s, not %s", used, other.best);
    cr_assert(strstr(info.reason, "tuned for this class") != NULL);
    clattn_plan_release(plan);
    watched.calls = 0;
    cr_assert(clattn_tune(f.context, problems, 3, &options, &tuned) == CLATTN_SUCCESS);
    cr_assert(tuned == 0 && watched.calls == 0);
    fixture_close(&f);

    /* Another process (here: another context) knows it too, and compiles nothing. */
    fixture_open_checked(&f, scratch);
    info = describe(&f, second, CLATTN_PLAN_KNOWN_ONLY, 0.0, &plan);
    cr_assert(clattn_context_builds(f.context) == 0);
    clattn_plan_release(plan);
    fixture_close(&f);
    scratch_close();
}

Test(tune, a_plan_that_measures) {
    struct fixture f;
    clattn_plan *plan;

    fixture_open_checked(&f, "");
    clattn_plan_info info = describe(&f, first, CLATTN_PLAN_MEASURE, 0.5, &plan);
    cr_assert(strstr(info.reason, "tuned for this class") != NULL, "%s", info.reason);
    clattn_plan_release(plan);
    const size_t builds = clattn_context_builds(f.context);
    info = describe(&f, first, CLATTN_PLAN_MEASURE, 0.5, &plan);
    cr_assert(clattn_context_builds(f.context) == builds, "it is known now");
    clattn_plan_release(plan);
    fixture_close(&f);
}

/* Puts an entry for the first problem into the store, with a time that was not measured. */
static void invent_entry(struct fixture *f, const char *text, bool stale, double seconds)
{
    const clattn_problem problem = fixture_problem(first);
    const struct ca_candidate candidate = table_candidate(text, &problem, &f->context->device);
    struct made_entry made;
    char class[256];

    cr_assert(clattn_problem_class(&problem, class, sizeof class, NULL) == CLATTN_SUCCESS);
    table_entry_of(&made, &candidate, seconds);
    if (stale)
        table_stale(&made);
    cr_assert(ca_store_put(f->context->store, class, &made.entry, 1) == CLATTN_SUCCESS);
}

/* Results of another kernel source are measured anew, without a search. */
Test(tune, stale_entries_are_renewed) {
    const clattn_problem problem = fixture_problem(first);
    struct watched watched = {0};
    const clattn_tuning_options options = {
        .struct_size = sizeof options, .evaluations = 20, .observer = watch, .user_data = &watched};
    struct fixture f;
    size_t tuned;

    fixture_open_checked(&f, "");
    invent_entry(&f, "unfused VECTOR_WIDTH=8 THREAD_N=8", true, 1.0);
    cr_assert(take_census(&f).stale == 1);
    cr_assert(clattn_tune(f.context, &problem, 1, &options, &tuned) == CLATTN_SUCCESS, "%s",
              f.log.last);
    cr_assert(tuned == 1 && watched.evaluations <= 2, "%zu", watched.evaluations);
    const struct census census = take_census(&f);
    cr_assert(census.entries - census.stale >= 1);
    fixture_close(&f);
}

/* An import may lie about its time; tuning again replaces it by what is measured. */
Test(tune, an_entry_that_lies_is_corrected) {
    const clattn_problem problem = fixture_problem(first);
    const clattn_tuning_options options = {
        .struct_size = sizeof options, .evaluations = 12, .again = 1}; /* a GPU has more families */
    struct fixture f;

    fixture_open_checked(&f, "");
    invent_entry(&f, "unfused VECTOR_WIDTH=8 THREAD_N=8", false, 1e-12);
    cr_assert(strncmp(take_census(&f).best, "unfused", 7) == 0);
    cr_assert(clattn_tune(f.context, &problem, 1, &options, NULL) == CLATTN_SUCCESS, "%s",
              f.log.last);
    const struct census census = take_census(&f);
    cr_assert(census.fastest > 1e-9, "%g s", census.fastest);
    fixture_close(&f);
}

Test(tune, ends_when_told) {
    const clattn_problem problem = fixture_problem(first);
    struct watched watched = {.most = 2};
    const clattn_tuning_options options = {
        .struct_size = sizeof options, .observer = watch, .user_data = &watched};
    struct fixture f;

    fixture_open_checked(&f, "");
    cr_assert(clattn_tune(f.context, &problem, 1, &options, NULL) == CLATTN_SUCCESS);
    cr_assert(watched.evaluations <= 2);
    fixture_close(&f);
}

DeviceTest(tune, mistakes_are_named)
{
    const clattn_problem good = fixture_problem(first);
    clattn_problem bad = good;
    clattn_tuning_options o = {.struct_size = sizeof o};
    size_t tuned = 7;

    bad.dim_qk = 0;
    cr_assert(clattn_tune(NULL, &good, 1, NULL, &tuned) == CLATTN_INVALID_ARGUMENT && tuned == 0);
    fixture_refused(f, clattn_tune(f->context, NULL, 1, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                    "no problem");
    fixture_refused(f, clattn_tune(f->context, &good, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                    "no problem");
    fixture_refused(f, clattn_tune(f->context, &bad, 1, NULL, NULL), CLATTN_INVALID_PROBLEM,
                    "dim_qk");
    o.strategy = "luck";
    fixture_refused(f, clattn_tune(f->context, &good, 1, &o, NULL), CLATTN_INVALID_ARGUMENT,
                    "strategy");
    o.strategy = NULL;
    o.seconds = -1.0;
    fixture_refused(f, clattn_tune(f->context, &good, 1, &o, NULL), CLATTN_INVALID_ARGUMENT,
                    "seconds");
    o.struct_size = 1;
    fixture_refused(f, clattn_tune(f->context, &good, 1, &o, NULL), CLATTN_INVALID_ARGUMENT,
                    "struct_size");
}

/* A device that computes nothing right: every configuration is banned, and the tuning fails. */
Test(tune, nothing_works) {
    const clattn_problem problem = fixture_problem("fwd f32 h1 q20 d24 lse");
    const clattn_tuning_options o = {.struct_size = sizeof o, .evaluations = 3};
    struct fixture f;
    clattn_plan *plan;

    fixture_open_checked(&f, "");
    faults_arm(FAULT_LIES, 0, 0);
    const clattn_status status = clattn_tune(f.context, &problem, 1, &o, NULL);
    cr_assert(status == CLATTN_MISCOMPILED, "%s", clattn_status_string(status));
    cr_assert(take_census(&f).banned >= 3 && take_census(&f).entries == 0);
    cr_assert(clattn_plan_create(f.context, &problem, NULL, &plan) != CLATTN_SUCCESS);
    cr_assert(plan == NULL);
    faults_disarm();
    fixture_close(&f);
}
