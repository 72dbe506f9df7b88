/* SPDX-License-Identifier: Apache-2.0 */
/* Projections by one cblas_sgemm. */
#include "bench/judge/values.h"
#include "bench/peers/openblas/openblas.h"
#include "bench/peers/products.h"

#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static void multiply(const struct openblas *c, const struct host_set *set, size_t row, size_t rows)
{
    const struct product p = product_of(&c->data->problem);
    float *y = (float *)set->result[0] + row * p.columns;

    for (size_t r = 0; c->data->projection_bias != NULL && r < rows; r++)
        memcpy(y + r * p.columns, c->data->projection_bias, p.columns * sizeof *y);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)p.columns, (int)p.inner,
                1.0f, (const float *)set->q + row * p.inner, (int)p.inner, set->k, (int)p.columns,
                c->data->projection_bias != NULL ? 1.0f : 0.0f, y, (int)p.columns);
}

struct work {
    const struct openblas *c;
    const struct host_set *set;
    size_t share; /* Of rows, for each thread. */
};

static void do_share(void *argument, size_t index, unsigned worker)
{
    const struct work *work = argument;
    const size_t rows = product_of(&work->c->data->problem).rows, first = index * work->share;
    const size_t left = rows - first;

    (void)worker;
    multiply(work->c, work->set, first, left < work->share ? left : work->share);
}

static bool compute(void *self, size_t set, struct message *why)
{
    struct openblas *c = self;
    const size_t rows = product_of(&c->data->problem).rows;
    struct work work = {
        .c = c, .set = &c->sets.set[set], .share = (rows + c->threads - 1) / c->threads};

    (void)why; /* Nothing fails. */
    if (c->way->blas_threads)
        multiply(c, work.set, 0, rows);
    else
        pool_run(c->pool, do_share, &work, (rows + work.share - 1) / work.share);
    return true;
}

static enum peer_status open_problem(void *self, const struct problem_data *data, size_t copies,
                                     struct message *why)
{
    static const struct way ways[] = {
        {.name = "each thread its own rows"},
        {.name = "all threads in one product", .blas_threads = true},
    };
    struct openblas *c = self;
    const struct product p = product_of(&data->problem);

    c->data = data;
    if (data->problem.projection.dtype != CLATTN_F32) {
        message_set(why, "its products are of f32 alone");
        return PEER_UNSUPPORTED;
    }
    if (p.rows > INT_MAX || p.inner > INT_MAX || p.columns > INT_MAX) {
        message_set(why, "it counts rows and columns in 31 bits");
        return PEER_UNSUPPORTED;
    }
    c->num_ways = sizeof ways / sizeof *ways;
    memcpy(c->ways, ways, sizeof ways);
    openblas_choose(c, 0);
    return host_sets_make(&c->sets, data, copies, why) ? PEER_DONE : PEER_FAILED;
}

static bool settle(void *self, char configuration[256], struct message *why)
{
    struct openblas *c = self;

    if (!openblas_settle(c, compute, why))
        return false;
    snprintf(configuration, 256, "%s, %u thread%s", c->way->name, c->threads,
             c->threads == 1 ? "" : "s");
    return true;
}

const struct peer_library openblas_projection = {
    .operations = 1u << CLATTN_PROJECTION,
    .open = open_problem,
    .build = openblas_build,
    .compute = compute,
    .settle = settle,
    .poison = openblas_poison,
    .read_output = openblas_read,
    .close = openblas_close,
};
