/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-peer-openblas: GEMM, softmax, GEMM, their gradients, and projections, on the host's CPU,
 * the products by OpenBLAS. */
#include "bench/peers/openblas/softmax_rows.h"
#include "bench/peers/peer_main.h"
#include "bench/peers/pool.h"
#include "bench/peers/steps.h"

#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROWS_WORTH_GEMV = 8,
    GEMV_KEYS = 1024, /* Number of keys or values that stay in the cache from row to row. */
    ROWS = 256,       /* Rows per block: GEMM packs keys and values anew for each block. */
    /* Rows per block with masked pairs: smaller blocks skip more of them. */
    ROWS_WHERE_HIDDEN = 128,
    SHARED_ROWS = 512,
    SHARED_SCORES = 4 * 1024 * 1024, /* Most scores of a product that all threads share. */
    ROWS_AT_ONCE = 16,
    MOST_WAYS = 2
};

/* A way to share out the work, the fastest of which is found by trying. */
struct way {
    const char *name;
    /* OpenBLAS's threads share each product; else each thread has products of its own. */
    bool blas_threads;
    bool by_vectors;    /* Each row by GEMV. */
    struct steps steps; /* The steps of attention. */
};

struct openblas {
    struct pool *pool;
    unsigned threads;
    struct peer_work *work;
    struct way ways[MOST_WAYS];
    const struct way *way;
    float **scratch; /* For each thread: scores, then a factor for each row, or as many again. */
    size_t scores;   /* Number of floats in each thread's scores. */
};

/* The work that threads share out: steps of forward, kv heads of backward, rows of projections. */
struct shared {
    const struct openblas *c;
    const struct host_set *set;
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

static void choose(void *self, size_t way)
{
    struct openblas *c = self;

    c->way = &c->ways[way];
    openblas_set_num_threads(c->way->blas_threads ? (int)c->threads : 1);
}

static enum peer_status refuse(struct message *why, const char *reason)
{
    message_set(why, "%s", reason);
    return PEER_UNSUPPORTED;
}

/* ---- the matrices of a step ------------------------------------------------------------------ */

/* The matrices of a step whose batch is one entry. */
struct matrices {
    const struct problem_data *data;
    const struct step *step;
    bool by_vectors;
    const float *q, *k, *v, *d_o, *lse;
    float *o, *dq, *dk, *dv;
    float *s, *more; /* The scores, then the weights; factors of rows, or derivatives. */
    int rows, keys, stride, dim_qk, dim_v;
};

static float *from(void *tensor, size_t row, size_t dim)
{
    return tensor != NULL ? (float *)tensor + row * dim : NULL;
}

static struct matrices matrices_of(const struct openblas *c, const struct host_set *set,
                                   const struct step *step, unsigned worker)
{
    const clattn_problem *p = &c->work->data.problem;
    const bool backward = p->operation == CLATTN_BACKWARD;
    const size_t row = step_first_row(step, p), key = step->slice * p->seq_kv + step->key;

    return (struct matrices){.data = &c->work->data,
                             .step = step,
                             .by_vectors = c->way->by_vectors,
                             .q = from(set->in[INPUT_Q], row, p->dim_qk),
                             .k = from(set->in[INPUT_K], key, p->dim_qk),
                             .v = from(set->in[INPUT_V], key, p->dim_v),
                             .d_o = from(set->in[INPUT_DO], row, p->dim_v),
                             .lse = from(set->in[INPUT_LSE], row, 1),
                             .o = from(backward ? set->in[INPUT_O] : set->out[0], row, p->dim_v),
                             .dq = from(set->out[0], row, p->dim_qk),
                             .dk = from(set->out[1], key, p->dim_qk),
                             .dv = from(set->out[2], key, p->dim_v),
                             .s = c->scratch[worker],
                             .more = c->scratch[worker] + c->scores,
                             .rows = (int)step->rows,
                             .keys = (int)step->keys,
                             .stride = (int)step->stride,
                             .dim_qk = (int)p->dim_qk,
                             .dim_v = (int)p->dim_v};
}

/* The step's keys that are visible to a row. */
static struct key_range range_of(const struct matrices *x, size_t r)
{
    const clattn_problem *p = &x->data->problem;
    const struct key_range range = problem_visible(p, step_row(x->step, p, 0, r).i);
    const size_t key = x->step->key;

    return (struct key_range){range.first > key ? range.first - key : 0,
                              range.end > key ? range.end - key : 0};
}

/* ---- forward --------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* s = scale q k^T */
static void multiply_keys(const struct matrices *x)
{
    const size_t dim = (size_t)x->dim_qk;

    if (!x->by_vectors) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, x->rows, x->keys, x->dim_qk,
                    x->data->scale, x->q, x->dim_qk, x->k, x->dim_qk, 0.0f, x->s, x->stride);
        return;
    }
    for (size_t j = 0; j < x->step->keys; j += GEMV_KEYS)
        for (size_t r = 0; r < x->step->rows; r++)
            cblas_sgemv(CblasRowMajor, CblasNoTrans, (int)least(x->step->keys - j, GEMV_KEYS),
                        x->dim_qk, x->data->scale, x->k + j * dim, x->dim_qk, x->q + r * dim, 1,
                        0.0f, x->s + r * x->step->stride + j, 1);
}

/* o = s v */
static void multiply_values(const struct matrices *x)
{
    const size_t dim = (size_t)x->dim_v;

    if (!x->by_vectors) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, x->rows, x->dim_v, x->keys, 1.0f,
                    x->s, x->stride, x->v, x->dim_v, 0.0f, x->o, x->dim_v);
        return;
    }
    for (size_t j = 0; j < x->step->keys; j += GEMV_KEYS)
        for (size_t r = 0; r < x->step->rows; r++)
            cblas_sgemv(CblasRowMajor, CblasTrans, (int)least(x->step->keys - j, GEMV_KEYS),
                        x->dim_v, 1.0f, x->v + j * dim, x->dim_v, x->s + r * x->step->stride + j, 1,
                        j > 0 ? 1.0f : 0.0f, x->o + r * dim, 1);
}

/* A thread's own step, the last first: with causality those are the long ones. */
static void do_step(void *argument, size_t index, unsigned worker)
{
    const struct shared *shared = argument;
    const struct steps *steps = &shared->c->way->steps;
    const struct step *step = &steps->step[steps->count - 1 - index];
    const struct matrices x = matrices_of(shared->c, shared->set, step, worker);
    float *o = x.o;

    multiply_keys(&x);
    for (size_t r = 0; r < step->rows; r++) {
        const struct key_range range = range_of(&x, r);
        x.more[r] = softmax_row(x.s + r * step->stride, step->keys, range.first, range.end);
    }
    multiply_values(&x);
    for (size_t r = 0; r < step->rows; r++)
        for (int d = 0; d < x.dim_v; d++)
            *o++ *= x.more[r];
}

/* ---- backward -------------------------------------------------------------------------------- */

/* s = scale q k^T, ds = do v^T */
static void multiply_before(const struct matrices *x)
{
    multiply_keys(x);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, x->rows, x->keys, x->dim_v, 1.0f, x->d_o,
                x->dim_v, x->v, x->dim_v, 0.0f, x->more, x->stride);
}

/* dq = scale ds k, dk += scale ds^T q, dv += p^T do */
static void multiply_after(const struct matrices *x)
{
    const float scale = x->data->scale;

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, x->rows, x->dim_qk, x->keys, scale,
                x->more, x->stride, x->k, x->dim_qk, 0.0f, x->dq, x->dim_qk);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, x->keys, x->dim_qk, x->rows, scale,
                x->more, x->stride, x->q, x->dim_qk, 1.0f, x->dk, x->dim_qk);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, x->keys, x->dim_v, x->rows, 1.0f, x->s,
                x->stride, x->d_o, x->dim_v, 1.0f, x->dv, x->dim_v);
}

static void derive_rows(const struct matrices *x, size_t begin, size_t end)
{
    const size_t dim = (size_t)x->dim_v;

    for (size_t r = begin; r < end && r < x->step->rows; r++) {
        const struct key_range range = range_of(x, r);
        const float delta = cblas_sdot(x->dim_v, x->d_o + r * dim, 1, x->o + r * dim, 1);
        const size_t at = r * x->step->stride;
        softmax_row_derive(x->s + at, x->step->keys, range.first, range.end, x->lse[r], delta,
                           x->more + at);
    }
}

/* All of a key head: its steps add to the same rows of dk and dv. */
static void do_slice(void *argument, size_t slice, unsigned worker)
{
    const struct shared *shared = argument;
    const struct steps *steps = &shared->c->way->steps;

    for (size_t n = 0; n < steps->count; n++) {
        if (steps->step[n].slice != slice)
            continue;
        const struct matrices x = matrices_of(shared->c, shared->set, &steps->step[n], worker);
        multiply_before(&x);
        derive_rows(&x, 0, x.step->rows);
        multiply_after(&x);
    }
}

static void derive_some_rows(void *matrices, size_t index, unsigned worker)
{
    (void)worker;
    derive_rows(matrices, index * ROWS_AT_ONCE, (index + 1) * ROWS_AT_ONCE);
}

static void derive_together(const struct openblas *c, const struct host_set *set)
{
    const struct steps *steps = &c->way->steps;

    for (size_t n = 0; n < steps->count; n++) {
        struct matrices x = matrices_of(c, set, &steps->step[n], 0);
        multiply_before(&x);
        pool_run(c->pool, derive_some_rows, &x, (x.step->rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE);
        multiply_after(&x);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

static bool compute(void *self, size_t copy, struct message *why)
{
    struct openblas *c = self;
    const struct problem_data *data = &c->work->data;
    const clattn_problem *p = &data->problem;
    struct shared shared = {c, &c->work->set[copy]};

    (void)why; /* Nothing can fail here. */
    if (p->operation == CLATTN_FORWARD) {
        pool_run(c->pool, do_step, &shared, c->way->steps.count);
        return true;
    }
    for (int n = 1; n < 3; n++)
        memset(shared.set->out[n], 0, peer_result_bytes(&data->result[n]));
    if (c->way->blas_threads)
        derive_together(c, shared.set);
    else
        pool_run(c->pool, do_slice, &shared, p->batch * p->kv_heads);
    return true;
}

static bool add_way(struct openblas *c, struct way way, const struct step_limits *limits,
                    struct message *why)
{
    struct way *added = &c->ways[c->work->ways];

    *added = way;
    if (!steps_make(&added->steps, &c->work->data.problem, limits, why))
        return false;
    c->work->ways++;
    c->scores = added->steps.most_scores > c->scores ? added->steps.most_scores : c->scores;
    return true;
}

static bool make_ways(struct openblas *c, struct message *why)
{
    const clattn_problem *p = &c->work->data.problem;
    const size_t slice = p->heads / p->kv_heads * p->seq_q;
    const size_t all = p->batch * p->kv_heads * slice;
    /* Rows per thread, so that each thread has some. */
    const size_t share = (all + c->threads - 1) / c->threads;
    const size_t wish = problem_limited(p) ? ROWS_WHERE_HIDDEN : ROWS;
    const struct step_limits own = {
        .rows = least(wish, share), .entries = 1, .scores = SIZE_MAX, .always_by_rows = true};
    const struct step_limits shared = {
        .rows = SHARED_ROWS, .entries = 1, .scores = SHARED_SCORES, .always_by_rows = false};

    c->work->ways = 0;
    if (!add_way(c, (struct way){.name = "each thread its own products"}, &own, why))
        return false;
    if (p->operation == CLATTN_BACKWARD)
        return add_way(c, (struct way){.name = "all threads in each product", .blas_threads = true},
                       &shared, why);
    return slice > MOST_ROWS_WORTH_GEMV ||
           add_way(c, (struct way){.name = "each thread its own GEMVs", .by_vectors = true}, &own,
                   why);
}

static enum peer_status open_attention(void *self, struct peer_work *work, struct message *why)
{
    struct openblas *c = self;
    const clattn_problem *p = &work->data.problem;

    c->work = work;
    if (p->dtype != CLATTN_F32)
        return refuse(why, "its products are of f32 alone");
    if (p->seq_kv > INT_MAX || p->heads * p->seq_q > INT_MAX || p->dim_qk > INT_MAX ||
        p->dim_v > INT_MAX)
        return refuse(why, "it counts rows and columns in 31 bits");
    if (!make_ways(c, why))
        return PEER_FAILED;
    const size_t more = p->operation == CLATTN_BACKWARD ? c->scores : p->heads * p->seq_q;
    for (unsigned n = 0; n < c->threads; n++) {
        c->scratch[n] = host_allocate((c->scores + more) * sizeof(float));
        if (c->scratch[n] == NULL) {
            message_set(why, "no memory for the scores of %u threads", c->threads);
            return PEER_FAILED;
        }
    }
    choose(c, 0);
    return PEER_DONE;
}

static void describe_attention(const void *self, char configuration[256])
{
    const struct openblas *c = self;

    snprintf(configuration, 256, "%s, %u thread%s, up to %zu x %zu scores at a time", c->way->name,
             c->threads, c->threads == 1 ? "" : "s", c->way->steps.most_rows,
             c->way->steps.most_keys);
}

static void close_problem(void *self)
{
    struct openblas *c = self;

    for (size_t n = 0; n < MOST_WAYS; n++)
        steps_free(&c->ways[n].steps);
    for (unsigned n = 0; n < c->threads; n++) {
        free(c->scratch[n]);
        c->scratch[n] = NULL;
    }
    *c = (struct openblas){.pool = c->pool, .threads = c->threads, .scratch = c->scratch};
}

/* ---- projections ----------------------------------------------------------------------------- */

static size_t rows_each(const struct openblas *c)
{
    return (product_of(&c->work->data.problem).rows + c->threads - 1) / c->threads;
}

static void project(const struct openblas *c, const struct host_set *set, size_t row, size_t rows)
{
    const struct product p = product_of(&c->work->data.problem);
    const float *bias = c->work->data.projection_bias;
    float *y = from(set->out[0], row, p.columns);

    for (size_t r = 0; bias != NULL && r < rows; r++)
        memcpy(y + r * p.columns, bias, p.columns * sizeof *y);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)p.columns, (int)p.inner,
                1.0f, from(set->in[INPUT_PROJECTION_X], row, p.inner), (int)p.inner,
                set->in[INPUT_PROJECTION_W], (int)p.columns, bias != NULL ? 1.0f : 0.0f, y,
                (int)p.columns);
}

static void project_share(void *argument, size_t index, unsigned worker)
{
    const struct shared *shared = argument;
    const size_t share = rows_each(shared->c), first = index * share;

    (void)worker;
    project(shared->c, shared->set, first,
            least(share, product_of(&shared->c->work->data.problem).rows - first));
}

static bool compute_projection(void *self, size_t copy, struct message *why)
{
    struct openblas *c = self;
    const size_t rows = product_of(&c->work->data.problem).rows, share = rows_each(c);
    struct shared shared = {c, &c->work->set[copy]};

    (void)why; /* Nothing can fail here. */
    if (c->way->blas_threads)
        project(c, shared.set, 0, rows);
    else
        pool_run(c->pool, project_share, &shared, (rows + share - 1) / share);
    return true;
}

static enum peer_status open_projection(void *self, struct peer_work *work, struct message *why)
{
    struct openblas *c = self;
    const struct product p = product_of(&work->data.problem);

    c->work = work;
    if (work->data.problem.projection.dtype != CLATTN_F32)
        return refuse(why, "its products are of f32 alone");
    if (p.rows > INT_MAX || p.inner > INT_MAX || p.columns > INT_MAX)
        return refuse(why, "it counts rows and columns in 31 bits");
    c->ways[0] = (struct way){.name = "each thread its own rows"};
    c->ways[1] = (struct way){.name = "all threads in one product", .blas_threads = true};
    work->ways = 2;
    return PEER_DONE;
}

static void describe_projection(const void *self, char configuration[256])
{
    const struct openblas *c = self;

    snprintf(configuration, 256, "%s, %u thread%s", c->way->name, c->threads,
             c->threads == 1 ? "" : "s");
}

int main(void)
{
    static const struct peer_library attention = {
        .name = "OpenBLAS",
        .on = "cpu",
        .hello = hello,
        .operations = 1u << JOB_FORWARD | 1u << JOB_BACKWARD,
        .open = open_attention,
        .choose = choose,
        .compute = compute,
        .describe = describe_attention,
        .close = close_problem,
    };
    static const struct peer_library projection = {
        .operations = 1u << JOB_PROJECTION,
        .open = open_projection,
        .choose = choose,
        .compute = compute_projection,
        .describe = describe_projection,
        .close = close_problem,
    };
    const struct peer_library *const libraries[] = {&attention, &projection, NULL};
    struct openblas openblas = {.threads = 0};
    const int status = peer_main(libraries, &openblas);

    pool_close(openblas.pool);
    free(openblas.scratch);
    return status;
}
