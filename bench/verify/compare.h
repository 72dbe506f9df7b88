/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing results with the answers that a file holds. */
#ifndef CLATTN_BENCH_COMPARE_H
#define CLATTN_BENCH_COMPARE_H

#include "bench/cases/case.h"
#include "bench/judge/worst.h"

/* |got - want| <= atol + rtol * (the largest |want| of the row). Negative: what f32 arithmetic
 * and storage in the answer's dtype or the result's, whichever is coarser, may cost. */
struct tolerance {
    double rtol, atol;
};

/* Compares a case's output, and its scores unless NULL, with the answers that it holds. */
void compare_case(struct worst *worst, const struct attention_case *attention, const void *o,
                  const float *scores, struct tolerance tolerance);

#endif
