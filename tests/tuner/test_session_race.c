/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a made-up device: interruptions and races. */
#include "tests/tuner/session_lab.h"

#include <criterion/criterion.h>
#include <string.h>

/* ---- interruptions --------------------------------------------------------------------------- */

/* Interrupted after each number of configurations, it goes on and builds nothing known again but
 * for the race. */
Test(session_race, it_goes_on_where_it_was) {
    const struct lab_device device = {.noise = 0.01};

    for (size_t evaluations = 1; evaluations <= 30; evaluations += 7) {
        struct lab *first =
            lab_session(&device, PROBLEMS,
                        &(struct ca_session_options){.seed = 9, .max_evaluations = evaluations});
        struct lab *second =
            lab_session(&device, PROBLEMS,
                        &(struct ca_session_options){.seed = 9,
                                                     .max_evaluations = 30,
                                                     .known = first->known,
                                                     .num_known = first->num_known});
        size_t again = 0;
        for (size_t config = 0; config < ALL; config++) {
            for (size_t p = 0; p < PROBLEMS; p++)
                cr_assert(!first->measured[p][config] || !second->measured[p][config]);
            again += first->builds[config] && second->builds[config];
        }
        cr_assert(again <= PROBLEMS * CA_FINALISTS);
        cr_assert(second->num_builds - again == 30 - evaluations, "%zu", second->num_builds);
        for (size_t p = 0; p < PROBLEMS; p++)
            cr_assert(second->results[p].evaluations == 30 && second->results[p].raced);
        lab_assert_found(second, PROBLEMS, 0.05);
        lab_close(first);
        lab_close(second);
    }
}

/* A configuration known for one problem only is built for the others, and counts as no new
 * evaluation. */
Test(session_race, what_another_problem_knows_is_no_new_evaluation) {
    static struct ca_known known[ALL];

    for (size_t config = 0; config < ALL; config++)
        known[config] = (struct ca_known){
            .config = config, .reading = {.times = {1e-3, 2e-3}, .num_times = 2, .error = 0.25}};
    struct lab *lab = lab_session(&(struct lab_device){.noise = 0.0}, 2,
                                  &(struct ca_session_options){.known = known, .num_known = ALL});
    cr_assert(lab->num_builds == ALL);
    for (size_t n = 0; n < lab->num_events; n++)
        cr_assert(lab->events[n].evaluations == ALL);
    for (size_t config = 0; config < ALL; config++)
        cr_assert(lab->measured[0][config] == 0 && lab->measured[1][config] == 1);
    lab_close(lab);
}

/* Ended as it begins again, it builds no finalists: what is known decides. */
Test(session_race, what_is_known_is_enough) {
    struct ca_session_options options = {.seed = 9, .max_evaluations = 30};
    struct lab *first = lab_session(&(struct lab_device){.noise = 0.01}, PROBLEMS, &options);

    options.known = first->known;
    options.num_known = first->num_known;
    struct lab *second =
        lab_session(&(struct lab_device){.noise = 0.01, .stop_at = 1}, PROBLEMS, &options);
    cr_assert(second->num_builds == 1 && second->num_events == 1);
    lab_assert_found(second, PROBLEMS, 0.05);
    for (size_t p = 0; p < PROBLEMS; p++)
        cr_assert(!second->results[p].raced && second->results[p].num_top == CA_TOP);
    lab_close(first);
    lab_close(second);
}

/* Ended at each event there is, and again at a later one, it still has results. */
Test(session_race, it_can_be_ended_at_any_event) {
    const struct ca_session_options options = {.seed = 6, .max_evaluations = 12};
    struct lab_device device = {.noise = 0.02, .failing = true};
    struct lab *whole = lab_session(&device, 2, &options);

    cr_assert(whole->num_events > 60);
    for (device.stop_at = 1; device.stop_at <= whole->num_events; device.stop_at++) {
        for (size_t more = 0; more <= 2; more++) {
            const size_t stop = device.stop_at;
            device.stop_again_at = more ? stop + more : 0;
            struct lab *lab = lab_session(&device, 2, &options);
            cr_assert(lab->num_events >= stop && lab->num_events <= stop + (more ? more : 24));
            cr_assert(lab->results[0].num_top > 0, "the first seed works");
            const size_t done = lab->events[stop - 1].evaluations;
            cr_assert(lab->num_builds == done && done <= 12, "nothing was built after it");
            for (size_t n = stop; n < lab->num_events; n++)
                cr_assert(!lab->events[n].reading, "nothing was measured after it");
            if (more == 0 && lab->events[stop - 1].phase != CA_PHASE_RACE && done > 1)
                cr_assert(lab->results[0].raced);
            lab_close(lab);
        }
    }
    lab_close(whole);
}

/* ---- races among equals ---------------------------------------------------------------------- */

static const size_t first_seed = 0, second_seed = 50, third_seed = 100;

/* Returns how many of the seeds 1 to `runs` make a configuration win the first problem's race. */
static size_t wins(struct lab_device device, size_t config, size_t evaluations, uint64_t runs)
{
    size_t count = 0;

    for (device.luck = 1; device.luck <= runs; device.luck++) {
        struct lab *lab = lab_session(
            &device, 1,
            &(struct ca_session_options){.seed = device.luck, .max_evaluations = evaluations});
        cr_assert(lab->results[0].raced == (device.stop_at == 0));
        count += lab->results[0].top[0].config == config;
        lab_close(lab);
    }
    return count;
}

/* The winners in twenty runs or more, with the number of their wins. */
Test(session_race, who_wins) {
    /* Ended at the last of 8 readings, after 16 rounds of noise, it has no race. */
    static const struct {
        const char *what;
        struct lab_device device;
        size_t evaluations, config, least, most, runs;
    } cases[] = {
        {"a tie goes to what builds faster",
         {.noise = 0.02, .level = true, .build_seconds = 1.0, .quick = third_seed},
         6,
         third_seed,
         14,
         20,
         20},
        {"where nothing builds faster it does not",
         {.noise = 0.02, .level = true, .build_seconds = 1.0},
         6,
         first_seed,
         16,
         20,
         20},
        {"what builds faster must tie, among equals that are 3 % behind one",
         {.noise = 0.002,
          .build_seconds = 1.0,
          .level = true,
          .better = second_seed,
          .gain = 0.03,
          .quick = third_seed},
         4,
         second_seed,
         20,
         20,
         20},
        {"where noise hides a tenth, what builds faster costs no tenth",
         {.noise = 0.2,
          .build_seconds = 1.0,
          .level = true,
          .better = second_seed,
          .gain = 0.1,
          .quick = third_seed},
         6,
         third_seed,
         0,
         10,
         60},
        {"a tie without a race keeps the incumbent",
         {.noise = 0.01, .level = true, .stop_at = 24, .stop_again_at = 25},
         8,
         first_seed,
         20,
         20,
         20},
        {"a tie without a race goes to what builds faster",
         {.noise = 0.001,
          .level = true,
          .build_seconds = 1.0,
          .quick = third_seed,
          .stop_at = 24,
          .stop_again_at = 25},
         8,
         third_seed,
         20,
         20,
         20},
        {"4 % against noise of 3 % and times that grow by a half",
         {.noise = 0.03,
          .reading_seconds = 0.01,
          .drift = 0.1,
          .level = true,
          .better = second_seed},
         8,
         second_seed,
         18,
         20,
         20},
        {"places in a round are random: nobody is the slower for being the first",
         {.noise = 0.01, .first_slower = 0.1, .level = true},
         3,
         first_seed,
         16,
         20,
         20},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const size_t count =
            wins(cases[n].device, cases[n].config, cases[n].evaluations, cases[n].runs);
        cr_expect(count >= cases[n].least && count <= cases[n].most, "%s: %zu of %zu",
                  cases[n].what, count, cases[n].runs);
    }
}

/* No problem's winner claims to be faster where all are equal, and few incumbents go. */
Test(session_race, a_tie_keeps_the_incumbent) {
    size_t kept = 0, claimed = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lab *lab =
            lab_session(&(struct lab_device){.luck = seed, .noise = 0.03, .level = true}, PROBLEMS,
                        &(struct ca_session_options){.seed = seed, .max_evaluations = 8});
        for (size_t p = 0; p < PROBLEMS; p++) {
            const struct ca_session_result *result = &lab->results[p];
            cr_assert(result->raced && result->num_top == CA_TOP);
            kept += result->top[0].config == lab_seeds[p][0];
            claimed += result->top[0].ratio.high < 0.98;
        }
        lab_close(lab);
    }
    cr_assert(kept >= 48 && claimed == 0, "%zu kept of 60, %zu claims", kept, claimed);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* One that has nobody to race with takes no more rounds than its own time's interval needs. */
Test(session_race, a_lone_finalist_is_soon_done) {
    struct lab *lab = lab_session(&(struct lab_device){.noise = 0.0}, 1,
                                  &(struct ca_session_options){.max_evaluations = 1});

    cr_assert(lab->results[0].raced && lab->results[0].top[0].num_times == 6, "%zu",
              lab->results[0].top[0].num_times);
    lab_close(lab);
}

Test(session_race, its_noise_is_measured) {
    static const double noises[] = {0.0, 0.01, 0.1};
    double before = -1.0;

    for (size_t n = 0; n < 3; n++) {
        struct lab *lab = lab_session(&(struct lab_device){.noise = noises[n]}, 1,
                                      &(struct ca_session_options){.max_evaluations = 3});
        const double noise = lab->results[0].noise;
        cr_assert(noise > before && noise >= 0.3 * noises[n] && noise <= 2.0 * noises[n], "%g",
                  noise);
        before = noise;
        lab_close(lab);
    }
}

Test(session_race, who_fails_in_a_race_is_out) {
    struct lab *lab = lab_open(&(struct lab_device){.noise = 0.01});
    const size_t breaks = lab->device.breaks = lab_optimum(lab, 0);

    lab_run(lab, 1, &(struct ca_session_options){.seed = 7, .max_evaluations = 40});
    cr_assert(lab->measured[0][breaks] == 1 && lab->raced[0][breaks] == 1);
    cr_assert(lab->results[0].raced && lab->results[0].num_top == CA_TOP);
    lab_assert_found(lab, 1, 0.12);
    lab_close(lab);
}

/* The incumbent takes part however slow it is; who is slower leaves before the end. */
Test(session_race, losers_leave) {
    struct lab *lab = lab_session(&(struct lab_device){.noise = 0.01}, 1,
                                  &(struct ca_session_options){.seed = 7, .max_evaluations = 40});
    const struct ca_session_result *result = &lab->results[0];
    const size_t incumbent = lab->raced[0][first_seed];

    cr_assert(incumbent == 6, "%zu", incumbent);
    cr_assert(result->top[0].num_times >= 12);
    cr_assert(result->top[4].num_times < result->top[0].num_times);
    for (size_t n = 1; n < CA_TOP; n++)
        cr_assert(result->top[n].seconds.middle >= 0.97 * result->top[n - 1].seconds.middle);
    lab_close(lab);
}
