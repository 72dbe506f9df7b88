/* The exponential of kernels for GPUs, chosen by the tunable EXP. */
#ifndef CLATTN_TILE_EXP_H
#define CLATTN_TILE_EXP_H

#include "common/multiply_add.h"

/* While a row has seen nothing but -inf, any finite reference gives weights of 0. */
#define FINITE(maximum) ((maximum) == -INFINITY ? 0.0f : (maximum))

#define EXP_BUILTIN 0
#define EXP_NATIVE 1
#ifndef NATIVE_EXP2
#define NATIVE_EXP2 native_exp2
#endif
#if EXP == EXP_BUILTIN
#define EXP2(x) exp2(x)
#elif EXP == EXP_NATIVE
#define EXP2(x) NATIVE_EXP2(x)
#else
#define EXP2(x) polynomial_exp2(x)
/* 2^x to 2 ulp for x <= 0; 0 below -126; NaN for NaN. */
static inline float polynomial_exp2(const float x)
{
    const float shifted = fmax(x, -126.0f) + 12582912.0f; /* 1.5 * 2^23: the last bit is 1 */
    const float f = fmax(x, -126.0f) - (shifted - 12582912.0f); /* -0.5 .. 0.5 */
    float y = 1.5403530e-4f;
    y = MULTIPLY_ADD(y, f, 1.3333558e-3f);
    y = MULTIPLY_ADD(y, f, 9.6181291e-3f);
    y = MULTIPLY_ADD(y, f, 5.5504109e-2f);
    y = MULTIPLY_ADD(y, f, 2.4022651e-1f);
    y = MULTIPLY_ADD(y, f, 6.9314718e-1f);
    y = MULTIPLY_ADD(y, f, 1.0f);
    y = as_float(as_int(y) + (int)(as_uint(shifted) << 23));
    return x >= -126.0f ? y : x < -126.0f ? 0.0f : x;
}
#endif

#endif
