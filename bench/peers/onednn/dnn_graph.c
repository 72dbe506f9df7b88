/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/onednn/dnn_graph.h"

#if DNNL_VERSION_MAJOR >= 3

#include <oneapi/dnnl/dnnl_graph.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* The graph's edges; those that a user gives or takes come first. */
enum edge { Q, K, SCALE, V, O, SCORES, SCALED, WEIGHTS, EDGES };

enum { GIVEN = O, OPERATIONS = 4 };

struct dnn_graph {
    dnnl_graph_logical_tensor_t edge[EDGES];
    dnnl_graph_op_t operation[OPERATIONS];
    dnnl_graph_graph_t graph;
    dnnl_graph_partition_t partition;
    dnnl_graph_compiled_partition_t compiled;
    dnnl_graph_tensor_t tensor[GIVEN + 1];
};

static dnnl_status_t describe(struct dnn_graph *graph, const struct dnn_attention *a)
{
    const size_t sizes[EDGES][4] = {
        [Q] = {a->batch, a->heads, a->seq_q, a->dim_qk},
        [K] = {a->batch, a->heads, a->seq_kv, a->dim_qk},
        [SCALE] = {1, 1, 1, 1},
        [V] = {a->batch, a->heads, a->seq_kv, a->dim_v},
        [O] = {a->batch, a->heads, a->seq_q, a->dim_v},
        [SCORES] = {a->batch, a->heads, a->seq_q, a->seq_kv},
        [SCALED] = {a->batch, a->heads, a->seq_q, a->seq_kv},
        [WEIGHTS] = {a->batch, a->heads, a->seq_q, a->seq_kv},
    };
    dnnl_status_t status = dnnl_success;

    for (size_t n = 0; status == dnnl_success && n < EDGES; n++) {
        dnnl_dims_t dims;
        for (int d = 0; d < 4; d++)
            dims[d] = (dnnl_dim_t)sizes[n][d];
        status = dnnl_graph_logical_tensor_init_with_dims(
            &graph->edge[n], n, a->type, n == SCALE ? 1 : 4, dims, dnnl_graph_layout_type_strided,
            dnnl_graph_tensor_property_undef);
    }
    return status;
}

/* An operation on two edges, or on one where both are the same. */
static dnnl_status_t add(struct dnn_graph *graph, size_t number, dnnl_graph_op_kind_t kind,
                         enum edge a, enum edge b, enum edge result)
{
    dnnl_graph_op_t *operation = &graph->operation[number];
    const int64_t last = -1;
    const uint8_t yes = 1;
    dnnl_status_t status = dnnl_graph_op_create(operation, number, kind, "");

    if (status == dnnl_success)
        status = dnnl_graph_op_add_input(*operation, &graph->edge[a]);
    if (status == dnnl_success && a != b)
        status = dnnl_graph_op_add_input(*operation, &graph->edge[b]);
    if (status == dnnl_success)
        status = dnnl_graph_op_add_output(*operation, &graph->edge[result]);
    if (status == dnnl_success && b == K)
        status = dnnl_graph_op_set_attr_bool(*operation, dnnl_graph_op_attr_transpose_b, &yes, 1);
    if (status == dnnl_success && kind == dnnl_graph_op_softmax)
        status = dnnl_graph_op_set_attr_s64(*operation, dnnl_graph_op_attr_axis, &last, 1);
    return status == dnnl_success ? dnnl_graph_add_op(graph->graph, *operation) : status;
}

static dnnl_status_t draw(struct dnn_graph *graph)
{
    dnnl_status_t status = dnnl_graph_graph_create(&graph->graph, dnnl_cpu);

    if (status == dnnl_success)
        status = add(graph, 0, dnnl_graph_op_matmul, Q, K, SCORES);
    if (status == dnnl_success)
        status = add(graph, 1, dnnl_graph_op_multiply, SCORES, SCALE, SCALED);
    if (status == dnnl_success)
        status = add(graph, 2, dnnl_graph_op_softmax, SCALED, SCALED, WEIGHTS);
    if (status == dnnl_success)
        status = add(graph, 3, dnnl_graph_op_matmul, WEIGHTS, V, O);
    if (status == dnnl_success)
        status = dnnl_graph_graph_finalize(graph->graph);
    return status == dnnl_success
               ? dnnl_graph_graph_filter(graph->graph, dnnl_graph_partition_policy_fusion)
               : status;
}

/* Whether the library takes the whole graph as one. */
static bool fuse(struct dnn_graph *graph)
{
    size_t count = 0;
    uint8_t supported = 0;

    return dnnl_graph_graph_get_partition_num(graph->graph, &count) == dnnl_success && count == 1 &&
           dnnl_graph_graph_get_partitions(graph->graph, 1, &graph->partition) == dnnl_success &&
           dnnl_graph_partition_is_supported(graph->partition, &supported) == dnnl_success &&
           supported;
}

static dnnl_status_t compile(struct dnn_graph *graph, dnnl_engine_t engine, const void *scale)
{
    const dnnl_graph_logical_tensor_t *inputs[GIVEN] = {&graph->edge[Q], &graph->edge[K],
                                                        &graph->edge[SCALE], &graph->edge[V]};
    const dnnl_graph_logical_tensor_t *output = &graph->edge[O];
    dnnl_status_t status = dnnl_graph_compiled_partition_create(&graph->compiled, graph->partition);

    if (status == dnnl_success)
        status = dnnl_graph_partition_compile(graph->partition, graph->compiled, GIVEN, inputs, 1,
                                              &output, engine);
    for (size_t n = 0; status == dnnl_success && n <= GIVEN; n++)
        status = dnnl_graph_tensor_create(&graph->tensor[n], &graph->edge[n], engine,
                                          n == SCALE ? (void *)(uintptr_t)scale : NULL);
    return status;
}

struct dnn_graph *dnn_graph_open(const struct dnn_attention *attention, dnnl_engine_t engine)
{
    struct dnn_graph *graph = calloc(1, sizeof *graph);

    if (graph != NULL && describe(graph, attention) == dnnl_success &&
        draw(graph) == dnnl_success && fuse(graph) &&
        compile(graph, engine, attention->scale) == dnnl_success)
        return graph;
    dnn_graph_close(graph);
    return NULL;
}

dnnl_status_t dnn_graph_run(const struct dnn_graph *graph, dnnl_stream_t stream, void *q, void *k,
                            void *v, void *o)
{
    const_dnnl_graph_tensor_t inputs[GIVEN] = {graph->tensor[Q], graph->tensor[K],
                                               graph->tensor[SCALE], graph->tensor[V]};
    const_dnnl_graph_tensor_t output = graph->tensor[O];
    dnnl_status_t status = dnnl_graph_tensor_set_data_handle(graph->tensor[Q], q);

    if (status == dnnl_success)
        status = dnnl_graph_tensor_set_data_handle(graph->tensor[K], k);
    if (status == dnnl_success)
        status = dnnl_graph_tensor_set_data_handle(graph->tensor[V], v);
    if (status == dnnl_success)
        status = dnnl_graph_tensor_set_data_handle(graph->tensor[O], o);
    return status == dnnl_success ? dnnl_graph_compiled_partition_execute(graph->compiled, stream,
                                                                          GIVEN, inputs, 1, &output)
                                  : status;
}

void dnn_graph_close(struct dnn_graph *graph)
{
    if (graph == NULL)
        return;
    for (int n = 0; n <= GIVEN; n++)
        if (graph->tensor[n] != NULL)
            dnnl_graph_tensor_destroy(graph->tensor[n]);
    if (graph->compiled != NULL)
        dnnl_graph_compiled_partition_destroy(graph->compiled);
    if (graph->partition != NULL)
        dnnl_graph_partition_destroy(graph->partition);
    if (graph->graph != NULL)
        dnnl_graph_graph_destroy(graph->graph);
    for (int n = 0; n < OPERATIONS; n++)
        if (graph->operation[n] != NULL)
            dnnl_graph_op_destroy(graph->operation[n]);
    free(graph);
}

#else

struct dnn_graph *dnn_graph_open(const struct dnn_attention *attention, dnnl_engine_t engine)
{
    (void)attention;
    (void)engine;
    return NULL;
}

dnnl_status_t dnn_graph_run(const struct dnn_graph *graph, dnnl_stream_t stream, void *q, void *k,
                            void *v, void *o)
{
    (void)graph;
    (void)stream;
    (void)q;
    (void)k;
    (void)v;
    (void)o;
    return dnnl_unimplemented;
}

void dnn_graph_close(struct dnn_graph *graph)
{
    (void)graph;
}

#endif
