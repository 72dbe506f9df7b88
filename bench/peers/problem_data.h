/* SPDX-License-Identifier: Apache-2.0 */
/* A problem and its tensors as the client hands them over, with what the libraries here want of
 * them: bias and mask as one addend, which keys a query may see at all, and sets of tensors to
 * compute on. */
#ifndef CLATTN_BENCH_PROBLEM_DATA_H
#define CLATTN_BENCH_PROBLEM_DATA_H

#include "bench/cases/safetensors.h"
#include "bench/peer/peer_tensors.h"

struct problem_data {
    struct job job;
    clattn_problem problem; /* Its attention or projection. */
    float scale;
    const struct safetensor *in[INPUT_COUNT]; /* Packed and aligned; NULL: the job has none. */
    const float *slopes, *sinks;              /* NULL if there are none, as all that follows. */
    const cl_int *q_lengths, *kv_lengths;
    float *addend; /* Owned: bias where visible, -inf where masked; or a projection's bias. */
    size_t addend_count;
    size_t addend_stride[3]; /* Along (batch, heads, seq_q); 0 broadcasts. Keys lie side by side. */
    struct peer_result result[PEER_MOST_RESULTS];
    size_t results, result_bytes; /* Bytes of all, one after the other. */
    struct safetensors file;
};

/* Refuses data that do not fit the problem. */
bool problem_data_read(struct problem_data *data, const char *problem, const char *path,
                       struct message *why);

void problem_data_free(struct problem_data *data);

/* Whether there are no batches, queries or keys. */
bool problem_data_is_empty(const struct problem_data *data);

/* ---- what is visible ------------------------------------------------------------------------- */

/* Queries and keys in use, and what the diagonal of a batch counts from. */
size_t problem_data_queries(const struct problem_data *data, size_t batch);
size_t problem_data_keys(const struct problem_data *data, size_t batch);
int64_t problem_data_diagonal(const struct problem_data *data, size_t batch);

/* Keys before and after the diagonal that causality and windows leave; as many as there are
 * numbers where they leave all. */
#define PEER_UNLIMITED (INT64_C(1) << 52)
int64_t problem_data_left(const clattn_problem *problem);
int64_t problem_data_right(const clattn_problem *problem);

/* The keys [*first, *end) that causality, windows and lengths leave to query i; none: both 0. */
void problem_data_visible(const struct problem_data *data, size_t batch, size_t i, size_t *first,
                          size_t *end);

/* Whether that is less than all keys for some query. */
bool problem_data_limited(const struct problem_data *data);

/* ---- what becomes of scores ------------------------------------------------------------------ */

struct row_place {
    size_t batch, head, i;
};

/* Of the scores of one query with the keys from `key` on, which count from 0 here. */
struct row_rule {
    size_t first, end;   /* The visible ones; none if end is not larger. */
    const float *addend; /* One for each key, or NULL. */
    float slope;         /* Added times (j + distance). */
    float distance;
    bool has_sink;
    float sink;
};

struct row_rule problem_data_rule(const struct problem_data *data, struct row_place at, size_t key);

/* Whether that is more than a softmax over all keys, sinks apart. */
bool problem_data_ruled(const struct problem_data *data);

/* The rule as what is added to the scores of `keys` keys, -inf where it hides one. False if it
 * hides all. */
bool problem_data_addends(const struct problem_data *data, struct row_place at, size_t key,
                          size_t keys, float *values);

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
