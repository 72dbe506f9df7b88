/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/storage.h"

#include <math.h>

/* Blocks of which code n is n, for formats of bytes without a scale. */
static const unsigned char *all_codes(void)
{
    static unsigned char codes[128];

    for (unsigned n = 0; n < 128; n++)
        codes[n] = (unsigned char)n;
    return codes;
}

void storage_store_block(const clattn_cache cache, void *base, const size_t number,
                         const double scale, struct rng *r)
{
    const size_t bytes = value_block_bytes(cache);
    unsigned char *block = (unsigned char *)base + number * bytes;

    if (!value_has_scale(
            cache)) { /* codes of numbers up to the scale times the largest, or of NaNs */
        const double most = fabs(scale) * value_block_largest(cache);
        unsigned codes = 1; /* 0 fits any scale, and a NaN */
        while (codes < 127 && value_get_quantized(cache, all_codes(), codes) <= most)
            codes++;
        for (size_t n = 0; n < bytes; n++) {
            const unsigned code = (unsigned)rng_below(r, codes), sign = (unsigned)rng_below(r, 2);
            const unsigned below = cache == CLATTN_CACHE_INT8 ? 256 - code : code | 128;
            block[n] = (unsigned char)(!isfinite(scale) ? 127 : sign ? below : code);
        }
        return;
    }
    value_set(CLATTN_F16, block, 0, scale);
    for (size_t n = 2; n < bytes; n++)
        block[n] = (unsigned char)rng_below(r, 256);
    if (value_has_offset(cache))
        value_set(CLATTN_F16, block, 1,
                  scale * 0.5 * value_block_largest(cache) * rng_uniform(r, -1.0, 1.0));
}
