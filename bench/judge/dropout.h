/* SPDX-License-Identifier: Apache-2.0 */
/* Which weights dropout keeps, written from <clattn/problem.h> and the published description of
 * Philox 4x32-10 (J. Salmon et al., 2011). */
#ifndef CLATTN_REFERENCE_DROPOUT_H
#define CLATTN_REFERENCE_DROPOUT_H

#include "bench/judge/tensors.h"

/* Ten rounds of Philox 4x32. */
void reference_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t words[4]);

/* Returns whether the pair's weight stays. The key is the seed, low half first; the counter is j /
 * 4, i, b * heads + h and the offset, each modulo 2^32; word j % 4 decides. */
bool reference_dropout_keeps(const clattn_problem *p, const struct tensor_view *view, size_t b,
                             size_t h, size_t i, size_t j);

/* Returns the factor of the pair's weight: 0 or 1 / (1 - dropout), and 1 without dropout. */
double reference_dropout_factor(const clattn_problem *p, const struct tensor_view *view, size_t b,
                                size_t h, size_t i, size_t j);

#endif
