/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/problems.h"

#include "problem/problem.h"
#include "tests/support/fixture.h"
#include <criterion/criterion.h>
#include <string.h>

const char *problem_printed(const clattn_problem *p)
{
    static char texts[4][1024];
    static size_t turn;
    char *text = texts[turn++ % 4];
    size_t needed;

    cr_assert(clattn_problem_print(p, text, sizeof texts[0], &needed) == CLATTN_SUCCESS);
    cr_assert(needed == strlen(text) + 1);
    return text;
}

void problem_must_come_back(const clattn_problem *p, problems_same *same)
{
    const char *text = problem_printed(p);
    char reason[256];

    cr_assert(clattn_problem_check(p, reason, sizeof reason) == CLATTN_SUCCESS, "%s", reason);
    const clattn_problem back = fixture_problem(text);
    cr_assert(same(p, &back), "'%s' came back as '%s'", text, problem_printed(&back));
    cr_assert_str_eq(problem_printed(&back), text);
}

void problem_texts_canonical(const char *const *texts, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        const clattn_problem p = fixture_problem(texts[n]);
        cr_expect_str_eq(problem_printed(&p), texts[n]);
    }
}

void problem_texts_refused(const struct refused_text *texts, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        clattn_problem p, fresh;
        char reason[256] = "";
        memset(&p, 0x55, sizeof p);
        clattn_problem_init(&fresh);
        cr_expect(clattn_problem_parse(texts[n].text, &p, reason, sizeof reason) ==
                      CLATTN_INVALID_PROBLEM,
                  "'%s' was taken", texts[n].text);
        cr_expect(strstr(reason, texts[n].words) != NULL, "'%s': '%s' does not name %s",
                  texts[n].text, reason, texts[n].words);
        cr_expect_str_eq(problem_printed(&p), problem_printed(&fresh));
        cr_expect(memcmp(&p, &fresh, sizeof p) == 0, "'%s' left something behind", texts[n].text);
    }
}

void problem_refused(const clattn_problem *p, const char *words)
{
    char reason[256] = "?";

    cr_expect(clattn_problem_check(p, reason, sizeof reason) == CLATTN_INVALID_PROBLEM,
              "%s was taken", words);
    cr_expect(strstr(reason, words) != NULL, "'%s' does not hold '%s'", reason, words);
    cr_expect(clattn_problem_check(p, NULL, 0) == CLATTN_INVALID_PROBLEM);
}

/* ---- classes --------------------------------------------------------------------------------- */

clattn_problem problem_representative(const clattn_problem *p)
{
    const clattn_problem normal = ca_problem_own(p).normal;

    return ca_problem_representative(&normal);
}

const char *problem_class_of(const clattn_problem *p, char text[CA_CLASS_TEXT])
{
    size_t needed;

    cr_assert(clattn_problem_class(p, text, CA_CLASS_TEXT, &needed) == CLATTN_SUCCESS);
    cr_assert(needed == strlen(text) + 1, "'%s' is cut", text);
    return text;
}

void problem_class_check(const clattn_problem *p, problems_same *same)
{
    const char *whose = problem_printed(p);
    char text[CA_CLASS_TEXT], again[CA_CLASS_TEXT], reason[256];

    const clattn_problem r = problem_representative(p);
    cr_assert(clattn_problem_check(&r, reason, sizeof reason) == CLATTN_SUCCESS, "of '%s': %s",
              whose, reason);
    cr_assert(same(p, &r), "'%s' is not for the programs of '%s'", problem_class_of(p, text),
              whose);
    cr_assert_str_eq(problem_class_of(&r, again), problem_class_of(p, text),
                     "'%s', of '%s', is of class '%s'", text, whose, again);
    const clattn_problem normal = ca_problem_normal(p);
    cr_assert_str_eq(problem_class_of(&normal, again), text, "the normal form has another class");
    clattn_problem_class(p, again, CA_CLASS_TEXT, NULL);
    cr_assert_str_eq(again, text);
    const clattn_problem parsed = fixture_problem(text);
    cr_assert_str_eq(problem_class_of(&parsed, again), text);
    cr_assert(ca_classes_alike(&parsed, &r) && ca_class_distance(&parsed, &r) == 0.0);
}

void problem_classes_check(const struct problem_and_class *list, size_t count, problems_same *same)
{
    for (size_t n = 0; n < count; n++) {
        const clattn_problem p = fixture_problem(list[n].problem);
        char text[CA_CLASS_TEXT];
        cr_expect_str_eq(problem_class_of(&p, text), list[n].problem_class, "'%s': '%s', not '%s'",
                         list[n].problem, text, list[n].problem_class);
        problem_class_check(&p, same);
    }
}

void problem_classes_exact(const struct problem_and_class *list, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        const clattn_problem p = fixture_problem(list[n].problem);
        char text[CA_CLASS_TEXT];
        cr_expect_str_eq(problem_class_of(&p, text), list[n].problem_class);
        const clattn_problem class = fixture_problem(text);
        cr_expect_str_eq(problem_class_of(&class, text), list[n].problem_class);
    }
}

double problem_class_distance(const char *a, const char *b)
{
    const clattn_problem p = fixture_problem(a), q = fixture_problem(b);
    const clattn_problem of_p = problem_representative(&p), of_q = problem_representative(&q);

    return ca_class_distance(&of_p, &of_q);
}
