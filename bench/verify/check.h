/* Comparing results with double precision, each element against a bound of its own. */
#ifndef CLATTN_BENCH_CHECK_H
#define CLATTN_BENCH_CHECK_H

#include "bench/cases/case.h"
#include "bench/reference/bounded.h"
#include "bench/verify/worst.h"

/* What a device computed, in host memory, in the layouts of the problem; NULL for what the problem
 * has not, or is not to be looked at. */
struct results {
    void *out[OUTPUT_COUNT];
};

/* Where they are owned. */
void results_release(struct results *results);

/* Computes rows (batch, head, query) of the problem in double precision (bench/reference/), and
 * compares o, lse and scores; of backward rows of dq, rows of dk and dv (batch, kv head, key), and
 * elements of the gradients that sum over many pairs, from the o and lse of the case. Small problems
 * are computed whole, large ones at places spread over all of it, the first and the last among them. */
bool check_results(const struct attention_case *attention, const struct results *results,
                   enum precision precision, struct worst *worst, struct message *why);

#endif
