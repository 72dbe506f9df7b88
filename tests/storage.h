/* How values are stored, in plain C: f32, f16 and bf16 <-> double, rounded to nearest even. */
#ifndef TEST_STORAGE_H
#define TEST_STORAGE_H

#include <clattn/problem.h>
#include <stddef.h>

size_t storage_bytes(clattn_dtype dtype);
double storage_load(clattn_dtype dtype, const void *base, size_t index);
void storage_store(clattn_dtype dtype, void *base, size_t index, double value);

/* Half the distance between neighbours of x: what storing x may add to its error. */
double storage_rounding(clattn_dtype dtype, double x);

#endif
