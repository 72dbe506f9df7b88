/* SPDX-License-Identifier: Apache-2.0 */
/* The softmax of a row of scores on the host, in loops that compilers turn into vectors. */
#ifndef CLATTN_BENCH_PEER_SOFTMAX_ROWS_H
#define CLATTN_BENCH_PEER_SOFTMAX_ROWS_H

#include "bench/peers/problem_data.h"

/* More than compilers unroll: gcc makes vectors of loops only. */
#define SOFTMAX_LANES 32

struct softmax_row {
    float *scores; /* Room for a multiple of SOFTMAX_LANES. */
    size_t keys;
    float softcap; /* 0: none. */
    struct row_rule rule;
};

/* Replaces the scores by weights that are still to be divided by their sum; returns what they are
 * to be multiplied with: 1 / sum, or 0 if nothing is visible. */
float softmax_row(const struct softmax_row *row);

/* With the logarithm of that sum known, and dot(do, o): replaces the scores by weights, and `ds`,
 * which holds dot(do, v), by the derivative of the loss by each score before softcap. */
void softmax_row_derive(const struct softmax_row *row, float lse, float delta, float *ds);

#endif
