/* SPDX-License-Identifier: Apache-2.0 */
/* 03: who may see whom. Causal masks, windows, boolean masks, biases and lengths.
 *
 * Every query is zero, so all scores are equal and each output is the mean of the values that its
 * query sees: with value j of key j, the masks can be read off the output. */
#include "example.h"
#include <math.h>

enum { BATCH = 2, SEQ = 4 };

/* Runs the problem and compares one output per batch and query. */
static void run(clattn_context *context, const char *title, const clattn_problem *problem,
                clattn_host_forward_tensors tensors, const float want[BATCH][SEQ])
{
    const float zero[BATCH][SEQ] = {{0}};
    const float values[BATCH][SEQ] = {{0, 1, 2, 3}, {0, 1, 2, 3}};
    float o[BATCH][SEQ];

    tensors.struct_size = sizeof tensors;
    tensors.q = tensors.k = zero;
    tensors.v = values;
    tensors.o = o;
    check(clattn_attention_forward_host(context, problem, NULL, &tensors) == CLATTN_SUCCESS, title);
    printf("%-24s", title);
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < SEQ; i++) {
            printf(" %.2f", o[b][i]);
            check(fabsf(o[b][i] - want[b][i]) < 1e-5f, title);
        }
    printf("\n");
}

int main(void)
{
    clattn_context *const context = open_context();
    clattn_problem plain, problem;
    const clattn_host_forward_tensors none = {.struct_size = sizeof none};

    clattn_problem_init(&plain);
    plain.batch = BATCH;
    plain.seq_q = plain.seq_kv = SEQ;
    run(context, "everything", &plain, none,
        (const float[][SEQ]){{1.5f, 1.5f, 1.5f, 1.5f}, {1.5f, 1.5f, 1.5f, 1.5f}});

    problem = plain;
    problem.causal = 1; /* query i sees keys 0..i */
    run(context, "causal", &problem, none,
        (const float[][SEQ]){{0, 0.5f, 1, 1.5f}, {0, 0.5f, 1, 1.5f}});

    problem.window_left = 1; /* and of these only the last two */
    run(context, "causal, window of two", &problem, none,
        (const float[][SEQ]){{0, 0.5f, 1.5f, 2.5f}, {0, 0.5f, 1.5f, 2.5f}});

    /* A boolean mask: not 0 = visible. Its shape (SEQ) broadcasts over batches and queries. */
    const unsigned char odd_keys[SEQ] = {0, 1, 0, 1};
    problem = plain;
    problem.mask = 1;
    check(clattn_layout_broadcast(&problem, 1, (const size_t[]){SEQ}, &problem.mask_layout) ==
              CLATTN_SUCCESS,
          "layout");
    run(context, "odd keys only", &problem,
        (clattn_host_forward_tensors){.struct_size = sizeof none, .mask = odd_keys},
        (const float[][SEQ]){{2, 2, 2, 2}, {2, 2, 2, 2}});

    /* A bias is added to the scores. Here of shape (BATCH, 1, 1, SEQ): it prefers key 3 of batch 0
     * by a factor of 3, and hides all but key 1 of batch 1. */
    const float bias[BATCH][SEQ] = {
        {0, 0, 0, logf(3)},
        {-INFINITY, 0, -INFINITY, -INFINITY},
    };
    problem = plain;
    problem.bias = 1;
    check(clattn_layout_broadcast(&problem, 4, (const size_t[]){BATCH, 1, 1, SEQ},
                                  &problem.bias_layout) == CLATTN_SUCCESS,
          "layout");
    run(context, "bias", &problem,
        (clattn_host_forward_tensors){.struct_size = sizeof none, .bias = bias},
        (const float[][SEQ]){{2, 2, 2, 2}, {1, 1, 1, 1}});

    /* Padded batches: only the first keys are in use. A query that sees no key gets 0. */
    const cl_int lengths[BATCH] = {3, 0};
    problem = plain;
    problem.kv_lengths = 1;
    run(context, "key lengths", &problem,
        (clattn_host_forward_tensors){.struct_size = sizeof none, .kv_lengths = lengths},
        (const float[][SEQ]){{1, 1, 1, 1}, {0, 0, 0, 0}});

    /* Everything combines with everything. */
    problem.causal = 1;
    problem.mask = 1;
    check(clattn_layout_broadcast(&problem, 1, (const size_t[]){SEQ}, &problem.mask_layout) ==
              CLATTN_SUCCESS,
          "layout");
    run(context, "causal, odd, lengths", &problem,
        (clattn_host_forward_tensors){
            .struct_size = sizeof none, .mask = odd_keys, .kv_lengths = lengths},
        (const float[][SEQ]){{0, 1, 1, 1}, {0, 0, 0, 0}});

    clattn_context_release(context);
    return 0;
}
