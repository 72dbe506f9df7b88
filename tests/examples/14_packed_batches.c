/* SPDX-License-Identifier: Apache-2.0 */
/* 14: packed batches. Prompts of different lengths follow each other without padding, and a list in
 * device memory says where each begins (cu_seqlens elsewhere). The plan is made for the longest; the
 * host looks at no length. What comes out is what each prompt would get by itself. */
#include "example.h"
#include <math.h>
#include <string.h>

enum { PROMPTS = 4, TOTAL = 48, DIM = 32, HEADS = 4, KV_HEADS = 2 };

/* Four sequences of 5, 24, 0 and 17 tokens; the last two rows belong to none. */
static const cl_int starts[PROMPTS + 1] = {0, 5, 29, 29, 46};

static float q[HEADS][TOTAL][DIM], k[KV_HEADS][TOTAL][DIM], v[KV_HEADS][TOTAL][DIM];

static void fill(float *x, size_t count, unsigned state)
{
    for (size_t n = 0; n < count; n++) {
        state = state * 1664525u + 1013904223u;
        x[n] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
}

/* One prompt alone; its rows are those of the packed tensors. */
static void compute_alone(const struct device *d, size_t first, size_t length, float *o)
{
    const size_t rows = TOTAL * DIM;

    clattn_problem problem = problem_of("fwd f32 h4/2 q1 d32 causal=br");
    problem.seq_q = problem.seq_kv = length;
    problem.q = problem.k = problem.v = problem.o = (clattn_layout){{HEADS * rows, rows, DIM, 1}};
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q[0][first],
                                                 .k = k[0][first],
                                                 .v = v[0][first],
                                                 .o = o + first * DIM};
    check(clattn_attention_forward_host(d->context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "a prompt");
}

int main(void)
{
    static float o[HEADS][TOTAL][DIM], alone[HEADS][TOTAL][DIM];
    const struct device d = open_device();
    float difference = 0;

    fill(&q[0][0][0], HEADS * TOTAL * DIM, 1);
    fill(&k[0][0][0], KV_HEADS * TOTAL * DIM, 2);
    fill(&v[0][0][0], KV_HEADS * TOTAL * DIM, 3);
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q,
                                                 .k = k,
                                                 .v = v,
                                                 .o = o,
                                                 .q_starts = starts,
                                                 .kv_starts = starts};
    const clattn_problem problem =
        problem_of("fwd f32 b4 h4/2 q24 d32 causal=br totalq=48 totalkv=48");
    check(clattn_attention_forward_host(d.context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "the batch");
    for (int b = 0; b < PROMPTS; b++)
        if (starts[b + 1] > starts[b])
            compute_alone(&d, (size_t)starts[b], (size_t)(starts[b + 1] - starts[b]),
                          &alone[0][0][0]);
    for (int h = 0; h < HEADS; h++) /* rows of no prompt are 0 in both, as they were */
        for (int i = 0; i < TOTAL; i++)
            for (int n = 0; n < DIM; n++)
                difference = fmaxf(difference, fabsf(o[h][i][n] - alone[h][i][n]));
    printf("%d prompts packed and one by one differ by at most %.1e\n", PROMPTS,
           (double)difference);
    check(difference < 1e-5f, "the packed batch");
    close_device(&d);
    return 0;
}
