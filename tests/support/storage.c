/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/storage.h"

void storage_store_block(const clattn_cache cache, void *base, const size_t number,
                         const double scale, struct rng *r)
{
    const size_t bytes = value_block_bytes(cache);
    unsigned char *block = (unsigned char *)base + number * bytes;

    value_set(CLATTN_F16, block, 0, scale);
    for (size_t n = 2; n < bytes; n++)
        block[n] = (unsigned char)rng_below(r, 256);
}
