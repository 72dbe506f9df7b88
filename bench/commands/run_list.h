/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench run --list: what there is to run, or what would run. */
#ifndef CLATTN_BENCH_RUN_LIST_H
#define CLATTN_BENCH_RUN_LIST_H

#include "bench/commands/items.h"

/* Prints every workload with its meaning, its source and its problems. */
void run_list_workloads(void);

/* Prints the items under their headings; of tensors in a file the problem that they make. On
 * failure *why says which file is not sound. */
bool run_list_items(const struct items *items, struct message *why);

#endif
