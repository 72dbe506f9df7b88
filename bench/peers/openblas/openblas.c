/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-peer-openblas: GEMM, softmax, GEMM, and their gradients, on the host's CPU, the products
 * by OpenBLAS. */
#include "bench/peers/openblas/openblas.h"

#include <cblas.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROWS_WORTH_GEMV = 8,
    GEMV_KEYS = 1024,        /* So many keys or values stay in the cache from row to row. */
    ROWS = 256,              /* GEMM packs keys and values anew for each block of rows, */
    ROWS_WHERE_HIDDEN = 128, /* of which smaller ones leave out more. */
    SHARED_ROWS = 512,
    SHARED_SCORES = 4 * 1024 * 1024 /* Where all threads share one product. */
};

static bool hello(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                  struct message *why)
{
    struct openblas *c = self;
    int major = 0, minor = 0, patch = 0;

    (void)device; /* On the CPU in any case. */
    if (sscanf(openblas_get_config(), "OpenBLAS %d.%d.%d", &major, &minor, &patch) == 3)
        snprintf(greeting->version, sizeof greeting->version, "%d.%d.%d", major, minor, patch);
    snprintf(greeting->method, sizeof greeting->method,
             "cblas_sgemm or sgemv (%s kernels), and between them a C softmax%s, or its derivative",
             openblas_get_corename(), CLATTN_PEER_NATIVE ? " for this processor" : "");
    c->threads = threads;
    c->pool = pool_open(threads, why);
    c->scratch = calloc(threads, sizeof *c->scratch);
    return c->pool != NULL && (c->scratch != NULL || message_set(why, "no memory"));
}

/* ---- computing ------------------------------------------------------------------------------- */

/* The matrices of a step, whose batch is one entry. */
struct operands {
    const float *q, *k, *v;
    float *o, *s, *factors;
    size_t dim_qk, dim_v;
};

static struct operands operands_of(const struct openblas *c, const struct host_set *set,
                                   const struct step *step, unsigned worker)
{
    const clattn_problem *p = &c->data->problem;
    const size_t row = step_first_row(step, p), key = step->slice * p->seq_kv + step->key;

    return (struct operands){.q = (const float *)set->q + row * p->dim_qk,
                             .k = (const float *)set->k + key * p->dim_qk,
                             .v = (const float *)set->v + key * p->dim_v,
                             .o = (float *)set->o + row * p->dim_v,
                             .s = c->scratch[worker],
                             .factors = c->scratch[worker] + c->scores,
                             .dim_qk = p->dim_qk,
                             .dim_v = p->dim_v};
}

static void multiply_keys(const struct openblas *c, const struct step *step,
                          const struct operands *x)
{
    const float scale = c->data->scale;
    const int dim = (int)x->dim_qk, stride = (int)step->stride;

    if (!c->way->by_vectors) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)step->rows, (int)step->keys, dim,
                    scale, x->q, dim, x->k, dim, 0.0f, x->s, stride);
        return;
    }
    for (size_t j = 0; j < step->keys; j += GEMV_KEYS) {
        const size_t keys = step->keys - j < GEMV_KEYS ? step->keys - j : GEMV_KEYS;
        for (size_t r = 0; r < step->rows; r++)
            cblas_sgemv(CblasRowMajor, CblasNoTrans, (int)keys, dim, scale, x->k + j * x->dim_qk,
                        dim, x->q + r * x->dim_qk, 1, 0.0f, x->s + r * step->stride + j, 1);
    }
}

static void multiply_values(const struct openblas *c, const struct step *step,
                            const struct operands *x)
{
    const int dim = (int)x->dim_v, stride = (int)step->stride;

    if (!c->way->by_vectors) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)step->rows, dim,
                    (int)step->keys, 1.0f, x->s, stride, x->v, dim, 0.0f, x->o, dim);
        return;
    }
    for (size_t j = 0; j < step->keys; j += GEMV_KEYS) {
        const size_t keys = step->keys - j < GEMV_KEYS ? step->keys - j : GEMV_KEYS;
        for (size_t r = 0; r < step->rows; r++)
            cblas_sgemv(CblasRowMajor, CblasTrans, (int)keys, dim, 1.0f, x->v + j * x->dim_v, dim,
                        x->s + r * step->stride + j, 1, j > 0 ? 1.0f : 0.0f, x->o + r * x->dim_v,
                        1);
    }
}

struct softmax_row openblas_row(const struct problem_data *data, const struct step *step,
                                float *scores, size_t row)
{
    const clattn_problem *p = &data->problem;
    const struct row_place at = step_row(step, p, 0, row);
    const float *addend = problem_data_addend(data, at.batch, at.head, at.i);
    const double distance =
        (double)step->key - (double)at.i - (double)problem_data_diagonal(data, at.batch);
    size_t first, end;

    problem_data_visible(data, at.batch, at.i, &first, &end);
    return (struct softmax_row){.scores = scores + row * step->stride,
                                .keys = step->keys,
                                .first = first > step->key ? first - step->key : 0,
                                .end = end > step->key ? end - step->key : 0,
                                .softcap = p->softcap,
                                .addend = addend != NULL ? addend + step->key : NULL,
                                .slope = p->alibi ? data->slopes[at.head] : 0.0f,
                                .distance = (float)distance,
                                .has_sink = p->sinks,
                                .sink = p->sinks ? data->sinks[at.head] : 0.0f};
}

static float weigh_row(const struct problem_data *data, const struct step *step, float *scores,
                       size_t row)
{
    const struct softmax_row softmax = openblas_row(data, step, scores, row);

    return softmax_row(&softmax);
}

static void divide_row(const struct operands *x, size_t row)
{
    float *o = x->o + row * x->dim_v;

    for (size_t d = 0; d < x->dim_v; d++)
        o[d] *= x->factors[row];
}

struct work {
    const struct openblas *c;
    const struct host_set *set;
    const struct step *step; /* Where all threads share one. */
    struct operands x;       /* Of it. */
};

/* A thread's own step, the last first: with causality those are the long ones. */
static void do_step(void *argument, size_t index, unsigned worker)
{
    const struct work *work = argument;
    const struct openblas *c = work->c;
    const struct step *step = &c->way->steps.step[c->way->steps.count - 1 - index];
    const struct operands x = operands_of(c, work->set, step, worker);

    multiply_keys(c, step, &x);
    for (size_t r = 0; r < step->rows; r++)
        x.factors[r] = weigh_row(c->data, step, x.s, r);
    multiply_values(c, step, &x);
    for (size_t r = 0; r < step->rows; r++)
        divide_row(&x, r);
}

static void do_rows(void *argument, size_t index, unsigned worker)
{
    const struct work *work = argument;
    const size_t from = index * OPENBLAS_ROWS_AT_ONCE;

    (void)worker;
    for (size_t r = from; r < from + OPENBLAS_ROWS_AT_ONCE && r < work->step->rows; r++)
        work->x.factors[r] = weigh_row(work->c->data, work->step, work->x.s, r);
}

static bool compute(void *self, size_t set, struct message *why)
{
    struct openblas *c = self;
    struct work work = {.c = c, .set = &c->sets.set[set]};
    const struct steps *steps = &c->way->steps;

    (void)why; /* Nothing fails. */
    if (c->data->problem.operation == CLATTN_BACKWARD) {
        openblas_backward(c, work.set);
        return true;
    }
    if (!c->way->blas_threads) {
        pool_run(c->pool, do_step, &work, steps->count);
        return true;
    }
    for (size_t n = 0; n < steps->count; n++) {
        work.step = &steps->step[n];
        work.x = operands_of(c, work.set, work.step, 0);
        multiply_keys(c, work.step, &work.x);
        pool_run(c->pool, do_rows, &work,
                 (work.step->rows + OPENBLAS_ROWS_AT_ONCE - 1) / OPENBLAS_ROWS_AT_ONCE);
        multiply_values(c, work.step, &work.x);
        for (size_t r = 0; r < work.step->rows; r++)
            divide_row(&work.x, r);
    }
    return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool add_way(struct openblas *c, struct way way, const struct step_limits *limits,
                    struct message *why)
{
    struct way *added = &c->ways[c->num_ways];

    *added = way;
    if (!steps_make(&added->steps, c->data, limits, why))
        return false;
    c->num_ways++;
    c->scores = added->steps.most_scores > c->scores ? added->steps.most_scores : c->scores;
    return true;
}

static bool make_ways(struct openblas *c, struct message *why)
{
    const clattn_problem *p = &c->data->problem;
    const size_t slice = p->heads / p->kv_heads * p->seq_q;
    const size_t all = p->batch * p->kv_heads * slice;
    const size_t share = (all + c->threads - 1) / c->threads; /* Of rows, so that each has some. */
    const size_t wish = problem_data_limited(c->data) ? ROWS_WHERE_HIDDEN : ROWS;
    const struct step_limits own = {.rows = wish < share ? wish : share,
                                    .entries = 1,
                                    .scores = SIZE_MAX,
                                    .always_by_rows = true};
    const struct step_limits shared = {
        .rows = SHARED_ROWS, .entries = 1, .scores = SHARED_SCORES, .always_by_rows = false};

    if (!add_way(c, (struct way){.name = "each thread its own products"}, &own, why) ||
        !add_way(c, (struct way){.name = "all threads in each product", .blas_threads = true},
                 &shared, why))
        return false;
    return slice > MOST_ROWS_WORTH_GEMV || p->operation == CLATTN_BACKWARD ||
           add_way(c, (struct way){.name = "each thread its own GEMVs", .by_vectors = true}, &own,
                   why);
}

void openblas_choose(struct openblas *c, size_t way)
{
    c->way = &c->ways[way];
    openblas_set_num_threads(c->way->blas_threads ? (int)c->threads : 1);
}

static enum peer_status open_problem(void *self, const struct problem_data *data, size_t copies,
                                     struct message *why)
{
    struct openblas *c = self;
    const clattn_problem *p = &data->problem;

    c->data = data;
    if (p->dtype != CLATTN_F32) {
        message_set(why, "its products are of f32 alone");
        return PEER_UNSUPPORTED;
    }
    if (p->seq_kv > INT_MAX || p->heads * p->seq_q > INT_MAX || p->dim_qk > INT_MAX ||
        p->dim_v > INT_MAX) {
        message_set(why, "it counts rows and columns in 31 bits");
        return PEER_UNSUPPORTED;
    }
    if (!host_sets_make(&c->sets, data, copies, why) || !make_ways(c, why))
        return PEER_FAILED;
    const size_t more = p->operation == CLATTN_BACKWARD ? c->scores : p->heads * p->seq_q;
    for (unsigned n = 0; n < c->threads; n++) {
        c->scratch[n] = host_allocate((c->scores + more) * sizeof(float));
        if (c->scratch[n] == NULL) {
            message_set(why, "no memory for the scores of %u threads", c->threads);
            return PEER_FAILED;
        }
    }
    openblas_choose(c, 0);
    return PEER_DONE;
}

enum peer_status openblas_build(void *self, struct message *why)
{
    (void)self;
    (void)why;
    return PEER_DONE;
}

bool openblas_settle(struct openblas *c, bool (*with)(void *self, size_t set, struct message *why),
                     struct message *why)
{
    double seconds, best = 0.0;
    size_t chosen = 0;

    for (size_t n = 0; n < c->num_ways; n++) {
        openblas_choose(c, n);
        if (!peer_main_time(with, c, &seconds, why))
            return false;
        if (n == 0 || seconds < best) {
            best = seconds;
            chosen = n;
        }
    }
    openblas_choose(c, chosen);
    return true;
}

static bool settle(void *self, char configuration[256], struct message *why)
{
    struct openblas *c = self;

    if (!openblas_settle(c, compute, why))
        return false;
    snprintf(configuration, 256, "%s, %u thread%s, up to %zu x %zu scores at a time", c->way->name,
             c->threads, c->threads == 1 ? "" : "s", c->way->steps.most_rows,
             c->way->steps.most_keys);
    return true;
}

void openblas_close(void *self)
{
    struct openblas *c = self;

    host_sets_free(&c->sets);
    for (size_t n = 0; n < c->num_ways; n++)
        steps_free(&c->ways[n].steps);
    for (unsigned n = 0; n < c->threads; n++) {
        free(c->scratch[n]);
        c->scratch[n] = NULL;
    }
    *c = (struct openblas){.pool = c->pool, .threads = c->threads, .scratch = c->scratch};
}

bool openblas_poison(void *self, struct message *why)
{
    const struct openblas *c = self;

    (void)why;
    host_sets_poison(&c->sets);
    return true;
}

bool openblas_read(void *self, void *results, struct message *why)
{
    const struct openblas *c = self;

    (void)why;
    host_sets_read(&c->sets, results);
    return true;
}

int main(void)
{
    static const struct peer_library attention = {
        .name = "OpenBLAS",
        .on = "cpu",
        .operations = 1u << CLATTN_FORWARD | 1u << CLATTN_BACKWARD,
        .hello = hello,
        .open = open_problem,
        .build = openblas_build,
        .compute = compute,
        .settle = settle,
        .poison = openblas_poison,
        .read_output = openblas_read,
        .close = openblas_close,
    };
    const struct peer_library *const libraries[] = {&attention, &openblas_projection, NULL};
    struct openblas openblas = {.threads = 0};
    const int status = peer_main(libraries, &openblas);

    pool_close(openblas.pool);
    free(openblas.scratch);
    return status;
}
