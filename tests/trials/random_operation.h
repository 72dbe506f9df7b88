/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RANDOM_OPERATION_H
#define TEST_RANDOM_OPERATION_H

#include "tests/support/rng.h"
#include <clattn/problem.h>

/* A problem with random sizes and layouts, of an operation that is neither attention nor a projection; its options are
 * those of base. */
clattn_problem random_of(struct rng *r, const clattn_problem *base);

/* The same with options of one of a few bases. */
clattn_problem random_of_operation(struct rng *r, clattn_operation operation);

#endif
