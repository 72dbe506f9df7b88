/* SPDX-License-Identifier: Apache-2.0 */
/* 06: looking inside. Four tokens of two dimensions, with every number to check by hand.
 *
 * Scores are q k^T / sqrt(2), weights their softmax along each row, outputs the weighted sums of
 * values. The library hands out either matrix beside the output, and the logarithm of each row's
 * sum of exponentials. */
#include "example.h"
#include <math.h>

enum { SEQ = 4, DIM = 2 };

static const float q[SEQ][DIM] = {{0.5f, 0.2f}, {0.3f, 0.6f}, {0.7f, 0.1f}, {0.9f, 0.4f}};
static const float k[SEQ][DIM] = {{0.8f, 0.3f}, {0.4f, 0.5f}, {0.2f, 0.7f}, {0.6f, 0.1f}};
static const float v[SEQ][DIM] = {{0.1f, 0.9f}, {0.6f, 0.4f}, {0.3f, 0.8f}, {0.5f, 0.2f}};

/* q k^T; the first is 0.5 * 0.8 + 0.2 * 0.3. */
static const float want_products[SEQ][SEQ] = {
    {0.46f, 0.30f, 0.24f, 0.32f},
    {0.42f, 0.42f, 0.48f, 0.24f},
    {0.59f, 0.33f, 0.21f, 0.43f},
    {0.84f, 0.56f, 0.46f, 0.58f},
};
static const float want_weights[SEQ][SEQ] = {
    {0.273620f, 0.244350f, 0.234200f, 0.247830f},
    {0.254853f, 0.254853f, 0.265898f, 0.224395f},
    {0.286577f, 0.238450f, 0.219052f, 0.255921f},
    {0.292670f, 0.240100f, 0.223709f, 0.243520f},
};
static const float want_o[SEQ][DIM] = {
    {0.368147f, 0.580924f},
    {0.370364f, 0.588907f},
    {0.365404f, 0.579725f},
    {0.362200f, 0.587115f},
};

static void compare(const char *title, size_t columns, const float *got, const float *want)
{
    printf("%s\n", title);
    for (size_t n = 0; n < SEQ * columns; n++) {
        printf("%9.6f%s", got[n], n % columns == columns - 1 ? "\n" : " ");
        check(fabsf(got[n] - want[n]) < 2e-6f, title);
    }
}

int main(void)
{
    clattn_context *const context = open_context();
    clattn_problem problem;
    float o[SEQ][DIM], lse[SEQ], scores[SEQ][SEQ];
    const clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors,
        .q = q,
        .k = k,
        .v = v,
        .o = &o[0][0],
        .lse = lse,
        .scores = &scores[0][0],
    };

    clattn_problem_init(&problem);
    problem.seq_q = problem.seq_kv = SEQ;
    problem.dim_qk = problem.dim_v = DIM;
    problem.lse = 1;

    problem.scores = CLATTN_SCORES_RAW;
    check(clattn_attention_forward_host(context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "forward with scores");
    for (int i = 0; i < SEQ; i++) {
        double sum = 0;
        for (int j = 0; j < SEQ; j++) {
            sum += exp(scores[i][j]);
            scores[i][j] *= sqrtf(DIM); /* without the default scale, 1 / sqrt(dim_qk) */
        }
        check(fabs(lse[i] - log(sum)) < 1e-6, "lse");
    }
    compare("q k^T", SEQ, &scores[0][0], &want_products[0][0]);

    problem.scores = CLATTN_SCORES_WEIGHTS;
    check(clattn_attention_forward_host(context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "forward with weights");
    compare("weights", SEQ, &scores[0][0], &want_weights[0][0]);
    compare("outputs", DIM, &o[0][0], &want_o[0][0]);
    clattn_context_release(context);
    return 0;
}
