/* Sets of tensors in host memory, aligned to the lines of caches. */
#ifndef CLATTN_BENCH_PEER_HOST_SETS_H
#define CLATTN_BENCH_PEER_HOST_SETS_H

#include "problem_data.h"

struct host_set {
    void *q, *k, *v, *o; /* Owned. */
};

struct host_sets {
    struct host_set *set; /* Owned. */
    size_t count;
    size_t o_bytes;
};

/* On failure what was made is for host_sets_free() to release. */
bool host_sets_make(struct host_sets *sets, const struct problem_data *data, size_t copies,
                    struct message *why);

/* Fills the first one's outputs with NaN, and copies them. */
void host_sets_poison(const struct host_sets *sets);
void host_sets_read(const struct host_sets *sets, void *o);

/* Allowed on one that is all zeros. */
void host_sets_free(struct host_sets *sets);

/* NULL without memory; released by free(). */
void *host_allocate(size_t bytes);

#endif
