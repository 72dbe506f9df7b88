#include "bench/cases/values.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* An f32 holds every f16: the same bits, with an exponent whose bias is larger by 112. */
static double half_to_double(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t wide = (uint32_t)(bits & 0x7fff) << 13;
    float x;

    if ((bits & 0x7c00) == 0x7c00) {
        wide |= sign | 0x7f800000;
        memcpy(&x, &wide, sizeof x);
        return x;
    }
    memcpy(&x, &wide, sizeof x);
    return (sign != 0 ? -0x1p112 : 0x1p112) * (double)x; /* exact, subnormals too */
}

/* Scaled so that one unit is the last place of x's binade, rint() does the rounding. */
static uint16_t half_from_float(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double magnitude = fabs((double)x);
    int exponent;

    if (isnan(x))
        return 0x7e00;
    if (magnitude >= 65520.0)
        return sign | 0x7c00;
    frexp(magnitude, &exponent);
    if (magnitude == 0.0 || exponent < -13)
        exponent = -13; /* zero and the subnormals: units of 2^-24 */
    const int units = (int)rint(ldexp(magnitude, 11 - exponent)); /* 2^10 .. 2^11 if normal */
    return (uint16_t)(sign | (((exponent + 13) << 10) + units));
}

static uint16_t bf16_from_float(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

size_t value_bytes(clattn_dtype dtype)
{
    return dtype == CLATTN_F32 ? sizeof(float) : sizeof(uint16_t);
}

double value_get(clattn_dtype dtype, const void *data, size_t n)
{
    if (dtype == CLATTN_F32)
        return ((const float *)data)[n];
    const uint16_t bits = ((const uint16_t *)data)[n];
    if (dtype == CLATTN_F16)
        return half_to_double(bits);
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

double value_get_quantized(clattn_cache cache, const void *data, size_t n)
{
    const bool bytes = cache == CLATTN_CACHE_Q8_0;
    const unsigned char *block = (const unsigned char *)data + n / VALUE_BLOCK * (bytes ? 34 : 18);
    const double scale = half_to_double((uint16_t)(block[0] | block[1] << 8));
    const size_t at = n % VALUE_BLOCK;

    if (bytes)
        return scale * (block[2 + at] < 128 ? block[2 + at] : block[2 + at] - 256);
    return scale * ((at < 16 ? block[2 + at] & 15 : block[2 + at - 16] >> 4) - 8);
}

void value_set(clattn_dtype dtype, void *data, size_t n, float x)
{
    if (dtype == CLATTN_F32)
        ((float *)data)[n] = x;
    else
        ((uint16_t *)data)[n] = dtype == CLATTN_F16 ? half_from_float(x) : bf16_from_float(x);
}

double value_roundoff(clattn_dtype dtype)
{
    return ldexp(1.0, dtype == CLATTN_F32 ? -24 : dtype == CLATTN_F16 ? -11 : -8);
}

double value_tiny(clattn_dtype dtype)
{
    return ldexp(1.0, dtype == CLATTN_F16 ? -25 : -126);
}
