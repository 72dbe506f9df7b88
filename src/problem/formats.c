/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/formats.h"
#include "base/writer.h"

#include <math.h>

/* ---- the formats ----------------------------------------------------------------------------- */

static double q8_0_number(unsigned code)
{
    return code < 128 ? code : code - 256.0;
}

static float q8_0_scale(float most, float peak)
{
    (void)peak;
    return most / 127.0f;
}

static unsigned q8_0_code(float x)
{
    return (unsigned)((int)roundf(x) & 255);
}

static double q4_0_number(unsigned code)
{
    return code - 8.0;
}

static float q4_0_scale(float most, float peak)
{
    (void)most;
    return peak / -8.0f;
}

static unsigned q4_0_code(float x)
{
    const int code = (int)(x + 8.5f);

    return code < 15 ? (unsigned)code : 15;
}

static double q5_0_number(unsigned code)
{
    return code - 16.0;
}

static float q5_0_scale(float most, float peak)
{
    (void)most;
    return peak / -16.0f;
}

static unsigned q5_0_code(float x)
{
    const int code = (int)(x + 16.5f);

    return code < 31 ? (unsigned)code : 31;
}

static const signed char iq4_nl_numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

static double iq4_nl_number(unsigned code)
{
    return iq4_nl_numbers[code];
}

static float iq4_nl_scale(float most, float peak)
{
    (void)most;
    return peak / -127.0f;
}

static unsigned iq4_nl_code(float x)
{
    unsigned code = 0;

    while (code < 15 && x >= 0.5f * (float)(iq4_nl_numbers[code] + iq4_nl_numbers[code + 1]))
        code++;
    return code;
}

static double q4_1_number(unsigned code)
{
    return code;
}

static float q4_1_scale(float most, float range)
{
    (void)most;
    return range / 15.0f;
}

static unsigned q4_1_code(float x)
{
    const int code = (int)(x + 0.5f);

    return code < 15 ? (unsigned)code : 15;
}

static double q5_1_number(unsigned code)
{
    return code;
}

static float q5_1_scale(float most, float range)
{
    (void)most;
    return range / 31.0f;
}

static unsigned q5_1_code(float x)
{
    const int code = (int)(x + 0.5f);

    return code < 31 ? (unsigned)code : 31;
}

/* Small floats: a sign, an exponent and `digits` bits of significand; normal numbers begin at 2^lowest. The numbers with
 * the largest exponent are those of the format. */
static double small_float(unsigned code, int digits, int lowest)
{
    const unsigned magnitude = code & 127u, exponent = magnitude >> digits, one = 1u << digits;
    const unsigned significand = magnitude % one + (exponent ? one : 0);
    const double x = ldexp(significand, lowest - digits + (exponent ? (int)exponent - 1 : 0));

    return code & 128u ? -x : x;
}

/* Rounds to nearest even, and to `largest` where x is larger. A NaN has a code of only ones, but for its sign. */
static unsigned small_float_code(float x, int digits, int lowest, float largest)
{
    const unsigned sign = signbit(x) ? 128u : 0u;
    const float most = fminf(fabsf(x), largest);
    int exponent;

    if (isnan(x))
        return sign | 127u;
    frexpf(most, &exponent); /* most is at least half of 2^exponent */
    if (most == 0.0f || exponent <= lowest)
        exponent = lowest + 1; /* subnormal numbers have the spacing of the smallest normal one */
    const unsigned units = (unsigned)nearbyintf(ldexpf(most, digits + 1 - exponent));
    return sign | (((unsigned)(exponent - 1 - lowest) << digits) + units);
}

static double e4m3_number(unsigned code)
{
    return (code & 127u) == 127u ? (double)NAN : small_float(code, 3, -6);
}

/* Without a scale. */
static float e4m3_scale(float most, float peak)
{
    (void)most;
    (void)peak;
    return 1.0f;
}

static unsigned e4m3_code(float x)
{
    return small_float_code(x, 3, -6, 448.0f);
}

static double e5m2_number(unsigned code)
{
    const double infinity = code & 128u ? -(double)INFINITY : (double)INFINITY;

    return (code & 127u) > 124u    ? (double)NAN
           : (code & 127u) == 124u ? infinity
                                   : small_float(code, 2, -14);
}

static float e5m2_scale(float most, float peak)
{
    return e4m3_scale(most, peak);
}

static unsigned e5m2_code(float x)
{
    return small_float_code(x, 2, -14, 65536.0f); /* where an infinity is */
}

static double int8_number(unsigned code)
{
    return q8_0_number(code);
}

static float int8_scale(float most, float peak)
{
    return e4m3_scale(most, peak);
}

static unsigned int8_code(float x)
{
    return isnan(x) ? 0 : (unsigned)((int)nearbyintf(fminf(fmaxf(x, -128.0f), 127.0f)) & 255);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct ca_format formats[CA_NUM_CACHES] = {[CLATTN_CACHE_PLAIN] = {.name = "plain"},
#define DTYPE(ID, word, bytes)                                                                     \
    [CLATTN_CACHE_##ID] = {.name = word, .is_dtype = 1, .dtype = CLATTN_##ID},
                                                        CA_DTYPES(DTYPE)
#undef DTYPE
#define FORMAT(ID, number_, name_, bits_, scale_, offset_, fifth_, codes_, bytes_, fits_,          \
               largest_, error_, of)                                                               \
    [CLATTN_CACHE_##ID] = {.name = #name_,                                                         \
                           .is_blocks = 1,                                                         \
                           .bits = bits_,                                                          \
                           .scale = scale_,                                                        \
                           .offset = offset_,                                                      \
                           .fifth = fifth_,                                                        \
                           .codes = codes_,                                                        \
                           .bytes = bytes_,                                                        \
                           .largest = largest_,                                                    \
                           .error = error_,                                                        \
                           .number = name_##_number,                                               \
                           .scale_of = name_##_scale,                                              \
                           .fits = fits_,                                                          \
                           .code_of = name_##_code},
                                                            CA_BLOCK_FORMATS(FORMAT, )
#undef FORMAT
};

const clattn_cache ca_block_caches[CA_NUM_BLOCK_FORMATS] = {
#define FORMAT(ID, ...) CLATTN_CACHE_##ID,
    CA_BLOCK_FORMATS(FORMAT, )
#undef FORMAT
};

/* Kernels know a format by its number. */
#define FORMAT(ID, number, ...)                                                                    \
    _Static_assert(CLATTN_CACHE_##ID == number, "the number of " #ID " in formats.def");
CA_BLOCK_FORMATS(FORMAT, )
#undef FORMAT

const struct ca_format *ca_format_of(clattn_cache cache)
{
    return &formats[(unsigned)cache < CA_NUM_CACHES ? cache : CLATTN_CACHE_PLAIN];
}

clattn_cache ca_cache_of_dtype(clattn_dtype dtype)
{
    unsigned cache = 0;

    while (cache + 1 < CA_NUM_CACHES && !(formats[cache].is_dtype && formats[cache].dtype == dtype))
        cache++;
    return (clattn_cache)cache;
}

unsigned ca_block_code(const struct ca_format *format, const unsigned char *block, size_t n)
{
    const unsigned char *codes = block + format->codes;
    const size_t half = CA_BLOCK / 2;
    const unsigned fifth = format->fifth ? block[format->fifth + n / 8] >> n % 8 & 1u : 0;

    return format->bits == 8 ? codes[n]
                             : (codes[n % half] >> (n < half ? 0 : 4) & 15u) | fifth << 4;
}

int ca_has_scales(clattn_cache cache)
{
    return ca_format_of(cache)->is_blocks && ca_format_of(cache)->scale < 0;
}

void ca_block_formats_print(char *text, size_t bytes)
{
    struct ca_writer writer = {text, bytes, 0};

    for (size_t n = 0; n < CA_NUM_BLOCK_FORMATS; n++)
        ca_put(&writer, "%s%s (%d)",
               n == 0                          ? ""
               : n == CA_NUM_BLOCK_FORMATS - 1 ? " or "
                                               : ", ",
               formats[ca_block_caches[n]].name, (int)ca_block_caches[n]);
}
