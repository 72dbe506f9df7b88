/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RANDOM_OPERATION_H
#define TEST_RANDOM_OPERATION_H

#include "tests/support/rng.h"
#include <clattn/problem.h>

/* Problems with random sizes and layouts; their options are those of base. */
clattn_problem random_merge(struct rng *r, const clattn_problem *base);
clattn_problem random_append(struct rng *r, const clattn_problem *base);
/* Dims and heads of a group are base's, too, and so are innermost strides of 1. */
clattn_problem random_double_backward(struct rng *r, const clattn_problem *base);
/* Heads and dims are base's, too. */
clattn_problem random_indexer(struct rng *r, const clattn_problem *base);

#endif
