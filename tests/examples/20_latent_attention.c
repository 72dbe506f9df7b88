/* SPDX-License-Identifier: Apache-2.0 */
/* 20: latent attention (MLA). A cache of one kv head holds for each token a latent vector of 512
 * numbers and 64 rotated ones behind it. Queries of all heads are multiplied beforehand with the
 * matrix that makes keys of latents, and compared with all 576. The weights then sum the 512. So
 * v is the first columns of k: the same buffer, k's strides, and dim_v 512. A tile's values are
 * then in the processor's cache since its keys were read. */
#include "example.h"
#include <math.h>
#include <string.h>

enum { REQUESTS = 2, HEADS = 16, LATENT = 512, DIM = 576, KEYS = 100 };

static float q[REQUESTS][HEADS][DIM], cache[REQUESTS][KEYS][DIM], values[REQUESTS][KEYS][LATENT];

static void attend(clattn_context *context, const char *text, const void *v, float *o)
{
    static const cl_int lengths[REQUESTS] = {KEYS, 61};
    const clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors, .q = q, .k = cache, .v = v, .o = o, .kv_lengths = lengths};

    const clattn_problem problem = problem_of(text);
    check(clattn_attention_forward_host(context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "attention");
}

int main(void)
{
    static float o[REQUESTS][HEADS][LATENT], apart[REQUESTS][HEADS][LATENT];
    clattn_context *context = open_context();
    float difference = 0.0f;

    for (size_t n = 0; n < sizeof q / sizeof(float); n++)
        (&q[0][0][0])[n] = cosf((float)n);
    for (size_t n = 0; n < sizeof cache / sizeof(float); n++)
        (&cache[0][0][0])[n] = sinf(0.7f * (float)n);
    for (size_t n = 0; n < (size_t)REQUESTS * KEYS; n++)
        memcpy(&values[0][0][0] + n * LATENT, &cache[0][0][0] + n * DIM, LATENT * sizeof(float));

    /* 576 numbers from token to token of v as well, 57600 from request to request. */
    attend(context, "fwd f32 b2 h16/1 q1 k100 d576/512 v=57600.57600.576.1 scale=0.07 klen", cache,
           &o[0][0][0]);
    attend(context, "fwd f32 b2 h16/1 q1 k100 d576/512 scale=0.07 klen", values, &apart[0][0][0]);
    for (size_t n = 0; n < sizeof o / sizeof(float); n++)
        difference = fmaxf(difference, fabsf((&o[0][0][0])[n] - (&apart[0][0][0])[n]));
    printf("values within keys and apart differ by at most %.1e\n", (double)difference);
    clattn_context_release(context);
    return !(difference < 1e-6f);
}
