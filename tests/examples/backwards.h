/* SPDX-License-Identifier: Apache-2.0 */
/* The task of 12 and 22, writing sequences backwards, and what of it is small and done on the host: embedding, loss and
 * Adam, for the rows of all places of the sequences, or of those that a rank has. */
#ifndef EXAMPLE_BACKWARDS_H
#define EXAMPLE_BACKWARDS_H

#include "example.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 10, LENGTH = 8, BATCH = 32, MODEL = 32, STEPS = 40, ALL_ROWS = BATCH * LENGTH };

/* The first of a model's parameters, and of those of its layer behind them. */
enum { TOKEN = 0, PLACE = TOKEN + TOKENS * MODEL, LAYER = PLACE + LENGTH * MODEL };

struct places {
    int first, count; /* of the LENGTH places */
};

/* The place of a row in its sequence, and its number among the rows of all places. */
static inline int place_of(struct places p, int row)
{
    return p.first + row % p.count;
}

static inline int whole_row(struct places p, int row)
{
    return row / p.count * LENGTH + place_of(p, row);
}

/* From 0 to below 1; the same in every process. */
static inline float draw(void)
{
    static unsigned state = 1;

    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216.0f;
}

static inline void embed(struct places p, const float *parameters, const int *tokens, float *x)
{
    for (int r = 0; r < BATCH * p.count; r++)
        for (int c = 0; c < MODEL; c++)
            x[r * MODEL + c] = parameters[TOKEN + tokens[whole_row(p, r)] * MODEL + c] +
                               parameters[PLACE + place_of(p, r) * MODEL + c];
}

static inline void embed_backward(struct places p, const float *dx, const int *tokens,
                                  float *gradients)
{
    memset(gradients, 0, LAYER * sizeof *gradients);
    for (int r = 0; r < BATCH * p.count; r++)
        for (int c = 0; c < MODEL; c++) {
            gradients[TOKEN + tokens[whole_row(p, r)] * MODEL + c] += dx[r * MODEL + c];
            gradients[PLACE + place_of(p, r) * MODEL + c] += dx[r * MODEL + c];
        }
}

/* The rows' share of the mean cross-entropy with the reversed sequences, and how many are right; the gradient takes the
 * scores' place. */
static inline float loss_of(struct places p, float *scores, const int *tokens, int *right)
{
    float loss = 0.0f;

    *right = 0;
    for (int r = 0; r < BATCH * p.count; r++) {
        const int wanted = tokens[whole_row(p, r) - 2 * place_of(p, r) + LENGTH - 1];
        float *s = scores + r * TOKENS, sum = 0.0f;
        int best = 0;
        for (int t = 1; t < TOKENS; t++)
            best = s[t] > s[best] ? t : best;
        const float most = s[best];
        for (int t = 0; t < TOKENS; t++)
            sum += expf(s[t] - most);
        loss += (logf(sum) + most - s[wanted]) / ALL_ROWS;
        *right += best == wanted;
        for (int t = 0; t < TOKENS; t++)
            s[t] = (expf(s[t] - most) / sum - (t == wanted)) / ALL_ROWS;
    }
    return loss;
}

/* D. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1. Both moments begin with 0. */
static inline void adam(int count, float *parameters, const float *gradients, int step,
                        float *first, float *second)
{
    const float rate = 0.01f, keep1 = 0.9f, keep2 = 0.999f;
    const float part1 = 1.0f - powf(keep1, (float)step), part2 = 1.0f - powf(keep2, (float)step);

    for (int n = 0; n < count; n++) {
        first[n] = keep1 * first[n] + (1.0f - keep1) * gradients[n];
        second[n] = keep2 * second[n] + (1.0f - keep2) * gradients[n] * gradients[n];
        parameters[n] -= rate * (first[n] / part1) / (sqrtf(second[n] / part2) + 1e-8f);
    }
}

/* Enqueues y = x w. */
static inline void project(const struct device *d, const clattn_plan *plan, clattn_buffer x,
                           clattn_buffer w, clattn_buffer y)
{
    const clattn_projection_tensors tensors = {
        .struct_size = sizeof tensors, .x = x, .w = w, .y = y};

    check(clattn_project(plan, d->queue, &tensors, 0, NULL, NULL) == CLATTN_SUCCESS, "projection");
}

#endif
