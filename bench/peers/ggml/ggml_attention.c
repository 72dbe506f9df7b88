/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-peer-ggml: ggml_flash_attn_ext on the host's CPU, as llama.cpp calls it: q and o in f32, keys and
 * values in any format that a cache has, what hides keys in a mask of f16. */
#include "bench/judge/values.h"
#include "bench/peers/peer_main.h"
#include "internal.h"

#include <ggml-cpu.h>
#include <ggml.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One graph of one node for each set. */
struct ggml_peer {
    unsigned threads;
    struct peer_work *work; /* Its sets' q and o are not used. */
    struct graph {
        struct ggml_context *context; /* Owns tensors and graph, not their data. */
        struct ggml_cgraph *graph;
        float *q, *o; /* (batch, heads, seq_q, dim_qk), (batch, seq_q, heads, dim_v). */
    } * set;
    ggml_fp16_t *mask;
    struct ggml_cplan plan; /* The plan of every graph: all graphs are alike. */
};

static bool hello(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                  struct message *why)
{
    struct ggml_peer *c = self;

    (void)device; /* On the CPU in any case. */
    (void)why;
    c->threads = threads;
    ggml_cpu_init();
    snprintf(greeting->version, sizeof greeting->version, "%s", ggml_version());
    snprintf(greeting->method, sizeof greeting->method,
             "ggml_flash_attn_ext with q and o in f32, on the CPU");
    return true;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static enum ggml_type type_of(const clattn_problem *p, enum ca_argument argument)
{
    static const enum ggml_type plain[] = {
        [CLATTN_F32] = GGML_TYPE_F32, [CLATTN_F16] = GGML_TYPE_F16, [CLATTN_BF16] = GGML_TYPE_BF16};

    switch (ca_problem_cache(p, argument)) {
    case CLATTN_CACHE_Q8_0:
        return GGML_TYPE_Q8_0;
    case CLATTN_CACHE_Q4_0:
        return GGML_TYPE_Q4_0;
    case CLATTN_CACHE_Q5_0:
        return GGML_TYPE_Q5_0;
    case CLATTN_CACHE_IQ4_NL:
        return GGML_TYPE_IQ4_NL;
    case CLATTN_CACHE_Q4_1:
        return GGML_TYPE_Q4_1;
    case CLATTN_CACHE_Q5_1:
        return GGML_TYPE_Q5_1;
    default:
        return plain[ca_problem_dtype(p, argument)];
    }
}

static struct ggml_tensor *tensor_of(struct ggml_context *context, enum ggml_type type, size_t dim,
                                     size_t rows, size_t heads, size_t batch, void *data)
{
    struct ggml_tensor *tensor = ggml_new_tensor_4d(context, type, (int64_t)dim, (int64_t)rows,
                                                    (int64_t)heads, (int64_t)batch);

    tensor->data = data;
    return tensor;
}

static bool make_graph(struct ggml_peer *c, size_t n)
{
    const struct problem_data *data = &c->work->data;
    const clattn_problem *p = &data->problem;
    const struct host_set *from = &c->work->set[n];
    struct graph *set = &c->set[n];
    struct ggml_context *context = ggml_init((struct ggml_init_params){
        .mem_size = 16 * ggml_tensor_overhead() + ggml_graph_overhead_custom(16, false),
        .no_alloc = true});

    set->context = context;
    if (context == NULL)
        return false;
    struct ggml_tensor *q =
        tensor_of(context, GGML_TYPE_F32, p->dim_qk, p->seq_q, p->heads, p->batch, set->q);
    struct ggml_tensor *k = tensor_of(context, type_of(p, CA_K), p->dim_qk, p->seq_kv, p->kv_heads,
                                      p->batch, from->in[INPUT_K]);
    struct ggml_tensor *v = tensor_of(context, type_of(p, CA_V), p->dim_v, p->seq_kv, p->kv_heads,
                                      p->batch, from->in[INPUT_V]);
    struct ggml_tensor *mask = NULL;
    if (c->mask != NULL)
        mask = tensor_of(context, GGML_TYPE_F16, p->seq_kv, p->seq_q, 1, 1, c->mask);
    struct ggml_tensor *o =
        ggml_flash_attn_ext(context, q, k, v, mask, data->scale, 0.0f, p->softcap);
    o->data = set->o;
    if (p->sinks)
        ggml_flash_attn_ext_add_sinks(o, tensor_of(context, GGML_TYPE_F32, p->heads, 1, 1, 1,
                                                   (void *)(uintptr_t)data->in[INPUT_SINKS]->data));
    set->graph = ggml_new_graph_custom(context, 16, false);
    ggml_build_forward_expand(set->graph, o);
    return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* (seq_q, seq_kv); none where nothing is hidden. */
static bool make_mask(struct ggml_peer *c, struct message *why)
{
    const clattn_problem *p = &c->work->data.problem;

    if (!problem_limited(p))
        return true;
    c->mask = p->seq_q <= SIZE_MAX / sizeof *c->mask / p->seq_kv
                  ? malloc(p->seq_q * p->seq_kv * sizeof *c->mask)
                  : NULL;
    if (c->mask == NULL)
        return message_set(why, "no memory for the mask");
    for (size_t i = 0; i < p->seq_q; i++) {
        const struct key_range range = problem_visible(p, i);
        for (size_t j = 0; j < p->seq_kv; j++)
            c->mask[i * p->seq_kv + j] =
                ggml_fp32_to_fp16(j >= range.first && j < range.end ? 0.0f : -INFINITY);
    }
    return true;
}

/* Makes queries in f32, as ggml takes no other type. */
static bool make_queries(struct ggml_peer *c, size_t n)
{
    const clattn_problem *p = &c->work->data.problem;
    const size_t rows = p->batch * p->heads * p->seq_q;

    c->set[n].q = host_allocate(rows * p->dim_qk * sizeof(float));
    c->set[n].o = host_allocate(rows * p->dim_v * sizeof(float));
    if (c->set[n].q == NULL || c->set[n].o == NULL)
        return false;
    for (size_t e = 0; e < rows * p->dim_qk; e++)
        c->set[n].q[e] = (float)value_get(p->dtype, c->work->set[n].in[INPUT_Q], e);
    return true;
}

static enum peer_status open_problem(void *self, struct peer_work *work, struct message *why)
{
    struct ggml_peer *c = self;

    c->work = work;
    if (!make_mask(c, why))
        return PEER_FAILED;
    c->set = calloc(work->copies, sizeof *c->set);
    bool ok = c->set != NULL;
    for (size_t n = 0; ok && n < work->copies; n++)
        ok = make_queries(c, n) && make_graph(c, n);
    if (ok)
        return PEER_DONE;
    message_set(why, "no memory for %zu sets of tensors", work->copies);
    return PEER_FAILED;
}

static enum peer_status build(void *self, struct message *why)
{
    struct ggml_peer *c = self;

    c->plan = ggml_graph_plan(c->set[0].graph, (int)c->threads, NULL);
    c->plan.work_data = host_allocate(c->plan.work_size + 1);
    if (c->plan.work_data != NULL)
        return PEER_DONE;
    message_set(why, "no memory to work in");
    return PEER_FAILED;
}

/* ---- computing ------------------------------------------------------------------------------- */

static bool compute(void *self, size_t copy, struct message *why)
{
    struct ggml_peer *c = self;
    const enum ggml_status status = ggml_graph_compute(c->set[copy].graph, &c->plan);

    return status == GGML_STATUS_SUCCESS ||
           message_set(why, "ggml_graph_compute: %s", ggml_status_to_string(status));
}

static void describe(const void *self, char configuration[256])
{
    const struct ggml_peer *c = self;
    const clattn_problem *p = &c->work->data.problem;

    snprintf(configuration, 256, "ggml_flash_attn_ext, q and o f32, k %s, v %s%s",
             ggml_type_name(type_of(p, CA_K)), ggml_type_name(type_of(p, CA_V)),
             c->mask != NULL ? ", a mask" : "");
}

static bool put_results(void *self, struct message *why)
{
    const struct ggml_peer *c = self;
    const clattn_problem *p = &c->work->data.problem;

    (void)why;
    memset(c->set[0].o, 0xff, p->batch * p->heads * p->seq_q * p->dim_v * sizeof(float));
    return true;
}

/* Returns results as (batch, heads, seq_q, dim_v), in o's dtype. */
static bool get_results(void *self, struct message *why)
{
    const struct ggml_peer *c = self;
    const clattn_problem *p = &c->work->data.problem;
    const size_t count = p->batch * p->heads * p->seq_q * p->dim_v;

    (void)why;
    for (size_t n = 0; n < count; n++) {
        const size_t d = n % p->dim_v, i = n / p->dim_v % p->seq_q;
        const size_t h = n / p->dim_v / p->seq_q % p->heads, b = n / p->dim_v / p->seq_q / p->heads;
        const size_t from = ((b * p->seq_q + i) * p->heads + h) * p->dim_v + d;
        value_set(ca_problem_dtype(p, CA_O), c->work->set[0].out[0], n, (double)c->set[0].o[from]);
    }
    return true;
}

static void close_problem(void *self)
{
    struct ggml_peer *c = self;

    for (size_t n = 0; c->set != NULL && n < c->work->copies; n++) {
        if (c->set[n].context != NULL)
            ggml_free(c->set[n].context);
        free(c->set[n].q);
        free(c->set[n].o);
    }
    free(c->set);
    free(c->mask);
    free(c->plan.work_data);
    *c = (struct ggml_peer){.threads = c->threads};
}

int main(void)
{
    static const char *const options[] = {"caches", "o_f32", NULL};
    static const struct peer_library attention = {
        .name = "ggml",
        .on = "cpu",
        .options = options,
        .hello = hello,
        .operations = 1u << JOB_FORWARD,
        .takes = PEER_TAKES_SOFTCAP | PEER_TAKES_SINKS,
        .open = open_problem,
        .build = build,
        .compute = compute,
        .describe = describe,
        .put_results = put_results,
        .get_results = get_results,
        .close = close_problem,
    };
    const struct peer_library *const libraries[] = {&attention, NULL};
    struct ggml_peer peer = {.threads = 0};

    return peer_main(libraries, &peer);
}
