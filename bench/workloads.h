/* Named lists of problems: attention as known models do it. */
#ifndef CLATTN_BENCH_WORKLOADS_H
#define CLATTN_BENCH_WORKLOADS_H

#define WORKLOAD_MOST_PROBLEMS 16

struct workload {
    const char *name;
    const char *meaning;
    const char *problems[WORKLOAD_MOST_PROBLEMS + 1]; /* Text forms; NULL after the last. */
};

/* All of them; the last has no name. */
extern const struct workload workloads[];

/* NULL if there is none of that name. */
const struct workload *workload_find(const char *name);

#endif
