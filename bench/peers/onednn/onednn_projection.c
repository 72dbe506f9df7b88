/* SPDX-License-Identifier: Apache-2.0 */
/* Projections by one matmul primitive. */
#include "bench/peers/onednn/onednn.h"
#include "bench/peers/products.h"

#include <stdio.h>
#include <string.h>

static enum peer_status open_problem(void *self, const struct problem_data *data, size_t copies,
                                     struct message *why)
{
    struct onednn *c = self;

    c->data = data;
    return host_sets_make(&c->sets, data, copies, why) ? PEER_DONE : PEER_FAILED;
}

static enum peer_status build(void *self, struct message *why)
{
    struct onednn *c = self;
    const struct product p = product_of(&c->data->problem);
    const dnnl_data_type_t type = onednn_type(c->data->problem.projection.dtype);
    const size_t M = p.rows, K = p.inner, N = p.columns;
    const struct dnn_tensor x = dnn_tensor(type, 1, M, K, M * K, K, 1);
    const struct dnn_tensor w = dnn_tensor(type, 1, K, N, K * N, N, 1);
    const struct dnn_tensor y = dnn_tensor(type, 1, M, N, M * N, N, 1);
    const struct dnn_tensor bias = dnn_tensor(dnnl_f32, 1, 1, N, N, N, 1);
    const struct dnn_finish finish = {.scale = 1.0f,
                                      .addend = c->data->projection_bias != NULL ? &bias : NULL};

    return onednn_status(c, dnn_product_open(&c->projection, c->engine, &x, &w, &finish, &y), why);
}

static bool compute(void *self, size_t set, struct message *why)
{
    struct onednn *c = self;
    const struct host_set *s = &c->sets.set[set];
    dnnl_status_t status = dnn_op_run(
        &c->projection, c->stream, (void *[]){s->q, s->k, c->data->projection_bias, s->result[0]});

    if (status == dnnl_success)
        status = dnnl_stream_wait(c->stream);
    return status == dnnl_success || message_set(why, "oneDNN failed with status %d", (int)status);
}

static bool settle(void *self, char configuration[256], struct message *why)
{
    const struct onednn *c = self;

    (void)why; /* There is one way. */
    snprintf(configuration, 256, "%s", c->projection.name);
    return true;
}

static void close_problem(void *self)
{
    struct onednn *c = self;

    dnn_op_close(&c->projection);
    host_sets_free(&c->sets);
    c->data = NULL;
}

const struct peer_library onednn_projection = {
    .operations = 1u << CLATTN_PROJECTION,
    .open = open_problem,
    .build = build,
    .compute = compute,
    .settle = settle,
    .poison = onednn_poison,
    .read_output = onednn_read,
    .close = close_problem,
};
