/* SPDX-License-Identifier: Apache-2.0 */
/* What problems read, for programs that compare with the reference. */
#ifndef TEST_INPUTS_H
#define TEST_INPUTS_H

#include "bench/judge/tensors.h"
#include "tests/support/rng.h"

/* Numbers for one input: lengths up to the sequence, starts, half of a mask, the rest within 1. */
void fill_input(const clattn_problem *p, enum tensor_id id, const struct tensor_shape *s,
                struct rng *r, unsigned char *bytes);

/* O and lse, which a backward problem reads; 0 without memory. */
int fill_results(const clattn_problem *p, const struct tensor_view *view,
                 unsigned char *const bytes[NUM_TENSORS]);

#endif
