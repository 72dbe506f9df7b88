/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/judged_case.h"

#include "problem/problem.h"
#include "tests/support/fixture.h"
#include <criterion/criterion.h>
#include <string.h>

struct ca_trust_case judged_case(const char *text, const int hostile)
{
    const clattn_problem parsed = fixture_problem(text), p = ca_problem_normal(&parsed);
    struct ca_trust_case c;

    cr_assert(hostile ? ca_trust_case_make(&c, &p, NULL) : ca_trust_case_make_ordinary(&c, &p));
    return c;
}

void judged_right(const struct ca_trust_case *c, const char *text)
{
    char why[256] = "";
    double error;

    cr_expect(ca_trust_case_judge(c, &error, why, sizeof why) == NULL, "%s: %s", text, why);
    cr_expect(error <= 1.0);
}

void judged_wrong(const struct ca_trust_case *c, const char *text, const char *words)
{
    char why[256] = "";
    double error;

    cr_expect(ca_trust_case_judge(c, &error, why, sizeof why) != NULL, "%s: not found: %s", text,
              words);
    cr_expect(strstr(why, words) != NULL, "%s: '%s', not '%s'", text, why, words);
}
