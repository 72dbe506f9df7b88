/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a run: 100 columns wide, or what a narrower terminal has, without the columns for
 * which it has no room. */
#ifndef CLATTN_BENCH_TABLE_H
#define CLATTN_BENCH_TABLE_H

#include "bench/records/results.h"

#include <stdio.h>

/* Prints the device, the peers that are missing, and the names of the columns. */
void table_header(const struct device_run *run);

/* A problem and all who computed it, below its workload if that is not the one of `before`, which
 * may be NULL. */
void table_record(const struct record *record, const struct record *before);

/* The peaks, all problems together, what the columns mean, and what to be wary of. */
void table_footer(const struct device_run *run);

#endif
