/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the caller's (clattn/function.h) for trials. */
#ifndef TEST_RANDOM_FUNCTION_H
#define TEST_RANDOM_FUNCTION_H

#include "tests/support/rng.h"
#include <clattn/clattn.h>

/* The functions that tests know, by number; how many of a kind there are. Any data and any parameters from 0.5 to 2 and
 * from 0 to 9 suit them, and every score function has a derivative. */
const clattn_function *trial_function(clattn_function_kind kind, size_t n);
size_t trial_functions(clattn_function_kind kind);

/* A score function of a random expression, "trial/expression-SEED", and its derivative. */
const clattn_function *random_expression(uint64_t seed);

/* Draws anew what functions a problem has, any of those. */
void random_functions(struct rng *r, clattn_problem *p);

/* Gives some problems such functions. */
void random_functions_of_some(struct rng *r, clattn_problem *p);

/* Makes the functions that a problem string names, so that it can be read in a process that has not drawn them. */
void trial_functions_named(const char *problem);

#endif
