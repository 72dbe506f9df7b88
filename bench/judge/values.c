/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/values.h"

#include <math.h>
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
static uint16_t half_from_double(double x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double magnitude = fabs(x);
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

/* Rounds by way of f32, and corrects ties that only the rounding to f32 has made. */
static uint16_t bf16_from_double(double x)
{
    const float single = (float)x;
    uint32_t bits;

    memcpy(&bits, &single, sizeof bits);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40);
    if ((bits & 0xffff) == 0x8000 && (double)single != x)
        bits += fabs(x) > fabs((double)single) ? 1 : UINT32_MAX;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

size_t value_bytes(clattn_dtype dtype)
{
    return dtype == CLATTN_F32 ? sizeof(float) : sizeof(uint16_t);
}

double value_get(clattn_dtype dtype, const void *data, size_t n)
{
    const unsigned char *at = (const unsigned char *)data + n * value_bytes(dtype);
    uint16_t bits;
    float x;

    if (dtype == CLATTN_F32) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    memcpy(&bits, at, sizeof bits);
    if (dtype == CLATTN_F16)
        return half_to_double(bits);
    const uint32_t wide = (uint32_t)bits << 16;
    memcpy(&x, &wide, sizeof x);
    return x;
}

/* Loops of their own, without a choice in each step. */
static void get_singles(const unsigned char *at, size_t step, size_t count, double *values)
{
    for (size_t n = 0; n < count; n++) {
        float x;
        memcpy(&x, at + n * step * sizeof x, sizeof x);
        values[n] = (double)x;
    }
}

static void get_halves(const unsigned char *at, size_t step, size_t count, double *values)
{
    for (size_t n = 0; n < count; n++) {
        uint16_t bits;
        memcpy(&bits, at + n * step * sizeof bits, sizeof bits);
        values[n] = half_to_double(bits);
    }
}

void value_get_row(clattn_dtype dtype, const void *data, size_t first, size_t step, size_t count,
                   double *values)
{
    const unsigned char *at = (const unsigned char *)data + first * value_bytes(dtype);

    if (dtype == CLATTN_F32)
        get_singles(at, step, count, values);
    else if (dtype == CLATTN_F16)
        get_halves(at, step, count, values);
    else
        for (size_t n = 0; n < count; n++)
            values[n] = value_get(dtype, at, n * step);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static double signed_byte(unsigned code)
{
    return code < 128 ? code : code - 256.0;
}

static double nibble_less_8(unsigned code)
{
    return code - 8.0;
}

static double five_bits_less_16(unsigned code)
{
    return code - 16.0;
}

static double as_it_is(unsigned code)
{
    return code;
}

/* Floats of 8 bits: a significand of `digits` bits behind a leading one, which the smallest do not have. */
static double small_float(unsigned code, int digits, int bias)
{
    const int exponent = (int)(code & 127) >> digits, rest = (int)(code & ((1u << digits) - 1));
    const double magnitude = exponent == 0 ? ldexp(rest, 1 - bias - digits)
                                           : ldexp(1.0 + ldexp(rest, -digits), exponent - bias);

    return code < 128 ? magnitude : -magnitude;
}

static double e4m3(unsigned code)
{
    return (code & 127) == 127 ? (double)NAN : small_float(code, 3, 7);
}

static double e5m2(unsigned code)
{
    return half_to_double((uint16_t)(code << 8));
}

static double of_sixteen(unsigned code)
{
    static const int numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

    return numbers[code];
}

/* A binary16 scale, in some formats none or also a binary16 offset, then the codes: bytes, or half bytes, of which the low ones
 * come first. With 5 bits, the fifth of each code, from the lowest bit of four bytes on, lie before the half bytes. */
static const struct block_format {
    double (*number)(unsigned code);
    unsigned bits;
    double largest, error;
    bool has_offset, has_no_scale;
} block_formats[] = {
    [CLATTN_CACHE_Q8_0] = {signed_byte, 8, 128.0, 0.5 / 127.0, false, false},
    [CLATTN_CACHE_Q4_0] = {nibble_less_8, 4, 8.0, 1.0 / 8.0, false, false},
    [CLATTN_CACHE_Q5_0] = {five_bits_less_16, 5, 16.0, 1.0 / 16.0, false, false},
    [CLATTN_CACHE_IQ4_NL] = {of_sixteen, 4, 127.0, 0.25, false, false},
    [CLATTN_CACHE_Q4_1] = {as_it_is, 4, 15.0, 1.0 / 15.0, true, false},
    [CLATTN_CACHE_Q5_1] = {as_it_is, 5, 31.0, 1.0 / 31.0, true, false},
    [CLATTN_CACHE_E4M3] = {e4m3, 8, 448.0, 1.0 / 16.0, false, true},
    [CLATTN_CACHE_E5M2] = {e5m2, 8, 57344.0, 1.0 / 8.0, false, true},
    [CLATTN_CACHE_INT8] = {signed_byte, 8, 128.0, 0.0, false, true},
};

bool value_in_blocks(clattn_cache cache)
{
    return (size_t)cache < sizeof block_formats / sizeof *block_formats &&
           block_formats[cache].number != NULL;
}

bool value_has_scale(clattn_cache cache)
{
    return !block_formats[cache].has_no_scale;
}

bool value_has_offset(clattn_cache cache)
{
    return block_formats[cache].has_offset;
}

size_t value_block_bytes(clattn_cache cache)
{
    return (block_formats[cache].has_no_scale ? 0
            : block_formats[cache].has_offset ? 4
                                              : 2) +
           block_formats[cache].bits * VALUE_BLOCK / 8;
}

double value_block_largest(clattn_cache cache)
{
    return block_formats[cache].largest * (block_formats[cache].has_offset ? 2.0 : 1.0);
}

double value_block_error(clattn_cache cache)
{
    return block_formats[cache].error;
}

double value_block_least(clattn_cache cache)
{
    return block_formats[cache].number(1);
}

double value_get_quantized(clattn_cache cache, const void *data, size_t n)
{
    const struct block_format *format = &block_formats[cache];
    const unsigned char *block =
        (const unsigned char *)data + n / VALUE_BLOCK * value_block_bytes(cache);
    if (format->has_no_scale)
        return format->number(block[n % VALUE_BLOCK]);
    const double scale = half_to_double((uint16_t)(block[0] | block[1] << 8));
    const double offset =
        format->has_offset ? half_to_double((uint16_t)(block[2] | block[3] << 8)) : 0.0;
    const unsigned char *codes = block + (format->has_offset ? 4 : 2);
    const size_t at = n % VALUE_BLOCK;

    if (format->bits == 8)
        return (double)(float)(scale * format->number(codes[at]) + offset);
    const unsigned char *halves = block + value_block_bytes(cache) - VALUE_BLOCK / 2;
    const unsigned low = at < 16 ? halves[at] & 15u : halves[at - 16] >> 4;
    const unsigned code = format->bits == 5 ? low + (codes[at / 8] >> at % 8 & 1) * 16u : low;
    return (double)(float)(scale * format->number(code) + offset);
}

clattn_dtype value_dtype(clattn_cache cache, clattn_dtype dtype)
{
    return cache == CLATTN_CACHE_F32    ? CLATTN_F32
           : cache == CLATTN_CACHE_F16  ? CLATTN_F16
           : cache == CLATTN_CACHE_BF16 ? CLATTN_BF16
                                        : dtype;
}

/* ---- stores ---------------------------------------------------------------------------------- */

void value_set(clattn_dtype dtype, void *data, size_t n, double x)
{
    unsigned char *at = (unsigned char *)data + n * value_bytes(dtype);
    const float single = (float)x;

    if (dtype == CLATTN_F32) {
        memcpy(at, &single, sizeof single);
        return;
    }
    const uint16_t bits = dtype == CLATTN_F16 ? half_from_double(x) : bf16_from_double(x);
    memcpy(at, &bits, sizeof bits);
}

double value_roundoff(clattn_dtype dtype)
{
    return ldexp(1.0, dtype == CLATTN_F32 ? -24 : dtype == CLATTN_F16 ? -11 : -8);
}

double value_tiny(clattn_dtype dtype)
{
    return ldexp(1.0, dtype == CLATTN_F16 ? -25 : -126);
}

/* Each format is `digits` significant bits, the leading one implied, from 2^lowest upwards. */
static const struct format {
    int digits, lowest;
} formats[] = {
    [CLATTN_F32] = {24, -126},
    [CLATTN_F16] = {11, -14},
    [CLATTN_BF16] = {8, -126},
};

double value_rounding(clattn_dtype dtype, double x)
{
    const struct format *f = &formats[dtype];
    int exponent;

    /* frexp() counts exponents from 0.5, so the smallest normal number has the exponent lowest + 1;
     * subnormal numbers lie as far apart. */
    frexp(x, &exponent);
    if (x == 0.0 || exponent < f->lowest + 1)
        exponent = f->lowest + 1;
    return ldexp(0.5, exponent - f->digits);
}
