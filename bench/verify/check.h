/* Comparing results with double precision, each element against a bound of its own. */
#ifndef CLATTN_BENCH_CHECK_H
#define CLATTN_BENCH_CHECK_H

#include "bench/cases/case.h"
#include "bench/verify/worst.h"

/* What a device computed, in host memory, in the layouts of the problem; NULL for what the problem
 * has not, or is not to be looked at. */
struct results {
    void *out[OUTPUT_COUNT];
};

/* Where they are owned. */
void results_release(struct results *results);

/* Of the arithmetic that results are held to. */
enum precision {
    PRECISION_SINGLE, /* u = 2^-24: what clattn promises. */
    PRECISION_HALF    /* u = 2^-11, or 2^-8 for bf16 storage: libraries that multiply and add in
                       * f16 or TF32, or keep scores and weights in the dtype of storage. Not for
                       * lse. */
};

/* Computes rows (batch, head, query) of the problem in double precision, straight from the formula
 * in clattn/problem.h, and compares o, lse and scores; of backward rows of dq, rows of dk and dv
 * (batch, kv head, key), elements of dbias, dslopes and dsinks, from the o and lse of the case.
 * Small problems are computed whole, large ones at places spread over all of it, the first and the
 * last among them.
 *
 * The bound: with the unit roundoff u of the precision, a sum of n terms is off by at most 6
 * sqrt(n) u sum|terms|, but for odds below 1e-7 (N. J. Higham, T. Mary, "A New Approach to
 * Probabilistic Rounding Error Analysis", 2019); errors of the scores reach the output through the
 * softmax's derivative. In half precision that would excuse a result of zeros, so there the errors
 * of different weights are taken as independent, and sums of terms of either sign as small. */
bool check_results(const struct attention_case *attention, const struct results *results,
                   enum precision precision, struct worst *worst, struct message *why);

#endif
