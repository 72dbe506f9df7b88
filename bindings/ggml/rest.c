/* SPDX-License-Identifier: Apache-2.0 */
#include "rest.h"

typedef void (*set_threads_function)(ggml_backend_t backend, int threads);

static void tell_threads(const struct rest *rest)
{
    ggml_backend_reg_t reg = rest->host->ggml_backend_dev_backend_reg(rest->cpu->device);
    union {
        void *object;
        set_threads_function function;
    } address = {
        .object = rest->host->ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads")};

    if (address.object != NULL && rest->threads > 0)
        address.function(rest->cpu, rest->threads);
}

void rest_set_threads(struct rest *rest, int threads)
{
    rest->threads = threads;
    if (rest->cpu != NULL)
        tell_threads(rest);
}

static bool open_cpu(struct rest *rest)
{
    ggml_backend_dev_t device = rest->host->ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);

    if (rest->cpu == NULL && device != NULL) {
        rest->cpu = rest->host->ggml_backend_dev_init(device, NULL);
        if (rest->cpu != NULL)
            tell_threads(rest);
    }
    return rest->cpu != NULL;
}

/* A graph for so many nodes, and its context; NULL where there is no CPU backend or no memory. */
static struct ggml_cgraph *open_graph(struct rest *rest, int count, struct ggml_context **context)
{
    const struct host *host = rest->host;

    if (!open_cpu(rest)) {
        host_log(
            host, GGML_LOG_LEVEL_ERROR,
            "an operation that is not clattn's was to be computed, and there is no CPU backend");
        return NULL;
    }
    *context = host->ggml_init((struct ggml_init_params){
        .mem_size = host->ggml_graph_overhead_custom((size_t)count, false), .no_alloc = true});
    return *context != NULL ? host->ggml_new_graph_custom(*context, (size_t)count, false) : NULL;
}

enum ggml_status rest_compute(struct rest *rest, struct ggml_cgraph *graph, int first, int count)
{
    const struct host *host = rest->host;
    struct ggml_context *context = NULL;
    struct ggml_cgraph *part = open_graph(rest, count, &context);

    if (part == NULL)
        return GGML_STATUS_FAILED;
    for (int n = 0; n < count; n++)
        host->ggml_graph_add_node(part, host->ggml_graph_node(graph, first + n));
    const enum ggml_status status = host->ggml_backend_graph_compute(rest->cpu, part);
    host->ggml_free(context);
    return status;
}

enum ggml_status rest_compute_node(struct rest *rest, struct ggml_tensor *node)
{
    const struct host *host = rest->host;
    struct ggml_context *context = NULL;
    struct ggml_cgraph *graph = open_graph(rest, 1, &context);

    if (graph == NULL)
        return GGML_STATUS_FAILED;
    host->ggml_graph_add_node(graph, node);
    const enum ggml_status status = host->ggml_backend_graph_compute(rest->cpu, graph);
    host->ggml_free(context);
    return status;
}

void rest_free(struct rest *rest)
{
    if (rest->cpu != NULL)
        rest->host->ggml_backend_free(rest->cpu);
    rest->cpu = NULL;
}
