#include "tests/support/storage.h"

#include <math.h>

/* Each format is `digits` significant bits, the leading one implied, from 2^lowest upwards. frexp()
 * counts exponents from 0.5, so the smallest normal number has the exponent lowest + 1. */
struct format {
    int digits, lowest;
};

static const struct format formats[] = {
    [CLATTN_F32] = {24, -126},
    [CLATTN_F16] = {11, -14},
    [CLATTN_BF16] = {8, -126},
};

/* The exponent that decides the spacing at x: subnormal numbers lie as far apart as the smallest
 * normal ones. */
static int spacing_exponent(const struct format *f, const double x)
{
    int exponent;

    frexp(x, &exponent);
    return exponent > f->lowest + 1 && x != 0.0 ? exponent : f->lowest + 1;
}

void storage_store_block(const clattn_cache cache, void *base, const size_t number,
                         const double scale, struct rng *r)
{
    const size_t bytes = value_block_bytes(cache);
    unsigned char *block = (unsigned char *)base + number * bytes;

    value_set(CLATTN_F16, block, 0, scale);
    for (size_t n = 2; n < bytes; n++)
        block[n] = (unsigned char)rng_below(r, 256);
}

double storage_rounding(const clattn_dtype dtype, const double x)
{
    const struct format *f = &formats[dtype];

    return ldexp(0.5, spacing_exponent(f, x) - f->digits);
}
