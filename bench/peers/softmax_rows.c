#include "softmax_rows.h"

#include <math.h>
#include <string.h>

#define LANES SOFTMAX_LANES

/* e^x to 2 ulp for x <= 88; 0 below -87; NaN for NaN. */
static inline float exponential(float x)
{
    const float clamped = x > -87.0f ? x : -87.0f;
    const float t = clamped * 1.44269504f;
    const int n = (int)(t + (t < 0.0f ? -0.5f : 0.5f));
    const float r = (clamped - (float)n * 0.693359375f) + (float)n * 2.12194440e-4f;
    const int bits = (n + 127) * (1 << 23);
    float y = 1.3888889e-3f, power;

    y = y * r + 8.3333333e-3f;
    y = y * r + 4.1666667e-2f;
    y = y * r + 1.6666667e-1f;
    y = y * r + 5.0e-1f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    memcpy(&power, &bits, sizeof power);
    return x >= -87.0f ? y * power : x < -87.0f ? 0.0f : x;
}

static inline float limited(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* softcap * tanh(s / softcap): tanh x = 1 - 2 / (e^2x + 1). */
static void cap(float *s, size_t from, size_t to, float softcap)
{
    const float inverse = 2.0f / softcap;

    for (size_t j = from; j < to; j++)
        s[j] =
            softcap * (1.0f - 2.0f / (exponential(limited(s[j] * inverse, -40.0f, 40.0f)) + 1.0f));
}

static float maximum(const float *s, size_t from, size_t to)
{
    float top[LANES], most = -INFINITY;

    for (int l = 0; l < LANES; l++)
        top[l] = -INFINITY;
    for (size_t j = from; j < to; j += LANES)
        for (int l = 0; l < LANES; l++)
            top[l] = s[j + l] > top[l] ? s[j + l] : top[l];
    for (int l = 0; l < LANES; l++)
        most = top[l] > most ? top[l] : most;
    return most;
}

static float exponentials(float *s, size_t from, size_t to, float most)
{
    float sums[LANES] = {0.0f}, sum = 0.0f;

    for (size_t j = from; j < to; j += LANES) {
        for (int l = 0; l < LANES; l++) {
            const float p = exponential(s[j + l] - most);
            s[j + l] = p;
            sums[l] += p;
        }
    }
    for (int l = 0; l < LANES; l++)
        sum += sums[l];
    return sum;
}

float softmax_row(const struct softmax_row *row)
{
    float *s = row->scores;
    const size_t from = row->first / LANES * LANES;
    const size_t to = (row->end + LANES - 1) / LANES * LANES;

    if (row->end <= row->first) {
        memset(s, 0, row->keys * sizeof *s);
        return 0.0f;
    }
    if (row->softcap > 0.0f)
        cap(s, from, to, row->softcap);
    if (row->addend != NULL)
        for (size_t j = row->first; j < row->end; j++)
            s[j] += row->addend[j];
    if (row->slope != 0.0f)
        for (size_t j = row->first; j < row->end; j++)
            s[j] += row->slope * ((float)j + row->distance);
    for (size_t j = from; j < row->first; j++)
        s[j] = -INFINITY;
    for (size_t j = row->end; j < to; j++)
        s[j] = -INFINITY;
    float most = maximum(s, from, to);
    const bool nothing = most == -INFINITY;
    most = row->has_sink && row->sink > most ? row->sink : most;
    float sum = exponentials(s, from, to, nothing ? 0.0f : most);
    sum += row->has_sink ? exponential(row->sink - most) : 0.0f;
    memset(s, 0, from * sizeof *s);
    if (to < row->keys)
        memset(s + to, 0, (row->keys - to) * sizeof *s);
    return nothing ? 0.0f : 1.0f / sum;
}
