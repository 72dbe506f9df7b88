/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of Criterion's suites are for tests that hang: a machine that is slow, busy or emulated
 * is no failure. So each is multiplied, by 10 if the environment variable CLATTN_TEST_PATIENCE does
 * not say otherwise. */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <criterion/internal/ordered-set.h>
#include <stdlib.h>

ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
    const char *text = getenv("CLATTN_TEST_PATIENCE");
    const double factor = text && atof(text) > 0 ? atof(text) : 10;

    FOREACH_SET(struct criterion_suite_set * set, tests->suites)
    {
        if (set->suite.data)
            set->suite.data->timeout *= factor;
        FOREACH_SET(struct criterion_test * test, set->tests)
        test->data->timeout *= factor;
    }
}
