/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/openblas/openblas.h"

#include <cblas.h>
#include <string.h>

/* The matrices of a step, whose batch is one entry. */
struct operands {
    const float *q, *k, *v, *o, *d_o, *lse;
    float *dq, *dk, *dv;
    float *s, *ds; /* The scores, then the weights; their derivatives. */
};

struct work {
    const struct openblas *c;
    const struct host_set *set;
    const struct step *step; /* Where all threads share one. */
    struct operands x;       /* Of it. */
};

static struct operands operands_of(const struct openblas *c, const struct host_set *set,
                                   const struct step *step, unsigned worker)
{
    const clattn_problem *p = &c->data->problem;
    const size_t row = step_first_row(step, p), key = step->slice * p->seq_kv + step->key;

    return (struct operands){.q = (const float *)set->q + row * p->dim_qk,
                             .k = (const float *)set->k + key * p->dim_qk,
                             .v = (const float *)set->v + key * p->dim_v,
                             .o = (const float *)set->o + row * p->dim_v,
                             .d_o = (const float *)set->d_o + row * p->dim_v,
                             .lse = (const float *)set->lse + row,
                             .dq = (float *)set->result[0] + row * p->dim_qk,
                             .dk = (float *)set->result[1] + key * p->dim_qk,
                             .dv = (float *)set->result[2] + key * p->dim_v,
                             .s = c->scratch[worker],
                             .ds = c->scratch[worker] + c->scores};
}

/* s = scale q k^T, ds = do v^T */
static void multiply_before(const struct openblas *c, const struct step *step,
                            const struct operands *x)
{
    const int rows = (int)step->rows, keys = (int)step->keys, stride = (int)step->stride;
    const int dim_qk = (int)c->data->problem.dim_qk, dim_v = (int)c->data->problem.dim_v;

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, keys, dim_qk, c->data->scale, x->q,
                dim_qk, x->k, dim_qk, 0.0f, x->s, stride);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, keys, dim_v, 1.0f, x->d_o, dim_v,
                x->v, dim_v, 0.0f, x->ds, stride);
}

/* dq = scale ds k, dk += scale ds^T q, dv += p^T do */
static void multiply_after(const struct openblas *c, const struct step *step,
                           const struct operands *x)
{
    const int rows = (int)step->rows, keys = (int)step->keys, stride = (int)step->stride;
    const int dim_qk = (int)c->data->problem.dim_qk, dim_v = (int)c->data->problem.dim_v;
    const float scale = c->data->scale;

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, dim_qk, keys, scale, x->ds, stride,
                x->k, dim_qk, 0.0f, x->dq, dim_qk);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, keys, dim_qk, rows, scale, x->ds, stride,
                x->q, dim_qk, 1.0f, x->dk, dim_qk);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, keys, dim_v, rows, 1.0f, x->s, stride,
                x->d_o, dim_v, 1.0f, x->dv, dim_v);
}

static void derive_row(const struct openblas *c, const struct step *step, const struct operands *x,
                       size_t r)
{
    const size_t dim = c->data->problem.dim_v;
    const struct softmax_row row = openblas_row(c->data, step, x->s, r);
    const float delta = cblas_sdot((int)dim, x->d_o + r * dim, 1, x->o + r * dim, 1);

    softmax_row_derive(&row, x->lse[r], delta, x->ds + r * step->stride);
}

/* All of a key head: its steps add to the same rows of dk and dv. */
static void do_slice(void *argument, size_t slice, unsigned worker)
{
    const struct work *work = argument;
    const struct openblas *c = work->c;
    const struct steps *steps = &c->way->steps;

    for (size_t n = 0; n < steps->count; n++) {
        const struct step *step = &steps->step[n];
        if (step->slice != slice)
            continue;
        const struct operands x = operands_of(c, work->set, step, worker);
        multiply_before(c, step, &x);
        for (size_t r = 0; r < step->rows; r++)
            derive_row(c, step, &x, r);
        multiply_after(c, step, &x);
    }
}

static void do_rows(void *argument, size_t index, unsigned worker)
{
    const struct work *work = argument;
    const size_t from = index * OPENBLAS_ROWS_AT_ONCE;

    (void)worker;
    for (size_t r = from; r < from + OPENBLAS_ROWS_AT_ONCE && r < work->step->rows; r++)
        derive_row(work->c, work->step, &work->x, r);
}

void openblas_backward(struct openblas *c, const struct host_set *set)
{
    const clattn_problem *p = &c->data->problem;
    const struct steps *steps = &c->way->steps;
    struct work work = {.c = c, .set = set};

    memset(set->result[1], 0, c->sets.result_bytes[1]);
    memset(set->result[2], 0, c->sets.result_bytes[2]);
    if (!c->way->blas_threads) {
        pool_run(c->pool, do_slice, &work, p->batch * p->kv_heads);
        return;
    }
    for (size_t n = 0; n < steps->count; n++) {
        work.step = &steps->step[n];
        work.x = operands_of(c, set, work.step, 0);
        multiply_before(c, work.step, &work.x);
        pool_run(c->pool, do_rows, &work,
                 (work.step->rows + OPENBLAS_ROWS_AT_ONCE - 1) / OPENBLAS_ROWS_AT_ONCE);
        multiply_after(c, work.step, &work.x);
    }
}
