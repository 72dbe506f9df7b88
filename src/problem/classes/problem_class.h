/* SPDX-License-Identifier: Apache-2.0 */
/* The class of problems that share tuning results; clattn/tuning.h says which facts are exact and
 * which are rounded. */
#ifndef CA_PROBLEM_CLASS_H
#define CA_PROBLEM_CLASS_H

#include "problem/problem.h"

enum { CA_CLASS_TEXT = 256 + 2 * 240 }; /* two names of functions, with their hashes */

/* The representative of the class of a normal problem: a problem that passes clattn_problem_check() and is its
 * own representative. */
clattn_problem ca_problem_representative(const clattn_problem *normal);

/* The class's text, of a normal problem. */
void ca_problem_class(const clattn_problem *normal, char text[CA_CLASS_TEXT]);

/* The representative that a class's text stands for, even if another version rounded differently. 0
 * if the text is no problem. */
int ca_class_read(const char *text, struct ca_problem *representative);

/* Returns true if programs for the two differ in nothing but tunables: all that is exact is equal.
 * Both are representatives. */
int ca_classes_alike(const clattn_problem *a, const clattn_problem *b);

/* Returns how far apart the best configurations of two representatives probably lie: 0 for the same
 * class, about 1 for a factor of two in one size, more for what shapes the kernels (dims, dtype,
 * causality, options). Symmetric. INFINITY if results of one say nothing about the other. */
double ca_class_distance(const clattn_problem *a, const clattn_problem *b);

/* Results of a class farther away than this say less than what is known of the device: two halvings
 * or doublings of one size. */
#define CA_CLASS_NEAR 2.0

#endif
