/* SPDX-License-Identifier: Apache-2.0 */
/* Named lists of problems: attention as known models do it. */
#ifndef CLATTN_BENCH_WORKLOADS_H
#define CLATTN_BENCH_WORKLOADS_H

#include <stddef.h>

#define WORKLOAD_MOST_PROBLEMS 40

struct workload {
    const char *name;
    const char *meaning;
    /* Where the model's sizes are published; NULL: a set of problems from several models. */
    const char *source;
    const char *problems[WORKLOAD_MOST_PROBLEMS + 1]; /* Text forms; NULL after the last. */
};

/* All of them; the last has no name. */
extern const struct workload workloads[];

/* Returns NULL if there is none of that name. */
const struct workload *workload_find(const char *name);

/* The workload of problem n: in a set, the model that the problem was taken from. */
const struct workload *workload_origin(const struct workload *workload, size_t n);

#endif
