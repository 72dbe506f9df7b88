/* What making blocks of 32 quantized values is made of (clattn/quantize.h says how). The bits are the same
 * on every device: no product and sum are contracted, and the two quotients, which devices may round as
 * they like, are corrected to the nearest. */
#ifndef CLATTN_QUANTIZE_BLOCK_H
#define CLATTN_QUANTIZE_BLOCK_H
#pragma OPENCL FP_CONTRACT OFF

#define LEAST_SCALE 0x1p-100f /* below it remainders are subnormal, which devices may flush */

/* 1 / x rounded to nearest, for a normal x whose reciprocal is normal too: of the device's quotient
 * and its neighbours the one that leaves the least. */
static inline float reciprocal(const float x)
{
    const float y = 1.0f / x, z = fma(fma(-x, y, 1.0f), y, y);
    float best = z, least = fabs(fma(-x, z, 1.0f));

    for (int step = -1; step <= 1; step += 2) {
        const float other = as_float(as_int(z) + step);
        const float rest = fabs(fma(-x, other, 1.0f));
        best = rest < least ? other : best;
        least = min(rest, least);
    }
    return best;
}

/* x / 127 rounded to nearest, for a normal quotient. */
static inline float over_127(const float x)
{
    const float y = 0x1.020408p-7f; /* 1 / 127 to nearest */
    const float z = x * y;
    return fma(fma(-127.0f, z, x), y, z);
}

#endif
