/* SPDX-License-Identifier: Apache-2.0 */
/* A problem and its tensors as the client hands them over, with what the libraries here want of
 * them: bias and mask as one addend, and which keys a query may see at all. */
#ifndef CLATTN_BENCH_PROBLEM_DATA_H
#define CLATTN_BENCH_PROBLEM_DATA_H

#include "bench/cases/safetensors.h"

#include <clattn/problem.h>

struct problem_data {
    clattn_problem problem;
    float scale;
    const unsigned char *q, *k, *v; /* Packed; not necessarily aligned. Of a projection x and w. */
    const unsigned char *o, *d_o;   /* Likewise; NULL unless backward, and of o's size. */
    float *lse;                     /* (batch, heads, seq_q); likewise. */
    float *projection_bias;         /* (heads, dim_v); NULL if there is none. */
    size_t q_bytes, k_bytes, v_bytes, o_bytes;
    size_t result_bytes; /* Of o, or of dq, dk and dv one after the other. */
    float *addend;       /* Bias where visible, -inf where masked; NULL if there is neither. */
    size_t addend_count;
    size_t addend_stride[3]; /* Along (batch, heads, seq_q); 0 broadcasts. Keys lie side by side. */
    float *slopes, *sinks;   /* NULL if there are none. */
    cl_int *q_lengths, *kv_lengths;
    struct safetensors file;
};

/* Refuses data that do not fit the problem, and problems that leave nothing to compute. */
bool problem_data_read(struct problem_data *data, const char *problem, const char *path,
                       struct message *why);

void problem_data_free(struct problem_data *data);

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

/* The addend of a row, or NULL. */
const float *problem_data_addend(const struct problem_data *data, size_t batch, size_t head,
                                 size_t i);

#endif
