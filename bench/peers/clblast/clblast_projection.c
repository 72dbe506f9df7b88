/* SPDX-License-Identifier: Apache-2.0 */
/* Projections by one GEMM, which adds to rows of biases where there are any. */
#include "bench/judge/values.h"
#include "bench/peers/clblast/clblast.h"
#include "bench/peers/products.h"

#include <stdio.h>
#include <stdlib.h>

static bool make_set(const struct clblast *c, struct clblast_set *set, struct message *why)
{
    const struct problem_data *data = c->data;
    void *x = malloc(data->q_bytes);

    if (x == NULL)
        return message_set(why, "no memory for x");
    product_gather(data, x);
    set->q = clblast_buffer(c, data->q_bytes, x, why);
    free(x);
    return set->q != NULL && (set->k = clblast_buffer(c, data->k_bytes, data->k, why)) != NULL &&
           (set->o = clblast_buffer(c, data->o_bytes, NULL, why)) != NULL;
}

/* CLBlast knows no biases, but adds to what is there. */
static bool make_bias(struct clblast *c, struct message *why)
{
    const struct product p = product_of(&c->data->problem);
    void *rows = malloc(c->data->o_bytes);

    if (rows == NULL)
        return message_set(why, "no memory for the biases");
    for (size_t n = 0; n < p.rows * p.columns; n++)
        value_set(c->data->problem.projection.dtype, rows, n,
                  c->data->projection_bias[n % p.columns]);
    c->bias = clblast_buffer(c, c->data->o_bytes, rows, why);
    free(rows);
    return c->bias != NULL;
}

static bool copy_bias(const struct clblast *c, const struct clblast_set *set, struct message *why)
{
    const cl_int err = clEnqueueCopyBuffer(c->target.queue, c->bias, set->o, 0, 0, c->data->o_bytes,
                                           0, NULL, NULL);

    return err == CL_SUCCESS || message_set(why, "clEnqueueCopyBuffer failed with %d", err);
}

static CLBlastStatusCode multiply(struct clblast *c, const struct clblast_set *set, cl_event *end)
{
    const struct product p = product_of(&c->data->problem);
    const float beta = c->bias != NULL ? 1.0f : 0.0f;
    cl_half half_one, half_beta;

    if (c->data->problem.projection.dtype == CLATTN_F32)
        return CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, p.rows,
                            p.columns, p.inner, 1.0f, set->q, 0, p.inner, set->k, 0, p.columns,
                            beta, set->o, 0, p.columns, &c->target.queue, end);
    value_set(CLATTN_F16, &half_one, 0, 1.0f);
    value_set(CLATTN_F16, &half_beta, 0, beta);
    return CLBlastHgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, p.rows,
                        p.columns, p.inner, half_one, set->q, 0, p.inner, set->k, 0, p.columns,
                        half_beta, set->o, 0, p.columns, &c->target.queue, end);
}

static bool enqueue(struct clblast *c, const struct clblast_set *set, cl_event *end,
                    struct message *why)
{
    if (c->bias != NULL && !copy_bias(c, set, why))
        return false;
    const CLBlastStatusCode status = multiply(c, set, end);
    return status == CLBlastSuccess ||
           message_set(why, "CLBlast's product failed with %d", (int)status);
}

static enum peer_status open_problem(void *self, const struct problem_data *data, size_t copies,
                                     struct message *why)
{
    struct clblast *c = self;
    const enum peer_status status = clblast_open(c, data, copies, make_set, why);

    c->enqueue = enqueue;
    if (status == PEER_DONE && data->projection_bias != NULL && !make_bias(c, why))
        return PEER_FAILED;
    return status;
}

/* CLBlast compiles in its first product. */
static enum peer_status build(void *self, struct message *why)
{
    (void)self;
    (void)why;
    return PEER_DONE;
}

static bool settle(void *self, char configuration[256], struct message *why)
{
    const struct clblast *c = self;

    (void)why; /* There is one way. */
    snprintf(configuration, 256, "GEMM%s, CLBlast's own parameters",
             c->bias != NULL ? " onto a copy of the biases" : "");
    return true;
}

const struct peer_library clblast_projection = {
    .operations = 1u << CLATTN_PROJECTION,
    .open = open_problem,
    .build = build,
    .compute = clblast_compute,
    .settle = settle,
    .sample = clblast_sample,
    .poison = clblast_poison,
    .read_output = clblast_read,
    .close = clblast_close,
};
