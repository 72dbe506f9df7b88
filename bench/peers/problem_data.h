/* SPDX-License-Identifier: Apache-2.0 */
/* A problem and its tensors as the client hands them over, with what the libraries here want of
 * them: which keys a query may see, and sets of tensors to compute on. */
#ifndef CLATTN_BENCH_PROBLEM_DATA_H
#define CLATTN_BENCH_PROBLEM_DATA_H

#include "bench/cases/safetensors.h"
#include "bench/peer/peer_tensors.h"

struct problem_data {
    struct job job;
    clattn_problem problem; /* The job's attention or projection. */
    float scale;
    const struct safetensor *in[INPUT_COUNT]; /* Packed and aligned; NULL: the job has none. */
    float *projection_bias;                   /* (heads, dim_v), owned; NULL if there is none. */
    struct peer_result result[PEER_MOST_RESULTS];
    size_t results, result_bytes; /* Bytes of all, one after the other. */
    struct safetensors file;
};

/* Refuses data that do not fit the problem. */
bool problem_data_read(struct problem_data *data, const char *problem, const char *path,
                       struct message *why);

void problem_data_free(struct problem_data *data);

/* Returns whether there are no batches, queries or keys. */
bool problem_data_is_empty(const struct problem_data *data);

/* ---- what is visible ------------------------------------------------------------------------- */

/* The problem's diagonal: key minus query on it. */
int64_t problem_diagonal(const clattn_problem *problem);

/* Keys before and after the diagonal that causality and windows leave; as many as there are
 * numbers where they leave all. */
#define PEER_UNLIMITED (INT64_C(1) << 52)
int64_t problem_left(const clattn_problem *problem);
int64_t problem_right(const clattn_problem *problem);

/* The keys [first, end) that these leave to query i; none: both 0. */
struct key_range {
    size_t first, end;
};
struct key_range problem_visible(const clattn_problem *problem, size_t i);

/* Returns whether that is less than all keys for some query. */
bool problem_limited(const clattn_problem *problem);

/* ---- sets of tensors ------------------------------------------------------------------------- */

/* In host memory, aligned to the lines of caches. A projection is one product, y (rows, columns) =
 * x (rows, inner) w (inner, columns) + bias: x and y have heads side by side in a row, as a user
 * has them for it. */
struct host_set {
    void *in[INPUT_COUNT]; /* Owned, as all; NULL for what is no operand of a product. */
    void *out[PEER_MOST_RESULTS];
};

/* On failure what was made is for host_set_free() to release. */
bool host_set_make(struct host_set *set, const struct problem_data *data, struct message *why);

/* Fills the results with NaN, and copies them, packed, one after the other. */
void host_set_poison(const struct host_set *set, const struct problem_data *data);
void host_set_read(const struct host_set *set, const struct problem_data *data, void *results);

/* Allowed on one that is all zeros. */
void host_set_free(struct host_set *set);

/* NULL without memory; released by free(). */
void *host_allocate(size_t bytes);

struct product {
    size_t rows, inner, columns;
};

struct product product_of(const clattn_problem *projection);

#endif
