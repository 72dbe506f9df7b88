/* Comparing results with double precision, each element against a bound of its own. */
#ifndef CLATTN_BENCH_CHECK_H
#define CLATTN_BENCH_CHECK_H

#include "case.h"
#include "worst.h"

/* What a device computed, in host memory; NULL for what the problem has not. */
struct results {
    void *o;
    float *lse;
    float *scores;
};

/* Computes rows (batch, head, query) of the problem in double precision, straight from the formula
 * in clattn/problem.h, and compares o, lse and scores. Small problems are computed whole, large
 * ones at rows spread over all of it, the first and the last among them.
 *
 * The bound: with u = 2^-24, a sum of n terms in f32 is off by at most 6 sqrt(n) u sum|terms|, but
 * for odds below 1e-7 (N. J. Higham, T. Mary, "A New Approach to Probabilistic Rounding Error
 * Analysis", 2019); errors of the scores reach the output through the softmax's derivative. */
bool check_results(const struct attention_case *attention, const struct results *results,
                   struct worst *worst, struct message *why);

#endif
