/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the caller's (clattn/function.h) in every family: the sweep's rows meet them with every option, and here
 * are more of them with what each family takes. CLATTN_TEST_SEED, CLATTN_TEST_SCALE and CLATTN_TEST_FAMILY are as in the sweep. */
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/random_function.h"
#include "tests/trials/random_problem.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(functions, .timeout = 900);

enum { MOST_FAMILIES_HERE = 64 };

/* In a run one family in three. */
ParameterizedTestParameters(functions, family) {
    static size_t families[MOST_FAMILIES_HERE];
    const char *only = getenv("CLATTN_TEST_FAMILY");
    const struct ca_family *family;
    size_t count = 0;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        if (family->operation <= CLATTN_BACKWARD && count < MOST_FAMILIES_HERE &&
            (only && only[0] ? strcmp(only, family->full_name) == 0 : run_takes(n, 3)))
            families[count++] = n;
    return cr_make_param_array(size_t, families, count);
}

/* Draws functions, nearly always one of scores. */
static struct problem_kind draw_kind(struct rng *r, const struct ca_family *family,
                                     const clattn_device_info *device)
{
    struct problem_kind kind = random_kind(r, family, device);

    kind.base.score_function = rng_one_in(r, 6) ? NULL : trial_function(CLATTN_SCORE_FUNCTION, 0);
    kind.base.mask_function = kind.base.score_function && rng_one_in(r, 2)
                                  ? NULL
                                  : trial_function(CLATTN_MASK_FUNCTION, 0);
    random_functions(r, &kind.base);
    return kind;
}

ParameterizedTest(size_t *number, functions, family) {
    const struct ca_family *family = ca_family_at(*number);
    const uint64_t scale = run_number("CLATTN_TEST_SCALE", 1);
    const size_t shapes = family_takes_f32(family->full_name) ? 6 : 1; /* emulated ones take long */
    struct rng r = rng_seed(run_seed() * 1000003 + *number);
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    fixture_need_groups_of(&f, family->full_name);
    for (uint64_t kinds = 0; kinds < scale; kinds++) {
        const struct problem_kind kind = draw_kind(&r, family, clattn_context_device(f.context));
        size_t passed = 0;
        for (size_t n = 0; n < 16 && passed < shapes; n++) {
            struct trial t = {.problem = random_shape(&r, &kind),
                              .family = family->full_name,
                              .seed = rng_next(&r)};
            snprintf(t.tunables, sizeof t.tunables, "%s", kind.tunables);
            if (!trial_is_supported(&f, &t))
                continue;
            trial_pass(&f, &t);
            passed++;
        }
        cr_assert(passed > 0, "%s took no problem", family->full_name);
    }
    fixture_close(&f);
}
