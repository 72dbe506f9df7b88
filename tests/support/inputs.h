/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that problems read, for programs that compare with the reference. */
#ifndef TEST_INPUTS_H
#define TEST_INPUTS_H

#include "bench/judge/tensors.h"
#include "tests/support/rng.h"

/* Numbers for one input: lengths up to the sequence, starts, half of a mask, the rest within 1. */
void fill_input(const clattn_problem *p, enum tensor_id id, const struct tensor_shape *s,
                struct rng *r, unsigned char *bytes);

/* Numbers within +-most for each element of a tensor, which is not quantized; what lies between them stays. */
void fill_numbers(const struct tensor_shape *s, unsigned char *bytes, struct rng *r, double most);

/* Fills the tensors that a projection, a merge or an append reads, from their elements (0, 0, 0,
 * 0) on. A merge has empty states of NaN at times. hostile: a projection has one NaN in x and
 * one infinity in w; an append has lengths, slots and pages of which some are outside of the
 * cache. */
void fill_operation(const clattn_problem *p, unsigned char *const bytes[NUM_TENSORS], struct rng *r,
                    int hostile);

/* O and lse, which a backward problem reads; 0 without memory. */
int fill_results(const clattn_problem *p, const struct tensor_view *view,
                 unsigned char *const bytes[NUM_TENSORS]);

#endif
