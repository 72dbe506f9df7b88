/* 2^x of vectors for x <= 126, exactly 0 for x <= -127; a NaN stays one. The degrees suit f32: the
 * relative error is 2e-7. Next to their products, exponentials are what the families of lanes
 * compute most of.
 *
 * Before including this: INLINE, lanes, VECTOR and SIMD_WIDTH of lanes.h. */
#ifndef CLATTN_LANE_EXPONENTIAL_H
#define CLATTN_LANE_EXPONENTIAL_H

#if SIMD_WIDTH == 16 && defined(__AVX512F__) && defined(__AVX512DQ__) &&                           \
    CAN_NAME(__builtin_ia32_reduceps512_mask) && CAN_NAME(__builtin_ia32_cmpps512_mask) &&         \
    CAN_NAME(__builtin_ia32_scalefps512_mask)
#define HAS_SCALING_INSTRUCTIONS 1
#endif

#ifdef HAS_SCALING_INSTRUCTIONS
/* x - floor(x) and the scaling by 2^floor(x) are an instruction each: 8 instead of 12 in all. What
 * would be denormal, which processors are slow at, becomes 0. */
INLINE lanes exponential2(const lanes x)
{
    enum { ALL = 0xffff, DOWN = 9, NOT_LESS = 21, CURRENT = 4 }; /* as instructions name them */
    const lanes zero = 0.0f, least = -126.0f;
    const lanes f = __builtin_ia32_reduceps512_mask(x, DOWN, zero, ALL, CURRENT);
    const ushort normal = __builtin_ia32_cmpps512_mask(x, least, NOT_LESS, ALL, CURRENT);
    lanes h = fma(f, (lanes)(0.00186713017f), (lanes)(0.00901702978f));
    h = fma(f, h, (lanes)(0.0557999127f));
    h = fma(f, h, (lanes)(0.240164444f));
    h = fma(f, h, (lanes)(0.693151295f));
    h = fma(f, h, (lanes)(1.0f));
    return __builtin_ia32_scalefps512_mask(h, x, zero, normal, CURRENT);
}
#else
#define ROUNDER (12582912.0f + 127.0f) /* adding it leaves round(x) + 127 in the low bits */
INLINE lanes exponential2(const lanes x)
{
    const lanes y = (lanes)(-127.0f) > x ? (lanes)(-127.0f) : x;
    const lanes r = y + ROUNDER;
    const lanes f = y - (r - ROUNDER);
    const lanes t = VECTOR(as_float)(VECTOR(as_int)(r) << 23);
    lanes h = fma(f, (lanes)(0.00133813021f), (lanes)(0.00966636837f));
    h = fma(f, h, (lanes)(0.0555038117f));
    h = fma(f, h, (lanes)(0.240223497f));
    h = fma(f, h, (lanes)(0.693147182f));
    return fma(t * f, h, t);
}
#endif

#endif
