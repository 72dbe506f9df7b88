/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-peer-onednn: matmul, softmax, matmul on the host's CPU by oneDNN's primitives. */
#include "bench/peers/onednn/onednn.h"
#include "bench/judge/values.h"
#include "os/host.h"
#include "os/process.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCORES_PER_THREAD = 1024 * 1024, /* More of them leave the caches between two primitives. */
    ROWS_WHERE_HIDDEN = 256
};

/* Distributions build the library with OpenMP, which has read the environment already, Intel (oneAPI, PyPI) with
 * TBB, which has as many threads as there are processors that this process may run on once it is used. */
static bool set_threads(unsigned threads)
{
    void (*set_num_threads)(int) = (void (*)(int))ca_own_function("omp_set_num_threads");

    if (set_num_threads == NULL)
        return ca_host_keep_processors(threads);
    set_num_threads((int)threads);
    return true;
}

static bool hello(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                  struct message *why)
{
    struct onednn *c = self;
    const dnnl_version_t *version = dnnl_version();

    (void)device; /* On the CPU in any case. */
    if (!set_threads(threads))
        return message_set(why, "it cannot be given %u threads", threads);
    c->threads = threads;
    snprintf(greeting->version, sizeof greeting->version, "%d.%d.%d", version->major,
             version->minor, version->patch);
    snprintf(greeting->method, sizeof greeting->method,
             "matmul with post-ops for scale, softcap and mask, softmax, matmul%s",
             version->major >= 3 ? "; or the graph's SDPA without masks" : "");
    if (dnnl_engine_create(&c->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags) != dnnl_success)
        return message_set(why, "it has no engine for this CPU");
    return true;
}

/* ---- computing ------------------------------------------------------------------------------- */

/* Columns of scores: the keys, and one that holds the sink. */
static size_t columns(const struct onednn *c, const struct step *step)
{
    return step->keys + (c->data->sinks != NULL ? 1 : 0);
}

static void put_sinks(const struct onednn *c, const struct step *step)
{
    const clattn_problem *p = &c->data->problem;
    float *place = c->scores + step->keys;

    for (size_t e = 0; e < step->entries; e++)
        for (size_t r = 0; r < step->rows; r++, place += step->keys + 1)
            *place = c->data->sinks[step_row(step, p, e, r).head];
}

static dnnl_status_t run_step(const struct onednn *c, const struct host_set *set, size_t n)
{
    const clattn_problem *p = &c->data->problem;
    const struct step *step = &c->steps.step[n];
    const struct stage *stage = &c->stages[n];
    const size_t row = step_first_row(step, p), key = step->slice * p->seq_kv + step->key;
    char *q = (char *)set->q + row * p->dim_qk * c->element,
         *k = (char *)set->k + key * p->dim_qk * c->element;
    char *v = (char *)set->v + key * p->dim_v * c->element,
         *o = (char *)set->o + row * p->dim_v * c->element;
    float *addend = c->addends.addend[n].values;
    dnnl_status_t status = dnn_op_run(&stage->keys, c->stream, (void *[]){q, k, addend, c->scores});

    if (status == dnnl_success && c->data->sinks != NULL) {
        status = dnnl_stream_wait(c->stream);
        put_sinks(c, step);
    }
    if (status == dnnl_success)
        status =
            dnn_op_run(&stage->softmax, c->stream, (void *[]){c->scores, NULL, NULL, c->weights});
    if (status == dnnl_success)
        status = dnn_op_run(&stage->values, c->stream, (void *[]){c->weights, v, NULL, o});
    return status;
}

static bool compute(void *self, size_t set, struct message *why)
{
    struct onednn *c = self;
    const struct host_set *s = &c->sets.set[set];
    const size_t row_bytes = c->data->problem.dim_v * c->element;
    dnnl_status_t status = dnnl_success;

    if (c->fused)
        status = dnn_graph_run(c->graph, c->stream, s->q, s->k, s->v, s->o);
    for (size_t n = 0; !c->fused && status == dnnl_success && n < c->steps.count; n++)
        status = run_step(c, s, n);
    if (status == dnnl_success)
        status = dnnl_stream_wait(c->stream);
    for (size_t n = 0; n < c->addends.num_blind; n++) /* A softmax over nothing but -inf is NaN. */
        memset((char *)s->o + c->addends.blind[n] * row_bytes, 0, row_bytes);
    return status == dnnl_success || message_set(why, "oneDNN failed with status %d", (int)status);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool make_buffers(struct onednn *c, struct message *why)
{
    const size_t rows = c->steps.most_rows, elements = c->steps.most_scores + rows;

    c->scores = host_allocate(elements * sizeof *c->scores);
    c->weights =
        c->data->problem.dtype == CLATTN_F32 ? c->scores : host_allocate(elements * c->element);
    c->stages = calloc(c->steps.count, sizeof *c->stages);
    return (c->scores != NULL && c->weights != NULL && c->stages != NULL) ||
           message_set(why, "no memory for %zu scores", elements);
}

static enum peer_status open_problem(void *self, const struct problem_data *data, size_t copies,
                                     struct message *why)
{
    struct onednn *c = self;
    /* A mask for all entries alike would make the product one of the reference implementation. */
    const struct step_limits limits = {.rows = ROWS_WHERE_HIDDEN,
                                       .entries = addends_needed(data) ? 1 : SIZE_MAX,
                                       .scores = (size_t)c->threads * SCORES_PER_THREAD};

    c->data = data;
    c->element = value_bytes(data->problem.dtype);
    const bool ok = steps_make(&c->steps, data, &limits, why) &&
                    addends_make(&c->addends, data, &c->steps, data->sinks != NULL ? 1 : 0, why) &&
                    host_sets_make(&c->sets, data, copies, why) && make_buffers(c, why);
    return ok ? PEER_DONE : PEER_FAILED;
}

dnnl_data_type_t onednn_type(clattn_dtype dtype)
{
    return dtype == CLATTN_F32 ? dnnl_f32 : dtype == CLATTN_F16 ? dnnl_f16 : dnnl_bf16;
}

static dnnl_status_t build_step(struct onednn *c, size_t n)
{
    const clattn_problem *p = &c->data->problem;
    const struct step *step = &c->steps.step[n];
    const struct addend *addend = &c->addends.addend[n];
    struct stage *stage = &c->stages[n];
    const dnnl_data_type_t type = onednn_type(p->dtype);
    const size_t E = step->entries, R = step->rows, K = step->keys, W = columns(c, step);
    const size_t slices = step->same_slice ? 1 : E, next_row = step_row_stride(step, p);
    const struct dnn_tensor q =
        dnn_tensor(type, E, R, p->dim_qk, next_row * p->dim_qk, p->dim_qk, 1);
    const struct dnn_tensor k =
        dnn_tensor(type, slices, p->dim_qk, K, p->seq_kv * p->dim_qk, 1, p->dim_qk);
    const struct dnn_tensor v =
        dnn_tensor(type, slices, K, p->dim_v, p->seq_kv * p->dim_v, p->dim_v, 1);
    const struct dnn_tensor o = dnn_tensor(type, E, R, p->dim_v, next_row * p->dim_v, p->dim_v, 1);
    const struct dnn_tensor scores = dnn_tensor(dnnl_f32, E, R, K, R * W, W, 1);
    const struct dnn_tensor all_scores = dnn_tensor(dnnl_f32, E, R, W, R * W, W, 1);
    const struct dnn_tensor all_weights = dnn_tensor(type, E, R, W, R * W, W, 1);
    const struct dnn_tensor weights = dnn_tensor(type, E, R, K, R * W, W, 1);
    const struct dnn_tensor added = dnn_tensor(dnnl_f32, addend->entries, R, K, R * W, W, 1);
    const struct dnn_finish scaled = {.scale = c->data->scale,
                                      .softcap = p->softcap,
                                      .addend = addend->values != NULL ? &added : NULL};
    const struct dnn_finish plain = {.scale = 1.0f};
    dnnl_status_t status = dnn_product_open(&stage->keys, c->engine, &q, &k, &scaled, &scores);

    if (status == dnnl_success)
        status = dnn_softmax_open(&stage->softmax, c->engine, &all_scores, &all_weights);
    if (status == dnnl_success)
        status = dnn_product_open(&stage->values, c->engine, &weights, &v, &plain, &o);
    return status;
}

enum peer_status onednn_status(const struct onednn *c, dnnl_status_t status, struct message *why)
{
    if (status == dnnl_success)
        return PEER_DONE;
    if (status == dnnl_unimplemented) {
        message_set(why, "it has no matmul or softmax for %s on this CPU",
                    c->data->problem.dtype == CLATTN_F16    ? "f16"
                    : c->data->problem.dtype == CLATTN_BF16 ? "bf16"
                                                            : "these shapes");
        return PEER_UNSUPPORTED;
    }
    message_set(why, "it makes no primitives for this problem: status %d", (int)status);
    return PEER_FAILED;
}

static enum peer_status build(void *self, struct message *why)
{
    struct onednn *c = self;
    dnnl_status_t status = dnnl_success;

    for (size_t n = 0; status == dnnl_success && n < c->steps.count; n++)
        status = build_step(c, n);
    return onednn_status(c, status, why);
}

/* Where nothing is masked or capped. The heads of a key head are its rows. */
static void build_graph(struct onednn *c)
{
    const clattn_problem *p = &c->data->problem;
    const struct dnn_attention attention = {.type = onednn_type(p->dtype),
                                            .batch = p->batch,
                                            .heads = p->kv_heads,
                                            .seq_q = p->heads / p->kv_heads * p->seq_q,
                                            .seq_kv = p->seq_kv,
                                            .dim_qk = p->dim_qk,
                                            .dim_v = p->dim_v,
                                            .scale = c->scale};

    value_set(p->dtype, c->scale, 0, c->data->scale);
    if (!addends_needed(c->data) && p->softcap == 0.0f && !p->sinks &&
        value_get(p->dtype, c->scale, 0) == (double)c->data->scale)
        c->graph = dnn_graph_open(&attention, c->engine);
}

static bool settle(void *self, char configuration[256], struct message *why)
{
    struct onednn *c = self;
    const struct stage *stage = &c->stages[0];
    double by_primitives, by_graph;

    build_graph(c);
    if (c->graph != NULL) {
        if (!peer_main_time(compute, c, &by_primitives, why))
            return false;
        c->fused = true;
        if (!peer_main_time(compute, c, &by_graph, why))
            return false;
        c->fused = by_graph < by_primitives;
    }
    if (c->fused)
        snprintf(configuration, 256, "the graph's SDPA");
    else
        snprintf(configuration, 256, "%s, %s, %s; up to %zu x %zu scores in %zu step%s",
                 stage->keys.name, stage->softmax.name, stage->values.name, c->steps.most_rows,
                 c->steps.most_keys, c->steps.count, c->steps.count == 1 ? "" : "s");
    return true;
}

static void close_problem(void *self)
{
    struct onednn *c = self;

    for (size_t n = 0; c->stages != NULL && n < c->steps.count; n++) {
        dnn_op_close(&c->stages[n].keys);
        dnn_op_close(&c->stages[n].softmax);
        dnn_op_close(&c->stages[n].values);
    }
    free(c->stages);
    dnn_graph_close(c->graph);
    if (c->weights != c->scores)
        free(c->weights);
    free(c->scores);
    host_sets_free(&c->sets);
    addends_free(&c->addends);
    steps_free(&c->steps);
    *c = (struct onednn){.threads = c->threads, .engine = c->engine, .stream = c->stream};
}

bool onednn_poison(void *self, struct message *why)
{
    const struct onednn *c = self;

    (void)why;
    host_sets_poison(&c->sets);
    return true;
}

bool onednn_read(void *self, void *results, struct message *why)
{
    const struct onednn *c = self;

    (void)why;
    host_sets_read(&c->sets, results);
    return true;
}

int main(void)
{
    static const struct peer_library attention = {
        .name = "oneDNN",
        .on = "cpu",
        .operations = 1u << CLATTN_FORWARD,
        .hello = hello,
        .open = open_problem,
        .build = build,
        .compute = compute,
        .settle = settle,
        .poison = onednn_poison,
        .read_output = onednn_read,
        .close = close_problem,
    };
    struct onednn onednn = {.threads = 0};

    const struct peer_library *const libraries[] = {&attention, &onednn_projection, NULL};
    const int status = peer_main(libraries, &onednn);

    if (onednn.stream != NULL)
        dnnl_stream_destroy(onednn.stream);
    if (onednn.engine != NULL)
        dnnl_engine_destroy(onednn.engine);
    return status;
}
