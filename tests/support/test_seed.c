/* SPDX-License-Identifier: Apache-2.0 */
/* The seed of random tests: the same for each change, unless the environment says otherwise. */
#include "os/process.h"
#include "tests/support/unoptimised.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

Test(seed, is_fixed_unless_the_environment_says_otherwise) {
    ca_variable_set("CLATTN_TEST_SEED", NULL);
    cr_expect_eq(run_seed(), 1);
    ca_variable_set("CLATTN_TEST_SEED", "");
    cr_expect_eq(run_seed(), 1);
    ca_variable_set("CLATTN_TEST_SEED", "17");
    cr_expect_eq(run_seed(), 17);
}

Test(seed, may_be_that_of_the_day) {
    ca_variable_set("CLATTN_TEST_SEED", "day");
    const uint64_t before = (uint64_t)time(NULL) / 86400, drawn = run_seed(),
                   after = (uint64_t)time(NULL) / 86400;
    cr_expect(before <= drawn && drawn <= after);
}

/* Of neighbouring numbers an ordinary run takes a third of what a nightly one takes, and any seed one of few. */
Test(seed, shares_what_a_run_takes) {
    size_t numbers[5], taken = 0;

    ca_variable_set("CLATTN_TEST_ALL", NULL);
    ca_variable_set("CLATTN_TEST_FAMILIES", NULL);
    for (unsigned seed = 1; seed <= 9; seed++) {
        char text[8];
        snprintf(text, sizeof text, "%u", seed);
        ca_variable_set("CLATTN_TEST_SEED", text);
        for (uint64_t n = 0; n < 27; n++)
            taken += (size_t)run_takes(n, 3);
        cr_expect_eq(numbers_taken(2, seed, 3, numbers), 1);
        cr_expect(numbers_taken(5, 7, 1, numbers) == 1 || numbers_taken(5, 7, 1, numbers) == 2);
    }
    cr_expect_eq(taken, 9 * 27 / 9);
    ca_variable_set("CLATTN_TEST_SEED", "day");
    taken = 0;
    for (uint64_t n = 0; n < 27; n++)
        taken += (size_t)run_takes(n, 3);
    cr_expect_eq(taken, 27 / 3);
    ca_variable_set("CLATTN_TEST_ALL", "1");
    cr_expect_eq(numbers_taken(5, 0, 12, numbers), 5);
}
