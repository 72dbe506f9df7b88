/* clattn-peer-clblast: GEMM, softmax, GEMM on an OpenCL device, the products by CLBlast. */
#include "peer_main.h"
#include "softmax_program.h"
#include "timing.h"
#include "values.h"

#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS_WORTH_GEMV = 8 };

/* One set of tensors. */
struct set {
    cl_mem q, k, v, o;
};

struct clblast {
    struct target target;
    const struct problem_data *data;
    struct set *sets;
    size_t copies, turn;
    cl_mem scores;
    struct softmax_program softmax;
    struct steps steps;
    bool by_vectors; /* Each row by GEMV. */
    double last;     /* Seconds of one computation; 0 before the first sample. */
    double enqueueing;
};

static bool hello(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                  struct message *why)
{
    struct clblast *c = self;

    (void)threads; /* The driver's affair. */
    snprintf(greeting->version, sizeof greeting->version, "%s", CLATTN_PEER_VERSION);
    snprintf(greeting->method, sizeof greeting->method,
             "GemmStridedBatched or Gemv, a softmax kernel, GemmStridedBatched or Gemv");
    return target_open(&c->target, device, why);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static cl_mem make_buffer(const struct clblast *c, size_t bytes, const void *data,
                          struct message *why)
{
    cl_int err;
    cl_mem buffer = clCreateBuffer(clattn_context_opencl(c->target.context), CL_MEM_READ_WRITE,
                                   bytes, NULL, &err);

    if (err == CL_SUCCESS && data != NULL)
        err = clEnqueueWriteBuffer(c->target.queue, buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    if (err == CL_SUCCESS)
        return buffer;
    message_set(why, "a buffer of %zu bytes failed with %d", bytes, err);
    if (buffer != NULL)
        clReleaseMemObject(buffer);
    return NULL;
}

static bool make_set(const struct clblast *c, struct set *set, struct message *why)
{
    const struct problem_data *data = c->data;

    return (set->q = make_buffer(c, data->q_bytes, data->q, why)) != NULL &&
           (set->k = make_buffer(c, data->k_bytes, data->k, why)) != NULL &&
           (set->v = make_buffer(c, data->v_bytes, data->v, why)) != NULL &&
           (set->o = make_buffer(c, data->o_bytes, NULL, why)) != NULL;
}

/* CLBlast's GEMV multiplies what was there by 0: a NaN would stay one. */
static bool clear(const struct clblast *c, cl_mem buffer, size_t bytes, struct message *why)
{
    const unsigned char zero = 0;
    const cl_int err =
        clEnqueueFillBuffer(c->target.queue, buffer, &zero, 1, 0, bytes, 0, NULL, NULL);

    return err == CL_SUCCESS || message_set(why, "clEnqueueFillBuffer failed with %d", err);
}

/* The scores of a step take no more than a quarter of the device's memory. Where keys are hidden,
 * rows are taken in blocks, eight for a matrix, so that most of what is hidden is left out. */
static bool make_steps(struct clblast *c, struct message *why)
{
    const clattn_device_info *info = c->target.info;
    const cl_ulong quarter = info->global_memory_bytes / 4;
    const cl_ulong bytes =
        quarter < info->max_allocation_bytes ? quarter : info->max_allocation_bytes;
    const clattn_problem *p = &c->data->problem;
    const struct step_limits limits = {.rows = p->seq_q / 8 > 256 ? (p->seq_q + 7) / 8 : 256,
                                       .entries = 65535,
                                       .scores = bytes / value_bytes(p->dtype)};

    if (!steps_make(&c->steps, c->data, &limits, why))
        return false;
    const size_t score_bytes = c->steps.most_scores * value_bytes(p->dtype);
    c->scores = make_buffer(c, score_bytes, NULL, why);
    return c->scores != NULL && clear(c, c->scores, score_bytes, why);
}

static enum peer_status open_problem(void *self, const struct problem_data *data, size_t copies,
                                     struct message *why)
{
    struct clblast *c = self;
    const clattn_problem *p = &data->problem;
    bool ok = true;

    c->data = data;
    if (p->dtype == CLATTN_BF16) {
        message_set(why, "it has no bf16");
        return PEER_UNSUPPORTED;
    }
    if (p->dtype == CLATTN_F16 && !c->target.info->fp16) {
        message_set(why, "it needs cl_khr_fp16 for f16, which this device has not");
        return PEER_UNSUPPORTED;
    }
    c->sets = calloc(copies, sizeof *c->sets);
    if (c->sets == NULL)
        ok = message_set(why, "no memory for %zu sets of tensors", copies);
    for (c->copies = 0; ok && c->copies < copies; c->copies++)
        ok = make_set(c, &c->sets[c->copies], why);
    return ok && make_steps(c, why) ? PEER_DONE : PEER_FAILED;
}

static enum peer_status build(void *self, struct message *why)
{
    struct clblast *c = self;

    return softmax_program_open(&c->softmax, &c->target, c->data, &c->steps, why) ? PEER_DONE
                                                                                  : PEER_FAILED;
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
    for (size_t n = 0; c->sets != NULL && n < c->copies; n++) {
        release(c->sets[n].q);
        release(c->sets[n].k);
        release(c->sets[n].v);
        release(c->sets[n].o);
    }
    free(c->sets);
    release(c->scores);
    softmax_program_close(&c->softmax);
    steps_free(&c->steps);
    const struct target target = c->target;
    *c = (struct clblast){.target = target};
}

/* ---- computing ------------------------------------------------------------------------------- */

/* A matrix of a step in its buffer: where it begins, from row to row, from entry to entry. */
struct operand {
    cl_mem buffer;
    size_t offset, row, entry;
};

struct operands {
    struct operand q, k, v, o, s;
};

static struct operands operands_of(const struct clblast *c, const struct set *set,
                                   const struct step *step)
{
    const clattn_problem *p = &c->data->problem;
    const size_t row = step_first_row(step, p), rows = step_row_stride(step, p);
    const size_t key = step->slice * p->seq_kv + step->key;
    const size_t keys = step_slice_stride(step) * p->seq_kv;

    return (struct operands){
        .q = {set->q, row * p->dim_qk, p->dim_qk, rows * p->dim_qk},
        .k = {set->k, key * p->dim_qk, p->dim_qk, keys * p->dim_qk},
        .v = {set->v, key * p->dim_v, p->dim_v, keys * p->dim_v},
        .o = {set->o, row * p->dim_v, p->dim_v, rows * p->dim_v},
        .s = {c->scores, 0, step->stride, step->rows * step->stride},
    };
}

/* C = alpha A B, or A B^T, for all entries. */
static CLBlastStatusCode gemm(struct clblast *c, CLBlastTranspose b_transpose, size_t m, size_t n,
                              size_t k, float alpha, const struct operand *A,
                              const struct operand *B, const struct operand *C, size_t entries,
                              cl_event *end)
{
    cl_half half_alpha;

    if (c->data->problem.dtype == CLATTN_F32)
        return CLBlastSgemmStridedBatched(
            CLBlastLayoutRowMajor, CLBlastTransposeNo, b_transpose, m, n, k, alpha, A->buffer,
            A->offset, A->row, A->entry, B->buffer, B->offset, B->row, B->entry, 0.0f, C->buffer,
            C->offset, C->row, C->entry, entries, &c->target.queue, end);
    value_set(CLATTN_F16, &half_alpha, 0, alpha);
    return CLBlastHgemmStridedBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo, b_transpose, m, n,
                                      k, half_alpha, A->buffer, A->offset, A->row, A->entry,
                                      B->buffer, B->offset, B->row, B->entry, 0, C->buffer,
                                      C->offset, C->row, C->entry, entries, &c->target.queue, end);
}

/* y = alpha M x, or M^T x, for M of so many rows and columns; x and y are rows of theirs. */
static CLBlastStatusCode gemv(struct clblast *c, CLBlastTranspose transpose, size_t rows,
                              size_t columns, float alpha, const struct operand *M, size_t M_offset,
                              const struct operand *x, size_t x_offset, const struct operand *y,
                              size_t y_offset, cl_event *end)
{
    cl_half half_alpha;

    if (c->data->problem.dtype == CLATTN_F32)
        return CLBlastSgemv(CLBlastLayoutRowMajor, transpose, rows, columns, alpha, M->buffer,
                            M_offset, M->row, x->buffer, x_offset, 1, 0.0f, y->buffer, y_offset, 1,
                            &c->target.queue, end);
    value_set(CLATTN_F16, &half_alpha, 0, alpha);
    return CLBlastHgemv(CLBlastLayoutRowMajor, transpose, rows, columns, half_alpha, M->buffer,
                        M_offset, M->row, x->buffer, x_offset, 1, 0, y->buffer, y_offset, 1,
                        &c->target.queue, end);
}

/* The offset of a row of an entry. */
static size_t at(const struct operand *operand, size_t entry, size_t row)
{
    return operand->offset + entry * operand->entry + row * operand->row;
}

/* q k^T for a step. */
static CLBlastStatusCode multiply_keys(struct clblast *c, const struct step *step,
                                       const struct operands *x)
{
    const size_t dim = c->data->problem.dim_qk;
    const float scale = c->data->scale;
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

/* p v for a step; `end`, unless NULL, receives the event of the last product. */
static CLBlastStatusCode multiply_values(struct clblast *c, const struct step *step,
                                         const struct operands *x, cl_event *end)
{
    const size_t dim = c->data->problem.dim_v;
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

static bool enqueue_set(struct clblast *c, const struct set *set, cl_event *end,
                        struct message *why)
{
    if (c->by_vectors && !clear(c, set->o, c->data->o_bytes, why))
        return false;
    for (size_t n = 0; n < c->steps.count; n++) {
        const struct step *step = &c->steps.step[n];
        const struct operands x = operands_of(c, set, step);
        CLBlastStatusCode status = multiply_keys(c, step, &x);
        if (status != CLBlastSuccess)
            return message_set(why, "CLBlast's product with the keys failed with %d", (int)status);
        if (!softmax_program_enqueue(&c->softmax, c->target.queue, c->scores, step, why))
            return false;
        status = multiply_values(c, step, &x, n + 1 == c->steps.count ? end : NULL);
        if (status != CLBlastSuccess)
            return message_set(why, "CLBlast's product with the values failed with %d",
                               (int)status);
    }
    return true;
}

static bool finish(struct clblast *c, struct message *why)
{
    const cl_int err = clFinish(c->target.queue);

    return err == CL_SUCCESS || message_set(why, "clFinish failed with %d", err);
}

static bool compute(void *self, size_t set, struct message *why)
{
    struct clblast *c = self;

    return enqueue_set(c, &c->sets[set], NULL, why) && finish(c, why);
}

static bool settle(void *self, char configuration[256], struct message *why)
{
    struct clblast *c = self;
    const clattn_problem *p = &c->data->problem;
    double by_matrices, by_vectors;

    if (p->heads / p->kv_heads * p->seq_q <= MOST_ROWS_WORTH_GEMV) {
        if (!peer_main_time(compute, c, &by_matrices, why))
            return false;
        c->by_vectors = true;
        if (!peer_main_time(compute, c, &by_vectors, why))
            return false;
        c->by_vectors = by_vectors < by_matrices;
    }
    snprintf(configuration, 256,
             "%s, up to %zu x %zu scores in %zu step%s, CLBlast's own parameters",
             c->by_vectors ? "a GEMV per row" : "batched GEMM", c->steps.most_rows,
             c->steps.most_keys, c->steps.count, c->steps.count == 1 ? "" : "s");
    return true;
}

static bool enqueue_next(void *work, cl_event *end, struct message *why)
{
    struct clblast *c = work;
    const double start = timing_clock();
    const bool ok = enqueue_set(c, &c->sets[c->turn], end, why);

    c->turn = (c->turn + 1) % c->copies;
    c->enqueueing += timing_clock() - start;
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
static bool sample(void *self, double busy, struct peer_sample *sample, struct message *why)
{
    struct clblast *c = self;

    if (c->last == 0.0 && (!sample_so_many(c, 1.0, sample, why) || busy < 2.0 * c->last))
        return c->last > 0.0;
    return sample_so_many(c, busy / c->last, sample, why);
}

/* ---- results --------------------------------------------------------------------------------- */

static bool poison(void *self, struct message *why)
{
    const struct clblast *c = self;
    const unsigned char nan = 0xff; /* All bits set: NaN in each format. */
    const cl_int err = clEnqueueFillBuffer(c->target.queue, c->sets[0].o, &nan, 1, 0,
                                           c->data->o_bytes, 0, NULL, NULL);

    return err == CL_SUCCESS || message_set(why, "clEnqueueFillBuffer failed with %d", err);
}

static bool read_output(void *self, void *o, struct message *why)
{
    const struct clblast *c = self;
    const cl_int err = clEnqueueReadBuffer(c->target.queue, c->sets[0].o, CL_TRUE, 0,
                                           c->data->o_bytes, o, 0, NULL, NULL);

    return err == CL_SUCCESS || message_set(why, "clEnqueueReadBuffer failed with %d", err);
}

int main(void)
{
    static const struct peer_library library = {
        .name = "CLBlast",
        .on = "device",
        .operations = 1u << CLATTN_FORWARD,
        .hello = hello,
        .open = open_problem,
        .build = build,
        .compute = compute,
        .settle = settle,
        .sample = sample,
        .poison = poison,
        .read_output = read_output,
        .close = close_problem,
    };
    const struct peer_library *const libraries[] = {&library, NULL};
    struct clblast clblast = {.turn = 0};
    const int status = peer_main(libraries, &clblast);

    if (clblast.target.context != NULL)
        target_close(&clblast.target);
    return status;
}
