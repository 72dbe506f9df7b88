/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors of a job peers are sent and asked for, and where they lie: packed for them, in the
 * job's layouts here, a layer's weights as (columns of the product, columns of what is
 * multiplied). */
#ifndef CLATTN_BENCH_PEER_TENSORS_H
#define CLATTN_BENCH_PEER_TENSORS_H

#include "bench/cases/case.h"

/* A tensor as the file has it. */
struct peer_tensor {
    const char *name;
    const char *dtype; /* The dtype's name in safetensors. */
    size_t rank, shape[4];
    size_t bytes;
    enum input input;
    struct view view; /* View of its elements in the case; size 1 where it broadcasts. */
    size_t offset;    /* Offset of its first element. */
};

enum { PEER_MOST_TENSORS = INPUT_COUNT, PEER_MOST_RESULTS = 16 };

/* Lists the tensors in the order of the file, and returns their number. Those of large elements
 * come first, so that all are aligned to their elements. */
size_t peer_tensors_list(const struct job *job, struct peer_tensor tensors[PEER_MOST_TENSORS]);

/* The alignment of its elements in bytes. */
size_t peer_tensor_alignment(const struct peer_tensor *tensor);

/* A result, likewise. */
struct peer_result {
    enum output output;
    struct view view;
    size_t offset;
};

size_t peer_results_list(const struct job *job, struct peer_result results[PEER_MOST_RESULTS]);

size_t peer_result_bytes(const struct peer_result *result);

#endif
