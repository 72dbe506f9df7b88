/* SPDX-License-Identifier: Apache-2.0 */
/* The softmax of a row of scores on the host, in loops that compilers turn into vectors. */
#ifndef CLATTN_BENCH_PEER_SOFTMAX_ROWS_H
#define CLATTN_BENCH_PEER_SOFTMAX_ROWS_H

#include <stddef.h>

/* More than compilers unroll: gcc makes vectors of loops only. */
#define SOFTMAX_LANES 32

/* Replaces `keys` scores, of which [first, end) are visible, by weights that are still to be divided
 * by their sum; returns what they are to be multiplied with: 1 / sum, or 0 if nothing is visible.
 * There is room for a multiple of SOFTMAX_LANES. */
float softmax_row(float *scores, size_t keys, size_t first, size_t end);

/* With the logarithm of that sum known, and dot(do, o): replaces the scores by weights, and `ds`,
 * which holds dot(do, v), by the derivative of the loss by each score. */
void softmax_row_derive(float *scores, size_t keys, size_t first, size_t end, float lse,
                        float delta, float *ds);

#endif
