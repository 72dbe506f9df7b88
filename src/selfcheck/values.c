/* SPDX-License-Identifier: Apache-2.0 */
#include "selfcheck/values.h"
#include "problem/problem.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

float ca_value_next(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

void ca_value_store(unsigned char *bytes, clattn_dtype dtype, size_t n, float value)
{
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    uint16_t half = (uint16_t)(u >> 16); /* bf16 */

    if (dtype == CLATTN_F32) {
        memcpy(bytes + 4 * n, &value, 4);
        return;
    }
    if (dtype == CLATTN_F16) {
        const unsigned sign = u >> 16 & 0x8000u;
        const int exponent = (int)(u >> 23 & 0xff) - 127;
        half = (uint16_t)(value != value  ? sign | 0x7e00u
                          : exponent > 15 ? sign | 0x7c00u
                          : exponent < -14
                              ? sign
                              : sign | (unsigned)(exponent + 15) << 10 | (u >> 13 & 0x3ffu));
    }
    memcpy(bytes + 2 * n, &half, 2);
}

static double from_bits(uint32_t u)
{
    float value;

    memcpy(&value, &u, sizeof value);
    return (double)value;
}

static double load_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;

    if (rest >= 0x7c00u) /* infinite or NaN */
        return from_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u)
        return from_bits(sign | ((rest << 13) + ((127u - 15u) << 23)));
    return (sign ? -0x1p-24 : 0x1p-24) * (double)rest;
}

double ca_value_load(const unsigned char *bytes, clattn_dtype dtype, size_t n)
{
    uint16_t half;
    float value;

    if (dtype == CLATTN_F32) {
        memcpy(&value, bytes + 4 * n, 4);
        return (double)value;
    }
    memcpy(&half, bytes + 2 * n, 2);
    return dtype == CLATTN_F16 ? load_half(half) : from_bits((uint32_t)half << 16);
}

void ca_values_load(const unsigned char *bytes, clattn_dtype dtype, size_t n, size_t stride,
                    size_t count, double *values)
{
    for (size_t d = 0; d < count; d++)
        values[d] = ca_value_load(bytes, dtype, n + d * stride);
}

static double load_quantized(const unsigned char *bytes, clattn_cache cache, size_t n)
{
    const struct ca_format *format = ca_format_of(cache);
    const unsigned char *block = bytes + n / CA_BLOCK * format->bytes;

    const double number = format->number(ca_block_code(format, block, n % CA_BLOCK));

    if (format->scale < 0)
        return number;
    return (double)(float)(ca_value_load(block + format->scale, CLATTN_F16, 0) * number +
                           (format->offset ? ca_value_load(block + format->offset, CLATTN_F16, 0)
                                           : 0.0));
}

void ca_cache_load(const unsigned char *bytes, clattn_cache cache, clattn_dtype dtype, size_t n,
                   size_t stride, size_t count, double *values)
{
    if (cache == CLATTN_CACHE_PLAIN) {
        ca_values_load(bytes, dtype, n, stride, count, values);
        return;
    }
    for (size_t d = 0; d < count; d++)
        values[d] = load_quantized(bytes, cache, n + d);
}

void ca_block_store(unsigned char *bytes, clattn_cache cache, size_t n, float most, unsigned *state)
{
    const struct ca_format *format = ca_format_of(cache);
    unsigned char *block = bytes + n * format->bytes;

    if (format->scale < 0) {
        unsigned below = 0; /* codes of numbers up to `most`, which may be infinite or a NaN */
        while (below < 128 && format->number(below) <= (double)most)
            below++;
        const int is_number = below > 0 && (double)most <= format->largest;
        for (int d = 0; d < CA_BLOCK; d++) {
            const float drawn = ca_value_next(state);
            const unsigned code = (unsigned)(fabsf(drawn) * (float)below) % (below + 1);
            const unsigned negative = cache == CLATTN_CACHE_INT8 ? ~code : code | 128u;
            block[d] = (unsigned char)(!is_number ? 127u : drawn < 0.0f ? negative : code);
        }
        return;
    }
    /* The scale is drawn from a quarter to all of its largest value, of either sign. With an offset, which is drawn
     * likewise, it is half as large. */
    if (format->offset)
        most *= 0.5f;
    ca_value_store(block + format->scale, CLATTN_F16, 0,
                   most / (float)format->largest * (0.625f + 0.375f * ca_value_next(state)) *
                       (ca_value_next(state) < 0.0f ? -1.0f : 1.0f));
    if (format->offset)
        ca_value_store(block + format->offset, CLATTN_F16, 0, most * ca_value_next(state));
    for (size_t at = format->codes; at < format->codes + CA_BLOCK * format->bits / 8; at++)
        block[at] = (unsigned char)((int)(128.0f + 128.0f * ca_value_next(state)) & 255);
    for (size_t at = format->fifth; format->fifth && at < format->fifth + CA_BLOCK / 8; at++)
        block[at] = (unsigned char)((int)(128.0f + 128.0f * ca_value_next(state)) & 255);
}

size_t ca_values_find_nan(const unsigned char *bytes, clattn_dtype dtype, size_t n, size_t stride,
                          size_t count)
{
    const size_t size = ca_dtype_bytes(dtype);
    const uint32_t infinite = dtype == CLATTN_F16 ? 0x7c000000u : 0x7f800000u;

    for (size_t d = 0; d < count; d++) {
        unsigned char padded[4] = {0};
        uint32_t u;
        memcpy(padded + 4 - size, bytes + size * (n + d * stride), size);
        memcpy(&u, padded, sizeof u);
        if ((u & 0x7fffffffu) > infinite)
            return d;
    }
    return count;
}

double ca_value_rounding(clattn_dtype dtype, double magnitude)
{
    switch (dtype) {
    case CLATTN_F16:
        return fmax(magnitude * 0x1p-11, 0x1p-25);
    case CLATTN_BF16:
        return magnitude * 0x1p-8;
    default:
        return magnitude * 0x1p-24;
    }
}
