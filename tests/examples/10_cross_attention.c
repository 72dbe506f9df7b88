/* SPDX-License-Identifier: Apache-2.0 */
/* 10: cross-attention. The six words ask, and the eight words of another text answer: queries
 * come from x, keys and values from a context of another length. A layer does all of it in one
 * call, projections included; the same by hand, step by step, must agree. */
#include "../data/six_words.h"
#include "example.h"
#include <math.h>

enum { RESULT = WORDS * DIM_V };

/* The layer: one head of 24 and 28 numbers, and an output matrix that changes nothing. */
static void by_layer(const struct device *d, float *y)
{
    float identity[DIM_V][DIM_V] = {{0}};
    clattn_multihead layer;
    clattn_multihead_plan *plan;

    for (int n = 0; n < DIM_V; n++)
        identity[n][n] = 1.0f;
    check(clattn_multihead_parse("layer fwd f32 q6 k8 d24/28 model=16 cross=16 output=28", &layer,
                                 NULL, 0) == CLATTN_SUCCESS,
          "parse");
    check(clattn_multihead_plan_create(d->context, &layer, 0, &plan) == CLATTN_SUCCESS, "plan");
    const clattn_multihead_forward_tensors tensors = {
        .struct_size = sizeof tensors,
        .in = {.x = make_buffer(d, WORDS * EMBEDDING, &embedded[0][0]),
               .context = make_buffer(d, OTHER_WORDS * EMBEDDING, &other_embedded[0][0])},
        .parameters = {.w_q = make_buffer(d, DIM_QK * EMBEDDING, &w_query[0][0]),
                       .w_k = make_buffer(d, DIM_QK * EMBEDDING, &w_key[0][0]),
                       .w_v = make_buffer(d, DIM_V * EMBEDDING, &w_value[0][0]),
                       .w_o = make_buffer(d, DIM_V * DIM_V, &identity[0][0])},
        .y = make_buffer(d, RESULT, NULL),
    };
    check(clattn_multihead_forward(plan, d->queue, &tensors, 0, NULL, NULL) == CLATTN_SUCCESS,
          "layer");
    read_buffer(d, tensors.y, RESULT, y);

    clReleaseMemObject(tensors.in.x.buffer);
    clReleaseMemObject(tensors.in.context.buffer);
    clReleaseMemObject(tensors.parameters.w_q.buffer);
    clReleaseMemObject(tensors.parameters.w_k.buffer);
    clReleaseMemObject(tensors.parameters.w_v.buffer);
    clReleaseMemObject(tensors.parameters.w_o.buffer);
    clReleaseMemObject(tensors.y.buffer);
    clattn_multihead_plan_release(plan);
}

/* y = x w^T on the host. */
static void project(size_t rows, const float *x, size_t columns, const float *w, float *y)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < columns; c++) {
            float sum = 0;
            for (size_t d = 0; d < EMBEDDING; d++)
                sum += x[i * EMBEDDING + d] * w[c * EMBEDDING + d];
            y[i * columns + c] = sum;
        }
}

static void by_hand(const struct device *d, float *y)
{
    static float q[WORDS * DIM_QK], k[OTHER_WORDS * DIM_QK], v[OTHER_WORDS * DIM_V];
    const clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors, .q = q, .k = k, .v = v, .o = y};

    project(WORDS, &embedded[0][0], DIM_QK, &w_query[0][0], q);
    project(OTHER_WORDS, &other_embedded[0][0], DIM_QK, &w_key[0][0], k);
    project(OTHER_WORDS, &other_embedded[0][0], DIM_V, &w_value[0][0], v);
    const clattn_problem problem = problem_of("fwd f32 q6 k8 d24/28");
    check(clattn_attention_forward_host(d->context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "attention");
}

int main(void)
{
    const struct device d = open_device();
    float layer[RESULT], hand[RESULT], difference = 0;

    draw_numbers();
    by_layer(&d, layer);
    by_hand(&d, hand);
    for (int n = 0; n < RESULT; n++)
        difference = fmaxf(difference, fabsf(layer[n] - hand[n]));
    printf("%d words look at %d others; as a layer and by hand they differ by at most %.1e\n",
           WORDS, OTHER_WORDS, (double)difference);
    printf("\"%s\" begins: %.4f %.4f %.4f\n", words[1], layer[DIM_V], layer[DIM_V + 1],
           layer[DIM_V + 2]);
    check(difference < 1e-4f, "cross-attention");
    close_device(&d);
    return 0;
}
