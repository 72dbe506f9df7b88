/* SPDX-License-Identifier: Apache-2.0 */
/* 08: self-attention from scratch. "Life is short, eat dessert first": six words, each a vector
 * of 16 numbers, and three matrices that make of each word a query, a key and a value. The
 * figures that a well-known tutorial prints for the second word come out. */
#include "../data/six_words.h"
#include "example.h"
#include <math.h>

/* y = x w^T: a projection of one head of 16 numbers, with the weights in PyTorch's (out, in)
 * order. */
static void project(clattn_context *context, const float *w, size_t columns, float *y)
{
    const clattn_host_projection_tensors tensors = {
        .struct_size = sizeof tensors, .x = embedded, .w = w, .y = y};
    clattn_problem problem = problem_of("proj f32 q6 d16 w=oi");

    problem.projection.y_dim = columns;
    problem.projection.w =
        (clattn_layout){{0, 1, 0, EMBEDDING}}; /* along (heads, 16, heads, columns) */
    check(clattn_project_host(context, &problem, NULL, &tensors) == CLATTN_SUCCESS, "projection");
}

static void compare(const char *title, size_t count, const float *got, const float *printed)
{
    printf("%s", title);
    for (size_t n = 0; n < count; n++) {
        printf(" %.4f", got[n]);
        check(fabsf(got[n] - printed[n]) < 0.6e-4f, title); /* four decimals were printed */
    }
    printf("\n");
}

int main(void)
{
    static float q[WORDS][DIM_QK], k[WORDS][DIM_QK], v[WORDS][DIM_V];
    float scores[WORDS][WORDS], context[WORDS][DIM_V];
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q,
                                                 .k = k,
                                                 .v = v,
                                                 .o = context,
                                                 .scores = &scores[0][0]};
    const struct device d = open_device();

    draw_numbers();
    project(d.context, &w_query[0][0], DIM_QK, &q[0][0]);
    project(d.context, &w_key[0][0], DIM_QK, &k[0][0]);
    project(d.context, &w_value[0][0], DIM_V, &v[0][0]);

    /* How well each word's key answers "is"'s query, before it is divided by sqrt(24) ... */
    clattn_problem problem = problem_of("fwd f32 q6 d24/28 scale=1 scores=raw");
    check(clattn_attention_forward_host(d.context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "scores");
    compare("scores of \"is\": ", WORDS, scores[1], printed_scores);

    /* ... the softmax of that, and the sum of the values with those weights. */
    problem.scale = NAN; /* the default, 1 / sqrt(dim_qk) */
    problem.scores = CLATTN_SCORES_WEIGHTS;
    check(clattn_attention_forward_host(d.context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "attention");
    compare("weights of \"is\":", WORDS, scores[1], printed_weights);
    compare("\"is\" in context:", DIM_V, context[1], printed_context);
    close_device(&d);
    return 0;
}
