/* Single values of tensors in host memory, whatever they are stored as. */
#ifndef CLATTN_REFERENCE_VALUES_H
#define CLATTN_REFERENCE_VALUES_H

#include <clattn/problem.h>

size_t value_bytes(clattn_dtype dtype);

/* Element n of `data`, exactly. */
double value_get(clattn_dtype dtype, const void *data, size_t n);

/* Elements of a block of a quantized tensor, its bytes, and element n of one, exactly. */
#define VALUE_BLOCK 32
size_t value_block_bytes(clattn_cache cache);
double value_get_quantized(clattn_cache cache, const void *data, size_t n);

/* `count` elements that lie `step` places apart. */
void value_get_row(clattn_dtype dtype, const void *data, size_t first, size_t step, size_t count,
                   double *values);

/* Stores x as element n, rounded to nearest even. */
void value_set(clattn_dtype dtype, void *data, size_t n, double x);

/* Storing x moves it by at most |x| * value_roundoff() + value_tiny(). The latter allows for
 * flushing f32 and bf16 subnormals to zero, as many devices do. */
double value_roundoff(clattn_dtype dtype);
double value_tiny(clattn_dtype dtype);

/* Half the distance between neighbours of x: what storing x may add to its error. */
double value_rounding(clattn_dtype dtype, double x);

#endif
