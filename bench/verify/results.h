/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors that an execution has written. */
#ifndef CLATTN_BENCH_VERIFY_RESULTS_H
#define CLATTN_BENCH_VERIFY_RESULTS_H

#include "bench/cases/case.h"

/* What a device computed, in host memory, in the layouts of the problem; NULL for what the problem
 * has not, or is not to be looked at. */
struct results {
    void *out[OUTPUT_COUNT];
};

/* Releases results that the caller owns. */
void results_release(struct results *results);

#endif
