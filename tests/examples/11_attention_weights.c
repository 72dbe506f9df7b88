/* SPDX-License-Identifier: Apache-2.0 */
/* 11: watching attention. A layer hands out its weights, of each head or their mean, and a small
 * heat map shows who looks at whom. Each row is a distribution: it sums to one. */
#include "../data/six_words.h"
#include "example.h"
#include <math.h>

/* Two heads, of the first and the last 12 columns of the queries and keys and 14 of the values. */
enum { HEADS = 2 };

static void show(const char *title, float weights[WORDS][WORDS])
{
    static const char shades[] = " .:-=+*#%@";

    printf("%s\n", title);
    for (int i = 0; i < WORDS; i++) {
        float sum = 0;
        printf("%8s |", words[i]);
        for (int j = 0; j < WORDS; j++) {
            const int shade = (int)(weights[i][j] * 9.999f);
            printf("%c%c", shades[shade], shades[shade]);
            sum += weights[i][j];
        }
        printf("| %.6f\n", (double)sum);
        check(fabsf(sum - 1.0f) < 1e-5f, "sum of weights");
    }
}

/* The layer's weights into w, as the text's words weights=heads or weights=mean ask. */
static void run(const struct device *d, const char *text, size_t count, float *w)
{
    float identity[DIM_V][DIM_V] = {{0}};
    clattn_multihead layer;
    clattn_multihead_plan *plan;

    for (int n = 0; n < DIM_V; n++)
        identity[n][n] = 1.0f;
    check(clattn_multihead_parse(text, &layer, NULL, 0) == CLATTN_SUCCESS, "parse");
    check(clattn_multihead_plan_create(d->context, &layer, 0, &plan) == CLATTN_SUCCESS, "plan");
    const clattn_multihead_forward_tensors tensors = {
        .struct_size = sizeof tensors,
        .in = {.x = make_buffer(d, WORDS * EMBEDDING, &embedded[0][0])},
        .parameters = {.w_q = make_buffer(d, DIM_QK * EMBEDDING, &w_query[0][0]),
                       .w_k = make_buffer(d, DIM_QK * EMBEDDING, &w_key[0][0]),
                       .w_v = make_buffer(d, DIM_V * EMBEDDING, &w_value[0][0]),
                       .w_o = make_buffer(d, DIM_V * DIM_V, &identity[0][0])},
        .y = make_buffer(d, WORDS * DIM_V, NULL),
        .weights = make_buffer(d, count, NULL),
    };
    check(clattn_multihead_forward(plan, d->queue, &tensors, 0, NULL, NULL) == CLATTN_SUCCESS,
          "layer");
    read_buffer(d, tensors.weights, count, w);

    clReleaseMemObject(tensors.in.x.buffer);
    clReleaseMemObject(tensors.parameters.w_q.buffer);
    clReleaseMemObject(tensors.parameters.w_k.buffer);
    clReleaseMemObject(tensors.parameters.w_v.buffer);
    clReleaseMemObject(tensors.parameters.w_o.buffer);
    clReleaseMemObject(tensors.y.buffer);
    clReleaseMemObject(tensors.weights.buffer);
    clattn_multihead_plan_release(plan);
}

int main(void)
{
    const struct device d = open_device();
    float heads[HEADS][WORDS][WORDS], mean[WORDS][WORDS];

    draw_numbers();
    run(&d, "layer fwd f32 h2 q6 d12/14 model=16 output=28 weights=heads", HEADS * WORDS * WORDS,
        &heads[0][0][0]);
    run(&d, "layer fwd f32 h2 q6 d12/14 model=16 output=28 weights=mean", WORDS * WORDS,
        &mean[0][0]);
    show("head 0", heads[0]);
    show("head 1", heads[1]);
    show("mean", mean);
    for (int i = 0; i < WORDS; i++)
        for (int j = 0; j < WORDS; j++)
            check(fabsf(mean[i][j] - 0.5f * (heads[0][i][j] + heads[1][i][j])) < 1e-6f, "mean");
    close_device(&d);
    return 0;
}
