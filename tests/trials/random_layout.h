/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RANDOM_LAYOUT_H
#define TEST_RANDOM_LAYOUT_H

#include "tests/support/rng.h"
#include <clattn/problem.h>

/* A layout of a tensor with any order of the outer axes and gaps after some; the innermost is the last, with a step of 1
 * or 2. unit: elements that lie together, of which all other steps are multiples and the step of the last is 1. */
clattn_layout random_layout(struct rng *r, const size_t sizes[4], size_t unit);

#endif
