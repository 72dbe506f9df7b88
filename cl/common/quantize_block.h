/* What making blocks of 32 quantized values is made of (clattn/quantize.h says how). The bits are the same
 * on every device: no product and sum are contracted, and the two quotients, which devices may round as
 * they like, are corrected to the nearest. */
#ifndef CLATTN_QUANTIZE_BLOCK_H
#define CLATTN_QUANTIZE_BLOCK_H
#pragma OPENCL FP_CONTRACT OFF

#define LEAST_SCALE 0x1p-100f /* below it remainders are subnormal, which devices may flush */

/* 1 / x rounded to nearest, for a normal x whose reciprocal is normal too. Of the device's quotient, which may
 * be 2.5 units in the last place off, the first Newton step leaves one unit at most, and from there the second
 * is rounded right for all significands but the one of only ones (Markstein, "Computation of elementary
 * functions on the IBM RISC System/6000 processor", 1990), whose reciprocal is one unit above a power of two. */
#define DEFINE_RECIPROCAL(name, type, as_type, as_ints)                                            \
    static inline type name(const type x)                                                          \
    {                                                                                              \
        const type y = 1.0f / x;                                                                   \
        const type once = fma(fma(-x, y, (type)(1.0f)), y, y);                                     \
        const type twice = fma(fma(-x, once, (type)(1.0f)), once, once);                           \
                                                                                                   \
        return as_type(as_ints(twice) | (((as_ints(x) & 0x7fffff) == 0x7fffff) & 1));              \
    }

DEFINE_RECIPROCAL(reciprocal, float, as_float, as_int)
DEFINE_RECIPROCAL(reciprocals, float4, as_float4, as_int4)

/* x / 127 rounded to nearest, for a normal quotient. */
#define DEFINE_OVER_127(name, type)                                                                \
    static inline type name(const type x)                                                          \
    {                                                                                              \
        const type y = 0x1.020408p-7f; /* 1 / 127 to nearest */                                    \
        const type z = x * y;                                                                      \
                                                                                                   \
        return fma(fma((type)(-127.0f), z, x), y, z);                                              \
    }

DEFINE_OVER_127(over_127, float)
DEFINE_OVER_127(four_over_127, float4)

#endif
