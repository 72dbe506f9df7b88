/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a made-up device: interruptions and races. */
#include "tests/tuner/session_lab.h"

#include <criterion/criterion.h>
#include <string.h>

/* Interrupted after each number of configurations, it goes on and builds nothing known again but
 * for the race. */
Test(session_race, it_goes_on_where_it_was) {
    static struct ca_known known[PROBLEMS * ALL];
    struct ca_session_options options = {.seed = 9, .max_evaluations = 30};

    for (size_t evaluations = 1; evaluations <= 30; evaluations += 7) {
        struct lab *first = lab_open(), *second = lab_open();
        size_t again = 0;
        first->noise = second->noise = 0.01;
        options.max_evaluations = evaluations;
        options.known = NULL;
        options.num_known = 0;
        lab_run(first, PROBLEMS, &options);
        memcpy(known, first->known, sizeof known);
        options.max_evaluations = 30;
        options.known = known;
        options.num_known = first->num_known;
        lab_run(second, PROBLEMS, &options);
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

/* What is known for one problem only is built for the others, and is no new evaluation. */
Test(session_race, what_another_problem_knows_is_no_new_evaluation) {
    static struct ca_known known[ALL];
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.known = known, .num_known = ALL};

    for (size_t config = 0; config < ALL; config++)
        known[config] = (struct ca_known){
            .config = config, .reading = {.times = {1e-3, 2e-3}, .num_times = 2, .error = 0.25}};
    lab_run(lab, 2, &options);
    cr_assert(lab->num_builds == ALL);
    for (size_t n = 0; n < lab->num_events; n++)
        cr_assert(lab->events[n].evaluations == ALL);
    for (size_t config = 0; config < ALL; config++)
        cr_assert(lab->measured[0][config] == 0 && lab->measured[1][config] == 1);
    lab_close(lab);
}

/* Ended as it begins again, it builds no finalists: what is known decides. */
Test(session_race, what_is_known_is_enough) {
    struct lab *first = lab_open(), *second = lab_open();
    struct ca_session_options options = {.seed = 9, .max_evaluations = 30};

    first->noise = second->noise = 0.01;
    lab_run(first, PROBLEMS, &options);
    options.known = first->known;
    options.num_known = first->num_known;
    second->stop_at = 1;
    lab_run(second, PROBLEMS, &options);
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
    struct lab *whole = lab_open();
    whole->noise = 0.02;
    whole->failing = true;
    lab_run(whole, 2, &options);
    cr_assert(whole->num_events > 60);
    for (size_t stop = 1; stop <= whole->num_events; stop++) {
        for (size_t more = 0; more <= 2; more++) {
            struct lab *lab = lab_open();
            lab->noise = 0.02;
            lab->failing = true;
            lab->stop_at = stop;
            lab->stop_again_at = more ? stop + more : 0;
            lab_run(lab, 2, &options);
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

/* Equal configurations: the incumbent stays, whatever chance says. */
Test(session_race, a_tie_keeps_the_incumbent) {
    size_t kept = 0, claimed = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 8};
        lab->random.state = seed;
        lab->noise = 0.03;
        lab->level = true;
        lab_run(lab, PROBLEMS, &options);
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

/* A session of equals, of which one builds in half the time. */
static struct lab *race_of_equals(uint64_t seed, size_t quick,
                                  const struct ca_session_options *options)
{
    struct lab *lab = lab_open();

    lab->random.state = seed;
    lab->noise = 0.02;
    lab->level = true;
    lab->build_seconds = 1.0;
    lab->quick = quick;
    lab_run(lab, 1, options);
    return lab;
}

/* Equal configurations: the one that builds faster, though it is not what is used without tuning. */
Test(session_race, a_tie_goes_to_what_builds_faster) {
    size_t won = 0, kept = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 6};
        struct lab *lab = race_of_equals(seed, 100, &options);
        const struct ca_finalist *winner = &lab->results[0].top[0];
        cr_assert(lab->results[0].raced);
        won += winner->config == 100 && winner->compile_seconds == 0.5;
        lab_close(lab);
        lab = race_of_equals(seed, 0, &options);
        kept += lab->results[0].top[0].config == lab_seeds[0][0];
        lab_close(lab);
    }
    cr_assert(won >= 14, "%zu of 20", won);
    cr_assert(kept >= 16, "%zu of 20: nothing builds faster", kept);
}

/* ... but nothing that is slower by more than the noise: not in a search, nor in a race among equals
 * that are all 3 % behind one. */
Test(session_race, what_builds_faster_must_tie) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 40};
        struct lab *lab = lab_open();
        lab->random.state = seed;
        lab->noise = 0.01;
        lab->build_seconds = 1.0;
        lab->quick = lab_seeds[0][1];
        cr_assert(lab_true_time(lab, 0, lab->quick) >
                  1.1 * lab_true_time(lab, 0, lab_optimum(lab, 0)));
        lab_run(lab, 1, &options);
        lab_assert_found(lab, 1, 0.05);
        lab_close(lab);
    }
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 4};
        struct lab *lab = lab_open();
        lab->random.state = seed;
        lab->noise = 0.002;
        lab->build_seconds = 1.0;
        lab->level = true;
        lab->better = lab_seeds[0][1];
        lab->gain = 0.03;
        lab->quick = lab_seeds[0][2];
        lab_run(lab, 1, &options);
        cr_assert(lab->raced[0][lab->quick] > 0);
        cr_assert(lab->results[0].top[0].config == lab->better, "seed %d", (int)seed);
        lab_close(lab);
    }
}

/* ... and where noise hides a tenth, what builds faster still costs no tenth. */
Test(session_race, noise_is_no_reason_to_be_slower) {
    size_t lost = 0;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 6};
        struct lab *lab = lab_open();
        lab->random.state = seed;
        lab->noise = 0.2;
        lab->build_seconds = 1.0;
        lab->level = true;
        lab->better = 50;
        lab->gain = 0.1;
        lab->quick = 100;
        lab_run(lab, 1, &options);
        lost += lab->results[0].top[0].config == lab->quick;
        lab_close(lab);
    }
    cr_assert(lost <= 10, "%zu of 60", lost);
}

/* Without a race, too. */
Test(session_race, a_tie_without_a_race_goes_to_what_builds_faster) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 8};
        lab->random.state = seed;
        lab->noise = 0.001;
        lab->level = true;
        lab->build_seconds = 1.0;
        lab->quick = lab_seeds[0][2];
        lab->stop_at = 24; /* the last of 8 readings, after 16 rounds of noise */
        lab->stop_again_at = 25;
        lab_run(lab, 1, &options);
        cr_assert(!lab->results[0].raced && lab->results[0].top[0].config == lab->quick);
        lab_close(lab);
    }
}

/* One that has nobody to race with takes no more rounds than its own time's interval needs. */
Test(session_race, a_lone_finalist_is_soon_done) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.max_evaluations = 1};

    lab_run(lab, 1, &options);
    cr_assert(lab->results[0].raced && lab->results[0].top[0].num_times == 6, "%zu",
              lab->results[0].top[0].num_times);
    lab_close(lab);
}

/* What is 4 % faster wins a race against noise of 3 % and times that grow by a half. */
Test(session_race, a_small_gain_is_found) {
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
        lab_run(lab, 1, &options);
        found += lab->results[0].top[0].config == 50;
        lab_close(lab);
    }
    cr_assert(found >= 18, "%zu of 20", found);
}

Test(session_race, its_noise_is_measured) {
    static const double noises[] = {0.0, 0.01, 0.1};
    double before = -1.0;

    for (size_t n = 0; n < 3; n++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.max_evaluations = 3};
        lab->noise = noises[n];
        lab_run(lab, 1, &options);
        const double noise = lab->results[0].noise;
        cr_assert(noise > before && noise >= 0.3 * noises[n] && noise <= 2.0 * noises[n], "%g",
                  noise);
        before = noise;
        lab_close(lab);
    }
}

/* Without a race, what is hardly faster than the incumbent does not replace it. */
Test(session_race, a_tie_without_a_race_keeps_the_incumbent) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 8};
        lab->random.state = seed;
        lab->noise = 0.01;
        lab->level = true;
        lab->stop_at = 24; /* the last of 8 readings, after 16 rounds of noise */
        lab->stop_again_at = 25;
        lab_run(lab, 1, &options);
        cr_assert(lab->num_events == 25 && !lab->results[0].raced);
        cr_assert(lab->results[0].top[0].config == lab_seeds[0][0]);
        lab_close(lab);
    }
}

/* Where one stands in a round is chance: the first is slower, and nobody is the slower for it. */
Test(session_race, places_in_a_round_are_random) {
    size_t claimed = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lab *lab = lab_open();
        const struct ca_session_options options = {.seed = seed, .max_evaluations = 3};
        lab->first_slower = 0.1;
        lab->noise = 0.01;
        lab->random.state = seed;
        lab->level = true;
        lab_run(lab, 1, &options);
        claimed += lab->results[0].top[0].config != lab_seeds[0][0];
        lab_close(lab);
    }
    cr_assert(claimed <= 4, "%zu of 20", claimed);
}

Test(session_race, who_fails_in_a_race_is_out) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.seed = 7, .max_evaluations = 40};

    lab->noise = 0.01;
    lab->breaks = lab_optimum(lab, 0);
    lab_run(lab, 1, &options);
    cr_assert(lab->measured[0][lab->breaks] == 1 && lab->raced[0][lab->breaks] == 1);
    cr_assert(lab->results[0].raced && lab->results[0].num_top == CA_TOP);
    lab_assert_found(lab, 1, 0.12);
    lab_close(lab);
}

/* The incumbent takes part however slow it is; who is slower leaves before the end. */
Test(session_race, losers_leave) {
    struct lab *lab = lab_open();
    const struct ca_session_options options = {.seed = 7, .max_evaluations = 40};

    lab->noise = 0.01;
    lab_run(lab, 1, &options);
    const struct ca_session_result *result = &lab->results[0];
    const size_t incumbent = lab->raced[0][lab_seeds[0][0]];
    cr_assert(incumbent == 6, "%zu", incumbent);
    cr_assert(result->top[0].num_times >= 12);
    cr_assert(result->top[4].num_times < result->top[0].num_times);
    for (size_t n = 1; n < CA_TOP; n++)
        cr_assert(result->top[n].seconds.middle >= 0.97 * result->top[n - 1].seconds.middle);
    lab_close(lab);
}
