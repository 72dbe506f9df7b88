/* SPDX-License-Identifier: Apache-2.0 */
/* Problems on paper: their texts, what is refused, their classes. */
#ifndef TEST_PROBLEMS_H
#define TEST_PROBLEMS_H

#include "problem/classes/problem_class.h"
#include <clattn/problem.h>
#include <stddef.h>

/* Its text, which must be whole; valid until some calls later. */
const char *problem_printed(const clattn_problem *p);

/* Returns whether two problems mean the same. */
typedef int problems_same(const clattn_problem *a, const clattn_problem *b);

/* A sound problem must come back from its text, and the text from that. */
void problem_must_come_back(const clattn_problem *p, problems_same *same);

/* Texts that problems must be printed as when they were read from them. */
void problem_texts_canonical(const char *const *texts, size_t count);

/* Texts that must be refused, each by a reason that holds the words, and leave a fresh problem. */
struct refused_text {
    const char *text, *words;
};
void problem_texts_refused(const struct refused_text *texts, size_t count);

/* A problem that must be refused by a reason that holds the words. */
void problem_refused(const clattn_problem *p, const char *words);

/* The problem `p` of this text must be refused after the change. */
#define PROBLEM_REFUSED(text, change, words)                                                       \
    do {                                                                                           \
        clattn_problem p = fixture_problem(text);                                                  \
        change;                                                                                    \
        problem_refused(&p, words);                                                                \
    } while (0)

/* ---- classes ------------------------------------------------------------------------------- */

/* The representative of a problem's class. */
clattn_problem problem_representative(const clattn_problem *p);

/* The text of its class, which must be whole. Returns text. */
const char *problem_class_of(const clattn_problem *p, char text[CA_CLASS_TEXT]);

/* All that must hold of one problem's class; same: whether two problems need the same programs. */
void problem_class_check(const clattn_problem *p, problems_same *same);

/* Problems and their classes, each of which must hold all that. */
struct problem_and_class {
    const char *problem, *problem_class;
};
void problem_classes_check(const struct problem_and_class *list, size_t count, problems_same *same);

/* Problems and their classes, each of which must be exactly that and its own class. */
void problem_classes_exact(const struct problem_and_class *list, size_t count);

/* Between the classes of two problems. */
double problem_class_distance(const char *a, const char *b);

#endif
