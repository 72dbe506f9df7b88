/* SPDX-License-Identifier: Apache-2.0 */
/* Products of int8, "Products of int8" in <clattn/problem.h>: the mean of keys, and what rounding to bytes allows. */
#ifndef CLATTN_REFERENCE_INT8_H
#define CLATTN_REFERENCE_INT8_H

#include <stddef.h>

/* The mean of a query's keys. */
struct key_mean {
    double *value; /* dim_qk */
    double off;    /* What an element may be off by, in f32. */
};

/* The largest magnitude of n elements; a NaN if there is one. */
double largest_of(const double *x, size_t n);

/* What the product of rows q and k of n elements may be off by, besides what f32 leaves on products of theirs; u is the
 * unit roundoff. mean is NULL where keys are bytes. */
double int8_error(const struct key_mean *mean, double u, const double *q, const double *k,
                  size_t n);

#endif
