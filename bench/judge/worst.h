/* SPDX-License-Identifier: Apache-2.0 */
/* The worst error of many results, each against its own bound. */
#ifndef CLATTN_BENCH_WORST_H
#define CLATTN_BENCH_WORST_H

#include <stdbool.h>
#include <stddef.h>

struct worst {
    /* Error and bound of the result closest to its bound, or farthest beyond it. */
    double error, bound;
    double ratio;   /* error / bound; infinite if a NaN or an infinity is wrong. */
    size_t results; /* How many were looked at. */
};

/* Takes one result into account. A NaN is right where a NaN is wanted, and only there; so is an
 * infinity. */
void worst_add(struct worst *worst, double got, double want, double bound);

/* At least one result was looked at, and all are within their bounds. */
bool worst_ok(const struct worst *worst);

#endif
