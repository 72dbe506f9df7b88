/* The parts of clattn-peer-openblas: forward and backward share the ways to share out the work. */
#ifndef CLATTN_BENCH_PEER_OPENBLAS_H
#define CLATTN_BENCH_PEER_OPENBLAS_H

#include "host_sets.h"
#include "pool.h"
#include "softmax_rows.h"
#include "steps.h"

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

/* The gradients of one set of tensors: five products, in between what is done row by row. */
void openblas_backward(struct openblas *c, const struct host_set *set);

#endif
