/* What several devices make of the same problems, side by side. */
#ifndef CLATTN_BENCH_FLEET_SUMMARY_H
#define CLATTN_BENCH_FLEET_SUMMARY_H

#include "bench/records/results.h"

#include <stdio.h>

/* Prints a table of at most 100 columns: a row for each problem, for each device clattn's GFLOP/s,
 * its share of the roof and how many times as fast as the best peer it is. More devices than fit
 * beside each other are printed below each other. */
void fleet_summary_print(FILE *to, const struct run_results *results);

#endif
