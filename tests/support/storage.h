/* How values are stored, in plain C: f32, f16 and bf16 <-> double, rounded to nearest even. */
#ifndef TEST_STORAGE_H
#define TEST_STORAGE_H

#include "tests/support/rng.h"
#include <clattn/problem.h>
#include <stddef.h>

size_t storage_bytes(clattn_dtype dtype);
double storage_load(clattn_dtype dtype, const void *base, size_t index);
void storage_store(clattn_dtype dtype, void *base, size_t index, double value);

/* A quantized tensor: bytes of a block of 32 values, one of its values, and how block `number` is
 * made of a scale, rounded to binary16, and random bytes. */
size_t storage_block_bytes(clattn_cache cache);
double storage_load_quantized(clattn_cache cache, const void *base, size_t index);
void storage_store_block(clattn_cache cache, void *base, size_t number, double scale,
                         struct rng *r);

/* Half the distance between neighbours of x: what storing x may add to its error. */
double storage_rounding(clattn_dtype dtype, double x);

#endif
