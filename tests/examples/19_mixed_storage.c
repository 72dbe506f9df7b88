/* SPDX-License-Identifier: Apache-2.0 */
/* 19: mixed storage. Engines such as ggml keep keys and values as halves beside queries and outputs in
 * f32, and hide pairs by an additive mask of halves: half of the memory and of what decoding reads, and
 * nothing to convert, since a plan reads each tensor as it lies. The rounding to halves is all that is
 * lost: what comes out is what the same numbers in f32 give. */
#include "example.h"
#include <math.h>
#include <stdint.h>

enum { HEADS = 8, KV_HEADS = 2, QUERIES = 3, KEYS = 50, DIM = 64 };
enum { Q_SIZE = HEADS * QUERIES * DIM, KV_SIZE = KV_HEADS * KEYS * DIM };

/* A normal number that a half holds exactly, or -INFINITY. */
static uint16_t to_half(float x)
{
    int exponent;
    const float mantissa = frexpf(fabsf(x), &exponent); /* from 0.5 to below 1 */
    const uint16_t sign = signbit(x) ? 0x8000 : 0;

    if (isinf(x))
        return sign | 0x7c00;
    if (x == 0.0f)
        return sign;
    return (uint16_t)(sign | (uint16_t)((exponent + 14) * 1024 + (int)(mantissa * 2048) - 1024));
}

/* Some multiple of 1/128 from -2 to 2. */
static float some_value(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 23) / 128.0f - 2.0f;
}

static void fill(float *values, uint16_t *halves, size_t count, unsigned state)
{
    for (size_t n = 0; n < count; n++) {
        values[n] = some_value(&state);
        if (halves)
            halves[n] = to_half(values[n]);
    }
}

static void attend(const struct device *d, const char *problem,
                   const clattn_host_forward_tensors *tensors)
{

    const clattn_problem parsed = problem_of(problem);
    check(clattn_attention_forward_host(d->context, &parsed, NULL, tensors) == CLATTN_SUCCESS,
          problem);
}

static float largest_difference(const float *x, const float *y)
{
    float largest = 0;

    for (int n = 0; n < Q_SIZE; n++)
        largest = fmaxf(largest, fabsf(x[n] - y[n]));
    return largest;
}

int main(void)
{
    static float q[Q_SIZE], k[KV_SIZE], v[KV_SIZE], mask[QUERIES * KEYS];
    static float plain[Q_SIZE], mixed[Q_SIZE], wide[Q_SIZE];
    static uint16_t q_halves[Q_SIZE], k_halves[KV_SIZE], v_halves[KV_SIZE],
        mask_halves[QUERIES * KEYS];
    const struct device d = open_device();

    fill(q, q_halves, Q_SIZE, 1);
    fill(k, k_halves, KV_SIZE, 2);
    fill(v, v_halves, KV_SIZE, 3);
    for (int i = 0; i < QUERIES; i++)
        for (int j = 0; j < KEYS; j++) {
            mask[i * KEYS + j] = j > KEYS - QUERIES + i ? -INFINITY : 0.0f; /* no look ahead */
            mask_halves[i * KEYS + j] = to_half(mask[i * KEYS + j]);
        }

    attend(&d, "fwd f32 h8/2 q3 k50 d64 bias=f32:qk",
           &(clattn_host_forward_tensors){.struct_size = sizeof(clattn_host_forward_tensors),
                                          .q = q,
                                          .k = k,
                                          .v = v,
                                          .bias = mask,
                                          .o = plain});
    attend(&d, "fwd f32 h8/2 q3 k50 d64 kcache=f16 vcache=f16 bias=f16:qk",
           &(clattn_host_forward_tensors){.struct_size = sizeof(clattn_host_forward_tensors),
                                          .q = q,
                                          .k = k_halves,
                                          .v = v_halves,
                                          .bias = mask_halves,
                                          .o = mixed});
    /* The other way round: all inputs are halves, but o keeps every bit of the sums; strict: weights are not rounded to
     * halves before they multiply v, as they may be on GPUs. */
    attend(&d, "fwd f16 h8/2 q3 k50 d64 bias=f16:qk odtype=f32 strict",
           &(clattn_host_forward_tensors){.struct_size = sizeof(clattn_host_forward_tensors),
                                          .q = q_halves,
                                          .k = k_halves,
                                          .v = v_halves,
                                          .bias = mask_halves,
                                          .o = wide});
    printf("keys, values and mask as halves: off by %.1e; q too, o in f32: %.1e\n",
           (double)largest_difference(mixed, plain), (double)largest_difference(wide, plain));
    check(largest_difference(mixed, plain) < 2e-6f, "an f16 cache beside f32 queries");
    check(largest_difference(wide, plain) < 2e-6f, "o in f32");
    close_device(&d);
    return 0;
}
