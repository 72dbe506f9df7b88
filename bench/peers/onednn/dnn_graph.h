/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as one fused operation of oneDNN's graph interface, which version 3 brought. */
#ifndef CLATTN_BENCH_PEER_DNN_GRAPH_H
#define CLATTN_BENCH_PEER_DNN_GRAPH_H

#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

/* softmax(scale * q k^T) v for packed tensors of this type, without masks. */
struct dnn_attention {
    dnnl_data_type_t type;
    size_t batch, heads, seq_q, seq_kv, dim_qk, dim_v;
    const void *scale; /* Of that type; borrowed while the graph is open. */
};

struct dnn_graph;

/* NULL if the library has no such graph, or would not compute it as one operation. */
struct dnn_graph *dnn_graph_open(const struct dnn_attention *attention, dnnl_engine_t engine);

dnnl_status_t dnn_graph_run(const struct dnn_graph *graph, dnnl_stream_t stream, void *q, void *k,
                            void *v, void *o);

/* Allowed on NULL. */
void dnn_graph_close(struct dnn_graph *graph);

#endif
