/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors that an execution has written. */
#ifndef CLATTN_BENCH_VERIFY_RESULTS_H
#define CLATTN_BENCH_VERIFY_RESULTS_H

#include "bench/cases/case.h"

/* Results of a device in host memory, in the layouts of the problem. NULL stands for results
 * that the problem has not, or that are not compared. */
struct results {
    void *out[OUTPUT_COUNT];
};

/* Releases results that the caller owns. */
void results_release(struct results *results);

#endif
