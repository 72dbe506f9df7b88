/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/judged_case.h"

#include "problem/problem.h"
#include "selfcheck/values.h"
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

void judged_write(struct ca_trust_case *c)
{
    for (size_t n = 0; n < c->num_answers; n++) {
        const struct ca_answer *a = &c->answers[n];
        for (size_t d = 0; d < a->count; d++)
            ca_value_store(c->bytes[a->argument] + CA_TRUST_GUARD,
                           ca_problem_dtype(&c->problem, a->argument), a->first + d * a->step,
                           (float)a->want[d].value);
    }
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
