/* SPDX-License-Identifier: Apache-2.0 */
/* The seed of random tests: the same for each change, unless the environment says otherwise. */
#include "os/process.h"
#include "tests/support/unoptimised.h"

#include <criterion/criterion.h>
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
