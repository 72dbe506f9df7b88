/* SPDX-License-Identifier: Apache-2.0 */
/* Single values of tensors in host memory, whatever they are stored as. */
#ifndef CLATTN_REFERENCE_VALUES_H
#define CLATTN_REFERENCE_VALUES_H

#include <clattn/problem.h>
#include <stdbool.h>

size_t value_bytes(clattn_dtype dtype);

/* Element n of `data`, exactly. */
double value_get(clattn_dtype dtype, const void *data, size_t n);

/* Elements of a block of a quantized tensor, and whether a cache consists of such blocks. The
 * others are for such a cache: bytes of a block, and the largest magnitude of an element of scale 1,
 * whose offset, if there is one, is at most as large as its number. The error of quantizing is a part of the largest
 * magnitude of a block; without a scale a part of the element, and half of the least number besides. The last gives
 * element n, exactly but for the rounding to f32 of a sum with an offset. */
#define VALUE_BLOCK 32
bool value_in_blocks(clattn_cache cache);
bool value_has_scale(clattn_cache cache);
bool value_has_offset(clattn_cache cache); /* a binary16 number after the scale */
size_t value_block_bytes(clattn_cache cache);
double value_block_largest(clattn_cache cache);
double value_block_error(clattn_cache cache);
double value_block_least(clattn_cache cache); /* the least positive number of a code */
double value_get_quantized(clattn_cache cache, const void *data, size_t n);

/* The dtype of a cache that is not in blocks, in a problem of the dtype. */
clattn_dtype value_dtype(clattn_cache cache, clattn_dtype dtype);

/* `count` elements that lie `step` places apart. */
void value_get_row(clattn_dtype dtype, const void *data, size_t first, size_t step, size_t count,
                   double *values);

/* Stores x as element n, rounded to nearest even. */
void value_set(clattn_dtype dtype, void *data, size_t n, double x);

/* Storing x moves it by at most |x| * value_roundoff() + value_tiny(). The latter allows for
 * flushing f32 and bf16 subnormals to zero, as many devices do. */
double value_roundoff(clattn_dtype dtype);
double value_tiny(clattn_dtype dtype);

/* Half the distance between neighbours of x: the error that storing x may add. */
double value_rounding(clattn_dtype dtype, double x);

#endif
