/* SPDX-License-Identifier: Apache-2.0 */
/* 04: generating text. Query heads share key and value heads, and keys stay in a cache.
 *
 * The cache has room for CAPACITY tokens and holds them as (batch, seq, heads, dim). Tokens come in
 * pieces: first a prompt, then one at a time. Piece after piece must give what one pass over the
 * whole text gives. */
#include "example.h"
#include <math.h>

enum { HEADS = 4, KV_HEADS = 2, DIM = 8, TOKENS = 9, PROMPT = 6, CAPACITY = 16 };
enum { OUTPUTS = TOKENS * HEADS * DIM, CACHE = CAPACITY * KV_HEADS * DIM };

/* Attention of tokens [past, past + count) over tokens [0, past + count). */
static void run(const struct device *d, const clattn_buffer qkvo[4], size_t past, size_t count)
{
    clattn_problem problem;
    clattn_plan *plan;

    clattn_problem_init(&problem);
    problem.heads = HEADS;
    problem.kv_heads = KV_HEADS; /* heads 0 and 1 use kv head 0, heads 2 and 3 use kv head 1 */
    problem.seq_q = count;
    problem.seq_kv = past + count;
    problem.dim_qk = problem.dim_v = DIM;
    problem.causal = 1;
    problem.diagonal = CLATTN_OFFSET; /* query i is token past + i and sees keys 0..past + i */
    problem.diagonal_offset = (int64_t)past;
    problem.q = problem.o = (clattn_layout){{0, DIM, HEADS * DIM, 1}};
    problem.k = problem.v = (clattn_layout){{0, DIM, KV_HEADS * DIM, 1}};
    check(clattn_plan_create(d->context, &problem, NULL, &plan) == CLATTN_SUCCESS, "plan");

    const size_t first = past * HEADS * DIM; /* of the piece, in elements */
    const clattn_forward_tensors tensors = {
        .struct_size = sizeof tensors,
        .q = {.buffer = qkvo[0].buffer, .offset = first},
        .k = qkvo[1],
        .v = qkvo[2],
        .o = {.buffer = qkvo[3].buffer, .offset = first},
    };
    check(clattn_attention_forward(plan, d->queue, &tensors, 0, NULL, NULL) == CLATTN_SUCCESS,
          "forward");
    clattn_plan_release(plan); /* what was enqueued goes on */
}

int main(void)
{
    static float q[OUTPUTS], k[CACHE], v[CACHE], whole[OUTPUTS], pieces[OUTPUTS];
    const struct device d = open_device();

    for (size_t n = 0; n < OUTPUTS; n++)
        q[n] = sinf(0.7f * (float)n);
    for (size_t n = 0; n < CACHE; n++) {
        /* What lies in the cache beyond the tokens so far is never read. */
        k[n] = n < TOKENS * KV_HEADS * DIM ? cosf(1.1f * (float)n) : NAN;
        v[n] = n < TOKENS * KV_HEADS * DIM ? sinf(0.3f * (float)n) : NAN;
    }
    const clattn_buffer qkvo[4] = {make_buffer(&d, OUTPUTS, q), make_buffer(&d, CACHE, k),
                                   make_buffer(&d, CACHE, v), make_buffer(&d, OUTPUTS, NULL)};

    run(&d, qkvo, 0, TOKENS);
    read_buffer(&d, qkvo[3], OUTPUTS, whole);

    run(&d, qkvo, 0, PROMPT);
    for (size_t token = PROMPT; token < TOKENS; token++)
        run(&d, qkvo, token, 1);
    read_buffer(&d, qkvo[3], OUTPUTS, pieces);

    float difference = 0;
    for (int n = 0; n < OUTPUTS; n++) {
        const float apart = fabsf(whole[n] - pieces[n]);
        check(apart < 1e-5f, "comparison");
        difference = apart > difference ? apart : difference;
    }
    printf("%d tokens at once and in pieces differ by at most %.1e\n", TOKENS, difference);

    for (int n = 0; n < 4; n++)
        clReleaseMemObject(qkvo[n].buffer);
    close_device(&d);
    return 0;
}
