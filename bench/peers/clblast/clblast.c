/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-peer-clblast: attention by GEMM, softmax, GEMM, and projections, on an OpenCL device, the
 * products by CLBlast. */
#include "bench/judge/values.h"
#include "bench/peers/clblast/softmax_program.h"
#include "bench/peers/peer_main.h"
#include "bench/timing/timing.h"
#include "internal.h"

#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_ROWS_WORTH_GEMV = 8 };

/* One copy of the tensors; of a projection x, w, no v, and y. */
struct buffers {
    cl_mem q, k, v, o;
};

struct clblast {
    struct target target;
    struct peer_work *work;
    struct buffers *copy;
    size_t made, turn;
    double last; /* Seconds of one computation; 0 before the first sample. */
    double enqueueing;

    /* The open operation's; the last kernel's event goes to `end` unless that is NULL. */
    bool (*enqueue)(struct clblast *c, const struct buffers *copy, cl_event *end,
                    struct message *why);

    cl_mem scores; /* Memory for the scores of attention. */
    struct softmax_program softmax;
    struct steps steps;
    bool by_vectors; /* Each row by GEMV. */

    cl_mem bias; /* For a projection: a y with the bias in every row; NULL without a bias. */
};

static bool hello(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                  struct message *why)
{
    struct clblast *c = self;

    (void)threads; /* The driver's affair. */
    snprintf(greeting->version, sizeof greeting->version, "%s", CLATTN_PEER_VERSION);
    snprintf(greeting->method, sizeof greeting->method,
             "GemmStridedBatched or Gemv, a softmax kernel, the same again; projections: Gemm");
    return target_open(&c->target, device, why);
}

static bool succeeded(cl_int err, const char *call, struct message *why)
{
    return err == CL_SUCCESS || message_set(why, "%s failed with %d", call, err);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Filled with the data unless that is NULL; the buffer is the caller's on failure, too. */
static bool make_buffer(const struct clblast *c, const void *data, size_t bytes, cl_mem *buffer,
                        struct message *why)
{
    cl_int err;

    *buffer = clCreateBuffer(clattn_context_opencl(c->target.context), CL_MEM_READ_WRITE, bytes,
                             NULL, &err);
    if (err == CL_SUCCESS && data != NULL)
        err =
            clEnqueueWriteBuffer(c->target.queue, *buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    return err == CL_SUCCESS ||
           message_set(why, "a buffer of %zu bytes failed with %d", bytes, err);
}

/* None: no buffer. */
static bool copy_operand(const struct clblast *c, enum input input, cl_mem *buffer,
                         struct message *why)
{
    const struct safetensor *tensor = c->work->data.in[input];

    return tensor == NULL || make_buffer(c, c->work->set[0].in[input], tensor->bytes, buffer, why);
}

static bool make_copies(struct clblast *c, struct message *why)
{
    const struct peer_work *work = c->work;
    bool ok = true;

    c->copy = calloc(work->copies, sizeof *c->copy);
    if (c->copy == NULL)
        return message_set(why, "no memory for %zu sets of tensors", work->copies);
    while (ok && c->made < work->copies) {
        struct buffers *copy = &c->copy[c->made++];
        ok = copy_operand(c, INPUT_Q, &copy->q, why) && copy_operand(c, INPUT_K, &copy->k, why) &&
             copy_operand(c, INPUT_V, &copy->v, why) &&
             copy_operand(c, INPUT_PROJECTION_X, &copy->q, why) &&
             copy_operand(c, INPUT_PROJECTION_W, &copy->k, why) &&
             make_buffer(c, NULL, work->data.result_bytes, &copy->o, why);
    }
    return ok;
}

static enum peer_status open_any(struct clblast *c, struct peer_work *work, struct message *why)
{
    const clattn_dtype dtype = ca_problem_own_dtype(&work->data.problem);

    c->work = work;
    if (dtype == CLATTN_BF16) {
        message_set(why, "it has no bf16");
        return PEER_UNSUPPORTED;
    }
    if (dtype == CLATTN_F16 && !c->target.info->fp16) {
        message_set(why, "it needs cl_khr_fp16 for f16, which this device has not");
        return PEER_UNSUPPORTED;
    }
    return make_copies(c, why) ? PEER_DONE : PEER_FAILED;
}

static bool put_results(void *self, struct message *why)
{
    struct clblast *c = self;

    return succeeded(clEnqueueWriteBuffer(c->target.queue, c->copy[0].o, CL_TRUE, 0,
                                          c->work->data.result_bytes, c->work->set[0].out[0], 0,
                                          NULL, NULL),
                     "clEnqueueWriteBuffer", why);
}

static bool get_results(void *self, struct message *why)
{
    struct clblast *c = self;

    return succeeded(clEnqueueReadBuffer(c->target.queue, c->copy[0].o, CL_TRUE, 0,
                                         c->work->data.result_bytes, c->work->set[0].out[0], 0,
                                         NULL, NULL),
                     "clEnqueueReadBuffer", why);
}

static void release(cl_mem buffer)
{
    if (buffer != NULL)
        clReleaseMemObject(buffer);
}

static void close_problem(void *self)
{
    struct clblast *c = self;

    clFinish(c->target.queue);
    for (size_t n = 0; n < c->made; n++) {
        release(c->copy[n].q);
        release(c->copy[n].k);
        release(c->copy[n].v);
        release(c->copy[n].o);
    }
    free(c->copy);
    release(c->bias);
    release(c->scores);
    softmax_program_close(&c->softmax);
    steps_free(&c->steps);
    const struct target target = c->target;
    *c = (struct clblast){.target = target};
}

/* ---- computing ------------------------------------------------------------------------------- */

static bool compute(void *self, size_t copy, struct message *why)
{
    struct clblast *c = self;

    return c->enqueue(c, &c->copy[copy], NULL, why) &&
           succeeded(clFinish(c->target.queue), "clFinish", why);
}

static bool enqueue_next(void *work, cl_event *end, struct message *why)
{
    struct clblast *c = work;
    const double start = ca_stopwatch_now();
    const bool ok = c->enqueue(c, &c->copy[c->turn], end, why);

    c->turn = (c->turn + 1) % c->made;
    c->enqueueing += ca_stopwatch_now() - start;
    return ok;
}

static bool sample_so_many(struct clblast *c, double wanted, struct peer_sample *sample,
                           struct message *why)
{
    sample->executions = wanted < 1.0 ? 1 : wanted > TIMING_MOST ? TIMING_MOST : (size_t)wanted;
    c->enqueueing = 0.0;
    if (!timing_median(&c->target, enqueue_next, c, sample->executions, &sample->seconds, why))
        return false;
    c->last = sample->seconds;
    sample->host_seconds = c->enqueueing / (double)(sample->executions + 1); /* One goes before. */
    return true;
}

/* The first sample of a problem says how many executions fill the time. */
static bool take_sample(void *self, double busy, struct peer_sample *sample, struct message *why)
{
    struct clblast *c = self;

    if (c->last == 0.0 && (!sample_so_many(c, 1.0, sample, why) || busy < 2.0 * c->last))
        return c->last > 0.0;
    return sample_so_many(c, busy / c->last, sample, why);
}

/* ---- products of a step ---------------------------------------------------------------------- */

/* A matrix of a step in its buffer: where it begins, from row to row, from entry to entry. */
struct operand {
    cl_mem buffer;
    size_t offset, row, entry;
};

struct operands {
    struct operand q, k, v, o, s;
};

static struct operands operands_of(const struct clblast *c, const struct buffers *copy,
                                   const struct step *step)
{
    const clattn_problem *p = &c->work->data.problem;
    const size_t row = step_first_row(step, p), rows = step_row_stride(step, p);
    const size_t key = step->slice * p->seq_kv + step->key;
    const size_t keys = step_slice_stride(step) * p->seq_kv;

    return (struct operands){
        .q = {copy->q, row * p->dim_qk, p->dim_qk, rows * p->dim_qk},
        .k = {copy->k, key * p->dim_qk, p->dim_qk, keys * p->dim_qk},
        .v = {copy->v, key * p->dim_v, p->dim_v, keys * p->dim_v},
        .o = {copy->o, row * p->dim_v, p->dim_v, rows * p->dim_v},
        .s = {c->scores, 0, step->stride, step->rows * step->stride},
    };
}

static cl_half half_of(float x)
{
    cl_half half;

    value_set(CLATTN_F16, &half, 0, (double)x);
    return half;
}

/* C = alpha A B, or A B^T, for all entries. */
static CLBlastStatusCode gemm(struct clblast *c, CLBlastTranspose b_transpose, size_t m, size_t n,
                              size_t k, float alpha, const struct operand *A,
                              const struct operand *B, const struct operand *C, size_t entries,
                              cl_event *end)
{
    if (c->work->data.problem.dtype == CLATTN_F32)
        return CLBlastSgemmStridedBatched(
            CLBlastLayoutRowMajor, CLBlastTransposeNo, b_transpose, m, n, k, alpha, A->buffer,
            A->offset, A->row, A->entry, B->buffer, B->offset, B->row, B->entry, 0.0f, C->buffer,
            C->offset, C->row, C->entry, entries, &c->target.queue, end);
    return CLBlastHgemmStridedBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo, b_transpose, m, n,
                                      k, half_of(alpha), A->buffer, A->offset, A->row, A->entry,
                                      B->buffer, B->offset, B->row, B->entry, 0, C->buffer,
                                      C->offset, C->row, C->entry, entries, &c->target.queue, end);
}

/* y = alpha M x, or M^T x, for M of so many rows and columns; x and y are rows of theirs. */
static CLBlastStatusCode gemv(struct clblast *c, CLBlastTranspose transpose, size_t rows,
                              size_t columns, float alpha, const struct operand *M, size_t M_offset,
                              const struct operand *x, size_t x_offset, const struct operand *y,
                              size_t y_offset, cl_event *end)
{
    if (c->work->data.problem.dtype == CLATTN_F32)
        return CLBlastSgemv(CLBlastLayoutRowMajor, transpose, rows, columns, alpha, M->buffer,
                            M_offset, M->row, x->buffer, x_offset, 1, 0.0f, y->buffer, y_offset, 1,
                            &c->target.queue, end);
    return CLBlastHgemv(CLBlastLayoutRowMajor, transpose, rows, columns, half_of(alpha), M->buffer,
                        M_offset, M->row, x->buffer, x_offset, 1, 0, y->buffer, y_offset, 1,
                        &c->target.queue, end);
}

/* The offset of a row of an entry. */
static size_t at(const struct operand *operand, size_t entry, size_t row)
{
    return operand->offset + entry * operand->entry + row * operand->row;
}

/* s = scale q k^T */
static CLBlastStatusCode multiply_keys(struct clblast *c, const struct step *step,
                                       const struct operands *x)
{
    const size_t dim = c->work->data.problem.dim_qk;
    const float scale = c->work->data.scale;
    CLBlastStatusCode status = CLBlastSuccess;

    if (!c->by_vectors)
        return gemm(c, CLBlastTransposeYes, step->rows, step->keys, dim, scale, &x->q, &x->k, &x->s,
                    step->entries, NULL);
    for (size_t e = 0; e < step->entries; e++)
        for (size_t r = 0; status == CLBlastSuccess && r < step->rows; r++)
            status = gemv(c, CLBlastTransposeNo, step->keys, dim, scale, &x->k, at(&x->k, e, 0),
                          &x->q, at(&x->q, e, r), &x->s, at(&x->s, e, r), NULL);
    return status;
}

/* o = s v; `end`, unless NULL, receives the event of the last product. */
static CLBlastStatusCode multiply_values(struct clblast *c, const struct step *step,
                                         const struct operands *x, cl_event *end)
{
    const size_t dim = c->work->data.problem.dim_v;
    CLBlastStatusCode status = CLBlastSuccess;

    if (!c->by_vectors)
        return gemm(c, CLBlastTransposeNo, step->rows, dim, step->keys, 1.0f, &x->s, &x->v, &x->o,
                    step->entries, end);
    for (size_t e = 0; e < step->entries; e++) {
        for (size_t r = 0; status == CLBlastSuccess && r < step->rows; r++) {
            const bool last = e + 1 == step->entries && r + 1 == step->rows;
            status = gemv(c, CLBlastTransposeYes, step->keys, dim, 1.0f, &x->v, at(&x->v, e, 0),
                          &x->s, at(&x->s, e, r), &x->o, at(&x->o, e, r), last ? end : NULL);
        }
    }
    return status;
}

/* ---- attention ------------------------------------------------------------------------------- */

/* CLBlast's GEMV multiplies what was there by 0: a NaN would stay one. */
static bool clear(const struct clblast *c, cl_mem buffer, size_t bytes, struct message *why)
{
    const unsigned char zero = 0;

    return succeeded(
        clEnqueueFillBuffer(c->target.queue, buffer, &zero, 1, 0, bytes, 0, NULL, NULL),
        "clEnqueueFillBuffer", why);
}

static bool enqueue_attention(struct clblast *c, const struct buffers *copy, cl_event *end,
                              struct message *why)
{
    if (c->by_vectors && !clear(c, copy->o, c->work->data.result_bytes, why))
        return false;
    for (size_t n = 0; n < c->steps.count; n++) {
        const struct step *step = &c->steps.step[n];
        const struct operands x = operands_of(c, copy, step);
        if (!succeeded((cl_int)multiply_keys(c, step, &x), "CLBlast's product with the keys",
                       why) ||
            !softmax_program_enqueue(&c->softmax, c->target.queue, c->scores, step, why) ||
            !succeeded((cl_int)multiply_values(c, step, &x, n + 1 == c->steps.count ? end : NULL),
                       "CLBlast's product with the values", why))
            return false;
    }
    return true;
}

/* The scores of a step take no more than a quarter of the device's memory. Where keys are hidden,
 * rows are taken in blocks, eight for a matrix, so that most of what is hidden is left out. */
static bool make_steps(struct clblast *c, struct message *why)
{
    const clattn_device_info *info = c->target.info;
    const cl_ulong quarter = info->global_memory_bytes / 4;
    const cl_ulong bytes =
        quarter < info->max_allocation_bytes ? quarter : info->max_allocation_bytes;
    const clattn_problem *p = &c->work->data.problem;
    const struct step_limits limits = {.rows = p->seq_q / 8 > 256 ? (p->seq_q + 7) / 8 : 256,
                                       .entries = 65535,
                                       .scores = bytes / value_bytes(p->dtype)};

    if (!steps_make(&c->steps, p, &limits, why))
        return false;
    const size_t score_bytes = c->steps.most_scores * value_bytes(p->dtype);
    return make_buffer(c, NULL, score_bytes, &c->scores, why) &&
           clear(c, c->scores, score_bytes, why);
}

static enum peer_status open_attention(void *self, struct peer_work *work, struct message *why)
{
    struct clblast *c = self;
    const clattn_problem *p = &work->data.problem;
    const enum peer_status status = open_any(c, work, why);

    c->enqueue = enqueue_attention;
    work->ways = p->heads / p->kv_heads * p->seq_q <= MOST_ROWS_WORTH_GEMV ? 2 : 1;
    return status == PEER_DONE && !make_steps(c, why) ? PEER_FAILED : status;
}

static enum peer_status build(void *self, struct message *why)
{
    struct clblast *c = self;

    return softmax_program_open(&c->softmax, &c->target, &c->work->data.problem, &c->steps, why)
               ? PEER_DONE
               : PEER_FAILED;
}

static void choose(void *self, size_t way)
{
    ((struct clblast *)self)->by_vectors = way == 1;
}

static void describe_attention(const void *self, char configuration[256])
{
    const struct clblast *c = self;

    snprintf(configuration, 256,
             "%s, up to %zu x %zu scores in %zu step%s, CLBlast's own parameters",
             c->by_vectors ? "a GEMV per row" : "batched GEMM", c->steps.most_rows,
             c->steps.most_keys, c->steps.count, c->steps.count == 1 ? "" : "s");
}

/* ---- projections ----------------------------------------------------------------------------- */

/* CLBlast knows no biases, but adds to what is there. */
static bool make_bias(struct clblast *c, struct message *why)
{
    const struct problem_data *data = &c->work->data;
    const struct product p = product_of(&data->problem);
    void *rows = malloc(data->result_bytes);

    if (rows == NULL)
        return message_set(why, "no memory for the biases");
    for (size_t n = 0; n < p.rows * p.columns; n++)
        value_set(data->problem.projection.dtype, rows, n,
                  (double)data->projection_bias[n % p.columns]);
    const bool ok = make_buffer(c, rows, data->result_bytes, &c->bias, why);
    free(rows);
    return ok;
}

static CLBlastStatusCode multiply(struct clblast *c, const struct buffers *copy, cl_event *end)
{
    const struct product p = product_of(&c->work->data.problem);
    const float beta = c->bias != NULL ? 1.0f : 0.0f;

    if (c->work->data.problem.projection.dtype == CLATTN_F32)
        return CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, p.rows,
                            p.columns, p.inner, 1.0f, copy->q, 0, p.inner, copy->k, 0, p.columns,
                            beta, copy->o, 0, p.columns, &c->target.queue, end);
    return CLBlastHgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, p.rows,
                        p.columns, p.inner, half_of(1.0f), copy->q, 0, p.inner, copy->k, 0,
                        p.columns, half_of(beta), copy->o, 0, p.columns, &c->target.queue, end);
}

static bool enqueue_projection(struct clblast *c, const struct buffers *copy, cl_event *end,
                               struct message *why)
{
    return (c->bias == NULL ||
            succeeded(clEnqueueCopyBuffer(c->target.queue, c->bias, copy->o, 0, 0,
                                          c->work->data.result_bytes, 0, NULL, NULL),
                      "clEnqueueCopyBuffer", why)) &&
           succeeded((cl_int)multiply(c, copy, end), "CLBlast's product", why);
}

static enum peer_status open_projection(void *self, struct peer_work *work, struct message *why)
{
    struct clblast *c = self;
    const enum peer_status status = open_any(c, work, why);

    c->enqueue = enqueue_projection;
    if (status == PEER_DONE && work->data.projection_bias != NULL && !make_bias(c, why))
        return PEER_FAILED;
    return status;
}

static void describe_projection(const void *self, char configuration[256])
{
    snprintf(configuration, 256, "GEMM%s, CLBlast's own parameters",
             ((const struct clblast *)self)->bias != NULL ? " onto a copy of the biases" : "");
}

int main(void)
{
    static const struct peer_library attention = {
        .name = "CLBlast",
        .on = "device",
        .hello = hello,
        .operations = 1u << JOB_FORWARD,
        .copies = true,
        .open = open_attention,
        .build = build,
        .choose = choose,
        .compute = compute,
        .describe = describe_attention,
        .sample = take_sample,
        .put_results = put_results,
        .get_results = get_results,
        .close = close_problem,
    };
    static const struct peer_library projection = {
        .operations = 1u << JOB_PROJECTION,
        .copies = true,
        .open = open_projection,
        .compute = compute,
        .describe = describe_projection,
        .sample = take_sample,
        .put_results = put_results,
        .get_results = get_results,
        .close = close_problem,
    };
    const struct peer_library *const libraries[] = {&attention, &projection, NULL};
    struct clblast clblast = {.turn = 0};
    const int status = peer_main(libraries, &clblast);

    if (clblast.target.context != NULL)
        target_close(&clblast.target);
    return status;
}
