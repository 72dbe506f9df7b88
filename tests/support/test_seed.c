/* SPDX-License-Identifier: Apache-2.0 */
/* The seed of random tests: the same for each change, unless the environment says otherwise. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "tests/support/unoptimised.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

Test(seed, is_fixed_unless_the_environment_says_otherwise) {
    unsetenv("CLATTN_TEST_SEED");
    cr_expect_eq(run_seed(), 1);
    setenv("CLATTN_TEST_SEED", "", 1);
    cr_expect_eq(run_seed(), 1);
    setenv("CLATTN_TEST_SEED", "17", 1);
    cr_expect_eq(run_seed(), 17);
}

Test(seed, may_be_that_of_the_day) {
    setenv("CLATTN_TEST_SEED", "day", 1);
    const uint64_t before = (uint64_t)time(NULL) / 86400, drawn = run_seed(),
                   after = (uint64_t)time(NULL) / 86400;
    cr_expect(before <= drawn && drawn <= after);
}
