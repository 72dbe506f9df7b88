/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of clattn-peer-openblas: forward and backward share the ways to share out the work. */
#ifndef CLATTN_BENCH_PEER_OPENBLAS_H
#define CLATTN_BENCH_PEER_OPENBLAS_H

#include "bench/peers/host_sets.h"
#include "bench/peers/openblas/softmax_rows.h"
#include "bench/peers/peer_main.h"
#include "bench/peers/pool.h"
#include "bench/peers/steps.h"

/* A way to share out the work, the fastest of which is found by trying. */
struct way {
    const char *name;
    bool blas_threads; /* A product is OpenBLAS's threads' affair, else each thread has its own. */
    bool by_vectors;   /* Each row by GEMV. */
    struct steps steps;
};

enum { OPENBLAS_MOST_WAYS = 3, OPENBLAS_ROWS_AT_ONCE = 16 };

struct openblas {
    struct pool *pool;
    unsigned threads;
    const struct problem_data *data;
    struct host_sets sets;
    struct way ways[OPENBLAS_MOST_WAYS];
    size_t num_ways;
    const struct way *way;
    float **scratch; /* For each thread: scores, then a factor for each row, or as many again. */
    size_t scores;   /* Of them. */
};

/* A row of a step of one entry, its scores, and what is to become of them. */
struct softmax_row openblas_row(const struct problem_data *data, const struct step *step,
                                float *scores, size_t row);

/* Whether a way leaves a product to OpenBLAS's threads is a setting of it. */
void openblas_choose(struct openblas *c, size_t way);

/* Chooses the fastest of the ways. */
bool openblas_settle(struct openblas *c,
                     bool (*compute)(void *self, size_t set, struct message *why),
                     struct message *why);

/* Functions of a peer_library. */
enum peer_status openblas_build(void *self, struct message *why);
bool openblas_poison(void *self, struct message *why);
bool openblas_read(void *self, void *results, struct message *why);
void openblas_close(void *self);

extern const struct peer_library openblas_projection;

/* The gradients of one set of tensors: five products, in between what is done row by row. */
void openblas_backward(struct openblas *c, const struct host_set *set);

#endif
