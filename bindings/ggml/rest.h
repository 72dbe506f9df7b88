/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that run on ggml's CPU backend: nodes that clattn does not compute, of programs
 * that give one backend a whole graph. Also attention that ggml computes faster, or that fails
 * when it is executed, for want of memory for example. */
#ifndef CLATTN_GGML_REST_H
#define CLATTN_GGML_REST_H

#include "host.h"

struct rest {
    const struct host *host;
    ggml_backend_t cpu; /* NULL until it is needed. */
    int threads;        /* 0: as many as ggml takes by itself. */
};

void rest_set_threads(struct rest *rest, int threads);

/* Computes count nodes of the graph from the first on. */
enum ggml_status rest_compute(struct rest *rest, struct ggml_cgraph *graph, int first, int count);

/* Computes a node that is in no graph. */
enum ggml_status rest_compute_node(struct rest *rest, struct ggml_tensor *node);

void rest_free(struct rest *rest);

#endif
