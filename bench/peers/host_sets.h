/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of tensors in host memory, aligned to the lines of caches; those of a projection as
 * products.h has them. */
#ifndef CLATTN_BENCH_PEER_HOST_SETS_H
#define CLATTN_BENCH_PEER_HOST_SETS_H

#include "bench/peers/problem_data.h"

struct host_set {
    void *q, *k, *v, *o; /* Owned, as all. */
    void *d_o, *lse;     /* NULL unless backward, which reads o. */
    void *result[3];     /* O, which is the one above, or dq, dk and dv; NULL after the last. */
};

struct host_sets {
    struct host_set *set; /* Owned. */
    size_t count;
    const clattn_problem *problem;
    size_t result_bytes[3];
};

/* On failure what was made is for host_sets_free() to release. */
bool host_sets_make(struct host_sets *sets, const struct problem_data *data, size_t copies,
                    struct message *why);

/* Fills the first one's results with NaN, and copies them, one after the other. */
void host_sets_poison(const struct host_sets *sets);
void host_sets_read(const struct host_sets *sets, void *results);

/* Allowed on one that is all zeros. */
void host_sets_free(struct host_sets *sets);

/* NULL without memory; released by free(). */
void *host_allocate(size_t bytes);

#endif
