/* SPDX-License-Identifier: Apache-2.0 */
/* A projection as one matrix product: y (rows, columns) = x (rows, inner) w (inner, columns) +
 * bias. Layouts are not a peer's affair, so x and y lie as a user would have them for it: heads
 * side by side in a row. */
#ifndef CLATTN_BENCH_PEER_PRODUCTS_H
#define CLATTN_BENCH_PEER_PRODUCTS_H

#include "bench/peers/problem_data.h"

struct product {
    size_t rows, inner, columns;
};

struct product product_of(const clattn_problem *projection);

/* From (batch, heads, seq, dim) to (batch, seq, heads, dim), and back. */
void product_gather(const struct problem_data *data, void *x);
void product_scatter(const clattn_problem *projection, const void *y, void *packed);

#endif
