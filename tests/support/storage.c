#include "tests/support/storage.h"

#include <math.h>
#include <string.h>

/* Each format is `digits` significant bits, the leading one implied, from 2^lowest upwards, in a
 * word whose exponent field starts `digits - 1` bits up. frexp() counts exponents from 0.5, so
 * the smallest normal number has the exponent lowest + 1. */
struct format {
    size_t bytes;
    int digits, lowest, highest;
};

static const struct format formats[] = {
    [CLATTN_F32] = {4, 24, -126, 127},
    [CLATTN_F16] = {2, 11, -14, 15},
    [CLATTN_BF16] = {2, 8, -126, 127},
};

/* The exponent that decides the spacing at x: subnormal numbers lie as far apart as the smallest
 * normal ones. */
static int spacing_exponent(const struct format *f, const double x)
{
    int exponent;

    frexp(x, &exponent);
    return exponent > f->lowest + 1 && x != 0.0 ? exponent : f->lowest + 1;
}

static double decode16(const struct format *f, const unsigned bits)
{
    const unsigned fraction_bits = (unsigned)f->digits - 1;
    const unsigned fraction = bits & ((1u << fraction_bits) - 1);
    const int exponent = (int)((bits & 0x7fff) >> fraction_bits);
    double magnitude;

    if (exponent > f->highest - f->lowest + 1)
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, f->lowest + 1 - f->digits);
    else
        magnitude = ldexp(fraction + (1u << fraction_bits), exponent + f->lowest - f->digits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static unsigned encode16(const struct format *f, const double x)
{
    const unsigned sign = signbit(x) ? 0x8000 : 0;
    const unsigned infinity = (unsigned)(f->highest - f->lowest + 2) << (f->digits - 1);

    if (isnan(x))
        return sign | infinity | 1u << (f->digits - 2);
    const int exponent = spacing_exponent(f, fabs(x));
    if (isinf(x) || exponent > f->highest + 1)
        return sign | infinity;
    /* The implied bit of `units` adds 1 to the exponent field, and so does a carry. */
    const unsigned units = (unsigned)nearbyint(ldexp(fabs(x), f->digits - exponent));
    return sign | (((unsigned)(exponent - f->lowest - 1) << (f->digits - 1)) + units);
}

size_t storage_bytes(const clattn_dtype dtype)
{
    return formats[dtype].bytes;
}

double storage_load(const clattn_dtype dtype, const void *base, const size_t index)
{
    const unsigned char *at = (const unsigned char *)base + index * formats[dtype].bytes;
    uint16_t bits;
    float value;

    if (dtype == CLATTN_F32) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&bits, at, sizeof bits);
    return decode16(&formats[dtype], bits);
}

void storage_store(const clattn_dtype dtype, void *base, const size_t index, const double value)
{
    unsigned char *at = (unsigned char *)base + index * formats[dtype].bytes;
    const float single = (float)value;

    if (dtype == CLATTN_F32) {
        memcpy(at, &single, sizeof single);
        return;
    }
    const uint16_t bits = (uint16_t)encode16(&formats[dtype], value);
    memcpy(at, &bits, sizeof bits);
}

size_t storage_block_bytes(const clattn_cache cache)
{
    return cache == CLATTN_CACHE_Q8_0 ? 34 : 18;
}

double storage_load_quantized(const clattn_cache cache, const void *base, const size_t index)
{
    const unsigned char *block =
        (const unsigned char *)base + index / 32 * storage_block_bytes(cache);
    const double scale = storage_load(CLATTN_F16, block, 0);
    const size_t n = index % 32;
    int digit;

    if (cache == CLATTN_CACHE_Q8_0)
        digit = ((const signed char *)block)[2 + n];
    else if (n < 16)
        digit = block[2 + n] % 16 - 8;
    else
        digit = block[2 + n - 16] / 16 - 8;
    return scale * digit;
}

void storage_store_block(const clattn_cache cache, void *base, const size_t number,
                         const double scale, struct rng *r)
{
    const size_t bytes = storage_block_bytes(cache);
    unsigned char *block = (unsigned char *)base + number * bytes;

    storage_store(CLATTN_F16, block, 0, scale);
    for (size_t n = 2; n < bytes; n++)
        block[n] = (unsigned char)rng_below(r, 256);
}

double storage_rounding(const clattn_dtype dtype, const double x)
{
    const struct format *f = &formats[dtype];

    return ldexp(0.5, spacing_exponent(f, x) - f->digits);
}
