/* SPDX-License-Identifier: Apache-2.0 */
/* libggml-clattn.so: attention on an OpenCL device for programs that use ggml. What ggml calls, from
 * ggml_backend_init() on; doc/guide/ggml.md says how to use it. */
#include "trials.h"

#include <stdlib.h>
#include <string.h>

/* ggml knows a backend by addresses that are the same for the life of the process: these. */
static struct device device;
static struct ggml_backend_device device_of_ggml;
static struct ggml_backend_reg registration;

struct backend {
    struct ggml_backend ggml;
    struct attention attention;
    struct rest rest;
    struct trials trials;
    bool warned;
};

/* ---- the backend ----------------------------------------------------------------------------- */

static bool only_renames(const struct ggml_tensor *node)
{
    return node->op == GGML_OP_NONE || node->op == GGML_OP_RESHAPE || node->op == GGML_OP_VIEW ||
           node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE;
}

static const char *backend_name(ggml_backend_t backend)
{
    (void)backend;
    return "CLATTN";
}

static void backend_free(ggml_backend_t ggml)
{
    struct backend *backend = ggml->context;

    attention_close(&backend->attention);
    rest_free(&backend->rest);
    free(backend);
}

static bool compute_attention(struct backend *backend, const struct ggml_tensor *node)
{
    const enum trial_end end =
        trials_compute(&backend->trials, &backend->attention, &backend->rest, node);

    if (end == TRIAL_FAILED && !backend->warned) {
        backend->warned = true;
        host_log(device.host, GGML_LOG_LEVEL_WARN,
                 "attention failed on %s and is computed by ggml instead; said once",
                 device.description);
    }
    return end == TRIAL_COMPUTED;
}

/* Runs of nodes that clattn has nothing to do with go to the CPU together. */
static enum ggml_status backend_compute(ggml_backend_t ggml, struct ggml_cgraph *graph)
{
    struct backend *backend = ggml->context;
    const int count = device.host->ggml_graph_n_nodes(graph);
    enum ggml_status status = GGML_STATUS_SUCCESS;

    for (int first = 0, next = 0; first < count && status == GGML_STATUS_SUCCESS; first = next) {
        const struct ggml_tensor *node = device.host->ggml_graph_node(graph, first);
        next = first + 1;
        if (only_renames(node) ||
            (node->op == GGML_OP_FLASH_ATTN_EXT && compute_attention(backend, node)))
            continue;
        while (next < count &&
               device.host->ggml_graph_node(graph, next)->op != GGML_OP_FLASH_ATTN_EXT)
            next++;
        status = rest_compute(&backend->rest, graph, first, next - first);
    }
    return status;
}

static void set_threads(ggml_backend_t ggml, int threads)
{
    struct backend *backend = ggml->context;

    rest_set_threads(&backend->rest, threads);
}

static ggml_guid_t backend_guid(void)
{
    static ggml_guid guid = {0x63, 0x6c, 0x61, 0x74, 0x74, 0x6e, 0x2d, 0x67,
                             0x67, 0x6d, 0x6c, 0x00, 0x7b, 0x41, 0xd2, 0x95};

    return &guid;
}

/* ---- the device ------------------------------------------------------------------------------ */

static const char *device_name(ggml_backend_dev_t dev)
{
    (void)dev;
    return "CLATTN";
}

static const char *device_description(ggml_backend_dev_t dev)
{
    (void)dev;
    return device.description;
}

/* The CPU's: that is where the tensors are. */
static void device_memory(ggml_backend_dev_t dev, size_t *free_bytes, size_t *total)
{
    ggml_backend_dev_t cpu = device.host->ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);

    (void)dev;
    *free_bytes = *total = 0;
    if (cpu != NULL)
        device.host->ggml_backend_dev_memory(cpu, free_bytes, total);
}

/* Not ACCEL: only of GPUs do llama.cpp's own defaults let attention run where it can, and its
 * vision encoders and whisper.cpp ask for one as well. */
static enum ggml_backend_dev_type device_type(ggml_backend_dev_t dev)
{
    (void)dev;
    return GGML_BACKEND_DEVICE_TYPE_IGPU;
}

static void device_properties(ggml_backend_dev_t dev, struct ggml_backend_dev_props *properties)
{
    *properties = (struct ggml_backend_dev_props){
        .name = device_name(dev),
        .description = device_description(dev),
        .type = device_type(dev),
        .caps = {.buffer_from_host_ptr = true, .mmap_support = true},
    };
    device_memory(dev, &properties->memory_free, &properties->memory_total);
}

static ggml_backend_t device_backend(ggml_backend_dev_t dev, const char *parameters)
{
    struct backend *backend = calloc(1, sizeof *backend);

    (void)parameters;
    if (backend == NULL)
        return NULL;
    if (!attention_open(&backend->attention, &device)) {
        free(backend);
        return NULL;
    }
    backend->rest = (struct rest){.host = device.host};
    trials_open(&backend->trials, &backend->attention);
    backend->ggml = (struct ggml_backend){
        .guid = backend_guid(),
        .iface = {.get_name = backend_name, .free = backend_free, .graph_compute = backend_compute},
        .device = dev,
        .context = backend,
    };
    return &backend->ggml;
}

static ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t dev)
{
    (void)dev;
    return device.host->ggml_backend_cpu_buffer_type();
}

static ggml_backend_buffer_t device_buffer(ggml_backend_dev_t dev, void *data, size_t bytes,
                                           size_t largest_tensor)
{
    (void)dev;
    (void)largest_tensor;
    return device.host->ggml_backend_cpu_buffer_from_ptr(data, bytes);
}

static bool supports_node(ggml_backend_dev_t dev, const struct ggml_tensor *node)
{
    (void)dev;
    return only_renames(node) ||
           (node->op == GGML_OP_FLASH_ATTN_EXT && device_supports(&device, node));
}

static bool supports_buffers(ggml_backend_dev_t dev, ggml_backend_buffer_type_t type)
{
    (void)dev;
    return type->iface.is_host != NULL && type->iface.is_host(type);
}

/* ---- the registration ------------------------------------------------------------------------ */

static const char *registration_name(ggml_backend_reg_t reg)
{
    (void)reg;
    return "CLATTN";
}

static size_t count_devices(ggml_backend_reg_t reg)
{
    (void)reg;
    return device.id != NULL;
}

static ggml_backend_dev_t get_device(ggml_backend_reg_t reg, size_t index)
{
    (void)reg;
    return index < count_devices(reg) ? &device_of_ggml : NULL;
}

/* For tests: how many programs the device's context has compiled. */
static size_t programs_built(void)
{
    return device_programs(&device);
}

static void *get_function(ggml_backend_reg_t reg, const char *name)
{
    union {
        void (*set_threads)(ggml_backend_t, int);
        size_t (*count)(void);
        void *object;
    } address = {.object = NULL};

    (void)reg;
    if (strcmp(name, "ggml_backend_set_n_threads") == 0)
        address.set_threads = set_threads;
    else if (strcmp(name, "clattn_programs_built") == 0)
        address.count = programs_built;
    return address.object;
}

static void open_once(void)
{
    device_open(&device, host_find());
    registration = (struct ggml_backend_reg){
        .api_version = GGML_BACKEND_API_VERSION,
        .iface = {.get_name = registration_name,
                  .get_device_count = count_devices,
                  .get_device = get_device,
                  .get_proc_address = get_function},
    };
    device_of_ggml = (struct ggml_backend_device){
        .iface = {.get_name = device_name,
                  .get_description = device_description,
                  .get_memory = device_memory,
                  .get_type = device_type,
                  .get_props = device_properties,
                  .init_backend = device_backend,
                  .get_buffer_type = device_buffer_type,
                  .buffer_from_host_ptr = device_buffer,
                  .supports_op = supports_node,
                  .supports_buft = supports_buffers},
        .reg = &registration,
    };
}

/* The function that ggml looks for in a library that it loads. It returns NULL if this ggml does
 * not suit, and the log says why. */
CLATTN_GGML_EXPORT ggml_backend_reg_t ggml_backend_init(void);

ggml_backend_reg_t ggml_backend_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (host_find() == NULL)
        return NULL;
    pthread_once(&once, open_once);
    return &registration;
}
