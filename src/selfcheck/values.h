/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as tensors store them, and random ones: exact and the same on every machine. */
#ifndef CA_TRUST_CASE_VALUES_H
#define CA_TRUST_CASE_VALUES_H

#include <clattn/problem.h>

/* -1 .. 1 (xorshift32); the state is not 0. */
float ca_value_next(unsigned *state);

/* Element n. f16 takes 0, NaN, infinities and magnitudes from 2^-14 to 2^15; smaller ones become 0,
 * larger ones infinite. Both halves are cut, not rounded. */
void ca_value_store(unsigned char *bytes, clattn_dtype dtype, size_t n, float value);
double ca_value_load(const unsigned char *bytes, clattn_dtype dtype, size_t n);

/* count elements from element n on, stride elements apart. */
void ca_values_load(const unsigned char *bytes, clattn_dtype dtype, size_t n, size_t stride,
                    size_t count, double *values);

/* Loads from k or v, which may be quantized: then n and count are multiples of CA_BLOCK. */
void ca_cache_load(const unsigned char *bytes, clattn_cache cache, clattn_dtype dtype, size_t n,
                   size_t stride, size_t count, double *values);

/* Makes block n, which holds values n * CA_BLOCK and on, of a quantized tensor: random values of at
 * most that magnitude; where it is a NaN or beyond f16 they are NaN or infinite. */
void ca_block_store(unsigned char *bytes, clattn_cache cache, size_t n, float most,
                    unsigned *state);

/* The first of these that is a NaN; count if none is. */
size_t ca_values_find_nan(const unsigned char *bytes, clattn_dtype dtype, size_t n, size_t stride,
                          size_t count);

/* Half the distance between neighbours among the numbers of a dtype, near a magnitude. */
double ca_value_rounding(clattn_dtype dtype, double magnitude);

#endif
