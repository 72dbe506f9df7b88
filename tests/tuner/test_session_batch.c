/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and searches that choose several configurations before the first is tried. */
#include "tests/tuner/session_lab.h"

#include <criterion/criterion.h>
#include <math.h>

/* Draws batches of a search, reports the first `reported` of each. Returns the evaluations. */
static size_t search_in_batches(struct ca_search *search, const struct ca_space *space, size_t size,
                                size_t reported, size_t most)
{
    size_t configs[8], count = 0;

    while (count < most) {
        size_t drawn = 0;
        while (drawn < size && ca_search_suggest(search, &configs[drawn])) {
            for (size_t n = 0; n < drawn; n++)
                cr_assert(configs[n] != configs[drawn]);
            cr_assert(ca_search_believe(search, configs[drawn]));
            cr_assert(!ca_search_believe(search, configs[drawn]));
            drawn++;
        }
        if (drawn == 0)
            break;
        const size_t best = ca_search_best(search);
        for (size_t n = 0; n < drawn && best != CA_NO_CONFIG; n++)
            cr_assert(ca_search_time(search, configs[n]) >= ca_search_time(search, best));
        for (size_t n = 0; n < drawn && n < reported; n++) {
            ca_search_report(search, configs[n], made_up_time(space, configs[n]));
            count++;
        }
        ca_search_disbelieve(search);
        for (size_t n = 0; n < drawn; n++)
            cr_assert(isnan(ca_search_time(search, configs[n])) == (n >= reported));
    }
    return count;
}

Test(session_batch, beliefs_give_way_to_reports) {
    static const enum ca_strategy strategies[] = {CA_GUIDED, CA_RANDOM, CA_EXHAUSTIVE};
    struct ca_space *space = made_up_space();

    for (size_t n = 0; n < sizeof strategies / sizeof *strategies; n++) {
        const struct ca_search_options options = {.strategy = strategies[n], .seed = 3};
        for (size_t reported = 1; reported <= 4; reported++) {
            struct ca_search *search = ca_search_create(space, &options);
            cr_assert(search_in_batches(search, space, 4, reported, ALL) == ALL);
            cr_assert(ca_search_best(search) == made_up_optimum(space));
            ca_search_destroy(search);
        }
    }
    ca_space_destroy(space);
}

Test(session_batch, believing_finds_the_optimum_soon) {
    struct ca_space *space = made_up_space();
    size_t found = 0;

    for (uint64_t seed = 0; seed < 20; seed++) {
        const struct ca_search_options options = {.strategy = CA_GUIDED, .seed = seed};
        struct ca_search *search = ca_search_create(space, &options);
        search_in_batches(search, space, 4, 4, 40);
        found += made_up_time(space, ca_search_best(search)) <=
                 1.02 * made_up_time(space, made_up_optimum(space));
        ca_search_destroy(search);
    }
    cr_assert(found >= 18, "%zu", found);
    ca_space_destroy(space);
}

Test(session_batch, the_optimum_of_each_problem_is_found) {
    for (size_t batch = 0; batch <= CA_SESSION_BATCH + 1; batch++) {
        struct lab *lab =
            lab_session(&(struct lab_device){.noise = 0.01, .batch = batch}, PROBLEMS,
                        &(struct ca_session_options){.seed = 7, .max_evaluations = 60});
        lab_assert_found(lab, PROBLEMS, 0.03);
        cr_assert(lab->num_builds == 60);
        cr_assert(batch > 1 ? lab->num_announced > 40 : lab->num_announced == 5, "%zu",
                  lab->num_announced);
        lab_close(lab);
    }
}

/* In whatever phase and batch the session ends, with failures; what is announced for nothing is
 * less than a batch. */
Test(session_batch, it_ends_anywhere) {
    for (size_t strategy = 0; strategy < CA_NUM_STRATEGIES; strategy++) {
        for (size_t stop = 1; stop < 120; stop += 7) {
            const struct lab_device device = {.noise = 0.01,
                                              .failing = stop % 2,
                                              .second_excludes = stop % 2,
                                              .batch = 4,
                                              .stop_at = stop};
            struct lab *lab = lab_session(
                &device, PROBLEMS,
                &(struct ca_session_options){.strategy = (enum ca_strategy)strategy, .seed = stop});
            cr_assert(lab->num_announced <= lab->num_builds + 4 || stop < 20, "%zu, %zu built",
                      lab->num_announced, lab->num_builds);
            lab_close(lab);
        }
    }
}
