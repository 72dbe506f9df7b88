/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in double precision by plain loops, written from the formulas under "Backward" in
 * <clattn/problem.h>, from o and lse as they are given. It shares no code with the library. Every
 * value comes with the largest error that the given arithmetic may leave on it; gradients.c derives
 * the bounds. */
#ifndef CLATTN_REFERENCE_GRADIENTS_H
#define CLATTN_REFERENCE_GRADIENTS_H

#include "bench/judge/score.h"

/* ---- all of them ----------------------------------------------------------------------------- */

/* Every element of each tensor that a backward problem writes, packed in the order of
 * tensor_shape_of()'s sizes; NULL for other tensors. */
struct reference_gradients {
    struct bounded *at[NUM_TENSORS];
};

/* Opens gradients in single precision. False if there is no memory. Close them in any case. */
bool reference_gradients_open(const clattn_problem *p, const struct tensor_view *view,
                              struct reference_gradients *gradients);
void reference_gradients_close(struct reference_gradients *gradients);

/* ---- some of them ---------------------------------------------------------------------------- */

/* An element while it is summed; all zeros to begin with. */
struct gradient_sum {
    double value, magnitude, squares;
    double error; /* Error that the terms have, in parts (arithmetic_parts_sum()). */
    double largest;
    size_t terms;
};

/* The sums to which the pairs of a query with a range of keys add; NULL for a sum that is not
 * wanted. */
struct gradient_sums {
    struct gradient_sum *dq;             /* dim_qk: the query's row. */
    struct gradient_sum *dk, *dv;        /* Rows of the range's keys, one after the other. */
    struct gradient_sum *dbias;          /* The element of the range's first key. */
    size_t dbias_step;                   /* Step of dbias from key to key: 0 or 1. */
    struct gradient_sum *dslope, *dsink; /* The elements of the query's head. */
    struct gradient_sum *dfunction;      /* All elements. */
};

struct gradient_work {
    struct reference reference;
    double *rows; /* Owned: one each of q, k, v, o and do. */
};

/* Returns false if there is no memory. Close it in any case. */
bool gradient_work_open(const clattn_problem *p, const struct tensor_view *view,
                        enum precision precision, struct gradient_work *work);
void gradient_work_close(struct gradient_work *work);

/* Adds what a query and its pairs with keys [begin, end) give; what is added to dsink is of the
 * query, whatever the range. */
void gradient_work_add(const struct gradient_work *work, size_t b, size_t h, size_t i, size_t begin,
                       size_t end, const struct gradient_sums *sums);

/* The element that the sum is of, as it is stored. */
struct bounded gradient_work_finish(const struct gradient_work *work, enum tensor_id gradient,
                                    const struct gradient_sum *sum);

#endif
