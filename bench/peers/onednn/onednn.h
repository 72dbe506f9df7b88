/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of clattn-peer-onednn: attention and projections share a state. */
#ifndef CLATTN_BENCH_PEER_ONEDNN_H
#define CLATTN_BENCH_PEER_ONEDNN_H

#include "bench/peers/host_sets.h"
#include "bench/peers/onednn/addends.h"
#include "bench/peers/onednn/dnn_graph.h"
#include "bench/peers/onednn/dnn_ops.h"
#include "bench/peers/peer_main.h"

/* The primitives of a step. */
struct stage {
    struct dnn_op keys, softmax, values;
};

struct onednn {
    unsigned threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    const struct problem_data *data;
    size_t element; /* Bytes. */
    struct host_sets sets;
    struct steps steps;
    struct addends addends;
    struct stage *stages; /* One for each step. */
    float *scores;
    void *weights; /* The scores' place, where they have the same type. */
    struct dnn_op projection;
    struct dnn_graph *graph; /* The other way to compute; NULL where there is none. */
    unsigned char scale[4];  /* Of the problem's type, for the graph. */
    bool fused;              /* By the graph. */
};

dnnl_data_type_t onednn_type(clattn_dtype dtype);

/* What becomes of a status that making a primitive had. */
enum peer_status onednn_status(const struct onednn *onednn, dnnl_status_t status,
                               struct message *why);

/* Of the first set's results. */
bool onednn_poison(void *self, struct message *why);
bool onednn_read(void *self, void *results, struct message *why);

extern const struct peer_library onednn_projection;

#endif
