/* SPDX-License-Identifier: Apache-2.0 */
/* 26: token-sparse attention. Each query has a list of the keys that it may see, such as an indexer chooses: in any order, -1
 * for none, and a key that stands twice is seen once. Forward and backward; the answers are those of a mask of these keys. */
#include "example.h"
#include <math.h>

enum { HEADS = 8, QUERIES = 4, KEYS = 1024, DIM = 32, LIST = 64, SIZE = HEADS * QUERIES * DIM };

/* o and lse of the problem, and from d_o = o the gradient of q. */
static clattn_status compute(clattn_context *context, clattn_problem problem,
                             clattn_host_forward_tensors tensors, float *dq, float *dk, float *dv)
{
    clattn_problem backward;
    const clattn_host_backward_tensors gradients = {.struct_size = sizeof gradients,
                                                    .q = tensors.q,
                                                    .k = tensors.k,
                                                    .v = tensors.v,
                                                    .o = tensors.o,
                                                    .lse = tensors.lse,
                                                    .d_o = tensors.o,
                                                    .mask = tensors.mask,
                                                    .topk_indices = tensors.topk_indices,
                                                    .dq = dq,
                                                    .dk = dk,
                                                    .dv = dv};

    clattn_status status = clattn_problem_backward(&problem, &backward, NULL, 0);
    if (status == CLATTN_SUCCESS)
        status = clattn_attention_forward_host(context, &problem, NULL, &tensors);
    if (status == CLATTN_SUCCESS)
        status = clattn_attention_backward_host(context, &backward, NULL, &gradients);
    return status;
}

int main(void)
{
    static float q[SIZE], k[KEYS * DIM], v[KEYS * DIM], o[2][SIZE], lse[2][HEADS * QUERIES];
    static float dq[2][SIZE], dk[2][KEYS * DIM], dv[2][KEYS * DIM];
    static unsigned char mask[QUERIES * KEYS];
    static cl_int lists[QUERIES * LIST];
    clattn_context *context = open_context();
    double worst = 0.0;

    for (int n = 0; n < SIZE; n++)
        q[n] = (float)sin(n * 0.37);
    for (int n = 0; n < KEYS * DIM; n++) {
        k[n] = (float)cos(n * 0.91);
        v[n] = (float)sin(n * 1.7);
    }
    for (int n = 0; n < QUERIES * LIST; n++) {
        lists[n] = n % 7 == 6 ? -1 : n * 37 % KEYS;
        if (lists[n] >= 0)
            mask[n / LIST * KEYS + lists[n]] = 1;
    }

    clattn_problem problem;
    clattn_problem_init(&problem);
    problem.heads = HEADS; /* which share one kv head */
    problem.seq_q = QUERIES;
    problem.seq_kv = KEYS;
    problem.dim_qk = problem.dim_v = DIM;
    problem.topk = LIST;
    problem.lse = 1;
    clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                           .q = q,
                                           .k = k,
                                           .v = v,
                                           .o = o[0],
                                           .lse = lse[0],
                                           .topk_indices = lists};
    clattn_status status = compute(context, problem, tensors, dq[0], dk[0], dv[0]);

    problem.topk = 0;
    problem.mask = 1;
    problem.mask_layout = (clattn_layout){{0, 0, KEYS, 1}};
    tensors.topk_indices = NULL;
    tensors.mask = mask;
    tensors.o = o[1];
    tensors.lse = lse[1];
    if (status == CLATTN_SUCCESS)
        status = compute(context, problem, tensors, dq[1], dk[1], dv[1]);
    clattn_context_release(context);
    for (int n = 0; n < SIZE; n++)
        worst = fmax(worst, fmax(fabs(o[0][n] - o[1][n]), fabs(dq[0][n] - dq[1][n])));
    for (int n = 0; n < KEYS * DIM; n++)
        worst = fmax(worst, fmax(fabs(dk[0][n] - dk[1][n]), fabs(dv[0][n] - dv[1][n])));
    printf("%s: no element differs by more than %.1e\n", clattn_status_string(status), worst);
    return status != CLATTN_SUCCESS || !(worst < 1e-5);
}
