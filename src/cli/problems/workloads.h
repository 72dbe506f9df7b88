/* SPDX-License-Identifier: Apache-2.0 */
/* Named lists of problems: attention as known models do it. */
#ifndef CLATTN_BENCH_WORKLOADS_H
#define CLATTN_BENCH_WORKLOADS_H

#include <stddef.h>

#define WORKLOAD_MOST_PROBLEMS 32

struct workload {
    const char *name;
    const char *meaning;
    /* Where the model's sizes are published; NULL: a set of problems from several models. */
    const char *source;
    const char *problems[WORKLOAD_MOST_PROBLEMS + 1]; /* Text forms; NULL after the last. */
};

/* All of them; the last has no name. */
extern const struct workload workloads[];

/* NULL if there is none of that name. */
const struct workload *workload_find(const char *name);

/* What problem n of a workload belongs to: in a set the model that it was taken from. */
const struct workload *workload_origin(const struct workload *workload, size_t n);

#endif
