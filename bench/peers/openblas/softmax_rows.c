/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/openblas/softmax_rows.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES SOFTMAX_LANES

/* b if either is NaN. */
static inline float larger(float a, float b)
{
    return a > b ? a : b;
}

/* e^x to 2 ulp for -88 <= x <= 88, but 0 where the power of two would be subnormal; NaN for NaN.
 * Without a branch or a conversion: compilers turn it into vectors. */
static inline float exponential(float x)
{
    const float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the last bit is 1 */
    const float n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float y = 1.3888889e-3f, power;
    uint32_t bits;

    y = y * r + 8.3333333e-3f;
    y = y * r + 4.1666667e-2f;
    y = y * r + 1.6666667e-1f;
    y = y * r + 5.0e-1f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    memcpy(&power, &bits, sizeof power);
    return y * power;
}

static float maximum(const float *s, size_t from, size_t to)
{
    float top[LANES], most = -INFINITY;

    for (int l = 0; l < LANES; l++)
        top[l] = -INFINITY;
    for (size_t j = from; j < to; j += LANES)
        for (int l = 0; l < LANES; l++)
            top[l] = larger(top[l], s[j + l]);
    for (int l = 0; l < LANES; l++)
        most = top[l] > most ? top[l] : most;
    return most;
}

static float exponentials(float *s, size_t from, size_t to, float most)
{
    float sums[LANES] = {0.0f}, sum = 0.0f;

    for (size_t j = from; j < to; j++)
        s[j] = exponential(larger(-88.0f, s[j] - most));
    for (size_t j = from; j < to; j += LANES)
        for (int l = 0; l < LANES; l++)
            sums[l] += s[j + l];
    for (int l = 0; l < LANES; l++)
        sum += sums[l];
    return sum;
}

float softmax_row(float *s, size_t keys, size_t first, size_t end)
{
    const size_t from = first / LANES * LANES, to = (end + LANES - 1) / LANES * LANES;

    if (end <= first) {
        memset(s, 0, keys * sizeof *s);
        return 0.0f;
    }
    for (size_t j = from; j < first; j++)
        s[j] = -INFINITY;
    for (size_t j = end; j < to; j++)
        s[j] = -INFINITY;
    const float most = maximum(s, from, to);
    const bool nothing = most == -INFINITY;
    const float sum = exponentials(s, from, to, nothing ? 0.0f : most);
    memset(s, 0, from * sizeof *s);
    if (to < keys)
        memset(s + to, 0, (keys - to) * sizeof *s);
    return nothing ? 0.0f : 1.0f / sum;
}

void softmax_row_derive(float *s, size_t keys, size_t first, size_t end, float lse, float delta,
                        float *ds)
{
    const size_t to = end > first ? end : first;

    for (size_t j = first; j < to; j++) {
        s[j] = s[j] > -88.0f + lse ? exponential(s[j] - lse) : 0.0f;
        ds[j] = (ds[j] - delta) * s[j];
    }
    memset(s, 0, first * sizeof *s);
    memset(ds, 0, first * sizeof *ds);
    memset(s + to, 0, (keys - to) * sizeof *s);
    memset(ds + to, 0, (keys - to) * sizeof *ds);
}
