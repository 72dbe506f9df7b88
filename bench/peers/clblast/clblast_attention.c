/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by GEMM, softmax, GEMM. */
#include "bench/judge/values.h"
#include "bench/peers/clblast/clblast.h"

#include <stdio.h>

enum { MOST_ROWS_WORTH_GEMV = 8 };

/* ---- tensors --------------------------------------------------------------------------------- */

static bool make_set(const struct clblast *c, struct clblast_set *set, struct message *why)
{
    const struct problem_data *data = c->data;

    return (set->q = clblast_buffer(c, data->q_bytes, data->q, why)) != NULL &&
           (set->k = clblast_buffer(c, data->k_bytes, data->k, why)) != NULL &&
           (set->v = clblast_buffer(c, data->v_bytes, data->v, why)) != NULL &&
           (set->o = clblast_buffer(c, data->o_bytes, NULL, why)) != NULL;
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
    c->scores = clblast_buffer(c, score_bytes, NULL, why);
    return c->scores != NULL && clear(c, c->scores, score_bytes, why);
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

static struct operands operands_of(const struct clblast *c, const struct clblast_set *set,
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

static bool enqueue(struct clblast *c, const struct clblast_set *set, cl_event *end,
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

/* ---- the library ----------------------------------------------------------------------------- */

static enum peer_status open_problem(void *self, const struct problem_data *data, size_t copies,
                                     struct message *why)
{
    struct clblast *c = self;
    const enum peer_status status = clblast_open(c, data, copies, make_set, why);

    c->enqueue = enqueue;
    return status == PEER_DONE && !make_steps(c, why) ? PEER_FAILED : status;
}

static enum peer_status build(void *self, struct message *why)
{
    struct clblast *c = self;

    return softmax_program_open(&c->softmax, &c->target, c->data, &c->steps, why) ? PEER_DONE
                                                                                  : PEER_FAILED;
}

static bool settle(void *self, char configuration[256], struct message *why)
{
    struct clblast *c = self;
    const clattn_problem *p = &c->data->problem;
    double by_matrices, by_vectors;

    if (p->heads / p->kv_heads * p->seq_q <= MOST_ROWS_WORTH_GEMV) {
        if (!peer_main_time(clblast_compute, c, &by_matrices, why))
            return false;
        c->by_vectors = true;
        if (!peer_main_time(clblast_compute, c, &by_vectors, why))
            return false;
        c->by_vectors = by_vectors < by_matrices;
    }
    snprintf(configuration, 256,
             "%s, up to %zu x %zu scores in %zu step%s, CLBlast's own parameters",
             c->by_vectors ? "a GEMV per row" : "batched GEMM", c->steps.most_rows,
             c->steps.most_keys, c->steps.count, c->steps.count == 1 ? "" : "s");
    return true;
}

const struct peer_library clblast_attention = {
    .name = "CLBlast",
    .on = "device",
    .operations = 1u << CLATTN_FORWARD,
    .hello = clblast_hello,
    .open = open_problem,
    .build = build,
    .compute = clblast_compute,
    .settle = settle,
    .sample = clblast_sample,
    .poison = clblast_poison,
    .read_output = clblast_read,
    .close = clblast_close,
};
