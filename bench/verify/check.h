/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing results with double precision, each element against a bound of its own. */
#ifndef CLATTN_BENCH_CHECK_H
#define CLATTN_BENCH_CHECK_H

#include "bench/judge/worst.h"
#include "bench/verify/results.h"

/* Compares results with those of the judge (judge_results()). Small problems are computed whole, large ones at places spread
 * over all of it, the first and the last among them. */
bool check_results(const struct attention_case *attention, const struct results *results,
                   enum precision precision, struct worst *worst, struct message *why);

/* The result that comes closest to its bound, or exceeds it most. */
struct check_place {
    const char *tensor; /* NULL: nothing was compared. */
    size_t at[4];
    double got, want;
};

/* Compares all results, however many, and tells the place of the worst one. */
bool check_all_results(const struct attention_case *attention, const struct results *results,
                       struct worst *worst, struct check_place *place, struct message *why);

#endif
