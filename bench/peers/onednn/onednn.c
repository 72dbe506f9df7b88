/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-peer-onednn: matmul, softmax, matmul, and projections, on the host's CPU by oneDNN's
 * primitives. */
#include "bench/judge/values.h"
#include "bench/peers/onednn/dnn_ops.h"
#include "bench/peers/peer_main.h"
#include "bench/peers/steps.h"
#include "internal.h"
#include "os/host.h"
#include "os/process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCORES_PER_THREAD = 1024 * 1024, /* More of them leave the caches between two primitives. */
    ROWS_WHERE_HIDDEN = 256
};

/* The primitives of a step, and what is added to its scores: (rows, keys, and room for a sink). */
struct stage {
    struct dnn_op keys, softmax, values;
    float *mask; /* NULL if it hides nothing. */
    bool shares; /* An earlier step's mask. */
};

struct onednn {
    unsigned threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct peer_work *work;
    size_t element; /* Bytes. */
    struct steps steps;
    struct stage *stages; /* One for each step. */
    float *scores;
    void *weights; /* The scores' place, where they have the same type. */
    struct dnn_op projection;
};

/* Distributions build the library with OpenMP, which has read the environment already. Intel
 * (oneAPI, PyPI) builds it with TBB, which has a thread for each processor that this process may
 * run on at its first use. */
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
             "matmul with post-ops for scale, softcap and mask, softmax, matmul");
    if (dnnl_engine_create(&c->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags) != dnnl_success)
        return message_set(why, "it has no engine for this CPU");
    return true;
}

/* ---- statuses -------------------------------------------------------------------------------- */

static bool has_computed(const struct onednn *c, dnnl_status_t status, struct message *why)
{
    if (status == dnnl_success)
        status = dnnl_stream_wait(c->stream);
    return status == dnnl_success || message_set(why, "oneDNN failed with status %d", (int)status);
}

static enum peer_status has_built(const struct onednn *c, dnnl_status_t status, struct message *why)
{
    const clattn_dtype dtype = ca_problem_own_dtype(&c->work->data.problem);

    if (status == dnnl_success)
        return PEER_DONE;
    if (status == dnnl_unimplemented) {
        message_set(why, "it has no matmul or softmax for %s on this CPU",
                    dtype == CLATTN_F16    ? "f16"
                    : dtype == CLATTN_BF16 ? "bf16"
                                           : "these shapes");
        return PEER_UNSUPPORTED;
    }
    message_set(why, "it makes no primitives for this problem: status %d", (int)status);
    return PEER_FAILED;
}

static dnnl_data_type_t type_of(const struct onednn *c)
{
    static const dnnl_data_type_t types[] = {
        [CLATTN_F32] = dnnl_f32, [CLATTN_F16] = dnnl_f16, [CLATTN_BF16] = dnnl_bf16};

    return types[ca_problem_own_dtype(&c->work->data.problem)];
}

/* ---- attention ------------------------------------------------------------------------------- */

static void put_sinks(const struct onednn *c, const struct step *step)
{
    const clattn_problem *p = &c->work->data.problem;
    const float *sinks = (const float *)(const void *)c->work->data.in[INPUT_SINKS]->data;
    float *place = c->scores + step->keys;

    for (size_t e = 0; e < step->entries; e++)
        for (size_t r = 0; r < step->rows; r++, place += step->keys + 1)
            *place = sinks[step_row(step, p, e, r).head % p->heads];
}

static dnnl_status_t run_step(const struct onednn *c, const struct host_set *set, size_t n)
{
    const clattn_problem *p = &c->work->data.problem;
    const struct step *step = &c->steps.step[n];
    const struct stage *stage = &c->stages[n];
    const size_t row = step_first_row(step, p), key = step->slice * p->seq_kv + step->key;
    char *q = (char *)set->in[INPUT_Q] + row * p->dim_qk * c->element;
    char *k = (char *)set->in[INPUT_K] + key * p->dim_qk * c->element;
    char *v = (char *)set->in[INPUT_V] + key * p->dim_v * c->element;
    char *o = (char *)set->out[0] + row * p->dim_v * c->element;
    dnnl_status_t status =
        dnn_op_run(&stage->keys, c->stream, (void *[]){q, k, stage->mask, c->scores});

    if (status == dnnl_success && c->work->data.problem.sinks) {
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

static bool compute(void *self, size_t copy, struct message *why)
{
    struct onednn *c = self;
    const struct host_set *set = &c->work->set[copy];
    const clattn_problem *p = &c->work->data.problem;
    const size_t row_bytes = p->dim_v * c->element;
    dnnl_status_t status = dnnl_success;

    for (size_t n = 0; status == dnnl_success && n < c->steps.count; n++)
        status = run_step(c, set, n);
    const bool ok = has_computed(c, status, why);
    for (size_t i = 0; i < p->seq_q; i++) /* A softmax over nothing but -inf is NaN. */
        for (size_t h = 0; problem_visible(p, i).end == 0 && h < p->batch * p->heads; h++)
            memset((char *)set->out[0] + (h * p->seq_q + i) * row_bytes, 0, row_bytes);
    return ok;
}

static bool make_buffers(struct onednn *c, struct message *why)
{
    const size_t elements = c->steps.most_scores + c->steps.most_rows;

    c->scores = host_allocate(elements * sizeof *c->scores);
    c->weights = c->element == sizeof *c->scores ? c->scores : host_allocate(elements * c->element);
    c->stages = calloc(c->steps.count, sizeof *c->stages);
    return (c->scores != NULL && c->weights != NULL && c->stages != NULL) ||
           message_set(why, "no memory for %zu scores", elements);
}

/* The mask of an earlier step that hides the same, or a new one. */
static bool make_mask(struct onednn *c, size_t n, struct message *why)
{
    const clattn_problem *p = &c->work->data.problem;
    const struct step *step = &c->steps.step[n];
    const size_t stride = step->keys + p->sinks;

    for (size_t m = 0; m < n; m++) {
        const struct step *a = &c->steps.step[m];
        if (a->row % p->seq_q == step->row % p->seq_q && a->rows == step->rows &&
            a->key == step->key && a->keys == step->keys) {
            c->stages[n].mask = c->stages[m].mask;
            c->stages[n].shares = true;
            return true;
        }
    }
    float *mask = calloc(step->rows, stride * sizeof *mask);
    if (mask == NULL)
        return message_set(why, "no memory for %zu rows of masks", step->rows);
    for (size_t r = 0; r < step->rows; r++) {
        const struct key_range range = problem_visible(p, step_row(step, p, 0, r).i);
        for (size_t j = 0; j < step->keys; j++)
            if (step->key + j < range.first || step->key + j >= range.end)
                mask[r * stride + j] = -INFINITY;
    }
    c->stages[n].mask = mask;
    return true;
}

static bool make_masks(struct onednn *c, struct message *why)
{
    bool ok = true;

    for (size_t n = 0; ok && problem_limited(&c->work->data.problem) && n < c->steps.count; n++)
        ok = make_mask(c, n, why);
    return ok;
}

static enum peer_status open_attention(void *self, struct peer_work *work, struct message *why)
{
    struct onednn *c = self;
    const clattn_problem *p = &work->data.problem;
    /* A mask for all entries alike would make the product one of the reference implementation. */
    const struct step_limits limits = {.rows = ROWS_WHERE_HIDDEN,
                                       .entries = problem_limited(p) ? 1 : SIZE_MAX,
                                       .scores = (size_t)c->threads * SCORES_PER_THREAD};

    c->work = work;
    c->element = value_bytes(p->dtype);
    const bool ok =
        steps_make(&c->steps, p, &limits, why) && make_buffers(c, why) && make_masks(c, why);
    return ok ? PEER_DONE : PEER_FAILED;
}

static dnnl_status_t build_step(struct onednn *c, size_t n)
{
    const clattn_problem *p = &c->work->data.problem;
    const struct step *step = &c->steps.step[n];
    struct stage *stage = &c->stages[n];
    const dnnl_data_type_t type = type_of(c);
    const size_t E = step->entries, R = step->rows, K = step->keys;
    const size_t W = K + p->sinks; /* A row of scores: the keys, and one that holds the sink. */
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
    const struct dnn_tensor *const keys[] = {&q, &k, stage->mask != NULL ? &scores : NULL, &scores};
    const struct dnn_tensor *const softmax[] = {&all_scores, NULL, NULL, &all_weights};
    const struct dnn_tensor *const values[] = {&weights, &v, NULL, &o};
    dnnl_status_t status =
        dnn_product_open(&stage->keys, c->engine, keys, c->work->data.scale, p->softcap);

    if (status == dnnl_success)
        status = dnn_softmax_open(&stage->softmax, c->engine, softmax);
    if (status == dnnl_success)
        status = dnn_product_open(&stage->values, c->engine, values, 1.0f, 0.0f);
    return status;
}

static enum peer_status build(void *self, struct message *why)
{
    struct onednn *c = self;
    dnnl_status_t status = dnnl_success;

    for (size_t n = 0; status == dnnl_success && n < c->steps.count; n++)
        status = build_step(c, n);
    return has_built(c, status, why);
}

static void describe(const void *self, char configuration[256])
{
    const struct onednn *c = self;
    const struct stage *stage = &c->stages[0];

    snprintf(configuration, 256, "%s, %s, %s; up to %zu x %zu scores in %zu step%s",
             stage->keys.name, stage->softmax.name, stage->values.name, c->steps.most_rows,
             c->steps.most_keys, c->steps.count, c->steps.count == 1 ? "" : "s");
}

static void close_problem(void *self)
{
    struct onednn *c = self;

    for (size_t n = 0; c->stages != NULL && n < c->steps.count; n++) {
        dnn_op_close(&c->stages[n].keys);
        dnn_op_close(&c->stages[n].softmax);
        dnn_op_close(&c->stages[n].values);
        if (!c->stages[n].shares)
            free(c->stages[n].mask);
    }
    free(c->stages);
    dnn_op_close(&c->projection);
    if (c->weights != c->scores)
        free(c->weights);
    free(c->scores);
    steps_free(&c->steps);
    *c = (struct onednn){.threads = c->threads, .engine = c->engine, .stream = c->stream};
}

/* ---- projections ----------------------------------------------------------------------------- */

static enum peer_status open_projection(void *self, struct peer_work *work, struct message *why)
{
    struct onednn *c = self;

    (void)why; /* There is nothing to do. */
    c->work = work;
    return PEER_DONE;
}

static enum peer_status build_projection(void *self, struct message *why)
{
    struct onednn *c = self;
    const struct product p = product_of(&c->work->data.problem);
    const size_t M = p.rows, K = p.inner, N = p.columns;
    const struct dnn_tensor x = dnn_tensor(type_of(c), 1, M, K, M * K, K, 1);
    const struct dnn_tensor w = dnn_tensor(type_of(c), 1, K, N, K * N, N, 1);
    const struct dnn_tensor y = dnn_tensor(type_of(c), 1, M, N, M * N, N, 1);
    const struct dnn_tensor bias = dnn_tensor(dnnl_f32, 1, 1, N, N, N, 1);
    const struct dnn_tensor *const tensors[] = {
        &x, &w, c->work->data.projection_bias != NULL ? &bias : NULL, &y};

    return has_built(c, dnn_product_open(&c->projection, c->engine, tensors, 1.0f, 0.0f), why);
}

static bool compute_projection(void *self, size_t copy, struct message *why)
{
    struct onednn *c = self;
    const struct host_set *set = &c->work->set[copy];
    void *const memory[] = {set->in[INPUT_PROJECTION_X], set->in[INPUT_PROJECTION_W],
                            c->work->data.projection_bias, set->out[0]};

    return has_computed(c, dnn_op_run(&c->projection, c->stream, memory), why);
}

static void describe_projection(const void *self, char configuration[256])
{
    snprintf(configuration, 256, "%s", ((const struct onednn *)self)->projection.name);
}

int main(void)
{
    static const struct peer_library attention = {
        .name = "oneDNN",
        .on = "cpu",
        .hello = hello,
        .operations = 1u << JOB_FORWARD,
        .takes = PEER_TAKES_SOFTCAP | PEER_TAKES_SINKS,
        .open = open_attention,
        .build = build,
        .compute = compute,
        .describe = describe,
        .close = close_problem,
    };
    static const struct peer_library projection = {
        .operations = 1u << JOB_PROJECTION,
        .open = open_projection,
        .build = build_projection,
        .compute = compute_projection,
        .describe = describe_projection,
        .close = close_problem,
    };
    const struct peer_library *const libraries[] = {&attention, &projection, NULL};
    struct onednn onednn = {.threads = 0};
    const int status = peer_main(libraries, &onednn);

    if (onednn.stream != NULL)
        dnnl_stream_destroy(onednn.stream);
    if (onednn.engine != NULL)
        dnnl_engine_destroy(onednn.engine);
    return status;
}
