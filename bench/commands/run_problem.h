/* SPDX-License-Identifier: Apache-2.0 */
/* One problem of a run: all its implementations, checked, timed in turns and checked again. */
#ifndef CLATTN_BENCH_RUN_PROBLEM_H
#define CLATTN_BENCH_RUN_PROBLEM_H

#include "bench/cases/case.h"
#include "bench/commands/run_state.h"

/* What a problem costs is unknown before it has run: an execution's least time by the peaks, and
 * some constant work. */
double run_problem_weight(const struct job *job);

/* Fills the record, whatever happens. False if there is nothing to show, because the user has
 * interrupted it or there was no memory, which was said. */
bool run_problem(struct run *run, const struct attention_case *attention, const char *name,
                 struct record *record);

#endif
