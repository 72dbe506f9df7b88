/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/openblas/softmax_rows.h"

#include <math.h>
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

/* softcap * tanh(s / softcap): tanh x = 1 - 2 / (e^2x + 1). */
static void cap(float *s, size_t from, size_t to, float softcap)
{
    const float inverse = 2.0f / softcap;

    for (size_t j = from; j < to; j++) {
        const float x = larger(-40.0f, -larger(-40.0f, -inverse * s[j]));
        s[j] = softcap * (1.0f - 2.0f / (exponential(x) + 1.0f));
    }
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

/* What the rule adds, to the visible ones. */
static void add(const struct row_rule *rule, float *s)
{
    if (rule->addend != NULL)
        for (size_t j = rule->first; j < rule->end; j++)
            s[j] += rule->addend[j];
    if (rule->slope != 0.0f)
        for (size_t j = rule->first; j < rule->end; j++)
            s[j] += rule->slope * ((float)j + rule->distance);
}

float softmax_row(const struct softmax_row *row)
{
    const struct row_rule *rule = &row->rule;
    float *s = row->scores;
    const size_t from = rule->first / LANES * LANES;
    const size_t to = (rule->end + LANES - 1) / LANES * LANES;

    if (rule->end <= rule->first) {
        memset(s, 0, row->keys * sizeof *s);
        return 0.0f;
    }
    if (row->softcap > 0.0f)
        cap(s, from, to, row->softcap);
    add(rule, s);
    for (size_t j = from; j < rule->first; j++)
        s[j] = -INFINITY;
    for (size_t j = rule->end; j < to; j++)
        s[j] = -INFINITY;
    float most = maximum(s, from, to);
    const bool nothing = most == -INFINITY;
    most = rule->has_sink && rule->sink > most ? rule->sink : most;
    float sum = exponentials(s, from, to, nothing ? 0.0f : most);
    sum += rule->has_sink ? exponential(larger(-88.0f, rule->sink - most)) : 0.0f;
    memset(s, 0, from * sizeof *s);
    if (to < row->keys)
        memset(s + to, 0, (row->keys - to) * sizeof *s);
    return nothing ? 0.0f : 1.0f / sum;
}

void softmax_row_derive(const struct softmax_row *row, float lse, float delta, float *ds)
{
    const struct row_rule *rule = &row->rule;
    const size_t from = rule->first, to = rule->end > rule->first ? rule->end : rule->first;
    float *s = row->scores;

    for (size_t j = from; j < to; j++)
        ds[j] -= delta;
    if (row->softcap > 0.0f) {
        const float inverse = 1.0f / row->softcap;
        cap(s, from, to, row->softcap);
        for (size_t j = from; j < to; j++) {
            const float t = s[j] * inverse;
            ds[j] *= 1.0f - t * t;
        }
    }
    add(rule, s);
    for (size_t j = from; j < to; j++) {
        s[j] = s[j] > -88.0f + lse ? exponential(s[j] - lse) : 0.0f;
        ds[j] *= s[j];
    }
    memset(s, 0, from * sizeof *s);
    memset(ds, 0, from * sizeof *ds);
    memset(s + to, 0, (row->keys - to) * sizeof *s);
    memset(ds + to, 0, (row->keys - to) * sizeof *ds);
}
