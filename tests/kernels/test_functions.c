/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the caller's (clattn/function.h) in every family: the sweep's rows meet them with every option, and here
 * are more of them with what each family takes. CLATTN_TEST_SEED and CLATTN_TEST_SCALE are as in the sweep. */
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/random_function.h"
#include "tests/trials/random_problem.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <inttypes.h>
#include <stdio.h>

TestSuite(functions, .timeout = 900);

static void sweep(clattn_operation operation, size_t number)
{
    const char *name = clattn_family_name(operation, number);
    const struct ca_family *family = ca_family_find(name);
    const uint64_t scale = run_number("CLATTN_TEST_SCALE", 1);
    struct rng r = rng_seed(run_seed() * 1000003 + number * 2 + (uint64_t)operation);
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    fixture_need_groups_of(&f, name);
    for (uint64_t kinds = 0; kinds < scale; kinds++) {
        struct problem_kind kind = random_kind(&r, family, clattn_context_device(f.context));
        size_t passed = 0;
        kind.base.score_function =
            rng_one_in(&r, 6) ? NULL : trial_function(CLATTN_SCORE_FUNCTION, 0);
        kind.base.mask_function =
            rng_one_in(&r, 2) ? NULL : trial_function(CLATTN_MASK_FUNCTION, 0);
        random_functions(&r, &kind.base);
        for (size_t n = 0; n < 12 && passed < 6; n++) {
            struct trial t = {
                .problem = random_shape(&r, &kind), .family = name, .seed = rng_next(&r)};
            snprintf(t.tunables, sizeof t.tunables, "%s", kind.tunables);
            if (!trial_is_supported(&f, &t))
                continue;
            trial_pass(&f, &t);
            passed++;
        }
        cr_assert(passed > 0, "%s took no problem", name);
    }
    fixture_close(&f);
}

FAMILY_TEST(functions, forward, CLATTN_FORWARD, NULL, 1)
{
    sweep(CLATTN_FORWARD, *family);
}

FAMILY_TEST(functions, backward, CLATTN_BACKWARD, NULL, 1)
{
    sweep(CLATTN_BACKWARD, *family);
}
