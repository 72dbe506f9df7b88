/* Problems of operation CLATTN_PROJECTION: what problem.c asks for them. */
#include "base/log.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "problem/tensors.h"

/* ---- the normal form ------------------------------------------------------------------------- */

/* Whether an outer axis goes on where an inner one ends; then *step becomes that of both together. */
static int goes_on(size_t outer_step, size_t inner, size_t *step)
{
    if (inner == 1) {
        *step = outer_step;
        return 1;
    }
    return outer_step == inner * *step;
}

/* Makes axis `outer` of two tensors part of axis `inner` if it goes on in both. steps: where each
 * tensor has the step of the outer axis, and of the inner one. */
static void merge(size_t *outer, size_t *inner, size_t *const steps[2][2])
{
    size_t merged[2] = {*steps[0][1], *steps[1][1]};

    if (*outer == 1 || *outer > CA_MAX_SIZE / *inner)
        return;
    for (int n = 0; n < 2; n++)
        if (!goes_on(*steps[n][0], *inner, &merged[n]))
            return;
    *inner *= *outer;
    *outer = 1; /* whose steps are not 0 if one was not: four of 0 would mean another layout */
    for (int n = 0; n < 2; n++) {
        if (merged[n] == 0)
            *steps[n][0] = *steps[n][1];
        *steps[n][1] = merged[n];
    }
}

/* Where strides go on evenly the batch becomes part of seq_q, kv_heads of dim_qk and heads of dim_v:
 * fewer, longer axes with the same elements in the same order. */
clattn_problem ca_projection_normal(const clattn_problem *p)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    clattn_problem normal = *p;
    size_t *const x = normal.q.stride, *const w = normal.k.stride, *const y = normal.o.stride;

    ca_problem_tensors(p, tensors);
    normal.q = tensors[CA_Q].layout;
    normal.k = tensors[CA_K].layout;
    normal.o = tensors[CA_O].layout;
    if (ca_problem_empty(p))
        return normal;
    merge(&normal.batch, &normal.seq_q, (size_t *const[2][2]){{&x[0], &x[2]}, {&y[0], &y[2]}});
    merge(&normal.kv_heads, &normal.dim_qk, (size_t *const[2][2]){{&x[1], &x[3]}, {&w[0], &w[1]}});
    merge(&normal.heads, &normal.dim_v, (size_t *const[2][2]){{&w[2], &w[3]}, {&y[1], &y[3]}});
    return normal;
}

/* ---- checks ---------------------------------------------------------------------------------- */

clattn_status ca_projection_check(const clattn_problem *p, char *reason, size_t reason_bytes)
{
    const size_t *bias = p->bias_layout.stride;
    const clattn_status status = ca_refuse_options(p, "a projection", reason, reason_bytes);

    if (status != CLATTN_SUCCESS)
        return status;
    if (p->bias && (bias[0] | bias[1] | bias[2] | bias[3])) {
        ca_reason(reason, reason_bytes, "a projection has no bias_layout, as its bias is packed");
        return CLATTN_INVALID_PROBLEM;
    }
    if (p->seq_kv != 1) {
        ca_reason(reason, reason_bytes, "seq_kv is %zu but must be 1 for a projection", p->seq_kv);
        return CLATTN_INVALID_PROBLEM;
    }
    if (p->kv_heads > CA_MAX_SIZE / p->dim_qk) {
        ca_reason(reason, reason_bytes, "kv_heads * dim_qk is over %zu", CA_MAX_SIZE);
        return CLATTN_INVALID_PROBLEM;
    }
    return CLATTN_SUCCESS;
}

double ca_projection_flops(const clattn_problem *p)
{
    return 2.0 * (double)p->batch * (double)p->seq_q * (double)p->kv_heads * (double)p->dim_qk *
           (double)p->heads * (double)p->dim_v;
}

int ca_projection_x_in_pairs(const clattn_problem *p)
{
    return p->dtype == CLATTN_BF16 && p->dim_qk % 2 == 0 && ca_layout_in_pieces(&p->q, 3, 2);
}
